// Package fanin is the shared fan-in cache of OpenJ9's JITServer: of each method, from how many places it is called,
// and how often it was found there. An inliner asks for no more. A method is known by its name, signature and body,
// which are equal in all processes, and not by a pointer.
//
//  1. [Of] makes the entries of a profile.
//  2. [Encode] writes them as one file. [Open] reads one, and believes nothing.
//  3. [File.Load] finds a method, [File.Entries] reads all. A method that is not there has none, which is not the same
//     as zeros.
//  4. [Choose] takes the better of two sources, [Table.Store] keeps the better of two entries.
package fanin

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/cursor"
)

// MostCallers is how many callers an entry lists. More are counted as one more.
const MostCallers = 20

// Key is a method, in any process.
type Key struct {
	Name, Signature string
	Body            uint64 // hash of its code; 0: not known
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Name, o.Name), cmp.Compare(k.Signature, o.Signature), cmp.Compare(k.Body, o.Body))
}

// FanIn says from where a method is called. Samples is always the sum of the callers' and of Other.
type FanIn struct {
	Samples uint64   // of calls of the method
	Other   uint64   // of these, from callers that are not listed
	Callers uint32   // places that call it; MostCallers+1: more than that
	Listed  []Caller // the most frequent first
}

// Caller is a place that calls a method.
type Caller struct {
	Key
	Offset  uint32 // as in ccmap.Frame
	Samples uint64
}

// Better says which of two sources of a method's fan-in is to be used: 1 the shared one, -1 one's own. The one with
// more samples is better. If they are about equal, within the noise of both, one's own is: it is fresher.
func Better(own, shared FanIn) int {
	noise := 2 * math.Sqrt(float64(max(own.Samples, shared.Samples)))
	if float64(shared.Samples) > float64(own.Samples)+noise {
		return 1
	}
	return -1
}

// Entry is a method and its fan-in.
type Entry struct {
	Key
	FanIn
}

// Keys returns the keys of all methods of a profile, in order.
func Keys(s *ccmap.Snapshot) (all []Key) {
	for p := range s.Methods() {
		m := p.Method()
		all = append(all, Key{m.Name, m.Signature, m.Body})
	}
	slices.SortFunc(all, Key.compare)
	return slices.Compact(all)
}

// Of returns the entries of all methods of a profile, in order.
func Of(s *ccmap.Snapshot) List {
	names := s.Names()
	keyOf := func(id ccmap.MethodID) Key {
		m := names.At(id)
		return Key{m.Name, m.Signature, m.Body}
	}
	var all List
	for p := range s.Methods() {
		e := Entry{Key: keyOf(p.ID())}
		for edge := range p.Callers() {
			n := uint64(edge.Total().Samples)
			e.Samples += n
			e.Listed = append(e.Listed, Caller{keyOf(edge.Caller()), edge.Offset(), n})
		}
		slices.SortFunc(e.Listed, func(a, b Caller) int {
			return cmp.Or(cmp.Compare(b.Samples, a.Samples), a.Key.compare(b.Key), cmp.Compare(a.Offset, b.Offset))
		})
		e.Callers = uint32(min(len(e.Listed), MostCallers+1))
		for _, c := range e.Listed[min(len(e.Listed), MostCallers):] {
			e.Other += c.Samples
		}
		e.Listed = e.Listed[:min(len(e.Listed), MostCallers)]
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return a.Key.compare(b.Key) })
	return all
}

// A file, with all numbers little-endian or LEB128:
//
//	magic "ccFi", version      5 bytes
//	size, CRC-32C of the index 8 bytes
//	index, under zstd          methods, blocks; of each block the first key, its size and its CRC-32C
//	blocks, under zstd         entries of 64 methods; callers are numbers of methods of the file
const (
	magic     = "ccFi"
	version   = 1
	headSize  = 13
	blockSize = 64
	mostBlock = 16 << 20 // bytes, decompressed
	mostIndex = 64 << 20
)

// Limits bound what a file takes that is read.
type Limits struct {
	Plain   int // bytes of all blocks, decompressed, and of the index
	Methods int
	Callers int // that are listed
}

// ofCommand are the limits of a command.
var ofCommand = Limits{Plain: 128 << 20, Methods: 4 << 20, Callers: 4 << 20}

// ErrDamaged is the error of a file that cannot be read.
var ErrDamaged = errors.New("damaged file of fan-in")

var (
	table          = crc32.MakeTable(crc32.Castagnoli)
	packer, _      = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	unpacker, _    = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostBlock))
	plains         = sync.Pool{New: func() any { return new([]byte) }} // blocks, decompressed
	unpackIndex, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostIndex))
)

