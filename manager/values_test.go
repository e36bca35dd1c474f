package manager

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/valueprof"
)

var quiet = slog.New(slog.DiscardHandler)

// pseudo are the names of pseudo methods, which make no calls.
var pseudo = []string{ccmap.KernelName, ccmap.UnknownName, ccmap.TruncatedName}

// drawSamples returns samples of few methods and pseudo methods at few offsets. So
// calls repeat, and call sites have several callees.
func drawSamples(t *rapid.T, names *ccmap.Names) []ccmap.Sample {
	ids := []ccmap.MethodID{}
	for _, name := range slices.Concat([]string{"a", "b", "c", "d"}, pseudo) {
		ids = append(ids, names.Intern(ccmap.Method{Name: name}))
	}
	frame := rapid.Custom(func(t *rapid.T) ccmap.Frame {
		return ccmap.Frame{
			Method: rapid.SampledFrom(append(ids, ccmap.NoMethod)).Draw(t, "method"),
			Offset: rapid.SampledFrom([]uint32{0, 1, 2, ccmap.NoOffset}).Draw(t, "offset"),
		}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ccmap.Sample {
		return ccmap.Sample{
			Thread:    rapid.Uint64Range(1, 3).Draw(t, "thread"),
			Weight:    1,
			Frames:    rapid.SliceOfN(frame, 0, 6).Draw(t, "frames"),
			Truncated: rapid.Bool().Draw(t, "truncated"),
			Fresh:     ccmap.FreshUnknown,
		}
	}), 0, 50).Draw(t, "samples")
}

// callsOf counts the caught calls in a snapshot's points, in any context, by edge. The
// points must have all types.
func callsOf(t testing.TB, s *ccmap.Snapshot) map[edge]int64 {
	calls := make(map[edge]int64)
	for _, p := range s.Points() {
		if p.Callers != nil {
			continue
		}
		if p.Origin != ccmap.OriginBurst || p.Other != 0 || p.Aged != 0 || p.Nulls != ccmap.NullsUnknown || p.Kind != ccmap.PointCall {
			t.Errorf("point %+v", p)
		}
		for _, v := range p.Values {
			calls[edge{p.Method, ccmap.MethodID(v.Value), p.Offset}] += v.Count
		}
	}
	return calls
}

// caughtCall makes a sample a caught call of its first method by its second.
func caughtCall(s *ccmap.Sample) *ccmap.Sample {
	s.Hit, s.Weight = true, 0
	return s
}

// TestCaughtCallsAreNotSamples: caught calls change neither the map nor the figures of
// a session.
func TestCaughtCallsAreNotSamples(t *testing.T) {
	t.Parallel()
	run := func(calls bool) Report {
		return newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for i := range 100 {
				one := stack(names, "leaf", "mid", "root")
				one.Top = ccmap.Repetition(i % 3)
				r.Push(one)
				if calls && i%10 == 0 {
					r.Push(caughtCall(stack(names, "mid", "leaf", "other", "root")))
					r.Push(caughtCall(stack(names, "root")))
				}
			}
		}).mustRun(t)
	}
	without, with := run(false), run(true)
	if diff := cmp.Diff(slices.Collect(without.Snapshot.Nodes()), slices.Collect(with.Snapshot.Nodes())); diff != "" {
		t.Errorf("nodes (without calls, with):\n%s", diff)
	}
	a, b := without.Snapshot.Meta(), with.Snapshot.Meta()
	if a.Known != b.Known || a.Repeated != b.Repeated || a.Loss != b.Loss || without.Snapshot.Total() != with.Snapshot.Total() {
		t.Errorf("without calls %+v, with %+v", a, b)
	}
	if got := callsOf(t, without.Snapshot); len(got) != 0 {
		t.Errorf("of samples alone, caught calls %v", got)
	}
	if got := callsOf(t, with.Snapshot); len(got) != 1 {
		t.Errorf("caught calls %v", got)
	}
	if got := with.Values; got.Caught != 10 || got.Sites != 1 || got.Points != 2 || got.Bytes == 0 || got.Evicted != 0 {
		t.Errorf("learned %+v", got)
	}
	if without.Values.Caught != 0 || without.Values.Points != 0 {
		t.Errorf("learned of samples %+v", without.Values)
	}
}

