package ccmap_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const unknown, seen = ccmap.NullsUnknown, ccmap.NullsSeen

// drawPoint returns a point of few positions, such that many are the same, and of
// which some cannot be.
func drawPoint(t *rapid.T, methods int) ccmap.Point {
	method := rapid.Uint32Range(0, uint32(ccmap.FirstID)+uint32(methods)) // the last does not exist
	count := rapid.SampledFrom([]int64{-2, -1, 0, 1, 2, 3, 100, math.MaxInt64 - 1, math.MaxInt64})
	frame := rapid.Custom(func(t *rapid.T) ccmap.Frame {
		return ccmap.Frame{Method: ccmap.MethodID(method.Draw(t, "caller")), Offset: rapid.Uint32Range(0, 1).Draw(t, "call")}
	})
	value := rapid.Custom(func(t *rapid.T) ccmap.PointValue {
		return ccmap.PointValue{Value: uint64(method.Draw(t, "value")), Count: count.Draw(t, "count")}
	})
	p := ccmap.Point{
		Origin: ccmap.Origin(rapid.IntRange(0, 3).Draw(t, "origin")),
		Kind:   ccmap.PointKind(rapid.IntRange(0, 6).Draw(t, "kind")),
		Method: ccmap.MethodID(method.Draw(t, "method")),
		Offset: rapid.SampledFrom([]uint32{0, ccmap.NoOffset}).Draw(t, "offset"),
		End:    rapid.Uint32Range(0, 1).Draw(t, "end"),
		Phase:  rapid.Uint32Range(0, 1).Draw(t, "phase"),
		Count:  count.Draw(t, "count"),
		Values: rapid.SliceOfN(value, 0, 4).Draw(t, "values"),
		Other:  count.Draw(t, "other"),
		Aged:   count.Draw(t, "aged"),
		Nulls:  count.Draw(t, "nulls"),
		Frozen: rapid.Bool().Draw(t, "frozen"),
	}
	if rapid.Bool().Draw(t, "in a context") {
		p.Callers = rapid.SliceOfN(frame, 0, 4).Draw(t, "callers")
	}
	return p
}

// drawPoints returns a map of points alone, whose names have ids of its own.
func drawPoints(t *rapid.T) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	for _, name := range rapid.Permutation([]string{"A", "B", "C"}).Draw(t, "names") {
		m.Names().Intern(ccmap.Method{Name: name})
	}
	for range rapid.IntRange(0, 12).Draw(t, "points") {
		m.AddPoint(drawPoint(t, 3))
	}
	return m
}

// told are points with names for ids, and without order.
func told(s *ccmap.Snapshot) map[string]ccmap.Point {
	name := func(id ccmap.MethodID) string { return s.Names().At(id).Name }
	points := map[string]ccmap.Point{}
	for _, p := range s.Points() {
		key := fmt.Sprint(p.Origin, p.Kind, name(p.Method), p.Offset, p.End, p.Phase, p.Callers == nil)
		for _, f := range p.Callers {
			key += fmt.Sprint(name(f.Method), f.Offset)
		}
		for _, v := range p.Values {
			value := fmt.Sprint(v.Value)
			if p.Kind.HasMethods() {
				value = name(ccmap.MethodID(v.Value))
			}
			points[key+" "+value] = ccmap.Point{Count: v.Count}
		}
		p.Method, p.Callers, p.Values = 0, nil, nil
		points[key] = p
	}
	return points
}

// TestPointLaws checks that points merge associatively and commutatively, and as
// if all were added to one map.
func TestPointLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawPoints(t).Snapshot(), drawPoints(t).Snapshot(), drawPoints(t).Snapshot()
		left := told(merged(t, merged(t, a, b), c))
		if d := cmp.Diff(left, told(merged(t, a, merged(t, b, c)))); d != "" {
			t.Fatalf("not associative:\n%s", d)
		}
		if d := cmp.Diff(left, told(merged(t, c, b, a))); d != "" {
			t.Fatalf("not commutative:\n%s", d)
		}
		shared := ccmap.New(ccmap.Options{Names: a.Names()})
		for _, s := range []*ccmap.Snapshot{a, b, c} {
			if err := shared.Merge(s); err != nil {
				t.Fatal(err)
			}
		}
		mustBeValid(t, shared)
		if d := cmp.Diff(left, told(shared.Snapshot())); d != "" {
			t.Fatalf("into the names of the first:\n%s", d)
		}
		if d := cmp.Diff(a.Points(), merged(t, a).Points()); a.Names().Len() < int(ccmap.FirstID)+4 && d != "" {
			t.Fatalf("merged into nothing:\n%s", d)
		}
	})
}