// Encode writes entries, which are in order, as one file. A caller that is no entry counts as one that is not listed.
func Encode(all List) []byte {
	number := make(map[Key]uint64, len(all))
	for i, e := range all {
		number[e.Key] = uint64(i)
	}
	index := binary.AppendUvarint(nil, uint64(len(all)))
	var blocks []byte
	for block := range slices.Chunk(all, blockSize) {
		var plain []byte
		for _, e := range block {
			plain = appendEntry(plain, e, number)
		}
		packed := packer.EncodeAll(plain, nil)
		index = binary.AppendUvarint(appendKey(index, block[0].Key), uint64(len(packed)))
		index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(packed, table))
		blocks = append(blocks, packed...)
	}
	index = packer.EncodeAll(index, nil)
	file := append([]byte(magic), version)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(index)))
	file = binary.LittleEndian.AppendUint32(file, crc32.Checksum(index, table))
	return append(append(file, index...), blocks...)
}

func appendKey(dst []byte, k Key) []byte {
	for _, text := range []string{k.Name, k.Signature} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return binary.LittleEndian.AppendUint64(dst, k.Body)
}

func appendEntry(dst []byte, e Entry, number map[Key]uint64) []byte {
	dst = appendKey(dst, e.Key)
	other := e.Other
	var listed []byte
	n := uint64(0)
	for _, c := range e.Listed {
		at, known := number[c.Key]
		if !known {
			other += c.Samples
			continue
		}
		n++
		for _, value := range []uint64{at, uint64(c.Offset), c.Samples} {
			listed = binary.AppendUvarint(listed, value)
		}
	}
	for _, value := range []uint64{e.Samples, other, uint64(e.Callers), n} {
		dst = binary.AppendUvarint(dst, value)
	}
	return append(dst, listed...)
}

// File is a file of fan-in in memory. Any goroutine may call its methods.
type File struct {
	limits  Limits
	methods uint64
	blocks  []block
}

type block struct {
	first  Key
	packed []byte
	sum    uint32
}

// Open reads the index of a file. The blocks are checked when they are read.
func Open(b []byte) (*File, error) { return ofCommand.Open(b) }

// Open reads the index of a file, within limits.
func (l Limits) Open(b []byte) (*File, error) {
	if len(b) < headSize || string(b[:4]) != magic || b[4] != version {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrDamaged)
	}
	size, rest := int64(binary.LittleEndian.Uint32(b[5:])), b[headSize:]
	if size > int64(len(rest)) || crc32.Checksum(rest[:size], table) != binary.LittleEndian.Uint32(b[9:]) {
		return nil, fmt.Errorf("%w: index", ErrDamaged)
	}
	plain, err := l.index(rest[:size])
	if err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrDamaged, err)
	}
	index, blocks := cursor.Cursor{Data: plain}, cursor.Cursor{Data: rest[size:]}
	f := &File{limits: l, methods: index.Uleb()}
	if f.methods > uint64(l.Methods) {
		return nil, fmt.Errorf("%w: more than %d methods", ErrTooLarge, l.Methods)
	}
	for !index.Empty() && blocks.Err == nil {
		next := block{first: readKey(&index)}
		next.packed, next.sum = blocks.Bytes(index.Uleb()), index.U32()
		f.blocks = append(f.blocks, next)
	}
	sorted := slices.IsSortedFunc(f.blocks, func(a, b block) int { return a.first.compare(b.first) })
	if err := errors.Join(index.Err, blocks.Err); err != nil || !sorted || (f.methods+blockSize-1)/blockSize != uint64(len(f.blocks)) {
		return nil, fmt.Errorf("%w: index: %v", ErrDamaged, err)
	}
	return f, nil
}

// index decompresses an index.
func (l Limits) index(packed []byte) ([]byte, error) {
	if l.Plain >= mostIndex {
		return unpackIndex.DecodeAll(packed, nil)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(l.Plain, 1))))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return z.DecodeAll(packed, nil)
}

func readKey(c *cursor.Cursor) Key {
	return Key{Name: string(c.Bytes(c.Uleb())), Signature: string(c.Bytes(c.Uleb())), Body: c.U64()}
}

// Len returns the number of methods.
func (f *File) Len() int { return int(f.methods) }

// Load returns the fan-in of a method, and whether the file has one. An error wraps [ErrDamaged].
func (f *File) Load(k Key) (FanIn, bool, error) {
	at := sort.Search(len(f.blocks), func(i int) bool { return f.blocks[i].first.compare(k) > 0 }) - 1
	if at < 0 {
		return FanIn{}, false, nil
	}
	var e raw
	found, damage := false, error(nil)
	_, err := f.each(at, func(_ uint64, key rawKey, rest cursor.Cursor) bool {
		if found = key.is(k); found {
			e, damage = readFanIn(rest)
		}
		return !found
	})
	if err = cmp.Or(err, damage); err != nil || !found {
		return FanIn{}, false, err
	}
	if err := f.name(&e); err != nil {
		return FanIn{}, false, err
	}
	return e.FanIn, true, nil
}

