package export

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"sort"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/pprof/profile"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

func mustPart(t *rapid.T, data string) *Part {
	p, err := ReadPart(strings.NewReader(data), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Parts add up to what the maps merge to, in any format, whether or not their
// methods were looked up before.
func TestPartsAddUpToMerge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		got, want := ccmap.New(ccmap.Options{}), ccmap.New(ccmap.Options{})
		var parts []*Part
		unit := drawUnit(t)
		for range rapid.IntRange(1, 4).Draw(t, "files") {
			f := rapid.SampledFrom([]Format{Pprof, Pprof, XML, JSON}).Draw(t, "format")
			m := drawPruned(t, build)
			m.Meta().Unit = unit
			data := mustEncode(t, f, m.Snapshot())
			parts = append(parts, mustPart(t, data))
			if err := want.Merge(mustDecode(t, f, data)); err != nil {
				t.Fatal(err)
			}
		}
		sum := NewSum(got)
		for _, p := range parts {
			switch rapid.SampledFrom([]string{"not", "sum", "other"}).Draw(t, "look up in") {
			case "sum":
				p.LookUp(got.Names())
			case "other":
				p.LookUp(want.Names())
			}
			if err := sum.Add(p, Weight{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := got.CheckValid(); err != nil {
			t.Fatal(err)
		}
		counted := func(m *ccmap.Map) content {
			c := contentOf(m.Snapshot())
			c.Nodes = c.counted(func(c ccmap.Counters) ccmap.Counters { return c })
			return c
		}
		if diff := cmp.Diff(counted(want), counted(got), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-merged maps +parts):\n%s", diff)
		}
	})
}

// A part of another unit is refused, and leaves the sum as it is. One that has
// nothing has no unit.
func TestUnlikePartsAreRefused(t *testing.T) {
	t.Parallel()
	heap, empty := small(), ccmap.New(ccmap.Options{})
	heap.Meta().Unit = ccmap.NewUnit("inuse_space", "bytes")
	empty.Meta().Unit = ccmap.Instructions
	for _, f := range []Format{Pprof, XML, JSON} {
		sum := ccmap.New(ccmap.Options{})
		adder := NewSum(sum)
		for _, test := range []struct {
			part *ccmap.Map
			want error
		}{{small(), nil}, {empty, nil}, {heap, ccmap.ErrUnlike}} {
			p, err := ReadPart(strings.NewReader(encode(t, f, test.part.Snapshot())), ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := adder.Add(p, Weight{}); !errors.Is(err, test.want) {
				t.Errorf("%v: %v, want %v", f, err, test.want)
			}
		}
		if got, want := sum.Snapshot().Total(), small().Snapshot().Total(); got != want || sum.Meta().Unit != ccmap.CPUTime {
			t.Errorf("%v: total %v, want %v; unit %v", f, got, want, sum.Meta().Unit)
		}
	}
}

func TestWeightsScaleTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]Format{Pprof, XML}).Draw(t, "format")
		s := mustDecode(t, f, mustEncode(t, f, drawPruned(t, build).Snapshot()))
		w := Weight{rapid.Uint64Range(1, 5000).Draw(t, "thousandths"), 1000}
		sum := ccmap.New(ccmap.Options{})
		if err := NewSum(sum).Add(mustPart(t, mustEncode(t, f, s)), w); err != nil {
			t.Fatal(err)
		}
		if err := sum.CheckValid(); err != nil {
			t.Fatal(err)
		}
		got, want := sum.Snapshot().Total(), s.Total()
		if got.Samples != nearest(want.Samples, w) || got.Time != nearest(want.Time, w) {
			t.Fatalf("%v times %v is %v", want, w, got)
		}
		if got, want := sum.Meta().Loss, s.Meta().Loss; got.Clock != nearestSpan(want.Clock, w) || got.Unaccounted != nearestSpan(want.Unaccounted, w) {
			t.Fatalf("%+v times %v is %+v", want, w, got)
		}
		counts := make(map[string]int64)
		for _, p := range sum.Snapshot().Points() {
			counts[pointName(sum.Names(), &p)] = p.Count
		}
		for _, p := range s.Points() {
			if got := counts[pointName(s.Names(), &p)]; got != nearest(p.Count, w) {
				t.Fatalf("point %+v times %v counts %d", p, w, got)
			}
		}
		if diff := cmp.Diff(pointsOf(scaled(s, w).Snapshot(), XML), pointsOf(sum.Snapshot(), XML)); diff != "" {
			t.Fatalf("points (-map +sum):\n%s", diff)
		}
		if sum.ActivationsExact() != (s.ActivationsExact() && w.isOne()) {
			t.Fatalf("exact: %t", sum.ActivationsExact())
		}
	})
}

