package methoddata

import (
	"encoding/binary"
	"slices"
	"testing"
)

// madeRecords are records of all kinds, for two rows of types.
func madeRecords(l *layout) (data []byte, records int) {
	types := 1 + l.extra + 2*l.width
	all := []struct {
		tag           byte
		cells, length int // where its length is; 0: it has none, or one in its first cell
	}{
		{tagBit, 0, 0}, {tagCounter, 1, 0}, {tagJump, 2, 0}, {tagType, types, 0}, {tagVirtual, types, 0}, {tagReturn, 1 + 3*l.returns, 0},
		{tagBranch, 3, 0}, {tagSwitch, 1 + 4, 0}, {tagCall, 2 + 4, 1}, {tagVirtualCall, types + 1 + 4, types},
	}
	for i, kind := range all {
		rec := make([]byte, headerSize+cellSize*kind.cells)
		rec[0] = kind.tag
		binary.LittleEndian.PutUint16(rec[2:], uint16(3*i))
		for cell := range kind.cells {
			value := 0x7f0000001000 + uint64(cell)
			if kind.length > 0 && cell == kind.length || kind.tag == tagSwitch && cell == 0 {
				value = 4
			}
			binary.LittleEndian.PutUint64(rec[headerSize+cellSize*cell:], value)
		}
		data = append(data, rec...)
	}
	return data, len(all)
}

// TestTorn cuts records after every word, and tears them there: the rest is what was there
// before, or nothing. What is cut is an error, and what is torn has whole records.
func TestTorn(t *testing.T) {
	t.Parallel()
	l := layout{extra: 1, width: 2, returns: 2}
	data, records := madeRecords(&l)
	count := func(data []byte) (n int, ends map[int]bool, err error) {
		ends = map[int]bool{0: true} // between records
		at := 0
		err = l.each(data, 1<<16-1, func(r *record) error {
			at += headerSize + len(r.cells)
			ends[at] = true
			l.rows(r)
			n++
			return nil
		})
		return n, ends, err
	}
	n, ends, err := count(data)
	if n != records || err != nil {
		t.Fatalf("%d of %d records, %v", n, records, err)
	}
	for at := 0; at < len(data); at += cellSize {
		if _, _, err := count(data[:at]); (err == nil) != ends[at] {
			t.Errorf("cut at %d: %v", at, err)
		}
		for _, rest := range []byte{0, 0xff} {
			torn := slices.Concat(data[:at], slices.Repeat([]byte{rest}, len(data)-at))
			if n, _, err := count(torn); n > records || err == nil && ends[at] {
				t.Errorf("torn at %d: %d records, %v", at, n, err)
			}
			older := slices.Concat(slices.Repeat([]byte{rest}, at), data[at:])
			if n, _, err := count(older); at > 0 && (n > 0 || err == nil) {
				t.Errorf("torn before %d: %d records, %v", at, n, err)
			}
		}
	}
}

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
