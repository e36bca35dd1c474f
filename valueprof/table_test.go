package valueprof

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// A drawn is a stream of values, and the distinct values in it.
type drawn struct{ values, stream []uint64 }

// uniform returns 4,096 draws of n heap pointers, the first n all different.
func uniform(n int) drawn {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	d := drawn{values: pointers(r, n), stream: make([]uint64, 4096)}
	for i := range d.stream {
		d.stream[i] = d.values[r.IntN(n)]
	}
	copy(d.stream, d.values)
	return d
}

// pointers returns n different heap pointers of Go on Linux.
func pointers(r *rand.Rand, n int) []uint64 {
	var values []uint64
	for len(values) < n {
		if v := 0xc000000000 + r.Uint64N(1<<24)*16; !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

// A model does what a table does, in the plainest way.
type model struct {
	capacity    int
	values      []Value // in order of arrival, or as Decay sorts them
	other, aged int64
}

func (m *model) add(v uint64, n int64) {
	if n == 0 {
		return
	}
	i := slices.IndexFunc(m.values, func(held Value) bool { return held.Value == v })
	switch {
	case i >= 0:
		m.values[i].Count += n
	case len(m.values) < m.capacity:
		m.values = append(m.values, Value{Value: v, Count: n})
	default:
		m.other += n
	}
}

func (m *model) decay() {
	before := m.total()
	for i := range m.values {
		m.values[i].Count /= 2
	}
	m.other /= 2
	slices.SortFunc(m.values, Value.Compare)
	m.values = m.values[:len(m.values)*3/4]
	m.values = slices.DeleteFunc(m.values, func(v Value) bool { return v.Count == 0 })
	m.aged += before - m.total()
}

func (m *model) reset() { *m = model{capacity: m.capacity, aged: m.total()} }

func (m *model) total() int64 {
	total := m.other + m.aged
	for _, v := range m.values {
		total += v.Count
	}
	return total
}

func (m *model) sorted() []Value {
	values := slices.Clone(m.values)
	slices.SortFunc(values, Value.Compare)
	return values
}

// differs says how a table differs from the model or is broken inside.
func (m *model) differs(t *Table) string {
	if diff := cmp.Diff(m.sorted(), t.AppendValues(nil)); len(m.values) > 0 && diff != "" {
		return "values, model first: " + diff
	}
	got := [...]int64{t.Other(), t.Aged(), t.Total(), t.Matched()}
	if want := [...]int64{m.other, m.aged, m.total(), m.total() - m.other - m.aged}; got != want {
		return fmt.Sprintf("other, aged, total, matched: %v, want %v", got, want)
	}
	if want := len(m.values) == m.capacity; t.Full() != want {
		return fmt.Sprintf("full: %v, want %v", t.Full(), want)
	}
	return broken(t)
}

// broken checks that every value held is found, and every position is in range.
func broken(t *Table) string {
	for i, v := range t.held() {
		if got := t.at(t.position(v.Value)); *got != v {
			return fmt.Sprintf("slot %d holds %v, its position leads to %v", i, v, *got)
		}
		if v.Count == 0 && i > 0 {
			return fmt.Sprintf("slot %d holds %#x with no count", i, v.Value)
		}
	}
	if last := slices.Max(t.positions()); last >= t.n {
		return fmt.Sprintf("a position leads to slot %d of %d", last, t.n)
	}
	return ""
}

// Every hash counts as the model does while the table holds at most 16 values: 16
// values can always be told apart.
func TestTableIsModel(t *testing.T) {
	t.Parallel()
	for _, h := range Hashes() {
		t.Run(h.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { compareToModel(t, h) })
		})
	}
}

func compareToModel(t *rapid.T, h Hash) {
	capacity := rapid.IntRange(MinCapacity, 16).Draw(t, "capacity")
	values := distinct(1, 2*capacity).Draw(t, "values")
	value := rapid.SampledFrom(values)
	tab, m := New(capacity, h), &model{capacity: capacity}
	add := func(t *rapid.T) {
		v := value.Draw(t, "value")
		tab.add(v)
		m.add(v, 1)
	}
	t.Repeat(map[string]func(*rapid.T){
		"add":       add,
		"add more":  add,
		"add again": add,
		"add n": func(t *rapid.T) {
			v, n := value.Draw(t, "value"), rapid.Int64Range(0, 100).Draw(t, "n")
			tab.AddN(v, n)
			m.add(v, n)
		},
		"decay": func(t *rapid.T) { tab.Decay(nil); m.decay() },
		"reset": func(t *rapid.T) { tab.Reset(nil); m.reset() },
		"": func(t *rapid.T) {
			if d := m.differs(tab); d != "" {
				t.Fatal(d)
			}
		},
	})
}

// Larger tables count as the model does, too. A hash may give up on values chosen to
// defeat it. Then the counts held are right, and the rest is other.
func TestLargeTable(t *testing.T) {
	t.Parallel()
	for _, h := range Hashes() {
		t.Run(h.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				capacity := rapid.IntRange(17, MaxCapacity).Draw(t, "capacity")
				values := distinct(1, capacity).Draw(t, "values")
				tab, want := New(capacity, h), map[uint64]int64{}
				for i, v := range slices.Concat(values, values) {
					tab.AddN(v, int64(i)+1)
					want[v] += int64(i) + 1
				}
				for _, v := range tab.AppendValues(nil) {
					if v.Count != want[v.Value] {
						t.Fatalf("%#x: %d, want %d", v.Value, v.Count, want[v.Value])
					}
					delete(want, v.Value)
				}
				var rest int64
				for _, n := range want {
					rest += n
				}
				if tab.Other() != rest || rest > 0 && !tab.Full() {
					t.Fatalf("other %d, full %v; want %d", tab.Other(), tab.Full(), rest)
				}
			})
		})
	}
}

