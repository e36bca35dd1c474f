package ccmap_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// decayed are the weights of samples that fall by a factor of e for every window,
// in plain float64.
type decayed struct {
	window time.Duration
	clock  int64 // never goes back
	at     []int64
	stacks [][]ccmap.Frame
	times  []int64
}

func (d *decayed) advance(now int64) { d.clock = max(d.clock, now) }

func (d *decayed) count(now int64, stack []ccmap.Frame, weight int64) {
	d.advance(now)
	d.at, d.stacks, d.times = append(d.at, d.clock), append(d.stacks, stack), append(d.times, weight)
}

// sum returns the time of the samples, each as often as some says.
func (d *decayed) sum(some func(stack []ccmap.Frame) int) (samples, time float64) {
	for i, stack := range d.stacks {
		w := math.Exp(-float64(d.clock-d.at[i])/float64(d.window)) * float64(some(stack))
		samples += w
		time += w * float64(d.times[i])
	}
	return samples, time
}

func mustBeNear(t errorer, what string, got int64, want, slack float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > slack+1e-4*want {
		t.Fatalf("%s is %d, want %.1f", what, got, want)
	}
}

// TestRecent compares the window's totals with plain ones, however often the map
// was pruned.
func TestRecent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 60)
		window := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, time.Second, 15 * time.Minute}).Draw(t, "window")
		m := ccmap.New(ccmap.Options{Names: p.names, Window: window})
		want := &decayed{window: window}
		now := rapid.SampledFrom([]int64{-5, 0, 1 << 50}).Draw(t, "start")
		for i, s := range p.samples {
			s.Time, s.Weight = now, s.Weight*1e6
			m.Fold(&s)
			want.count(now, p.stacks[i], s.Weight)
			now += int64(float64(window) * rapid.SampledFrom([]float64{-0.001, 0, 0.01, 0.3, 3}).Draw(t, "pause"))
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				m.Advance(now)
				want.advance(now)
				m.PruneTo(rapid.IntRange(0, m.Len()).Draw(t, "nodes"))
			case 1:
				m.Advance(now)
				want.advance(now)
			case 2:
				want.mustMatch(t, m.Snapshot())
			}
		}
		m.Advance(now)
		want.advance(now)
		want.mustMatch(t, m.Snapshot())
	})
}

func (d *decayed) mustMatch(t errorer, s *ccmap.Snapshot) {
	t.Helper()
	mustBeValid(t, s)
	recent, ok := s.Recent()
	if !ok {
		t.Fatal("no window")
	}
	mustBeValid(t, recent)
	samples, time := d.sum(func([]ccmap.Frame) int { return 1 })
	mustBeNear(t, "samples", recent.Total().Samples, samples, 1)
	mustBeNear(t, "time", recent.Total().Time, time, 64)
	if got := recent.Total().Activations; got != 0 {
		t.Fatalf("%d recent activations", got)
	}
	slack := float64(2 * s.Len() * 64)
	for p := range recent.Methods() {
		if p.Method().Name == ccmap.PrunedName {
			continue
		}
		is := func(f ccmap.Frame) bool { return f.Method == p.ID() }
		_, total := d.sum(func(stack []ccmap.Frame) int {
			n := 0
			for _, f := range stack {
				if is(f) {
					n++
				}
			}
			return n
		})
		_, cumulative := d.sum(func(stack []ccmap.Frame) int {
			if slices.ContainsFunc(stack, is) {
				return 1
			}
			return 0
		})
		_, self := d.sum(func(stack []ccmap.Frame) int {
			if is(stack[0]) {
				return 1
			}
			return 0
		})
		mustBeNear(t, "Total", p.Total().Time, total, slack)
		mustBeNear(t, "Cumulative", p.Cumulative().Time, cumulative, slack)
		mustBeNear(t, "Self", p.Self().Time, self, slack)
	}
}

// TestRecentWeighsManySamples counts ten million in one cell: a float32 that was
// rounded the same way every time would be off by half.
func TestRecentWeighsManySamples(t *testing.T) {
	t.Parallel()
	n := 10_000_000
	if testing.Short() {
		n /= 10
	}
	m, a, _, _ := abc()
	m.SetWindow(time.Hour)
	s := ccmap.Sample{Frames: []ccmap.Frame{{Method: a, Offset: 1}}, Weight: 10_000_019}
	want := 0.0
	for i := range n {
		s.Time = int64(i) * 1e6
		m.Fold(&s)
		want += math.Exp(-float64(n-1-i) * 1e6 / float64(time.Hour))
	}
	recent, _ := m.Snapshot().Recent()
	mustBeNear(t, "samples", recent.Total().Samples, want, 0)
	mustBeNear(t, "time", recent.Total().Time, want*10_000_019, 0)
}

