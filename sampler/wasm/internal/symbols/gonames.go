package symbols

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// Go's linker replaces every character in names of functions that is not a letter, digit,
// dot or "_" by "_", and with -s it writes no names at all (Go 1.26,
// cmd/link/internal/wasm/asm.go, nameRegexp and asmb2). The original names are in the
// program's data, in the table that Go's runtime has for tracebacks (runtime/symtab.go,
// pcHeader; Go 1.26). Tables of other formats are ignored.

// goBuildID is the custom section that marks the output of Go's linker.
const goBuildID = "go:buildid"

// goHeader begins the table: magic (internal/abi, Go120PCLnTabMagic), two zeros, the
// quantum of program counters and the size of a pointer.
var goHeader = []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}

// Words of 8 bytes in the table's header, after goHeader.
const (
	goFunctionCount = 0
	goNames         = 3 // offset in the table
	goFunctions     = 7 // offset in the table: pairs of a function's number and the offset of its data
	goHeaderWords   = 8
)

// goFirst is the number of the first defined function (asm.go, funcValueOffset).
const goFirst = 0x1000

// maxGoName bounds a name, in bytes.
const maxGoName = 4 << 10

// readGoNames gives the functions their names in Go.
func (m *module) readGoNames() {
	defer func() { m.data = nil }()
	if !m.madeByGo {
		return
	}
	table := goTable(m.data)
	if len(table) < 8*(1+goHeaderWords) {
		return
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(table[8+8*i:]) }
	names, functions := skip(table, word(goNames)), skip(table, word(goFunctions))
	defined, room := m.functions[m.imports:], len(table) // all names together are shorter
	for i := range min(word(goFunctionCount), uint64(len(defined)), uint64(len(functions))/8) {
		number := int64(binary.LittleEndian.Uint32(functions[8*i:])) - goFirst
		about := skip(functions, uint64(binary.LittleEndian.Uint32(functions[8*i+4:])))
		if number < 0 || number >= int64(len(defined)) || len(about) < 8 {
			return
		}
		name := goName(names, binary.LittleEndian.Uint32(about[4:]))
		if room -= len(name); room < 0 {
			return
		}
		if isLinked(name, defined[number].name) {
			defined[number].goName = name
		}
	}
}

// skip returns the bytes from an offset on, or none if it is too large.
func skip(b []byte, offset uint64) []byte { return b[min(offset, uint64(len(b))):] }

// goName returns the name at an offset, or "".
func goName(names []byte, offset uint32) string {
	names = skip(names, uint64(offset))
	end := bytes.IndexByte(names[:min(len(names), maxGoName)], 0)
	return string(names[:max(end, 0)])
}

// isLinked reports whether the linker writes a name in this way, or not at all.
func isLinked(name, linked string) bool {
	return name != "" && (linked == "" || strings.Map(asLinked, name) == linked)
}

// asLinked returns the linker's replacement of a character.
func asLinked(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.':
		return r
	}
	return '_'
}

// goTable returns the data of a module from the start of the table on, or nothing. The
// zeros between its segments, which the linker leaves out, are filled in.
func goTable(data []byte) []byte {
	r := &format.Reader{Data: data}
	var table []byte
	begin := int64(0) // address
	for n := r.U32(); n > 0 && r.Err == nil; n-- {
		at, segment := readSegment(r)
		if table == nil {
			i := bytes.Index(segment, goHeader)
			if i < 0 {
				continue
			}
			begin, at, segment = at+int64(i), at+int64(i), segment[i:]
			table = []byte{}
		}
		gap := at - begin - int64(len(table))
		if gap < 0 || gap > int64(len(data)) || len(table) > 2*len(data) {
			break
		}
		table = append(append(table, make([]byte, gap)...), segment...)
	}
	return table
}

// readSegment reads an active segment of the first memory at a constant address. Go's
// linker writes no others.
func readSegment(r *format.Reader) (at int64, segment []byte) {
	const active, constant, end = 0, 0x41, 0x0b
	start := r.At
	begins := r.U32() == active && r.Byte() == constant
	at = r.Signed(64)
	if !begins || r.Byte() != end {
		r.Fail(start, "a segment that Go's linker does not write")
	}
	return at, r.Vector()
}