// TestPointsAddUp compares the counts of points with plain sums.
func TestPointsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := ccmap.New(ccmap.Options{})
		a := m.Names().Intern(ccmap.Method{Name: "A"})
		want := map[uint64]int64{}
		var count, other int64
		adds := rapid.IntRange(0, 20).Draw(t, "points")
		for range adds {
			value, n := rapid.Uint64Range(0, 3).Draw(t, "value"), rapid.Int64Range(0, 1000).Draw(t, "n")
			p := ccmap.Point{Kind: ccmap.PointSwitch, Method: a, Nulls: unknown, Values: []ccmap.PointValue{{Value: value, Count: n}}}
			times := rapid.Int64Range(1, 1000).Draw(t, "times")
			count += n * times
			switch {
			case value == 3: // a count without values
				p.Values, p.Count = nil, n
				other += n * times
			case n > 0:
				want[value] += n * times
			}
			for range times {
				m.AddPoint(p)
			}
			if rapid.Bool().Draw(t, "look") {
				mustBeValid(t, m.Snapshot())
			}
		}
		points := m.Snapshot().Points()
		if len(points) != min(adds, 1) {
			t.Fatalf("%d points", len(points))
		}
		for _, p := range points {
			got := map[uint64]int64{}
			for _, v := range p.Values {
				got[v.Value] = v.Count
			}
			if d := cmp.Diff(want, got); d != "" || p.Count != count || len(want) > 0 && p.Other != other {
				t.Fatalf("%d and %d others, want %d and %d (-want +got):\n%s", p.Count, p.Other, count, other, d)
			}
		}
	})
}

