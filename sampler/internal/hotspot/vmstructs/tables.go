package vmstructs

import (
	"encoding/binary"
	"fmt"
)

// table is one of the JVM's tables: its entries, and where an entry has what.
type table struct {
	name    string // as in "gHotSpotVM<name>s"
	entry   string // as in "gHotSpotVM<entry>EntryNameOffset"
	columns []string
}

var (
	structTable = table{"Structs", "Struct", []string{"TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"}}
	typeTable   = table{"Types", "Type", []string{"TypeName", "SuperclassName", "Size"}}
	intTable    = table{"IntConstants", "IntConstant", []string{"Name", "Value"}}
	longTable   = table{"LongConstants", "LongConstant", []string{"Name", "Value"}}
)

// maxStride bounds the bytes of an entry; it has 48.
const maxStride = 256

// row has the columns of an entry, in the order of its table's columns. A column of fewer
// bytes than 8 has others' bytes above.
type row []uint64

// readTables reads all tables.
func (l *load) readTables(v *VM, im *image) error {
	structs, err := l.rows(im, structTable)
	if err != nil {
		return err
	}
	types, err := l.rows(im, typeTable)
	if err != nil {
		return err
	}
	ints, err := l.rows(im, intTable)
	if err != nil {
		return err
	}
	longs, err := l.rows(im, longTable)
	if err != nil {
		return err
	}
	if err := l.fetchNames(structs, types, ints, longs); err != nil {
		return err
	}
	if err := l.addFields(v, structs); err != nil {
		return err
	}
	if err := l.addTypes(v, types); err != nil {
		return err
	}
	v.consts = make(map[string]int64, len(ints)+len(longs))
	if err := l.addConstants(v, ints, func(w uint64) int64 { return int64(int32(w)) }); err != nil {
		return err
	}
	return l.addConstants(v, longs, func(w uint64) int64 { return int64(w) })
}

// fetchNames reads the pages of all strings of the tables at once.
func (l *load) fetchNames(structs, types, ints, longs []row) error {
	var names []uint64
	for _, r := range structs {
		names = append(names, r[0], r[1], r[2])
	}
	for _, r := range types {
		names = append(names, r[0], r[1])
	}
	for _, r := range ints {
		names = append(names, r[0])
	}
	for _, r := range longs {
		names = append(names, r[0])
	}
	return l.fetch(names)
}

func (l *load) addFields(v *VM, rows []row) error {
	v.fields = make(map[string]field, len(rows))
	for _, r := range rows {
		owner, err := l.text(r[0])
		if err != nil {
			return err
		}
		name, err := l.text(r[1])
		if err != nil {
			return err
		}
		f := field{static: int32(r[3]) != 0, at: r[4]}
		if r[2] != 0 { // its type is not given where a field is not checked
			if f.typ, err = l.text(r[2]); err != nil {
				return err
			}
		}
		if f.static {
			f.at = r[5]
		}
		v.fields[owner+"."+name] = f
	}
	return nil
}

func (l *load) addTypes(v *VM, rows []row) error {
	v.types = make(map[string]typ, len(rows))
	for _, r := range rows {
		name, err := l.text(r[0])
		if err != nil {
			return err
		}
		t := typ{size: r[2]}
		if r[1] != 0 {
			if t.super, err = l.text(r[1]); err != nil {
				return err
			}
		}
		v.types[name] = t
	}
	return nil
}

func (l *load) addConstants(v *VM, rows []row, value func(uint64) int64) error {
	for _, r := range rows {
		name, err := l.text(r[0])
		if err != nil {
			return err
		}
		v.consts[name] = value(r[1])
	}
	return nil
}

// rows reads a table. It ends with an entry whose first name is null.
func (l *load) rows(im *image, t table) ([]row, error) {
	columns := make([]uint64, len(t.columns))
	for i, name := range t.columns {
		var err error
		if columns[i], err = l.symbolValue(im, "gHotSpotVM"+t.entry+"Entry"+name+"Offset"); err != nil {
			return nil, err
		}
	}
	stride, err := l.symbolValue(im, "gHotSpotVM"+t.entry+"EntryArrayStride")
	if err != nil {
		return nil, err
	}
	at, err := l.symbolValue(im, "gHotSpotVM"+t.name)
	if err != nil {
		return nil, err
	}
	if at == 0 || stride < 8 || stride > maxStride {
		return nil, fmt.Errorf("entries of %d bytes at %#x: %w", stride, at, errCorrupt)
	}
	for _, c := range columns {
		if c > stride-4 {
			return nil, fmt.Errorf("a column at %d in entries of %d bytes: %w", c, stride, errCorrupt)
		}
	}
	return l.entries(at, int(stride), columns)
}

// entries reads a table in pieces, until its end.
func (l *load) entries(at uint64, stride int, columns []uint64) ([]row, error) {
	const piece = 128 // entries
	var rows []row
	for len(rows) < maxEntries {
		raw, err := l.upTo(at, piece*stride)
		if err != nil {
			return nil, err
		}
		for ; len(raw) >= stride; raw = raw[stride:] {
			r := cut(raw[:stride], columns)
			if r[0] == 0 {
				return rows, nil
			}
			rows = append(rows, r)
			at += uint64(stride)
		}
	}
	return nil, fmt.Errorf("a table of %d entries: %w", len(rows), ErrTooMuch)
}

// upTo returns n bytes, or fewer where memory ends before.
func (l *load) upTo(addr uint64, n int) ([]byte, error) {
	raw, err := l.bytesAt(addr, n)
	if err == nil {
		return raw, nil
	}
	rest := int(pageSize - addr%pageSize)
	if rest >= n {
		return nil, err
	}
	return l.bytesAt(addr, rest)
}

// cut returns the columns of an entry.
func cut(entry []byte, columns []uint64) row {
	r := make(row, len(columns))
	for i, c := range columns {
		var b [8]byte
		copy(b[:], entry[c:])
		r[i] = binary.LittleEndian.Uint64(b[:])
	}
	return r
}

// symbolValue returns the word that a symbol holds.
func (l *load) symbolValue(im *image, name string) (uint64, error) {
	addr, err := l.symbol(im, name)
	if err != nil {
		return 0, err
	}
	return l.word(addr)
}
