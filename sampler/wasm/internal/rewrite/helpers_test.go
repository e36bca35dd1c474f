package rewrite_test

import (
	"encoding/binary"
	"testing"
)

// sectionsOf walks over a module's sections.
func sectionsOf(tb testing.TB, module []byte, visit func(id byte, content []byte)) {
	tb.Helper()
	for rest := module[8:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 {
			tb.Fatal("section without a size")
		}
		rest = rest[1+n:]
		visit(id, rest[:size])
		rest = rest[size:]
	}
}

// customSections gives a module's custom sections by name.
func customSections(tb testing.TB, module []byte) map[string][]byte {
	tb.Helper()
	customs := map[string][]byte{}
	sectionsOf(tb, module, func(id byte, content []byte) {
		if id == 0 {
			size, n := binary.Uvarint(content)
			content = content[n:]
			customs[string(content[:size])] = content[size:]
		}
	})
	return customs
}

// bodyStarts gives where in the code section the functions' bodies begin.
func bodyStarts(tb testing.TB, module []byte) (starts []uint64) {
	tb.Helper()
	sectionsOf(tb, module, func(id byte, content []byte) {
		if id != 10 {
			return
		}
		count, at := binary.Uvarint(content)
		for range count {
			size, n := binary.Uvarint(content[at:])
			starts = append(starts, uint64(at+n))
			at += n + int(size)
		}
	})
	return starts
}

// A wasm type of the small modules that tests build.
const i32 = 0x7f

// section is a section of a module that a test builds.
func section(id byte, content ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
}

// build makes a module of sections.
func build(sections ...[]byte) []byte {
	module := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		module = append(module, s...)
	}
	return module
}

// fibGuest is fib(n i32) i32, twice recursive, exported as "fib".
func fibGuest() []byte {
	body := []byte{
		0x00,                   // no locals
		0x20, 0, 0x41, 2, 0x48, // n < 2
		0x04, i32, 0x20, 0, 0x05, // n
		0x20, 0, 0x41, 1, 0x6b, 0x10, 0, // fib(n-1)
		0x20, 0, 0x41, 2, 0x6b, 0x10, 0, // fib(n-2)
		0x6a, 0x0b, 0x0b,
	}
	return build(
		section(1, 1, 0x60, 1, i32, 1, i32),
		section(3, 1, 0),
		section(7, 1, 3, 'f', 'i', 'b', 0, 0),
		section(10, append([]byte{1, byte(len(body))}, body...)...),
	)
}
