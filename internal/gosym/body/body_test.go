package body

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// layout is what lies at addresses.
type layout map[uint64]string

func (l layout) Name(addr uint64) (string, uint64) {
	if name, ok := l[addr]; ok {
		return name, 0
	}
	return l[addr-8], 8 // within a function
}

// function links a function at an address: it jumps over a byte that is no instruction, calls one
// function, loads a variable, calls by a register, jumps to another function, and calls what is nothing.
func function(at, callee, data, next uint64) Code {
	c := Code{Entry: at}
	put := func(op []byte, target uint64) {
		c.Bytes = append(c.Bytes, op...)
		end := at + uint64(len(c.Bytes)) + 4
		c.Bytes = binary.LittleEndian.AppendUint32(c.Bytes, uint32(target-end))
	}
	c.Bytes = append(c.Bytes, 0xeb, 1, 0x06)                // JMP +1; 0x06 is no instruction of 64 bits
	put([]byte{0xe8}, callee)                               // CALL callee
	put([]byte{0x48, 0x8b, 0x05}, data)                     // MOVQ data(PC), AX
	c.Bytes = append(c.Bytes, 0xff, 0xd1)                   // CALL CX
	put([]byte{0xe9}, next)                                 // JMP next
	c.Bytes = append(c.Bytes, 0xe8, 0xd2, 0xff, 0xff, 0xff) // CALL; bytes that are no UTF-8 at the end
	c.Bytes = append(c.Bytes, 0xcc, 0xcc, 0xcc, 0xcc)       // padding
	return c
}

// TestHash: a function keeps its hash wherever it and all else lies, and changes it where it
// calls something else or does something else.
func TestHash(t *testing.T) {
	t.Parallel()
	names := layout{0x5000: "f", 0x6000: "g", 0x7000: "data", 0x8000: "bss"}
	want := function(0x1000, 0x5000, 0x7000, 0x6000).Hash(names)
	moved := layout{0x25000: "f", 0x16000: "g", 0x97000: "data"}
	if got := function(0x3330, 0x25000, 0x97000, 0x16000).Hash(moved); got != want {
		t.Errorf("moved: %#x, want %#x", got, want)
	}
	padded := function(0x1000, 0x5000, 0x7000, 0x6000)
	padded.Bytes = append(padded.Bytes, padding)
	if got := padded.Hash(names); got != want {
		t.Errorf("with other padding: %#x, want %#x", got, want)
	}
	for name, other := range map[string]Code{
		"another callee":       function(0x1000, 0x6000, 0x7000, 0x6000),
		"another tail call":    function(0x1000, 0x5000, 0x7000, 0x5000),
		"another kind of data": function(0x1000, 0x5000, 0x8000, 0x6000),
		"within the callee":    function(0x1000, 0x5008, 0x7000, 0x6000),
		"nothing known":        function(0x1000, 0x9000, 0x7000, 0x6000),
	} {
		if got := other.Hash(names); got == want {
			t.Errorf("%s has the same hash", name)
		}
	}
	for i := range function(0, 0, 0, 0).code() {
		changed := function(0x1000, 0x5000, 0x7000, 0x6000)
		if changed.Bytes[i]++; changed.Hash(names) == want {
			t.Errorf("byte %d does not count", i)
		}
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	got := slices.Collect(function(0x1000, 0x5000, 0x7000, 0x6000).Calls())
	want := []Call{{At: 0x1003, Target: 0x5000}, {At: 0x100f}, {At: 0x1016, Target: 0xfed}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// everything has a name.
type everything struct{}

func (everything) Name(addr uint64) (string, uint64) { return "x", addr & 0xff }

// FuzzCode takes any bytes for code. Operands and calls lie in it, in order; a copy elsewhere that
// refers to nothing outside has the same hash.
func FuzzCode(f *testing.F) {
	f.Add(uint64(0x1000), function(0x1000, 0x5000, 0x7000, 0x6000).Bytes)
	f.Add(uint64(1<<64-2), []byte{0xe8, 1, 0, 0, 0, 0xeb, 0x80})
	f.Add(uint64(0), []byte{0x66, 0xe9, 0, 0, 0xc4, 0xe2})
	f.Fuzz(func(t *testing.T, entry uint64, bytes []byte) {
		c := Code{entry, bytes}
		if h := c.Hash(everything{}); h == 0 || h == 1<<64-1 || h != c.Hash(everything{}) {
			t.Fatalf("hash %#x", h)
		}
		end, within := 0, true
		for o := range operands(c.code(), entry) {
			if o.at < end || o.size < 1 || o.at+o.size > len(c.code()) {
				t.Fatalf("operand %+v of %d bytes, after %d", o, len(c.code()), end)
			}
			end = o.at + o.size
			within = within && o.target-entry < uint64(len(c.code()))
		}
		if within && c.Hash(everything{}) != (Code{entry + 4096, bytes}).Hash(everything{}) {
			t.Fatal("a copy has another hash")
		}
		for call := range c.Calls() {
			if call.At-entry >= uint64(len(c.code())) {
				t.Fatalf("call at %#x of %d bytes at %#x", call.At, len(c.code()), entry)
			}
		}
	})
}

func BenchmarkHash(b *testing.B) {
	c := Code{Entry: 0x1000}
	for range 100 {
		c.Bytes = append(c.Bytes, function(0x1000, 0x5000, 0x7000, 0x6000).code()...)
	}
	b.SetBytes(int64(len(c.Bytes)))
	for b.Loop() {
		c.Hash(everything{})
	}
}
