package methoddata

import (
	"slices"
	"testing"
)

// FuzzRecords walks records that may be anything.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{tagCounter, 0, 3, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0}, uint16(8), byte(1), byte(2))
	f.Add(slices.Concat([]byte{tagSwitch, 0, 3, 0, 0, 0, 0, 0, 1}, make([]byte, 15)), uint16(8), byte(0), byte(0))
	f.Add(slices.Concat([]byte{tagVirtualCall, 1, 3, 0, 0, 0, 0, 0}, make([]byte, 56)), uint16(8), byte(1), byte(2))
	f.Fuzz(func(t *testing.T, data []byte, codeSize uint16, extra, width byte) {
		l := layout{extra: int(extra % 2), width: int(width % maxWidth), returns: 2}
		last, size := -1, 0
		err := l.each(data, int(codeSize), func(rec *record) error {
			if rec.index <= last || rec.index >= int(codeSize) {
				t.Fatalf("index %d after %d, in %d bytes", rec.index, last, codeSize)
			}
			last = rec.index
			size += headerSize + len(rec.cells)
			for _, row := range l.rows(rec) {
				if row.class == 0 || row.count < 0 {
					t.Fatalf("row %+v", row)
				}
			}
			return nil
		})
		if err == nil && size != len(data) {
			t.Fatalf("%d of %d bytes were records", size, len(data))
		}
	})
}

// FuzzSwitch reads switches of bytecode that may be anything.
func FuzzSwitch(f *testing.F) {
	f.Add([]byte{0, opTableSwitch, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 7}, 1)
	f.Add([]byte{opLookupSwitch, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5}, 0)
	f.Fuzz(func(t *testing.T, code []byte, index int) {
		for _, target := range switchTargets(code, index) {
			if target < 0 || target >= len(code) {
				t.Fatalf("a case at %d of %d bytes", target, len(code))
			}
		}
	})
}

func TestSwitchTargets(t *testing.T) {
	table := []byte{0, opTableSwitch, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 7}
	if got := switchTargets(table, 1); !slices.Equal(got, []int{6, 8}) {
		t.Errorf("the cases are at %v", got)
	}
	lookup := []byte{opBinarySwitch, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5}
	if got := switchTargets(lookup, 0); !slices.Equal(got, []int{5}) {
		t.Errorf("the cases are at %v", got)
	}
	if got := switchTargets(lookup[:19], 0); got != nil {
		t.Errorf("a cut switch has cases at %v", got)
	}
}
