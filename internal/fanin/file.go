package fanin

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// A file, with all numbers little-endian or LEB128:
//
//	magic "ccFi", version      5 bytes
//	size, CRC-32C of the index 8 bytes
//	index, under zstd          methods, blocks; of each block the first key, its size and its CRC-32C
//	blocks                     64 methods each, see appendBlock; callers are numbers of methods of the file
const (
	magic     = "ccFi"
	version   = 3
	headSize  = 13
	blockSize = 64
	mostBlock = 16 << 20 // bytes, decompressed, and of its keys
	mostIndex = 64 << 20
)

// Limits bound what a file takes that is read.
type Limits struct {
	Plain   int // bytes of all blocks, decompressed, with their keys, and of the index
	Methods int
	Callers int // that are listed
}

// ofCommand are the limits of a command.
var ofCommand = Limits{Plain: 128 << 20, Methods: 4 << 20, Callers: 4 << 20}

var (
	// ErrDamaged is the error of a file that cannot be read.
	ErrDamaged = errors.New("damaged file of fan-in")
	// ErrVersion is the error of a file that another version of this program has made.
	ErrVersion = errors.New("file of fan-in of another version")
	// ErrTooLarge is the error of a file whose entries would take too much memory. One method can still be found in it.
	ErrTooLarge = errors.New("too large a file of fan-in")
)

var (
	table          = crc32.MakeTable(crc32.Castagnoli)
	packer, _      = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderCRC(false))
	unpacker, _    = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostBlock))
	plains         = sync.Pool{New: func() any { return new(scratch) }}
	unpackIndex, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(mostIndex))
)

// Begins reports whether bytes begin as a file of fan-in does, of any version.
func Begins(b []byte) bool { return len(b) >= len(magic) && string(b[:len(magic)]) == magic }

// IsCurrent reports whether bytes begin as a file that [Open] reads.
func IsCurrent(b []byte) bool { return Begins(b) && len(b) > len(magic) && b[len(magic)] == version }

// Encode writes entries, which are in order, as one file. A caller that is no entry counts as one that is not listed.
func Encode(all List) []byte {
	number := make(map[Key]int, len(all))
	for i, e := range all {
		number[e.Key] = i
	}
	index := binary.AppendUvarint(nil, uint64(len(all)))
	var blocks []byte
	for first := 0; first < len(all); first += blockSize {
		begin := len(blocks)
		blocks = appendBlock(blocks, all[first:min(first+blockSize, len(all))], first, number)
		index = binary.AppendUvarint(appendKey(index, all[first].Key), uint64(len(blocks)-begin))
		index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(blocks[begin:], table))
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
	return binary.LittleEndian.AppendUint32(dst, k.Body)
}

func readKey(c *cursor.Cursor) Key {
	return Key{Name: string(c.Bytes(c.Uleb())), Signature: string(c.Bytes(c.Uleb())), Body: c.U32()}
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
	switch {
	case len(b) < headSize || !Begins(b):
		return nil, fmt.Errorf("%w: it does not begin as one", ErrDamaged)
	case !IsCurrent(b):
		return nil, fmt.Errorf("%w: it is of version %d, and this program reads %d", ErrVersion, b[len(magic)], version)
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
	_, err := f.each(at, func(n uint64, key rawKey, rest cursor.Cursor) bool {
		if found = key.is(k); found {
			e, damage = readFanIn(n, rest)
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

// WithCode returns the entries of methods of which the file has the same code.
func (f *File) WithCode(methods []Key) (found List, err error) {
	for _, k := range methods {
		if k.Body == 0 || k.Body == Mixed {
			continue
		}
		is, known, err := f.Load(k)
		if err != nil {
			return nil, err
		}
		if known {
			found = append(found, Entry{k, is})
		}
	}
	return found, nil
}

// Named returns the entries of the methods of a name, the first of them.
func (f *File) Named(name string, most int) (found List, err error) {
	at := max(0, sort.Search(len(f.blocks), func(i int) bool { return f.blocks[i].first.Name >= name })-1)
	for ; at < len(f.blocks) && f.blocks[at].first.Name <= name && len(found) < most; at++ {
		var damage error
		_, err := f.each(at, func(n uint64, key rawKey, rest cursor.Cursor) bool {
			if string(key.name) != name {
				return true
			}
			e, err := readFanIn(n, rest)
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
				if o == at {
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
