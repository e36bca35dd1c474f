// Package format reads the binary format of WebAssembly modules: numbers, vectors,
// sections, and the parts of them that both the rewriting and the symbols need.
//
// Bytes may come from anywhere. A reader refuses cut and malformed parts, and parts that
// wazero or the rewriting does not know: typed references, 64-bit memories, tags.
package format

import (
	"fmt"
	"unicode/utf8"
)

// A Reader reads a module, or its beginning. After its first error it is at its end and
// every read gives zero, so that loops over declared counts end at once.
type Reader struct {
	Data []byte // the module up to the end of the part
	At   int    // offset of the next byte in the module
	Err  *Error
}

// More reports whether there are unread bytes.
func (r *Reader) More() bool { return r.At < len(r.Data) }

// Fail refuses the module for a defect at offset.
func (r *Reader) Fail(offset int, format string, args ...any) {
	if r.Err == nil {
		r.Err = Errorf(offset, format, args...)
	}
	r.At = len(r.Data)
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if r.At >= len(r.Data) {
		r.Fail(r.At, "unexpected end")
		return 0
	}
	b := r.Data[r.At]
	r.At++
	return b
}

// U32 reads an unsigned LEB128 of at most 32 bits.
func (r *Reader) U32() uint32 {
	if r.At < len(r.Data) && r.Data[r.At] < 0x80 {
		r.At++
		return uint32(r.Data[r.At-1])
	}
	return r.longU32()
}

func (r *Reader) longU32() uint32 {
	start := r.At
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.Byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.Fail(start, "unsigned integer longer than 32 bits")
	return 0
}

// Signed reads a signed LEB128 of at most the given bits: 32, 33 or 64.
func (r *Reader) Signed(bits int) int64 {
	start := r.At
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.Byte()
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			left := bits - shift // significant bits of this last byte
			rest := int8(b<<1) >> 1
			if left < 7 && rest>>(left-1) != 0 && rest>>(left-1) != -1 {
				break
			}
			if shift+7 < 64 {
				v = v << (64 - shift - 7) >> (64 - shift - 7)
			}
			return v
		}
	}
	r.Fail(start, "signed integer longer than %d bits", bits)
	return 0
}

// Count reads the length of a vector whose elements take at least size bytes each. It
// refuses more elements than fit into the rest.
func (r *Reader) Count(size int) int {
	start := r.At
	n := r.U32()
	if uint64(n)*uint64(size) > uint64(len(r.Data)-r.At) {
		r.Fail(start, "vector of %d elements exceeds its section", n)
		return 0
	}
	return int(n)
}

// Skip skips n bytes.
func (r *Reader) Skip(n int) {
	if n > len(r.Data)-r.At {
		r.Fail(r.At, "unexpected end")
		return
	}
	r.At += n
}

// Vector reads a vector of bytes, a name for example.
func (r *Reader) Vector() []byte {
	n := r.Count(1)
	start := r.At
	r.Skip(n)
	if r.Err != nil {
		return nil
	}
	return r.Data[start : start+n]
}

// Text reads a vector of bytes that are UTF-8.
func (r *Reader) Text() []byte {
	at := r.At
	b := r.Vector()
	if !utf8.Valid(b) {
		r.Fail(at, "no UTF-8")
	}
	return b
}

// Index reads an index that must be below limit.
func (r *Reader) Index(limit int, what string) uint32 {
	start := r.At
	i := r.U32()
	if uint64(i) >= uint64(limit) {
		r.Fail(start, "%s %d of %d", what, i, limit)
		return 0
	}
	return i
}

// Part reads a length and returns a reader of that many bytes, which it skips.
func (r *Reader) Part() Reader {
	n := r.Count(1)
	p := Reader{Data: r.Data[:r.At+n], At: r.At, Err: r.Err}
	r.Skip(n)
	return p
}

// Done refuses a part with unread bytes.
func (r *Reader) Done() *Error {
	if r.Err == nil && r.More() {
		r.Fail(r.At, "%d bytes too many", len(r.Data)-r.At)
	}
	return r.Err
}

// Error says where a module is malformed, or uses a feature that is not known.
type Error struct {
	Offset int // of the defect in the module, in bytes
	Reason string
}

// Errorf returns an error of a defect at offset.
func Errorf(offset int, format string, args ...any) *Error {
	return &Error{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return fmt.Sprintf("at offset %#x: %s", e.Offset, e.Reason) }
