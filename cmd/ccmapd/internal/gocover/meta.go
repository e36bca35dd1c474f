package gocover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Bounds of the files. The meta-data of all of Kubernetes is about 10 MB.
const (
	MaxFileSize = 64 << 20 // bytes of one file

	maxMetaSize  = 128 << 20 // bytes of all meta-data files of a directory
	maxFunctions = 1 << 20   // of a program
	maxBlocks    = 1 << 22   // of a program
	maxStrings   = 1 << 20   // of a package
	maxName      = 1 << 10   // bytes of a name or path
)

// room is the rest of the bounds of a program.
type room struct {
	functions, blocks uint64
	memory            *memory
}

// memory counts the bytes that decoded files take.
type memory struct{ limit, held int64 }

// reserve counts n elements of a size, and fails where there would be too many bytes.
func (m *memory) reserve(n uint64, size uintptr) error {
	if n > uint64(m.limit-m.held)/uint64(size) {
		return fmt.Errorf("%w: more than %.4g MiB", ErrMemory, float64(m.limit)/(1<<20))
	}
	m.held += int64(n) * int64(size)
	return nil
}

// Errors of the decoders, wrapped in errors that say where.
var (
	ErrFormat   = errors.New("not a coverage file of Go")
	ErrVersion  = errors.New("coverage file of a later version of Go")
	ErrCorrupt  = errors.New("coverage file is cut or corrupt")
	ErrTooLarge = errors.New("coverage file is too large")
	ErrMemory   = errors.New("too much memory")
)

// fileVersion is the version of both kinds of files since Go 1.20.
const fileVersion = 1

const metaMagic = "\x00cvm"

// readMetaIn decodes a meta-data file within a memory, which an error leaves as it was. All
// counts of the program are 0.
//
// The file is a header, the offsets of its packages, their lengths, an unused table of
// strings, and the packages (cmd/ccmapd/internal/coverage/defs.go and decodemeta, Go 1.26).
func readMetaIn(b []byte, m *memory) (*Program, error) {
	held := m.held
	p, err := readMeta(b, m)
	if err != nil {
		m.held = held
		return nil, fmt.Errorf("read coverage meta-data: %w", err)
	}
	return p, nil
}

func readMeta(b []byte, m *memory) (*Program, error) {
	c := cursor{rest: b}
	if err := readStart(&c, metaMagic, len(b)); err != nil {
		return nil, err
	}
	length, packages := c.uint64(), c.uint64()
	p := new(Program)
	copy(p.Hash[:], c.bytes(16))
	c.bytes(8) // offset of the strings
	p.Mode = Mode(c.uint8())
	c.bytes(7) // granularity, padding
	if c.bad || length != uint64(len(b)) || packages > uint64(len(c.rest))/16 {
		return nil, ErrCorrupt
	}
	if p.Mode < ModeSet || p.Mode > ModeAtomic {
		return nil, fmt.Errorf("%w: counter mode %d", ErrCorrupt, p.Mode)
	}
	offsets, lengths := c.bytes(8*packages), c.bytes(8*packages)
	return p, p.readPackages(b, offsets, lengths, m)
}

// readStart reads the beginning of a file of either kind.
func readStart(c *cursor, magic string, size int) error {
	if size > MaxFileSize {
		return fmt.Errorf("%w: over %d MiB", ErrTooLarge, MaxFileSize>>20)
	}
	if string(c.bytes(4)) != magic {
		return ErrFormat
	}
	if v := c.uint32(); !c.bad && v != fileVersion {
		return fmt.Errorf("%w: version %d", ErrVersion, v)
	}
	return nil
}

func (p *Program) readPackages(file, offsets, lengths []byte, m *memory) error {
	left, room := uint64(len(file)), room{maxFunctions, maxBlocks, m}
	const grown = 2 // times as many have room, while their list grows
	if err := m.reserve(grown*uint64(len(offsets)/8), unsafe.Sizeof(Package{})); err != nil {
		return err
	}
	for ; len(offsets) > 0; offsets, lengths = offsets[8:], lengths[8:] {
		offset, length := binary.LittleEndian.Uint64(offsets), binary.LittleEndian.Uint64(lengths)
		if offset > uint64(len(file)) || length > uint64(len(file))-offset || length > left {
			return ErrCorrupt
		}
		left -= length // overlapping packages would be read again and again
		pkg, err := readPackage(file[offset:offset+length], &room)
		if err != nil {
			return fmt.Errorf("package %d: %w", len(p.Packages), err)
		}
		p.Packages = append(p.Packages, pkg)
	}
	return nil
}

