package main

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// entry is an entry of wazero's cache, with functions at 0 and 3 of five bytes of code.
func entry() []byte {
	b := append([]byte("WAZEVO"), 3, '1', '.', '2')
	b = binary.LittleEndian.AppendUint32(b, 2)
	for _, offset := range []uint64{0, 3, 5} { // the last is the code's length
		b = binary.LittleEndian.AppendUint64(b, offset)
	}
	return append(b, "\x01\x02\x03\x04\x05rest"...)
}

func TestFunctionsOfAddresses(t *testing.T) {
	t.Parallel()
	var m machineCode
	if err := m.read(entry()); err != nil {
		t.Fatal(err)
	}
	m.base = 100
	for address, want := range map[uint64]int{99: -1, 100: 0, 102: 0, 103: 1, 104: 1, 105: -1} {
		if got := m.function(address); got != want {
			t.Errorf("address %d: function %d, want %d", address, got, want)
		}
	}
}

func TestCutCacheEntriesAreRefused(t *testing.T) {
	t.Parallel()
	whole := entry()
	for n := range len(whole) - len("rest") {
		if err := new(machineCode).read(whole[:n]); err == nil {
			t.Errorf("%d bytes are no error", n)
		}
	}
}

// A function's instructions weigh the same in all contexts, and together its time.
func TestWeighed(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	f, g := m.Names().Intern(ccmap.Method{Name: "f"}), m.Names().Intern(ccmap.Method{Name: "g"})
	inF := m.Child(m.Root(), ccmap.NoOffset, f)
	m.Add(inF, ccmap.Counters{Time: 10, Activations: 1})
	m.Add(m.Child(inF, 1, g), ccmap.Counters{Time: 30, Activations: 3})
	m.Add(m.Child(inF, 2, g), ccmap.Counters{Time: 10, Activations: 1})
	timed := weighed(m.Snapshot(), map[ccmap.Method]time.Duration{{Name: "f"}: 80, {Name: "g"}: 20})
	want := []ccmap.Counters{{}, {Time: 80_000, Activations: 1}, {Time: 15_000, Activations: 3}, {Time: 5_000, Activations: 1}}
	for n := range timed.Nodes() {
		if n.Self != want[n.ID] {
			t.Errorf("node %d has %+v, want %+v", n.ID, n.Self, want[n.ID])
		}
	}
}