// TestRecentFades when nothing is sampled, and is gone in the end. The whole run
// stays.
func TestRecentFades(t *testing.T) {
	t.Parallel()
	m, a, _, _ := abc()
	m.SetWindow(time.Minute)
	m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: a}}, Time: 5, Weight: 1e9})
	for minutes, want := range map[time.Duration]float64{0: 1e9, 1: 1e9 / math.E, 10: 1e9 * math.Exp(-10), 1e6: 0} {
		later := ccmap.New(ccmap.Options{})
		if err := later.Merge(m.Snapshot()); err != nil {
			t.Fatal(err)
		}
		later.Advance(7)
		later.Advance(7 + int64(minutes*time.Minute))
		s := later.Snapshot()
		recent, _ := s.Recent()
		mustBeNear(t, "time", recent.Total().Time, want, 64)
		if s.Total().Time != 1e9 {
			t.Errorf("the whole run has %d ns", s.Total().Time)
		}
	}
}

// TestRecentBadTimes folds samples of times that cannot be.
func TestRecentBadTimes(t *testing.T) {
	t.Parallel()
	m, a, _, _ := abc()
	m.SetWindow(time.Nanosecond) // is taken as a millisecond
	for _, now := range []int64{0, math.MinInt64, 1, math.MaxInt64, 2, math.MaxInt64 - 1} {
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: a}}, Time: now, Weight: math.MaxInt64 / 4})
		m.Advance(now)
		mustBeValid(t, m)
	}
	recent, _ := m.Snapshot().Recent()
	mustBeValid(t, recent)
	if got := recent.Total().Samples; got != 3 { // of the last three: the clock stays in the future
		t.Errorf("%d recent samples, want 3", got)
	}
	if got := m.Snapshot().Meta().Window; got != time.Millisecond {
		t.Errorf("window of %v", got)
	}
	first := ccmap.New(ccmap.Options{Window: time.Hour})
	first.Advance(math.MinInt64)
	first.Advance(math.MaxInt64)
	mustBeValid(t, first)
}

// TestNoWindow has no recent counters.
func TestNoWindow(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{0, -1, math.MinInt64} {
		m := ccmap.New(ccmap.Options{Window: window})
		a := m.Names().Intern(ccmap.Method{Name: "A"})
		m.Advance(3)
		n := m.Child(m.Root(), 0, a)
		m.Add(n, ccmap.Counters{Samples: 1})
		m.AddRecent(n, ccmap.Counters{Samples: 1})
		mustBeValid(t, m)
		s := m.Snapshot()
		if _, ok := s.Recent(); ok || s.Meta().Window != 0 {
			t.Errorf("there is a window of %v", s.Meta().Window)
		}
	}
}

// rebuilt decodes a snapshot like an importer, from its accessors.
func rebuilt(t fataler, s *ccmap.Snapshot) *ccmap.Snapshot {
	t.Helper()
	m := ccmap.New(ccmap.Options{Names: s.Names()})
	*m.Meta() = s.Meta()
	m.SetWindow(s.Meta().Window)
	recent, ok := s.Recent()
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		id := m.Child(n.Parent, n.Offset, n.Method)
		m.Add(id, n.Self)
		if ok {
			m.AddRecent(id, recent.Node(n.ID).Self)
		}
	}
	for e := range s.PrunedEdges() {
		m.AddPruned(e)
	}
	for p := range s.PrunedMethods() {
		m.AddPrunedMethod(p)
	}
	mustBeValid(t, m)
	return m.Snapshot()
}

// TestRebuilt writes a map node by node into another: all that the accessors say
// is the same, the window to the last digit.
func TestRebuilt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		p.run(t, 60)
		m := ccmap.New(ccmap.Options{Names: p.names, Window: time.Second})
		for i := range p.samples {
			p.samples[i].Time = int64(i) * rapid.Int64Range(0, 1e9).Draw(t, "pause")
			m.Fold(&p.samples[i])
		}
		m.PruneTo(rapid.IntRange(0, m.Len()).Draw(t, "nodes"))
		s := m.Snapshot()
		again := rebuilt(t, s)
		recent, _ := s.Recent()
		recentAgain, _ := again.Recent()
		for _, pair := range [][2]*ccmap.Snapshot{{s, again}, {recent, recentAgain}} {
			if d := cmp.Diff(said(pair[0]), said(pair[1])); d != "" {
				t.Fatalf("(-first +rebuilt):\n%s", d)
			}
		}
	})
}

// everything is all that the accessors of a snapshot say.
type everything struct {
	Nodes   []ccmap.Node
	Edges   []ccmap.PrunedEdge
	Methods []ccmap.PrunedMethod
	Totals  []ccmap.Counters
	Meta    ccmap.Meta
}

func said(s *ccmap.Snapshot) everything {
	e := everything{
		Nodes:   slices.Collect(s.Nodes()),
		Edges:   slices.Collect(s.PrunedEdges()),
		Methods: slices.Collect(s.PrunedMethods()),
		Totals:  []ccmap.Counters{s.Total(), s.PrunedTotal()},
		Meta:    s.Meta(),
	}
	for p := range s.Methods() {
		e.Totals = append(e.Totals, p.Total(), p.Cumulative(), p.Self())
	}
	return e
}