// nearest returns n times w, rounded half up.
func nearest(n int64, w Weight) int64 { return int64(nearestSpan(time.Duration(n), w)) }

// nearestSpan is nearest of either sign, and stays at the longest span.
func nearestSpan(d time.Duration, w Weight) time.Duration {
	if d < 0 {
		return -nearestSpan(-max(d, -math.MaxInt64), w)
	}
	product := new(big.Int).Mul(big.NewInt(int64(d)), new(big.Int).SetUint64(w.num))
	product.Add(product, new(big.Int).SetUint64(w.den/2))
	if product.Div(product, new(big.Int).SetUint64(w.den)); !product.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(product.Int64())
}

func TestParseWeight(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Weight{
		"1": {1, 1}, "2": {2, 1}, "0.5": {5, 10}, ".25": {25, 100}, "3.": {3, 1}, "007": {7, 1},
		"999999999.999999999": {999999999999999999, 1e9},
	} {
		if got, err := ParseWeight(in); got != want || err != nil {
			t.Errorf("ParseWeight(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ".", "0", "0.0", "-1", "+1", "1e3", "1.2.3", "1 ", "inf", "0x1", "1_0", "1234567890", "0.1234567890", "²"} {
		if got, err := ParseWeight(in); err == nil {
			t.Errorf("ParseWeight(%q) = %v", in, got)
		}
	}
}

func TestWeightsSaturate(t *testing.T) {
	t.Parallel()
	s := newScaler(Weight{999999999, 1})
	for range 2 {
		if got := s.scale(math.MaxInt64); got != math.MaxInt64 {
			t.Errorf("got %d", got)
		}
	}
}

// A part that turns out to be too large for the limits leaves the sum alone.
func TestPartBeyondLimitsLeavesSum(t *testing.T) {
	t.Parallel()
	data := encode(t, Pprof, chain(300).Snapshot())
	for _, o := range []ReadOptions{{MaxNodes: 1000}, {MaxNodes: 650}} { // records; nodes fit as well
		p, err := ReadPart(strings.NewReader(data), o)
		if err == nil {
			err = NewSum(ccmap.New(ccmap.Options{})).Add(p, Weight{})
		}
		if err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	two := encode(t, Pprof, small().Snapshot())
	p, err := ReadPart(strings.NewReader(two), ReadOptions{MaxMethods: 4})
	if err != nil {
		t.Fatal(err)
	}
	sum := ccmap.New(ccmap.Options{})
	if err := NewSum(sum).Add(p, Weight{}); err == nil || sum.Len() != 1 || !strings.Contains(err.Error(), "methods") {
		t.Errorf("%d nodes, %v", sum.Len(), err)
	}
}

// However a file says that something was pruned, the sum stays valid.
func TestPartsWithPrunedFrames(t *testing.T) {
	t.Parallel()
	for _, f := range []*profile.Function{
		{ID: 1, Name: ccmap.PrunedName, SystemName: ccmap.PrunedName},
		{ID: 1, SystemName: ccmap.PrunedName},
	} {
		l := &profile.Location{ID: 1, Line: []profile.Line{{Function: f, Line: 5}}}
		data := encodeProfile(t, &profile.Profile{
			SampleType: []*profile.ValueType{samplesType.proto(), timeType.proto(), activationsType.proto()},
			Function:   []*profile.Function{f},
			Location:   []*profile.Location{l},
			Sample:     []*profile.Sample{{Location: []*profile.Location{l, l}, Value: []int64{1, 1, 1}}},
		})
		sum := ccmap.New(ccmap.Options{})
		p, err := ReadPart(strings.NewReader(data), ReadOptions{})
		if err == nil {
			err = NewSum(sum).Add(p, Weight{})
		}
		if err := sum.CheckValid(); err != nil {
			t.Error(err)
		}
		if _, _, want := Read(strings.NewReader(data), ReadOptions{}); (err == nil) != (want == nil) {
			t.Errorf("as a part: %v; alone: %v", err, want)
		}
	}
}

// A file costs a few allocations, however many samples it has.
func TestDecodingReusesBuffers(t *testing.T) {
	data := encode(t, Pprof, forest(20_000).Snapshot())
	p := new(pprofFile)
	var b *builder
	empty := testing.AllocsPerRun(5, func() { b = newBuilder(ReadOptions{}.WithDefaults()) })
	allocations := -empty + testing.AllocsPerRun(5, func() {
		b = newBuilder(ReadOptions{}.WithDefaults())
		p.reset()
		p.share(b)
		if err := p.decode(strings.NewReader(data), b, maxListed); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 80 {
		t.Errorf("%v allocations for %d samples", allocations, len(p.stacks.samples))
	}
}

// The sum stays within its budget, and says what it cost.
func TestPartsKeepBudget(t *testing.T) {
	t.Parallel()
	const budget = 400 << 10
	sum := ccmap.New(ccmap.Options{MaxBytes: budget})
	adder := NewSum(sum)
	var want ccmap.Counters
	for i := range 5 {
		m := profiletest.Thicket(uint64(i))
		want = want.Add(m.Snapshot().Total())
		p, err := ReadPart(strings.NewReader(encode(t, Pprof, m.Snapshot())), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := adder.Add(p, Weight{}); err != nil {
			t.Fatal(err)
		}
		if sum.Bytes() > budget {
			t.Errorf("%d bytes", sum.Bytes())
		}
	}
	if s := sum.Snapshot(); s.Total() != want || !s.Pruned() {
		t.Errorf("total %v, want %v; pruned %t", s.Total(), want, s.Pruned())
	}
}

// Buffers go from one file to the next, and nothing of a file with them.
func TestPartsInManyGoroutines(t *testing.T) {
	t.Parallel()
	var files, want []string
	for i := range 8 {
		s := forest(500 * (i + 1)).Snapshot()
		files, want = append(files, encode(t, Pprof, s)), append(want, encode(t, Folded, s))
	}
	for g := range 4 {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			t.Parallel()
			for i := range 3 * len(files) {
				i = (i*(g+1) + g) % len(files)
				p, err := ReadPart(bytes.NewReader([]byte(files[i])), ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				m := ccmap.New(ccmap.Options{})
				if err := NewSum(m).Add(p, Weight{}); err != nil {
					t.Fatal(err)
				}
				if got := encode(t, Folded, m.Snapshot()); got != want[i] {
					t.Errorf("file %d is another", i)
				}
			}
		})
	}
}

// TestRoomOfAPart: a profile whose contexts go to a sum one by one leaves room for all that the sum
// remembers of its locations while they do.
func TestRoomOfAPart(t *testing.T) {
	t.Parallel()
	least := func(locations int) int64 {
		p, err := ReadPart(strings.NewReader(fileOfManyLocations(t, locations)), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.pprof.release()
		memory, sum := &p.pprof.memory, ccmap.New(ccmap.Options{})
		return int64(sort.Search(1<<30, func(room int) bool {
			memory.limit = memory.held + int64(room)
			return p.isPlain(sum)
		}))
	}
	const n, method = 1000, 250 // bytes, of a location without lines
	want := int64(listShare*method + unsafe.Sizeof(stackLink{}))
	if got := (least(2*n) - least(n)) / n; got < want {
		t.Errorf("%d bytes a location, want %d", got, want)
	}
}
