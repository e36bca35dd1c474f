// Package contribution is what a daemon sends to the hub of its fleet: a part of a profile, with the key that makes it
// count once. The same bytes are a request and, one after another, a segment of the hub's log:
//
//	magic "ccF1"                4 bytes
//	version                     1 byte
//	length of the key           3 bytes, little-endian
//	length of the body          4 bytes, little-endian
//	CRC-32C of the key, body    4 bytes, little-endian
//	key                         JSON of Key
//	body                        a profile, as JSON under zstd
//
// A reader leaves frames of a later version alone. A damaged frame is one frame lost: [Scan] goes on at the next magic.
package contribution

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"strings"
	"time"
)

// Version is the version of frames that this package writes.
const Version = 1

// Bounds of a frame, in bytes.
const (
	MostKey  = 4 << 10
	MostBody = 16 << 20
	mostText = 256 // of a name in a key

	headSize = 16
	magic    = "ccF1"
)

// Errors that callers tell apart, wrapped in those returned.
var (
	ErrDamaged = errors.New("damaged contribution")
	ErrNewer   = errors.New("a contribution of a later version")
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Key names a contribution. The hub counts each (target, build, unit, instance, epoch, seq) once.
type Key struct {
	Target   string `json:"target"`
	Build    string `json:"build"`
	Kind     string `json:"kind"` // of the weights, for example "cpu"
	Base     string `json:"base"` // for example "nanoseconds"
	Instance string `json:"instance"`
	Epoch    uint64 `json:"epoch"` // rises with each start of the instance
	Seq      uint64 `json:"seq"`   // of the epoch, from 1, for each target, build and unit

	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	CPUs int       `json:"cpus"` // that the target may use at once
}

// instanceSize is the size of an instance, 128 random bits.
const instanceSize = 16

// Check returns an error for a key that the hub does not take.
func (k Key) Check() error {
	for _, text := range []struct{ name, is string }{
		{"target", k.Target}, {"build", k.Build}, {"kind", k.Kind}, {"base", k.Base},
	} {
		if text.is == "" || len(text.is) > mostText || strings.ContainsFunc(text.is, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("its %s %.40q is empty, too long or not printable", text.name, text.is)
		}
	}
	if id, err := hex.DecodeString(k.Instance); err != nil || len(id) != instanceSize || strings.ToLower(k.Instance) != k.Instance {
		return fmt.Errorf("its instance %.40q is not of %d small hex digits", k.Instance, 2*instanceSize)
	}
	if k.Epoch == 0 || k.Seq == 0 {
		return errors.New("its epoch or number is 0")
	}
	if !k.From.Before(k.To) || k.CPUs < 1 {
		return errors.New("its time or its number of CPUs is not positive")
	}
	return nil
}

// Append appends the frame of a contribution.
func Append(dst []byte, k Key, body []byte) ([]byte, error) {
	key, err := json.Marshal(k)
	if err != nil {
		return dst, fmt.Errorf("encode contribution: %w", err)
	}
	if len(key) > MostKey || len(body) > MostBody {
		return dst, fmt.Errorf("encode contribution: %d and %d bytes are too many", len(key), len(body))
	}
	var head [headSize]byte
	copy(head[:], magic)
	binary.LittleEndian.PutUint32(head[4:], Version|uint32(len(key))<<8)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(body)))
	sum := crc32.Update(crc32.Checksum(key, table), table, body)
	binary.LittleEndian.PutUint32(head[12:], sum)
	return append(append(append(dst, head[:]...), key...), body...), nil
}

// Frame is a contribution. Body and Bytes are parts of the bytes that were read.
type Frame struct {
	Key   Key
	Body  []byte
	Bytes []byte // all of it
}

// One reads bytes that are one frame. The error wraps [ErrDamaged] or [ErrNewer].
func One(b []byte) (Frame, error) {
	f, err := first(b)
	if err == nil && len(f.Bytes) != len(b) {
		err = fmt.Errorf("%w: %d bytes follow it", ErrDamaged, len(b)-len(f.Bytes))
	}
	return f, err
}

// Scan reads all frames. Each error is of one frame, or of bytes between two: Bytes of its Frame has them.
func Scan(b []byte) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		for len(b) > 0 {
			f, err := first(b)
			if err != nil && !errors.Is(err, ErrNewer) {
				f.Bytes = b[:untilMagic(b)]
			}
			b = b[len(f.Bytes):]
			if !yield(f, err) {
				return
			}
		}
	}
}

// untilMagic returns where the next frame may begin, not at the first byte.
func untilMagic(b []byte) int {
	if next := bytes.Index(b[1:], []byte(magic)); next >= 0 {
		return next + 1
	}
	return len(b)
}

// first reads the frame that b begins with.
func first(b []byte) (f Frame, err error) {
	if len(b) < headSize || string(b[:4]) != magic {
		return f, fmt.Errorf("%w: it does not begin as one", ErrDamaged)
	}
	word := binary.LittleEndian.Uint32(b[4:])
	key, body := int(word>>8), int(binary.LittleEndian.Uint32(b[8:]))
	if key > MostKey || body > MostBody || headSize+key+body > len(b) {
		return f, fmt.Errorf("%w: %d and %d bytes do not fit", ErrDamaged, key, body)
	}
	f.Bytes = b[: headSize+key+body : headSize+key+body]
	if crc32.Checksum(f.Bytes[headSize:], table) != binary.LittleEndian.Uint32(b[12:]) {
		return f, fmt.Errorf("%w: its checksum differs", ErrDamaged)
	}
	if version := word & 0xff; version != Version {
		return f, fmt.Errorf("%w: %d, and this one knows %d", ErrNewer, version, Version)
	}
	f.Body = f.Bytes[headSize+key:]
	if err := json.Unmarshal(f.Bytes[headSize:headSize+key], &f.Key); err != nil {
		return f, fmt.Errorf("%w: key: %w", ErrDamaged, err)
	}
	if err := f.Key.Check(); err != nil {
		return f, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return f, nil
}
