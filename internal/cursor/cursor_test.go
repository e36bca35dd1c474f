package cursor

import (
	"encoding/binary"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	c := &Cursor{Data: []byte{1, 2, 3, 4, 5, 6, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0, 0, 0, 0x80, 'c', 0}}
	if a, b, d, e, f := c.Byte(), c.U16(), c.U24(), c.U32(), c.U64(); a != 1 || b != 0x302 || d != 0x60504 || e != math.MaxUint32 || f != 1<<63+7 {
		t.Errorf("numbers %#x %#x %#x %#x %#x", a, b, d, e, f)
	}
	if s := c.Text(); string(s) != "c" || !c.Empty() || c.Err != nil {
		t.Errorf("text %q, rest %q, error %v", s, c.Data, c.Err)
	}
}

// LEB128 numbers are read as encoding/binary writes them.
func TestLEB(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "unsigned")
		c := &Cursor{Data: binary.AppendUvarint(nil, v)}
		if got := c.Uleb(); got != v || !c.Empty() || c.Err != nil {
			t.Errorf("unsigned %d, want %d; rest %x, error %v", got, v, c.Data, c.Err)
		}
		s := rapid.Int64().Draw(t, "signed")
		c = &Cursor{Data: appendSigned(nil, s)}
		if got := c.Sleb(); got != s || !c.Empty() || c.Err != nil {
			t.Errorf("signed %d, want %d; rest %x, error %v", got, s, c.Data, c.Err)
		}
	})
}

func appendSigned(b []byte, v int64) []byte {
	for v < -0x40 || v >= 0x40 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

// Truncated and too large input gives zeros, an error and an empty cursor.
func TestDefects(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*Cursor) uint64{
		"byte": func(c *Cursor) uint64 { c.Data = nil; return uint64(c.Byte()) },
		"u16":  func(c *Cursor) uint64 { c.Data = c.Data[:1]; return uint64(c.U16()) },
		"u32":  func(c *Cursor) uint64 { return uint64(c.U32()) },
		"u64":  (*Cursor).U64,
		"uleb": (*Cursor).Uleb,
		"sleb": func(c *Cursor) uint64 { return uint64(c.Sleb()) },
		"text": func(c *Cursor) uint64 { return uint64(len(c.Text())) },
	} {
		c := &Cursor{Data: []byte{0xff, 0xff, 0xff}}
		if v := read(c); v != 0 || c.Err == nil || !c.Empty() || c.Byte() != 0 {
			t.Errorf("%s: %d, rest %x, error %v", name, v, c.Data, c.Err)
		}
	}
}