// readPackage decodes the meta-data of a package: a header, the offsets of its
// functions, a table of strings, and the functions.
func readPackage(b []byte, room *room) (Package, error) {
	c := cursor{rest: b}
	length := c.uint32()
	name, path, module := c.uint32(), c.uint32(), c.uint32()
	c.bytes(24) // hash, padding, number of files
	functions := uint64(c.uint32())
	if functions > room.functions {
		return Package{}, fmt.Errorf("%w: over %d functions", ErrTooLarge, maxFunctions)
	}
	room.functions -= functions
	offsets := c.bytes(4 * functions)
	strings, err := readStrings(&c, room.memory)
	if err != nil {
		return Package{}, err
	}
	pkg := Package{Path: strings.at(&c, path), Name: strings.at(&c, name), Module: strings.at(&c, module)}
	if c.bad || uint64(length) != uint64(len(b)) {
		return Package{}, ErrCorrupt
	}
	pkg.Functions, err = readFunctions(b, offsets, strings, room)
	pkg.nameFunctions()
	return pkg, err
}

func readFunctions(b, offsets []byte, strings stringTable, room *room) ([]Function, error) {
	const name = 32 // bytes of "init.func1"
	if err := room.memory.reserve(uint64(len(offsets)/4), unsafe.Sizeof(Function{})+name); err != nil {
		return nil, err
	}
	functions := make([]Function, 0, len(offsets)/4)
	left := len(b)
	for ; len(offsets) > 0; offsets = offsets[4:] {
		offset := binary.LittleEndian.Uint32(offsets)
		if uint64(offset) > uint64(len(b)) {
			return nil, ErrCorrupt
		}
		c := cursor{rest: b[offset:]}
		f, err := readFunction(&c, strings, room)
		left -= len(b) - int(offset) - len(c.rest) // as with packages
		if err == nil && (c.bad || left < 0) {
			err = ErrCorrupt
		}
		if err != nil {
			return nil, fmt.Errorf("function %d: %w", len(functions), err)
		}
		functions = append(functions, f)
	}
	return functions, nil
}

// blockBytes is the least size of a block: five numbers.
const blockBytes = 5

func readFunction(c *cursor, strings stringTable, room *room) (Function, error) {
	blocks := uint64(c.uleb())
	f := Function{Name: strings.at(c, c.uleb()), File: strings.at(c, c.uleb())}
	if blocks > uint64(len(c.rest))/blockBytes {
		return f, ErrCorrupt
	}
	if blocks > room.blocks {
		return f, fmt.Errorf("%w: over %d blocks", ErrTooLarge, maxBlocks)
	}
	room.blocks -= blocks
	if err := room.memory.reserve(blocks, unsafe.Sizeof(Block{})); err != nil {
		return f, err
	}
	f.Blocks = make([]Block, blocks)
	for i := range f.Blocks {
		f.Blocks[i] = Block{
			Start:      Position{c.uleb(), c.uleb()},
			End:        Position{c.uleb(), c.uleb()},
			Statements: c.uleb(),
		}
	}
	f.literal = c.uleb() != 0
	if blocks > 0 {
		f.Line = f.Blocks[0].Start.Line
	}
	return f, nil
}

// stringTable is a table of strings, by their index.
type stringTable []string

func readStrings(c *cursor, m *memory) (stringTable, error) {
	n := c.uleb()
	if uint64(n) > uint64(len(c.rest)) || n > maxStrings { // a string takes at least a byte
		c.bad = true
		return nil, nil
	}
	const named = 160 // bytes: the runtime's name of a method, in a map that grows
	if err := m.reserve(uint64(n), unsafe.Sizeof("")+named); err != nil {
		return nil, err
	}
	table := make(stringTable, n)
	for i := range table {
		length := c.uleb()
		if length > maxName {
			c.bad = true
			return nil, nil
		}
		if err := m.reserve(2*uint64(length), 1); err != nil { // and in the runtime's name
			return nil, err
		}
		table[i] = string(c.bytes(uint64(length)))
	}
	return table, nil
}

func (t stringTable) at(c *cursor, i uint32) string {
	if uint64(i) >= uint64(len(t)) {
		c.bad = true
		return ""
	}
	return t[i]
}

// cursor reads numbers from the rest of a file. Once the file has ended too soon, or a
// number was out of range, bad is true and every further number is zero.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) uint8() uint8 {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// uleb reads a number of 32 bits in ULEB128.
func (c *cursor) uleb() uint32 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 || v > math.MaxUint32 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return uint32(v)
}
