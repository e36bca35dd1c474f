package rewrite

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// A reader reads a module, or its beginning. After its first error it is at its end and
// every read gives zero, so that loops over declared counts end at once.
type reader struct {
	data []byte // the module up to the end of the part
	at   int    // offset of the next byte in the module
	err  *RefusedError
}

func (r *reader) more() bool { return r.at < len(r.data) }

// fail refuses the module for a defect at offset.
func (r *reader) fail(offset int, format string, args ...any) {
	if r.err == nil {
		r.err = refuse(offset, format, args...)
	}
	r.at = len(r.data)
}

func (r *reader) u8() byte {
	if r.at >= len(r.data) {
		r.fail(r.at, "unexpected end")
		return 0
	}
	b := r.data[r.at]
	r.at++
	return b
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() uint32 {
	if r.at < len(r.data) && r.data[r.at] < 0x80 {
		r.at++
		return uint32(r.data[r.at-1])
	}
	return r.longU32()
}

func (r *reader) longU32() uint32 {
	start := r.at
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.u8()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail(start, "unsigned integer longer than 32 bits")
	return 0
}

// signed reads a signed LEB128 of at most the given bits: 32, 33 or 64.
func (r *reader) signed(bits int) int64 {
	start := r.at
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.u8()
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
	r.fail(start, "signed integer longer than %d bits", bits)
	return 0
}

// count reads the length of a vector whose elements take at least size bytes each. It
// refuses more elements than fit into the rest.
func (r *reader) count(size int) int {
	start := r.at
	n := r.u32()
	if uint64(n)*uint64(size) > uint64(len(r.data)-r.at) {
		r.fail(start, "vector of %d elements exceeds its section", n)
		return 0
	}
	return int(n)
}

func (r *reader) skip(n int) {
	if n > len(r.data)-r.at {
		r.fail(r.at, "unexpected end")
		return
	}
	r.at += n
}

// bytes reads a vector of bytes, a name for example.
func (r *reader) bytes() []byte {
	n := r.count(1)
	start := r.at
	r.skip(n)
	if r.err != nil {
		return nil
	}
	return r.data[start : start+n]
}

// text reads a vector of bytes that are UTF-8.
func (r *reader) text() []byte {
	at := r.at
	b := r.bytes()
	if !utf8.Valid(b) {
		r.fail(at, "no UTF-8")
	}
	return b
}

// index reads an index that must be below limit.
func (r *reader) index(limit int, what string) uint32 {
	start := r.at
	i := r.u32()
	if uint64(i) >= uint64(limit) {
		r.fail(start, "%s %d of %d", what, i, limit)
		return 0
	}
	return i
}

// part reads a length and returns a reader of that many bytes, which it skips.
func (r *reader) part() reader {
	n := r.count(1)
	p := reader{data: r.data[:r.at+n], at: r.at, err: r.err}
	r.skip(n)
	return p
}

// done refuses a part with unread bytes.
func (r *reader) done() *RefusedError {
	if r.err == nil && r.more() {
		r.fail(r.at, "%d bytes too many", len(r.data)-r.at)
	}
	return r.err
}

// appendU32 appends the shortest unsigned LEB128.
func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// appendSigned appends the shortest signed LEB128.
func appendSigned(b []byte, v int64) []byte {
	for v < -0x40 || v >= 0x40 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

// lenU32 is the number of bytes that appendU32 appends.
func lenU32(v uint32) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func appendBytes(b, vector []byte) []byte {
	return append(appendU32(b, uint32(len(vector))), vector...)
}

func appendName(b []byte, name string) []byte {
	return append(appendU32(b, uint32(len(name))), name...)
}

// errors.Is finds ErrRefused in every error of Rewrite.
var ErrRefused = errors.New("wasm module refused")

// RefusedError says why a module cannot be rewritten exactly. The module may be malformed
// (wazero has the better message), or it uses a feature that the rewriter does not know.
type RefusedError struct {
	Offset int // of the defect in the module, in bytes
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("rewrite wasm module: at offset %#x: %s", e.Offset, e.Reason)
}

// Is makes every RefusedError an ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

func refuse(offset int, format string, args ...any) *RefusedError {
	return &RefusedError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}
