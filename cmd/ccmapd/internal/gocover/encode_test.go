package gocover

import (
	"encoding/binary"
	"slices"
)

// encodeMeta writes the meta-data file of a program. Its functions must have the names of
// cmd/cover.
func encodeMeta(p *Program) []byte {
	le := binary.LittleEndian
	var packages [][]byte
	for _, pkg := range p.Packages {
		packages = append(packages, encodePackage(pkg))
	}
	const header = 56
	offset := uint64(header + 16*len(packages))
	size := offset
	for _, pkg := range packages {
		size += uint64(len(pkg))
	}
	b := append([]byte(metaMagic), 1, 0, 0, 0)
	b = le.AppendUint64(b, size)
	b = le.AppendUint64(b, uint64(len(packages)))
	b = append(b, p.Hash[:]...)
	b = append(b, make([]byte, 8)...)
	b = append(b, byte(p.Mode), 1, 0, 0, 0, 0, 0, 0)
	for _, pkg := range packages {
		b = le.AppendUint64(b, offset)
		offset += uint64(len(pkg))
	}
	for _, pkg := range packages {
		b = le.AppendUint64(b, uint64(len(pkg)))
	}
	return append(b, slices.Concat(packages...)...)
}

func encodePackage(pkg Package) []byte {
	le := binary.LittleEndian
	table := []string{pkg.Name, pkg.Path, pkg.Module}
	var functions [][]byte
	for _, f := range pkg.Functions {
		table = append(table, f.Name, f.File)
		functions = append(functions, encodeFunction(f, len(table)-2))
	}
	strings := binary.AppendUvarint(nil, uint64(len(table)))
	for _, s := range table {
		strings = append(binary.AppendUvarint(strings, uint64(len(s))), s...)
	}
	offset := 44 + 4*len(functions) + len(strings)
	var offsets []byte
	for _, f := range functions {
		offsets = le.AppendUint32(offsets, uint32(offset))
		offset += len(f)
	}
	b := le.AppendUint32(nil, uint32(offset))
	for i := range uint32(3) {
		b = le.AppendUint32(b, i)
	}
	b = append(b, make([]byte, 24)...)
	b = le.AppendUint32(b, uint32(len(functions)))
	return slices.Concat(b, offsets, strings, slices.Concat(functions...))
}

func encodeFunction(f Function, name int) []byte {
	b := uvarints(len(f.Blocks), name, name+1)
	for _, u := range f.Blocks {
		b = append(b, uvarints(int(u.Start.Line), int(u.Start.Column), int(u.End.Line), int(u.End.Column), int(u.Statements))...)
	}
	if f.literal {
		return append(b, 1)
	}
	return append(b, 0)
}

func uvarints(numbers ...int) []byte {
	var b []byte
	for _, n := range numbers {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// encoding is the encoding of numbers in a counter file.
type encoding struct {
	flavor    byte
	bigEndian bool
}

var encodings = []encoding{{flavorULEB, false}, {flavorRaw, false}, {flavorRaw, true}}

// encodeCounters writes a counter file with a segment for each run: the counters of all
// functions in order.
func encodeCounters(p *Program, e encoding, runs ...[]uint32) []byte {
	b := append([]byte(counterMagic), 1, 0, 0, 0)
	b = append(b, p.Hash[:]...)
	b = append(b, e.flavor, 0, 0, 0, 0, 0, 0, 0)
	if e.bigEndian {
		b[len(b)-7] = 1
	}
	for i, counters := range runs {
		b = e.segment(b, p, counters)
		b = append(b, counterMagic+"\x00\x00\x00\x00"...)
		b = binary.LittleEndian.AppendUint64(b, uint64(i+1))
	}
	return b
}

func (e encoding) segment(b []byte, p *Program, counters []uint32) []byte {
	le := binary.LittleEndian
	functions := 0
	for _, pkg := range p.Packages {
		functions += len(pkg.Functions)
	}
	b = le.AppendUint64(b, uint64(functions))
	b = le.AppendUint32(le.AppendUint32(b, 2), 6) // bytes of strings and arguments
	b = append(b, "\x01\x00\x00\x00\x00\x00\x00\x00"...)
	for i, pkg := range p.Packages {
		for j, f := range pkg.Functions {
			b = e.number(b, uint32(len(f.Blocks)), uint32(i), uint32(j))
			b = e.number(b, counters[:len(f.Blocks)]...)
			counters = counters[len(f.Blocks):]
		}
	}
	return b
}

func (e encoding) number(b []byte, numbers ...uint32) []byte {
	for _, n := range numbers {
		switch {
		case e.flavor == flavorULEB:
			b = binary.AppendUvarint(b, uint64(n))
		case e.bigEndian:
			b = binary.BigEndian.AppendUint32(b, n)
		default:
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	return b
}
