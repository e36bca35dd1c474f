package manager

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
)

var quiet = slog.New(slog.DiscardHandler)

// pseudo are the names of methods that no call is written of.
var pseudo = []string{ccmap.KernelName, ccmap.UnknownName, ccmap.TruncatedName}

// drawSamples returns samples of few methods, pseudo methods among them, at few
// offsets, so that calls repeat and call sites have several callees.
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

// callsOf counts the caught calls of a snapshot's points, in any context, by edge. Of
// its tables nothing may have been forgotten.
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

// hitOf makes a sample a hit: a call of its first method by the second.
func hitOf(s *ccmap.Sample) *ccmap.Sample {
	s.Hit, s.Weight = true, 0
	return s
}

// TestHitsAreNoSamples: a session with hits has the map and the figures of one
// without.
func TestHitsAreNoSamples(t *testing.T) {
	t.Parallel()
	run := func(hits bool) Report {
		return newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for i := range 100 {
				one := stack(names, "leaf", "mid", "root")
				one.Top = ccmap.Repetition(i % 3)
				r.Push(one)
				if hits && i%10 == 0 {
					r.Push(hitOf(stack(names, "mid", "leaf", "other", "root")))
					r.Push(hitOf(stack(names, "root")))
				}
			}
		}).mustRun(t)
	}
	without, with := run(false), run(true)
	if diff := cmp.Diff(slices.Collect(without.Snapshot.Nodes()), slices.Collect(with.Snapshot.Nodes())); diff != "" {
		t.Errorf("nodes (without hits, with):\n%s", diff)
	}
	a, b := without.Snapshot.Meta(), with.Snapshot.Meta()
	if a.Known != b.Known || a.Repeated != b.Repeated || a.Loss != b.Loss || without.Snapshot.Total() != with.Snapshot.Total() {
		t.Errorf("without hits %+v, with %+v", a, b)
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
		r.Push(hitOf(stack(names, "leaf", "root")))
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
	hit := hitOf(stack(names, "leaf", "mid", "root", "[unknown]"))
	learn := func() { v.hit(hit) }
	learn()
	if n := testing.AllocsPerRun(100, learn); n > 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}