func TestSetPoints(t *testing.T) {
	t.Parallel()
	m, a, b, _ := abc()
	call := func(offset uint32, n int64) ccmap.Point {
		return ccmap.Point{Method: a, Offset: offset, End: offset, Count: n, Nulls: unknown, Values: []ccmap.PointValue{{Value: uint64(b), Count: n}}}
	}
	of := func(o ccmap.Origin, points ...ccmap.Point) []ccmap.Point {
		points = slices.Clone(points)
		for i := range points {
			points[i].Origin = o
		}
		return points
	}
	m.SetPoints(ccmap.OriginBurst, []ccmap.Point{call(7, 1), call(3, 2), call(7, 10)})
	first := m.Snapshot()
	m.SetPoints(ccmap.OriginSampled, []ccmap.Point{call(3, 5)})
	second := m.Snapshot()
	m.SetPoints(ccmap.OriginBurst, []ccmap.Point{call(1, 1)})
	third := m.Snapshot()
	m.SetPoints(ccmap.OriginSampled, nil)
	for _, test := range []struct {
		name string
		got  *ccmap.Snapshot
		want []ccmap.Point
	}{
		{"bursts", first, of(ccmap.OriginBurst, call(3, 2), call(7, 11))},
		{"and samples", second, slices.Concat(of(ccmap.OriginSampled, call(3, 5)), of(ccmap.OriginBurst, call(3, 2), call(7, 11)))},
		{"other bursts", third, slices.Concat(of(ccmap.OriginSampled, call(3, 5)), of(ccmap.OriginBurst, call(1, 1)))},
		{"no samples", m.Snapshot(), of(ccmap.OriginBurst, call(1, 1))},
	} {
		mustBeValid(t, test.got)
		if d := cmp.Diff(test.want, test.got.Points()); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

// TestAddPointTakesWhatComesClosest adds points that no source makes.
func TestAddPointTakesWhatComesClosest(t *testing.T) {
	t.Parallel()
	frames := func(methods ...ccmap.MethodID) []ccmap.Frame {
		list := make([]ccmap.Frame, len(methods))
		for i, m := range methods {
			list[i].Method = m
		}
		return list
	}
	const none, unnamed = ccmap.NoMethod, ccmap.UnknownID
	values := func(pairs ...int64) (list []ccmap.PointValue) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, ccmap.PointValue{Value: uint64(pairs[i]), Count: pairs[i+1]})
		}
		return list
	}
	for _, test := range []struct {
		name      string
		add, want ccmap.Point
	}{
		{"negative counts", ccmap.Point{Count: -1, Other: -5, Aged: -1, Nulls: -9}, ccmap.Point{Nulls: unknown}},
		{"count", ccmap.Point{Count: 99, Other: 1, Aged: 2, Nulls: 3, Values: values(1, 4)}, ccmap.Point{Count: 10, Other: 1, Aged: 2, Nulls: 3, Values: values(1, 4)}},
		{"order of values", ccmap.Point{Values: values(2, 1, 1, 1, 0, 5, 2, 0, 1, 3)}, ccmap.Point{Count: 10, Values: values(0, 5, 1, 4, 2, 1)}},
		{"values unseen", ccmap.Point{Count: 7, Values: values(2, 0, 1, -1)}, ccmap.Point{Count: 7}},
		{"sum too large", ccmap.Point{Values: values(0, math.MaxInt64, 1, math.MaxInt64)}, ccmap.Point{Count: math.MaxInt64, Values: values(0, math.MaxInt64, 1, math.MaxInt64)}},
		{"methods", ccmap.Point{Method: 77, Callers: frames(none), Values: values(1<<40, 2, 99, 1)}, ccmap.Point{Method: unnamed, Callers: frames(unnamed), Count: 3, Values: values(int64(unnamed), 3)}},
		{"callers", ccmap.Point{Callers: frames(0, 1, 2, 0), Count: 1}, ccmap.Point{Callers: frames(0, 1, 2), Count: 1}},
		{"no callers", ccmap.Point{Callers: frames(), Count: 1}, ccmap.Point{Callers: frames(), Count: 1}},
		{"end of a call", ccmap.Point{Offset: 4, End: 9}, ccmap.Point{Offset: 4, End: 4}},
		{"end of a switch", ccmap.Point{Kind: ccmap.PointSwitch, Offset: 4}, ccmap.Point{Kind: ccmap.PointSwitch, Offset: 4, End: 4}},
		{"block", ccmap.Point{Kind: ccmap.PointBlock, End: 9, Count: 5, Other: 3, Aged: 1, Nulls: 8, Values: values(1, 1)}, ccmap.Point{Kind: ccmap.PointBlock, End: 9, Count: 5}},
		{"thrown", ccmap.Point{Kind: ccmap.PointThrown, End: 9, Count: 5, Other: 3, Aged: 1, Nulls: 8, Values: values(1, 1)}, ccmap.Point{Kind: ccmap.PointThrown, Count: 5}},
		{"branch", ccmap.Point{Kind: ccmap.PointBranch, End: 9, Nulls: 2, Values: values(1, 1, 5, 1, 0, 4)}, ccmap.Point{Kind: ccmap.PointBranch, End: 9, Count: 6, Values: values(0, 4, 1, 2)}},
		{"types", ccmap.Point{Kind: ccmap.PointType, Offset: 4, Nulls: seen, Frozen: true, Values: values(1<<40, 2)}, ccmap.Point{Kind: ccmap.PointType, Offset: 4, End: 4, Nulls: seen, Frozen: true, Count: 2, Values: values(int64(unnamed), 2)}},
		{"nulls of a branch", ccmap.Point{Kind: ccmap.PointBranch, Nulls: seen}, ccmap.Point{Kind: ccmap.PointBranch, Nulls: unknown}},
		{"numbers", ccmap.Point{Kind: ccmap.PointNumber, End: 9, Nulls: seen, Values: values(-3, 1, 7, 2)}, ccmap.Point{Kind: ccmap.PointNumber, Nulls: unknown, Count: 3, Values: values(7, 2, -3, 1)}},
		{"cases", ccmap.Point{Kind: ccmap.PointSwitch, Values: values(-3, 1)}, ccmap.Point{Kind: ccmap.PointSwitch, Count: 1, Values: values(-3, 1)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m, _, _, _ := abc()
			m.AddPoint(test.add)
			mustBeValid(t, m)
			if d := cmp.Diff([]ccmap.Point{test.want}, m.Snapshot().Points()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	m, _, _, _ := abc()
	m.AddPoint(ccmap.Point{Origin: 4})
	m.AddPoint(ccmap.Point{Kind: 7})
	if got := m.Snapshot().Points(); len(got) > 0 {
		t.Errorf("points of nothing: %v", got)
	}
}

// TestNullsOfTwoSources adds counts of two sources; one of them sees no null
// receivers.
func TestNullsOfTwoSources(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ a, b, want int64 }{
		{unknown, unknown, unknown}, {unknown, 0, 0}, {unknown, 3, 3}, {0, 0, 0}, {2, 3, 5},
		{seen, unknown, seen}, {0, seen, seen}, {seen, 3, 3}, {seen, seen, seen},
	} {
		m, a, _, _ := abc()
		m.AddPoint(ccmap.Point{Method: a, Count: 1, Nulls: test.a})
		m.AddPoint(ccmap.Point{Method: a, Count: 1, Nulls: test.b})
		if got := m.Snapshot().Points()[0].Nulls; got != test.want {
			t.Errorf("%d and %d are %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// TestPointsStay checks that points outlive the contexts, and are frozen in
// snapshots.
func TestPointsStay(t *testing.T) {
	t.Parallel()
	g := newCallGraph(50)
	m := ccmap.New(ccmap.Options{Names: g.names, Window: time.Minute})
	m.FoldBatch(g.stacks(300, 5, 20))
	list := make([]ccmap.Point, 100)
	for i := range list {
		list[i] = ccmap.Point{
			Method: ccmap.MethodID(i % 50), Offset: uint32(i), Callers: []ccmap.Frame{{Method: 1, Offset: 2}},
			Values: []ccmap.PointValue{{Value: 3, Count: int64(i)}}, Nulls: unknown,
		}
	}
	m.SetPoints(ccmap.OriginBurst, list)
	s := m.Snapshot()
	want := told(s)
	same := func(name string, got *ccmap.Snapshot) {
		t.Helper()
		mustBeValid(t, got)
		if d := cmp.Diff(want, told(got)); d != "" || len(got.Points()) != len(list) {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	m.Prune(0)
	same("pruned", m.Snapshot())
	recent, _ := m.Snapshot().Recent()
	same("recent", recent)
	same("merged", merged(t, recent))
	if err := m.Merge(m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	mustBeValid(t, m)
	for i, p := range m.Snapshot().Points() {
		if p.Count != 2*s.Points()[i].Count {
			t.Errorf("merged with itself: %+v", p)
		}
	}
	same("snapshot", s)
}

// TestPointsAloneExceedBudget gives a map less than its points take: they stay, it
// prunes contexts, and not at every sample.
func TestPointsAloneExceedBudget(t *testing.T) {
	t.Parallel()
	g := newCallGraph(100)
	const budget = 256 << 10
	m := ccmap.New(ccmap.Options{Names: g.names, MaxBytes: budget})
	list := make([]ccmap.Point, 5000)
	for i := range list {
		list[i] = ccmap.Point{Offset: uint32(i), Count: 1}
	}
	before := m.Bytes()
	m.SetPoints(ccmap.OriginImported, list)
	if grown := m.Bytes() - before; grown < budget {
		t.Fatalf("%d points take %d bytes", len(list), grown)
	}
	samples := g.stacks(5000, 20, 40)
	m.FoldBatch(samples)
	mustBeValid(t, m)
	s := m.Snapshot()
	if len(s.Points()) != len(list) || s.Total().Samples != int64(len(samples)) {
		t.Errorf("%d points, %d samples", len(s.Points()), s.Total().Samples)
	}
	if times := s.Meta().Pruned.Times; times == 0 || times > uint64(len(samples)/20) {
		t.Errorf("pruned %d times", times)
	}
	m.SetPoints(ccmap.OriginImported, nil)
	if m.Bytes() > budget+chunkBytes {
		t.Errorf("%d bytes without points", m.Bytes())
	}
	for _, sample := range g.stacks(5000, 20, 40) {
		if m.Fold(&sample); m.Bytes() > budget+chunkBytes {
			t.Fatalf("%d bytes: the room of points that are gone went to contexts", m.Bytes())
		}
	}
}

// TestReplacedPointsAreFreed replaces many points by one.
func TestReplacedPointsAreFreed(t *testing.T) {
	t.Parallel()
	m, a, _, _ := abc()
	one := []ccmap.Point{{Method: a, Count: 1}}
	before := m.Bytes()
	m.SetPoints(ccmap.OriginImported, one)
	m.SetPoints(ccmap.OriginBurst, make([]ccmap.Point, 1000))
	for i := range uint32(1000) {
		m.AddPoint(ccmap.Point{Origin: ccmap.OriginSampled, Offset: i})
	}
	m.SetPoints(ccmap.OriginSampled, one)
	m.SetPoints(ccmap.OriginBurst, nil)
	m.SetPoints(ccmap.OriginVM+1, make([]ccmap.Point, 1000))
	points := m.Snapshot().Points()
	if len(points) != 2 || cap(points) > 4 || m.Bytes()-before > 2<<10 {
		t.Errorf("%d points of %d, %d bytes", len(points), cap(points), m.Bytes()-before)
	}
}

func TestNamesOfOriginsAndKinds(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(ccmap.OriginSampled, ccmap.OriginBurst, ccmap.OriginImported, ccmap.OriginVM, ccmap.Origin(7),
		ccmap.PointCall, ccmap.PointBlock, ccmap.PointBranch, ccmap.PointSwitch, ccmap.PointType, ccmap.PointThrown, ccmap.PointNumber, ccmap.PointKind(9))
	if want := "sampled burst imported vm origin 7 call block branch switch type thrown number kind 9"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestSumPhases: without phases, points are as if all had been added in one.
func TestSumPhases(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		apart, one := ccmap.New(ccmap.Options{}), ccmap.New(ccmap.Options{})
		for _, name := range []string{"A", "B", "C"} {
			apart.Names().Intern(ccmap.Method{Name: name})
			one.Names().Intern(ccmap.Method{Name: name})
		}
		for range rapid.IntRange(0, 20).Draw(t, "points") {
			p := drawPoint(t, 2)
			apart.AddPoint(p)
			p.Phase = 0
			one.AddPoint(p)
		}
		before := slices.Clone(apart.Snapshot().Points())
		if diff := cmp.Diff(one.Snapshot().Points(), ccmap.SumPhases(apart.Snapshot().Points())); diff != "" {
			t.Errorf("-added in one phase +summed:\n%s", diff)
		}
		if diff := cmp.Diff(before, apart.Snapshot().Points()); diff != "" {
			t.Errorf("points were changed:\n%s", diff)
		}
	})
}

// BenchmarkSetPoints replaces points and takes a snapshot of them, as the manager
// does once a second.
func BenchmarkSetPoints(b *testing.B) {
	for _, points := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("points=%d", points), func(b *testing.B) {
			g := newCallGraph(500)
			m := ccmap.New(ccmap.Options{Names: g.names})
			list := make([]ccmap.Point, points)
			for i := range list {
				list[i] = ccmap.Point{Method: ccmap.MethodID(i * 7 % 500), Offset: uint32(i), Nulls: ccmap.NullsUnknown}
				list[i].Callers = g.stack(i % 4)
				for v := range 1 + i%5 {
					list[i].Values = append(list[i].Values, ccmap.PointValue{Value: uint64(v), Count: 10})
				}
			}
			for b.Loop() {
				m.SetPoints(ccmap.OriginBurst, list)
				m.Snapshot()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(points), "ns/point")
		})
	}
}
