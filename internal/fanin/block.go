package fanin

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// appendBlock appends some methods, of which the first has a number in the file, as a block:
//
//	size, bodies    4 bytes a method, or none at all: they are hashes, which nothing compresses
//	under zstd      size of the lengths, size of the texts; lengths, texts, fan-in
//
// A key is its name and its signature as one text, of which a block has what the key before has not: how much that is
// alike, twice the length of the rest, plus 1 if there is a signature, and its length. The index has the first key, so a
// block has nothing of it.
func appendBlock(dst []byte, methods List, first int, number map[Key]int) []byte {
	var bodies, lengths, texts, fans []byte
	before, known := methods[0].Name+methods[0].Signature, uint32(0)
	for i, e := range methods {
		text := e.Name + e.Signature
		common := common(before, text)
		lengths = appendAll(lengths, uint64(common))
		lengths = appendFlagged(lengths, uint64(len(text)-common), uint64(len(e.Signature)))
		texts = append(texts, text[common:]...)
		fans = appendFanIn(fans, e.FanIn, first+i, number)
		bodies = binary.LittleEndian.AppendUint32(bodies, e.Body)
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

// appendFlagged appends twice a number, plus 1 if others follow: not all of them are 0.
func appendFlagged(dst []byte, n uint64, others ...uint64) []byte {
	for _, v := range others {
		if v != 0 {
			return appendAll(appendAll(dst, n<<1|1), others...)
		}
	}
	return appendAll(dst, n<<1)
}

// common returns how many bytes two texts have in common at their beginning.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// appendFanIn appends the fan-in of the method of a number: how many callers are listed, the samples of others and how
// many these are. Then it appends each caller by its number in the file: how far it is from the one before, the first
// from the method, its offset, and its samples, with the last bit changed, unless there is one.
func appendFanIn(dst []byte, f FanIn, is int, number map[Key]int) []byte {
	listed, other := make([]numbered, 0, MostCallers), f.Other
	for _, c := range f.Listed {
		if at, known := number[c.Key]; known {
			listed = append(listed, numbered{uint64(at), c})
		} else {
			other += c.Samples
		}
	}
	slices.SortStableFunc(listed, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.Offset, b.Offset))
	})
	n := uint64(len(listed))
	dst = appendFlagged(dst, n, other, max(uint64(f.Callers), n)-n)
	for i, c := range listed {
		if i == 0 {
			dst = binary.AppendVarint(dst, int64(c.number)-int64(is))
		} else {
			dst = appendAll(dst, c.number-listed[i-1].number)
		}
		dst = appendFlagged(dst, uint64(c.Offset), c.Samples^1)
	}
	return dst
}

// numbered is a caller with its number in the file.
type numbered struct {
	number uint64
	Caller
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
			key.body = bodies.U32()
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
	alike := lengths.Uleb()
	rest, hasSignature := flagged(lengths)
	signature := uint64(0)
	if hasSignature {
		signature = lengths.Uleb()
	}
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
	body            uint32
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

// flagged reads what appendFlagged has appended, but for the others.
func flagged(c *cursor.Cursor) (n uint64, others bool) {
	v := c.Uleb()
	return v >> 1, v&1 != 0
}

// readFanIn reads the fan-in of the method of a number. A caller's number may be too large.
func readFanIn(is uint64, c cursor.Cursor) (e raw, err error) {
	listed, others := flagged(&c)
	if listed > MostCallers {
		c.Fail(errors.New("too many callers"))
		listed = 0
	}
	e.Callers = uint32(listed)
	if others {
		e.Other = c.Uleb()
		e.Callers = min(e.Callers+uint32(min(c.Uleb(), MostCallers+1)), MostCallers+1)
	}
	e.Samples = e.Other
	var callers [MostCallers]numbered
	for i := range callers[:listed] {
		if i == 0 {
			is += uint64(zigzag(c.Uleb()))
		} else {
			is += c.Uleb()
		}
		callers[i] = readCaller(&c, is)
		if callers[i].Samples > math.MaxUint64-e.Samples {
			c.Fail(errors.New("the samples are too many"))
		}
		e.Samples += callers[i].Samples
	}
	if c.Err != nil {
		return e, fmt.Errorf("%w: fan-in of a method: %w", ErrDamaged, c.Err)
	}
	e.list(callers[:listed])
	return e, nil
}

// readCaller reads a caller of a number.
func readCaller(c *cursor.Cursor, number uint64) numbered {
	offset, several := flagged(c)
	caller := Caller{Offset: uint32(offset), Samples: 1}
	if several {
		caller.Samples = c.Uleb() ^ 1
	}
	return numbered{number, caller}
}

// list lists callers as [Of] does, the most frequent first: methods have numbers in the order of their keys.
func (e *raw) list(callers []numbered) {
	if len(callers) == 0 {
		return
	}
	slices.SortStableFunc(callers, func(a, b numbered) int { return cmp.Compare(b.Samples, a.Samples) })
	e.Listed, e.numbers = make([]Caller, len(callers)), make([]uint64, len(callers))
	for i, c := range callers {
		e.Listed[i], e.numbers[i] = c.Caller, c.number
	}
}

// zigzag returns the signed number that [binary.AppendVarint] has written as another one.
func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func skipFanIn(c *cursor.Cursor) {
	n, others := flagged(c)
	if others {
		c.Uleb()
		c.Uleb()
	}
	for range min(n, MostCallers) {
		c.Uleb()
		if _, several := flagged(c); several {
			c.Uleb()
		}
	}
}