func TestValuesOff(t *testing.T) {
	t.Parallel()
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
		r.Push(stack(names, "leaf", "root"))
		r.Push(caughtCall(stack(names, "leaf", "root")))
	})
	s.config.Values.Off = true
	r := s.mustRun(t)
	if n := len(r.Snapshot.Points()); n != 0 || r.Values != (ValueStats{}) || r.Snapshot.Total().Samples != 1 {
		t.Errorf("%d points, %+v, %+v", n, r.Values, r.Snapshot.Total())
	}
}

func TestLearningDoesNotAllocate(t *testing.T) {
	names := ccmap.NewNames()
	v := newValues(ValueOptions{}, names, quiet)
	call := caughtCall(stack(names, "leaf", "mid", "root", "[unknown]"))
	learn := func() { v.count(call) }
	learn()
	if n := testing.AllocsPerRun(100, learn); n > 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

// TestContextOfACaughtCall: a context ends at the first unknown caller.
func TestContextOfACaughtCall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		stack string // innermost first
		want  []string
	}{
		{"t site", []string{}},
		{"t site a", []string{"a"}},
		{"t site a b c d e", []string{"a", "b", "c"}},
		{"t site a [unknown] c", []string{"a"}},
		{"t site [truncated]", []string{}},
	} {
		names := ccmap.NewNames()
		v := newValues(ValueOptions{}, names, quiet)
		v.count(caughtCall(stack(names, strings.Fields(test.stack)...)))
		points := v.points()
		if len(points) != 2 || points[0].Callers != nil {
			t.Fatalf("%s: points %+v", test.stack, points)
		}
		got := []string{}
		for _, f := range points[1].Callers {
			got = append(got, names.At(f.Method).Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || points[1].Callers == nil {
			t.Errorf("%s: context (-want +got):\n%s", test.stack, diff)
		}
	}
}

// TestContextsAreBounded: contexts reuses numbers that no point has, and published
// frames do not change.
func TestContextsAreBounded(t *testing.T) {
	t.Parallel()
	const points, last = 8, 100
	nth := func(n int) callers { return callers{{Method: ccmap.MethodID(n)}, {Method: ccmap.NoMethod}} }
	x := newContexts(points)
	var held []valueprof.Site // as many as there may be, the latest
	inUse := func() iter.Seq[valueprof.Site] { return slices.Values(held) }
	first := x.frames(x.id(nth(0), inUse))
	for n := range last + 1 {
		id := x.id(nth(n), inUse)
		held = append(held, valueprof.Site{Context: id})
		held = held[max(0, len(held)-points):]
		for i, s := range held {
			if got := x.frames(s.Context)[0].Method; int(got) != n-len(held)+1+i {
				t.Fatalf("after context %d, number %d is of %d", n, s.Context, got)
			}
		}
	}
	if len(x.all) > x.limit || len(x.ids) > x.limit {
		t.Errorf("%d numbers and %d contexts are over %d", len(x.all), len(x.ids), x.limit)
	}
	if first[0].Method != 0 {
		t.Errorf("published frames became %v", first)
	}
}

// TestCallsInEverNewContexts: a hot context keeps its name after any number of rare
// contexts, with little memory.
func TestCallsInEverNewContexts(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	v := newValues(ValueOptions{MaxPoints: 32}, names, quiet)
	for n := range 500 {
		v.count(caughtCall(stack(names, "t", "site", "hot")))
		v.count(caughtCall(stack(names, "t", fmt.Sprint("site", n), fmt.Sprint("rare", n))))
	}
	for _, p := range v.points() {
		if len(p.Callers) > 0 && names.At(p.Callers[0].Method).Name == "hot" && p.Count == 500 {
			return
		}
	}
	t.Errorf("points %+v", v.points())
}

// TestDumpHasNames: the dump has the names of methods, and the lines of calls if they
// are known.
func TestDumpHasNames(t *testing.T) {
	t.Parallel()
	var dump bytes.Buffer
	names := ccmap.NewNames()
	names.Intern(ccmap.Method{Name: "main.site", File: "main.go", StartLine: 10})
	v := newValues(ValueOptions{Dump: &dump}, names, quiet)
	for _, target := range []string{"main.a", "main.b", "main.c"} {
		v.count(caughtCall(stack(names, target, "main.site", "main.caller")))
	}
	for _, want := range []string{
		"table created site=main.site:12 ",
		"table added value=main.c site=main.site:12<main.caller+3 ",
	} {
		if !strings.Contains(dump.String(), want) {
			t.Errorf("dump lacks %q:\n%s", want, &dump)
		}
	}
}
