package rewrite_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// linked is a module of functions without parameters, whose bodies are given, after some that do
// nothing, as a linker may put them; types are those that no function has, before the one that all have.
func linked(before, types int, bodies ...[]byte) []byte {
	var typeList, functions, code []byte
	for range types {
		typeList = append(typeList, 0x60, 1, i32, 0)
	}
	typeList = append(typeList, 0x60, 0, 0, 0x60, 0, 1, i32)
	bodies = append(slices.Repeat([][]byte{{0x0b}}, before), bodies...)
	for _, b := range bodies {
		functions = append(functions, byte(types))
		code = append(append(code, byte(len(b)+1), 0), b...)
	}
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, append([]byte{byte(types + 2)}, typeList...)...),
		section(3, append([]byte{byte(len(bodies))}, functions...)...),
		section(4, 1, funcref, 0, 1),
		section(10, append([]byte{byte(len(bodies))}, code...)...))
}

// TestHashes: a function keeps its hash wherever a linker puts it and what it refers to.
func TestHashes(t *testing.T) {
	t.Parallel()
	// caller calls the function at an index, has a block of a type, and calls by a table.
	caller := func(callee, block, typ, table byte, number byte) []byte {
		return []byte{0x10, callee, 0x02, block, 0x41, number, 0x0b, 0x1a, 0x41, 0, 0x11, typ, table, 0x0b}
	}
	leaf := []byte{0x01, 0x0b}
	hashes := func(before int, binary []byte) []uint64 {
		t.Helper()
		h, err := rewrite.Hashes(binary, func(i uint32) string { return fmt.Sprint("f", int(i)-before) })
		if err != nil {
			t.Fatal(err)
		}
		return h[before:]
	}
	want := hashes(0, linked(0, 0, caller(1, 1, 0, 0, 7), leaf))
	if want[0] == want[1] {
		t.Error("two functions have one hash")
	}
	if got := hashes(3, linked(3, 2, caller(4, 3, 2, 0, 7), leaf)); !slices.Equal(got, want) {
		t.Errorf("moved: %#x, want %#x", got, want)
	}
	for name, other := range map[string][]byte{
		"another callee": caller(0, 1, 0, 0, 7),
		"another number": caller(1, 1, 0, 0, 8),
		"another type":   caller(1, 1, 1, 0, 7),
		"another block":  caller(1, 0x7f, 0, 0, 7),
	} {
		if got := hashes(0, linked(0, 0, other, leaf)); got[0] == want[0] || got[1] != want[1] {
			t.Errorf("%s: %#x, want another one for the first of %#x", name, got, want)
		}
	}
	if _, err := rewrite.Hashes([]byte("\x00asm\x01\x00\x00\x00\x01"), nil); !errors.Is(err, rewrite.ErrRefused) {
		t.Errorf("a malformed module: %v", err)
	}
}

// FuzzHashes: any bytes are refused or hashed.
func FuzzHashes(f *testing.F) {
	f.Add(linked(1, 1, []byte{0x10, 0, 0x02, 2, 0x0b, 0x0b}))
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, binary []byte) {
		hashes, err := rewrite.Hashes(binary, func(i uint32) string { return fmt.Sprint(i) })
		if err != nil && !errors.Is(err, rewrite.ErrRefused) {
			t.Fatalf("error is no refusal: %v", err)
		}
		if slices.Contains(hashes, 0) && err == nil {
			t.Fatal("no hash")
		}
	})
}