func TestTableOfEveryCapacity(t *testing.T) {
	t.Parallel()
	for _, h := range Hashes() {
		for capacity := MinCapacity; capacity <= MaxCapacity; capacity++ {
			tab := New(capacity, h)
			s := uniform(capacity + 1)
			for _, v := range s.values {
				tab.add(v)
			}
			if int(tab.capacity) != capacity || !tab.Full() || tab.Other() != 1 || broken(tab) != "" {
				t.Fatalf("%v, %d: full %v, other %d %s", h, capacity, tab.Full(), tab.Other(), broken(tab))
			}
		}
	}
}

func TestCapacityOutOfRange(t *testing.T) {
	t.Parallel()
	for capacity, want := range map[int]int{math.MinInt: 2, -1: 2, 0: 2, 1: 2, 64: 63, math.MaxInt: 63} {
		if got := New(capacity, HashAuto).capacity; int(got) != want {
			t.Errorf("New(%d) holds %d values, want %d", capacity, got, want)
		}
	}
}

// The first slot of an empty table has the value 0, which does not count as a 0.
func TestZeroIsAValue(t *testing.T) {
	t.Parallel()
	for _, h := range Hashes() {
		tab := New(3, h)
		if got := tab.AppendValues(nil); len(got) != 0 {
			t.Errorf("%v: an empty table holds %v", h, got)
		}
		for _, v := range []uint64{0, 5, math.MaxUint64, 0} {
			tab.add(v)
		}
		want := []Value{{Value: 0, Count: 2}, {Value: 5, Count: 1}, {Value: math.MaxUint64, Count: 1}}
		if diff := cmp.Diff(want, tab.AppendValues(nil)); diff != "" {
			t.Errorf("%v: %s", h, diff)
		}
	}
}

func TestTableText(t *testing.T) {
	t.Parallel()
	tab := New(3, HashShift)
	for v := uint64(1); v <= 4; v++ {
		tab.AddN(16*v, int64(v))
	}
	got, err := tab.AppendText(nil)
	want := "shift key=0x30 bits=2 values=3/3 full=true other=4 aged=0 total=10\n" +
		"slot=0 position=0x1 value=0x10 count=1\n" +
		"slot=1 position=0x2 value=0x20 count=2\n" +
		"slot=2 position=0x3 value=0x30 count=3\n"
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	got, _ = New(8, HashMultiply).AppendText(nil)
	if want := "multiply key=0x0 bits=4 values=0/8 full=false other=0 aged=0 total=0\n"; string(got) != want {
		t.Errorf("empty: %s", got)
	}
}

func TestTableBytes(t *testing.T) {
	t.Parallel()
	if bits.UintSize != 64 {
		t.Skip("documented for 64 bits")
	}
	for capacity, want := range map[int]int{3: 104, 7: 176, 8: 192, 15: 352, 16: 368, 63: 2080} {
		if got := New(capacity, HashMultiply).Bytes(); got != want {
			t.Errorf("%d values in %d bytes, documented as %d", capacity, got, want)
		}
	}
	worst := New(16, HashPext)
	for _, v := range oneBitApart(16) {
		worst.add(v)
	}
	if got, want := worst.Bytes(), 48+16*16+32<<10; got != want {
		t.Errorf("16 values with a bit each in %d bytes, want %d", got, want)
	}
}

func TestHitAllocatesNothing(t *testing.T) {
	for _, h := range Hashes() {
		tab := New(8, h)
		s := uniform(9)
		for _, v := range s.stream {
			tab.add(v)
		}
		if n := testing.AllocsPerRun(10, func() { count(tab, s.stream) }); n != 0 {
			t.Errorf("%v: %v allocations in %d hits and misses", h, n, len(s.stream))
		}
	}
}

// add counts v once.
func (t *Table) add(v uint64) {
	if !t.Hit(v) {
		t.Miss(v)
	}
}

// count is the loop of a caller for which time matters.
//
//go:noinline
func count(t *Table, stream []uint64) {
	for _, v := range stream {
		if !t.Hit(v) {
			t.Miss(v)
		}
	}
}

// FuzzTable reads a capacity and a hash, then records of an operation and a value.
// The table must stay whole and within its memory, and no count may be lost. A search
// that does not end would hang the fuzzer.
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
		if tab.hash != HashMultiply {
			most += 1<<maxBits + int(bitListBytes)
		}
		var total int64
		for ; len(records) >= recordBytes; records = records[recordBytes:] {
			total += apply(tab, records[0], binary.LittleEndian.Uint64(records[1:]))
			if d := broken(tab); d != "" {
				t.Fatal(d)
			}
			if tab.Total() != total || len(tab.AppendValues(nil)) > int(tab.capacity) || tab.Bytes() > most {
				t.Fatalf("total %d of %d, %d bytes", tab.Total(), total, tab.Bytes())
			}
		}
	})
}

const recordBytes = 9

// apply does one operation of FuzzTable, and returns the counts that it adds.
func apply(t *Table, op byte, v uint64) int64 {
	switch op % 8 {
	case 0:
		t.Decay(nil)
	case 1:
		t.Reset(nil)
	case 2:
		t.AddN(v, int64(op>>3))
		return int64(op >> 3)
	default:
		t.add(v)
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

// Hit is fast only if the compiler inlines it.
func TestHitIsInlined(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles the package")
	}
	said, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	for _, method := range []string{"(*Table).Hit"} {
		if !strings.Contains(string(said), "can inline "+method+"\n") {
			t.Errorf("%s is not inlined", method)
		}
	}
}
