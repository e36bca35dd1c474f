package gocover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrOther says that counters belong to another program.
var ErrOther = errors.New("counters of another program: its meta-data file has another hash")

const (
	counterMagic = "\x00cwm"
	footerBytes  = 16
)

// The encodings of numbers in a counter file.
const (
	flavorRaw  = 1 // 32 bits
	flavorULEB = 2
)

// Add decodes a counter file and adds its counts to the program. In mode set, a block
// that any run executed counts as executed. After an error the program is unchanged.
//
// The file is a header and one or more segments of counters, each followed by a footer.
// The last footer has the number of segments (cmd/ccmapd/internal/coverage/defs.go, encodecounter
// and decodecounter, Go 1.26).
func (p *Program) Add(b []byte) error {
	err := p.eachCounter(b, func(*Block, uint32) {})
	if err == nil {
		err = p.eachCounter(b, p.count)
	}
	if err != nil {
		return fmt.Errorf("read coverage counters: %w", err)
	}
	p.Runs++
	return nil
}

// count adds to a block. An overflow stays at the highest count.
func (p *Program) count(b *Block, n uint32) {
	switch {
	case p.Mode == ModeSet:
		b.Count = max(b.Count, uint64(min(n, 1)))
	case b.Count > math.MaxInt64-uint64(n):
		b.Count = math.MaxInt64
	default:
		b.Count += uint64(n)
	}
}

// counterReader reads the numbers of a counter file.
type counterReader struct {
	cursor
	raw       bool
	bigEndian bool
}

func (r *counterReader) number() uint32 {
	if !r.raw {
		return r.uleb()
	}
	b := r.bytes(4)
	switch {
	case b == nil:
		return 0
	case r.bigEndian:
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

// eachCounter calls visit for every counter of a file, up to an error in the file.
func (p *Program) eachCounter(file []byte, visit func(*Block, uint32)) error {
	r := counterReader{cursor: cursor{rest: file}}
	if err := r.readHeader(len(file), p.Hash); err != nil {
		return err
	}
	segments, err := readFooter(file)
	if err != nil {
		return err
	}
	for i := range segments {
		if err := p.readSegment(&r, visit); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
	}
	return nil
}

func (r *counterReader) readHeader(size int, hash [16]byte) error {
	if err := readStart(&r.cursor, counterMagic, size); err != nil {
		return err
	}
	got := r.bytes(16)
	flavor := r.uint8()
	r.bigEndian = r.uint8() != 0
	r.bytes(6) // padding
	switch {
	case r.bad:
		return ErrCorrupt
	case string(got) != string(hash[:]):
		return ErrOther
	case flavor != flavorRaw && flavor != flavorULEB:
		return fmt.Errorf("%w: counters of flavor %d", ErrVersion, flavor)
	}
	r.raw = flavor == flavorRaw
	return nil
}

// readFooter returns the number of segments.
func readFooter(file []byte) (uint32, error) {
	c := cursor{rest: file[max(0, len(file)-footerBytes):]}
	magic := c.bytes(4)
	c.bytes(4) // padding
	segments := c.uint32()
	if string(magic) != counterMagic || segments == 0 {
		return 0, fmt.Errorf("%w: it does not end in a footer", ErrCorrupt)
	}
	return segments, nil
}

// readSegment reads the counters of a run and the footer after them. It skips the
// program's arguments before them.
func (p *Program) readSegment(r *counterReader, visit func(*Block, uint32)) error {
	functions := r.uint64()
	strings, args := uint64(r.uint32()), uint64(r.uint32())
	r.bytes(strings + args)
	for ; functions > 0 && !r.bad; functions-- {
		n, pkg, index := r.number(), r.number(), r.number()
		f := p.function(pkg, index)
		if f == nil || uint64(n) != uint64(len(f.Blocks)) {
			return fmt.Errorf("%w: %d counters of function %d in package %d", ErrCorrupt, n, index, pkg)
		}
		for i := range f.Blocks {
			visit(&f.Blocks[i], r.number())
		}
	}
	r.bytes(footerBytes)
	if r.bad {
		return ErrCorrupt
	}
	return nil
}

func (p *Program) function(pkg, index uint32) *Function {
	if uint64(pkg) >= uint64(len(p.Packages)) {
		return nil
	}
	functions := p.Packages[pkg].Functions
	if uint64(index) >= uint64(len(functions)) {
		return nil
	}
	return &functions[index]
}
