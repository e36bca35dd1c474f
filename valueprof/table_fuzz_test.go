package valueprof

import (
	"encoding/binary"
	"math"
	"testing"
)

// FuzzTable reads a capacity and a hash, then records of an operation and a value.
// Whatever they are, the table stays whole and within its memory, and no count
// is lost. An operation ends after a bounded search: one that did not would hang
// the fuzzer.
func FuzzTable(f *testing.F) {
	for _, h := range Hashes() {
		f.Add(uint8(8), uint8(h), encodeValues(uniform(9).stream[:64]))
		f.Add(uint8(15), uint8(h), encodeValues([]uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, 1 << 63, 0}))
		f.Add(uint8(63), uint8(h), encodeValues(oneBitApart(64)))
	}
	f.Fuzz(func(t *testing.T, capacity, hash uint8, records []byte) {
		h := Hash(hash % uint8(len(hashNames)))
		tab := New(int(capacity), h)
		most := tab.Bytes()
		if tab.Hash() != HashMultiply {
			most += 1<<maxBits + int(bitListBytes)
		}
		var total uint64
		for ; len(records) >= recordBytes; records = records[recordBytes:] {
			total += apply(tab, records[0], binary.LittleEndian.Uint64(records[1:]))
			if d := broken(tab); d != "" {
				t.Fatal(d)
			}
			if tab.Total() != total || len(tab.AppendValues(nil)) > tab.Cap() || tab.Bytes() > most {
				t.Fatalf("total %d of %d, %d bytes", tab.Total(), total, tab.Bytes())
			}
		}
	})
}

const recordBytes = 9

// apply does one operation of FuzzTable, and returns how many counts it adds.
func apply(t *Table, op byte, v uint64) uint64 {
	switch op % 8 {
	case 0:
		t.Decay(nil)
	case 1:
		t.Reset(nil)
	case 2:
		t.AddN(v, uint64(op>>3))
		return uint64(op >> 3)
	default:
		t.Add(v)
		return 1
	}
	return 0
}

// encodeValues returns records that add values, with a decay in between.
func encodeValues(values []uint64) []byte {
	var records []byte
	for i, v := range values {
		op := byte(3)
		if i%16 == 15 {
			op = 0
		}
		records = binary.LittleEndian.AppendUint64(append(records, op), v)
	}
	return records
}
