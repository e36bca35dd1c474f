package fanin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// appendBlock appends some methods, of which the first has a number in the file, as a block:
//
//	size, bodies    8 bytes a method, or none at all: they are hashes, which nothing compresses
//	under zstd      size of the lengths, size of the texts; lengths, texts, fan-in
//
// A key is its name and its signature as one text, of which a block has what the key before has not: how much that is
// alike, the length of the rest, the length of the signature. The index has the first key, so a block has nothing of it.
func appendBlock(dst []byte, methods List, first int, number map[Key]int) []byte {
	var bodies, lengths, texts, fans []byte
	before, known := methods[0].Name+methods[0].Signature, uint64(0)
	for i, e := range methods {
		text := e.Name + e.Signature
		common := common(before, text)
		lengths = appendAll(lengths, uint64(common), uint64(len(text)-common), uint64(len(e.Signature)))
		texts = append(texts, text[common:]...)
		fans = appendFanIn(fans, e.FanIn, first+i, number)
		bodies = binary.LittleEndian.AppendUint64(bodies, e.Body)
		before, known = text, known|e.Body
	}
	if known == 0 {
		bodies = nil
	}
	dst = append(appendAll(dst, uint64(len(bodies))), bodies...)
	plain := append(appendAll(nil, uint64(len(lengths)), uint64(len(texts))), lengths...)
	return packer.EncodeAll(append(append(plain, texts...), fans...), dst)
}

func appendAll(dst []byte, values ...uint64) []byte {
	for _, v := range values {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// common returns how many bytes two texts have in common at their beginning.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// appendFanIn appends the fan-in of the method of a number: samples of others, callers that are not listed, callers;
// of each caller how far from the method it is in the file, its offset and its samples.
func appendFanIn(dst []byte, f FanIn, is int, number map[Key]int) []byte {
	var listed []byte
	other, n := f.Other, uint64(0)
	for _, c := range f.Listed {
		at, known := number[c.Key]
		if !known {
			other += c.Samples
			continue
		}
		n++
		listed = binary.AppendVarint(listed, int64(at-is))
		listed = appendAll(listed, uint64(c.Offset), c.Samples)
	}
	more := max(uint64(f.Callers), n) - n
	return append(appendAll(dst, other, more, n), listed...)
}

// scratch is the memory of a block that is read.
type scratch struct{ plain, text []byte }

// each calls visit with each method of a block: its number in the file, its key, which the visitor does not keep, and
// bytes that begin with its fan-in. It ends when visit returns false, and returns how many bytes it has read, decompressed.
func (f *File) each(at int, visit func(n uint64, key rawKey, rest cursor.Cursor) bool) (size int, err error) {
	b := f.blocks[at]
	if crc32.Checksum(b.packed, table) != b.sum {
		return 0, fmt.Errorf("%w: block %d", ErrDamaged, at)
	}
	s := plains.Get().(*scratch)
	defer plains.Put(s)
	if size, err = s.read(b, uint64(at)*blockSize, visit); err != nil {
		return 0, fmt.Errorf("%w: block %d: %w", ErrDamaged, at, err)
	}
	return size, nil
}

// read visits the methods of a block, of which the first has a number.
func (s *scratch) read(b block, number uint64, visit func(n uint64, key rawKey, rest cursor.Cursor) bool) (size int, err error) {
	packed := cursor.Cursor{Data: b.packed}
	bodies := cursor.Cursor{Data: packed.Bytes(packed.Uleb())}
	if packed.Err != nil {
		return 0, packed.Err
	}
	hasBodies := !bodies.Empty()
	if s.plain, err = unpacker.DecodeAll(packed.Data, s.plain[:0]); err != nil {
		return 0, err
	}
	fans := cursor.Cursor{Data: s.plain}
	lengthsSize, textsSize := fans.Uleb(), fans.Uleb()
	lengths, texts := cursor.Cursor{Data: fans.Bytes(lengthsSize)}, cursor.Cursor{Data: fans.Bytes(textsSize)}
	s.text = append(append(s.text[:0], b.first.Name...), b.first.Signature...)
	size = len(s.plain)
	for n := uint64(0); n < blockSize && !lengths.Empty(); n++ {
		key := s.next(&lengths, &texts)
		if hasBodies {
			key.body = bodies.U64()
		}
		if size += len(s.text); size > mostBlock {
			return 0, errors.New("its keys are too long")
		}
		if err := errors.Join(lengths.Err, texts.Err, bodies.Err, fans.Err); err != nil {
			return 0, err
		}
		if !visit(number+n, key, fans) {
			return size, nil
		}
		skipFanIn(&fans)
	}
	return size, errors.Join(lengths.Err, fans.Err)
}

// next reads the key after the one that text has.
func (s *scratch) next(lengths, texts *cursor.Cursor) rawKey {
	alike, rest, signature := lengths.Uleb(), lengths.Uleb(), lengths.Uleb()
	if alike > uint64(len(s.text)) {
		lengths.Fail(errors.New("a key begins like more than the one before"))
		return rawKey{}
	}
	s.text = append(s.text[:alike], texts.Bytes(rest)...)
	if signature > uint64(len(s.text)) {
		lengths.Fail(errors.New("a signature is longer than its key"))
		return rawKey{}
	}
	name := len(s.text) - int(signature)
	return rawKey{name: s.text[:name], signature: s.text[name:]}
}

// rawKey is a key in a block that is read.
type rawKey struct {
	name, signature []byte
	body            uint64
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

// readFanIn reads the fan-in of the method of a number. A caller's number may be too large.
func readFanIn(is uint64, c cursor.Cursor) (e raw, err error) {
	e.Other = c.Uleb()
	more, listed := c.Uleb(), c.Uleb()
	if listed > MostCallers {
		c.Fail(errors.New("too many callers"))
		listed = 0
	}
	e.Samples, e.Callers = e.Other, uint32(min(more, MostCallers+1)+listed)
	e.Callers = min(e.Callers, MostCallers+1)
	if listed > 0 {
		e.Listed, e.numbers = make([]Caller, 0, listed), make([]uint64, 0, listed)
	}
	for range listed {
		e.numbers = append(e.numbers, is+uint64(zigzag(c.Uleb())))
		caller := Caller{Offset: uint32(c.Uleb()), Samples: c.Uleb()}
		if caller.Samples > math.MaxUint64-e.Samples {
			c.Fail(errors.New("the samples are too many"))
		}
		e.Samples += caller.Samples
		e.Listed = append(e.Listed, caller)
	}
	if c.Err != nil {
		return e, fmt.Errorf("%w: fan-in of a method: %w", ErrDamaged, c.Err)
	}
	return e, nil
}

// zigzag returns the signed number that [binary.AppendVarint] has written as another one.
func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func skipFanIn(c *cursor.Cursor) {
	for range 2 {
		c.Uleb()
	}
	for range 3 * min(c.Uleb(), MostCallers) {
		c.Uleb()
	}
}
