package symbols

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// Go's linker writes "_" into the names of functions for what is no letter, digit, dot
// or "_", and with -s no names at all (Go 1.26, cmd/link/internal/wasm/asm.go,
// nameRegexp and asmb2). What a Go programmer calls them stands in the program's data,
// in the table that its runtime has for tracebacks (runtime/symtab.go, pcHeader; Go
// 1.26). Tables of other formats are left alone.

// goBuildID is the custom section by which Go's linker marks what it has made.
const goBuildID = "go:buildid"

// goHeader begins the table: magic (internal/abi, Go120PCLnTabMagic), two zeros, the
// quantum of program counters and the size of a pointer.
var goHeader = []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}

// Words of 8 bytes in the table's header, behind what goHeader has.
const (
	goFunctionCount = 0
	goNames         = 3 // offset in the table
	goFunctions     = 7 // offset in the table: pairs of a function's number and what is known of it
	goHeaderWords   = 8
)

// goFirst is the number of the first function that is defined (asm.go, funcValueOffset).
const goFirst = 0x1000

// maxGoName is how many bytes of a name are taken.
const maxGoName = 4 << 10

// readGoNames gives the functions the names that they have in Go.
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
	defined, room := m.functions[m.imports:], len(table) // no names are longer, in sum
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

// skip returns the bytes from an offset on; none if it is too large.
func skip(b []byte, offset uint64) []byte { return b[min(offset, uint64(len(b))):] }

// goName returns the name at an offset, "" if there is none.
func goName(names []byte, offset uint32) string {
	names = skip(names, uint64(offset))
	end := bytes.IndexByte(names[:min(len(names), maxGoName)], 0)
	return string(names[:max(end, 0)])
}

// isLinked reports whether the linker writes a name in this way, or not at all.
func isLinked(name, linked string) bool {
	return name != "" && (linked == "" || strings.Map(asLinked, name) == linked)
}

// asLinked returns what the linker writes for a character.
func asLinked(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.':
		return r
	}
	return '_'
}

// goTable returns the data of a module from the beginning of the table on, nothing if
// there is none. Between its segments are zeros, which the linker leaves out.
func goTable(data []byte) []byte {
	d := &cursor.Cursor{Data: data}
	var table []byte
	begin := int64(0) // address
	for n := d.Index(); n > 0 && d.Err == nil; n-- {
		at, segment := readSegment(d)
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

var errSegment = errors.New("a segment that Go's linker does not write")

// readSegment reads an active segment of the first memory at a constant address, as all
// are that Go's linker writes.
func readSegment(d *cursor.Cursor) (at int64, segment []byte) {
	const active, constant, end = 0, 0x41, 0x0b
	if d.Index() != active || d.Byte() != constant {
		d.Fail(errSegment)
	}
	at = d.Sleb()
	if d.Byte() != end {
		d.Fail(errSegment)
	}
	return at, d.Vector()
}