// Named returns the entries of the methods of a name, the first of them.
func (f *File) Named(name string, most int) (found List, err error) {
	at := max(0, sort.Search(len(f.blocks), func(i int) bool { return f.blocks[i].first.Name >= name })-1)
	for ; at < len(f.blocks) && f.blocks[at].first.Name <= name && len(found) < most; at++ {
		var damage error
		_, err := f.each(at, func(_ uint64, key rawKey, rest cursor.Cursor) bool {
			if string(key.name) != name {
				return true
			}
			e, err := readFanIn(rest)
			if damage = err; err == nil {
				damage = f.name(&e)
			}
			found = append(found, Entry{key.key(), e.FanIn})
			return damage == nil && len(found) < most
		})
		if err = cmp.Or(err, damage); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// each calls visit with each method of a block, its number in it, and the rest of the block, which begins with the
// method's fan-in, until visit returns false. It returns how many bytes the block has.
func (f *File) each(at int, visit func(n uint64, key rawKey, rest cursor.Cursor) bool) (int, error) {
	b := f.blocks[at]
	if crc32.Checksum(b.packed, table) != b.sum {
		return 0, fmt.Errorf("%w: block %d", ErrDamaged, at)
	}
	plain := plains.Get().(*[]byte)
	defer plains.Put(plain)
	var err error
	if *plain, err = unpacker.DecodeAll(b.packed, (*plain)[:0]); err != nil {
		return 0, fmt.Errorf("%w: block %d: %w", ErrDamaged, at, err)
	}
	c := cursor.Cursor{Data: *plain}
	for n := uint64(0); n < blockSize && !c.Empty(); n++ {
		key := readRawKey(&c)
		if c.Err == nil && !visit(n, key, c) {
			break
		}
		skipFanIn(&c)
	}
	if c.Err != nil {
		return 0, fmt.Errorf("%w: block %d: %w", ErrDamaged, at, c.Err)
	}
	return len(*plain), nil
}

// rawKey is a key in a block that is read.
type rawKey struct {
	name, signature []byte
	body            uint64
}

func readRawKey(c *cursor.Cursor) rawKey {
	return rawKey{c.Bytes(c.Uleb()), c.Bytes(c.Uleb()), c.U64()}
}

func (r rawKey) is(k Key) bool {
	return r.body == k.Body && string(r.name) == k.Name && string(r.signature) == k.Signature
}

func (r rawKey) key() Key { return Key{string(r.name), string(r.signature), r.body} }

// raw is a fan-in whose callers are numbers.
type raw struct {
	FanIn
	numbers []uint64
}

func readFanIn(c cursor.Cursor) (e raw, err error) {
	e.Samples, e.Other, e.Callers = c.Uleb(), c.Uleb(), uint32(min(c.Uleb(), MostCallers+1))
	listed := c.Uleb()
	if listed > MostCallers {
		c.Fail(errors.New("too many callers"))
	}
	sum := e.Other
	if n := min(listed, MostCallers); n > 0 {
		e.Listed, e.numbers = make([]Caller, 0, n), make([]uint64, 0, n)
	}
	for range min(listed, MostCallers) {
		e.numbers = append(e.numbers, c.Uleb())
		caller := Caller{Offset: uint32(c.Uleb()), Samples: c.Uleb()}
		sum += caller.Samples
		e.Listed = append(e.Listed, caller)
	}
	if sum != e.Samples {
		c.Fail(errors.New("the callers are not all"))
	}
	if c.Err != nil {
		return e, fmt.Errorf("%w: fan-in of a method: %w", ErrDamaged, c.Err)
	}
	return e, nil
}

func skipFanIn(c *cursor.Cursor) {
	for range 3 {
		c.Uleb()
	}
	for range 3 * min(c.Uleb(), MostCallers) {
		c.Uleb()
	}
}

// name finds the names of an entry's callers, block by block.
func (f *File) name(e *raw) error {
	var done [MostCallers]bool
	for i, n := range e.numbers {
		if done[i] {
			continue
		}
		if n >= f.methods {
			return fmt.Errorf("%w: caller %d", ErrDamaged, n)
		}
		left := 0 // callers of the same block
		for j, o := range e.numbers {
			if o/blockSize == n/blockSize {
				done[j] = true
				left++
			}
		}
		_, err := f.each(int(n/blockSize), func(at uint64, key rawKey, _ cursor.Cursor) bool {
			for j, o := range e.numbers {
				if o == n-n%blockSize+at {
					e.Listed[j].Key = key.key()
					left--
				}
			}
			return left > 0
		})
		if err == nil && left > 0 {
			err = fmt.Errorf("%w: caller %d", ErrDamaged, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
