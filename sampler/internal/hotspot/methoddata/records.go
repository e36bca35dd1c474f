package methoddata

import (
	"encoding/binary"
	"errors"
)

// record is the profile of one bytecode.
type record struct {
	tag   byte
	null  bool   // a null was seen
	index int    // of the bytecode
	cells []byte // of 8 bytes each
}

// cell returns a cell, 0 if the record has fewer.
func (r *record) cell(i int) uint64 {
	if i < 0 || cellSize*(i+1) > len(r.cells) {
		return 0
	}
	return binary.LittleEndian.Uint64(r.cells[cellSize*i:])
}

// count returns a cell that is a count. The JVM counts with 32 bits in some places, and
// with 64 in others.
func (r *record) count(i int) int64 { return int64(r.cell(i)) }

// row is a type and how often it came.
type row struct {
	class uint64 // Klass*
	count int64
}

// rows returns the types of a record of types, without empty rows.
func (l *layout) rows(r *record) []row {
	if r.tag != tagType && r.tag != tagVirtual && r.tag != tagVirtualCall {
		return nil
	}
	var rows []row
	for i := range l.width {
		at := 1 + l.extra + 2*i
		if class := r.cell(at); class != 0 {
			rows = append(rows, row{class, max(r.count(at+1), 0)})
		}
	}
	return rows
}

// passesNull reports whether an argument or the result of a call was null. The JVM tells that apart for calls of method
// handles, and with -XX:TypeProfileLevel=222 for all. After their length come two cells for each argument, the second of
// them with the type, and one for the result (TypeEntriesAtCall in oops/methodData.hpp, JDK 17 and 25).
func (l *layout) passesNull(r *record) bool {
	at := 1
	switch r.tag {
	case tagCall:
	case tagVirtualCall:
		at += l.extra + 2*l.width
	default:
		return false
	}
	const null = 1 // the lowest bit of a type
	n := int(min(r.cell(at), maxCells))
	for i := 1; i < n; i += 2 {
		if r.cell(at+1+i)&null != 0 {
			return true
		}
	}
	return n%2 != 0 && r.cell(at+n)&null != 0
}

var (
	errTag   = errors.New("an unknown record")
	errOrder = errors.New("records that are not in the order of the bytecode")
	errEnd   = errors.New("a record beyond the end")
	errType  = errors.New("a type that is not a class")
)

// each calls visit with each record of a method whose bytecode has codeSize bytes, until it
// returns an error.
func (l *layout) each(data []byte, codeSize int, visit func(*record) error) error {
	last := -1
	for len(data) > 0 {
		if len(data) < headerSize {
			return errEnd
		}
		const null = 1 // the lowest flag
		r := record{tag: data[0], null: data[1]&null != 0, index: int(binary.LittleEndian.Uint16(data[2:]))}
		if r.index <= last || r.index >= codeSize {
			return errOrder
		}
		last = r.index
		r.cells = data[headerSize:]
		n, ok := l.cells(&r)
		switch {
		case !ok:
			return errTag
		case cellSize*n > len(r.cells):
			return errEnd
		}
		r.cells, data = r.cells[:cellSize*n], r.cells[cellSize*n:]
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}

// maxCells bounds a record: a switch has at most one case for four bytes of code.
const maxCells = 1 << 17

// cells returns how many cells a record has. Those of the rest of the data are there, to
// look up lengths.
func (l *layout) cells(r *record) (n int, ok bool) {
	types := 1 + l.extra + 2*l.width
	switch r.tag {
	case tagBit:
		return 0, true
	case tagCounter:
		return 1, true
	case tagJump:
		return 2, true
	case tagType, tagVirtual:
		return types, true
	case tagReturn:
		return 1 + 3*l.returns, true
	case tagBranch:
		return 3, true
	case tagSwitch:
		return l.sized(r, 0)
	case tagCall:
		return l.sized(r, 1)
	case tagVirtualCall:
		return l.sized(r, types)
	}
	return 0, false
}

// sized returns the cells of a record that has its length, without the cells up to it, in
// a cell.
func (l *layout) sized(r *record, at int) (n int, ok bool) {
	length := r.cell(at)
	return at + 1 + int(min(length, maxCells)), length <= maxCells
}
