package ccmap_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// chunkBytes is the most that a map grows by at a time: 1,024 nodes with recent
// counters.
const chunkBytes = 1024 * 36

// TestBudget folds novel stacks worth many times the budget.
func TestBudget(t *testing.T) {
	t.Parallel()
	times := int64(50)
	if testing.Short() {
		times = 10
	}
	for _, test := range []struct {
		budget int64
		window time.Duration
	}{{256 << 10, 0}, {1 << 20, time.Minute}} {
		t.Run(fmt.Sprintf("%d KiB, window %v", test.budget>>10, test.window), func(t *testing.T) {
			t.Parallel()
			g := newCallGraph(200)
			m := ccmap.New(ccmap.Options{Names: g.names, MaxBytes: test.budget, Window: test.window})
			var want ccmap.Counters
			grown := int64(0) // in all
			for i := 0; grown < times*test.budget; i++ {
				s := ccmap.Sample{Frames: g.stack(10 + i%50), Weight: 1000, Time: int64(i) * 1e6, Thread: uint64(i % 100)}
				s.Fresh = int32(len(s.Frames))
				before := m.Bytes()
				m.Fold(&s)
				grown += max(m.Bytes()-before, 0)
				want = want.Add(ccmap.Counters{Samples: 1, Time: 1000, Activations: int64(s.Fresh)})
				if got := m.Bytes(); got > test.budget+chunkBytes {
					t.Fatalf("%d bytes after %d samples", got, i+1)
				}
			}
			s := m.Snapshot()
			mustBeValid(t, m)
			if s.Total() != want {
				t.Errorf("Total() = %+v, want %+v", s.Total(), want)
			}
			if self := selves(s); self != withoutActivations(want) {
				t.Errorf("methods have %+v of their own, want %+v", self, want)
			}
			// Half of the room is kept, so there is one prune for half a budget.
			if pruned := int64(s.Meta().Pruned.Times); pruned < times/2 || pruned > times*8 {
				t.Errorf("pruned %d times", pruned)
			}
		})
	}
}

// TestSetMaxBytes: a smaller bound holds at once, and for later samples.
func TestSetMaxBytes(t *testing.T) {
	t.Parallel()
	g := newCallGraph(200)
	m := ccmap.New(ccmap.Options{Names: g.names})
	m.FoldBatch(g.stacks(2000, 10, 60))
	before, all := m.Bytes(), m.Snapshot().Total()
	for _, bytes := range []int64{before / 2, before / 4} {
		m.SetMaxBytes(bytes)
		if m.Bytes() > bytes {
			t.Errorf("%d bytes of at most %d", m.Bytes(), bytes)
		}
		m.FoldBatch(g.stacks(2000, 10, 60))
		if m.Bytes() > bytes+chunkBytes {
			t.Errorf("%d bytes of at most %d after more samples", m.Bytes(), bytes)
		}
	}
	m.SetMaxBytes(0)
	m.FoldBatch(g.stacks(4000, 10, 60))
	if m.Bytes() <= before/4 || m.Snapshot().Total().Samples != all.Samples+8000 {
		t.Errorf("%d bytes without a bound, %d samples", m.Bytes(), m.Snapshot().Total().Samples)
	}
	mustBeValid(t, m)
}

// selves sums up the self counters of methods.
func selves(s *ccmap.Snapshot) (sum ccmap.Counters) {
	for p := range s.Methods() {
		sum = sum.Add(withoutActivations(p.Self()))
	}
	return sum
}

// TestBudgetTooSmall gives a map less memory than it needs for the parts that
// cannot be pruned. Totals come first; and it does not prune at every sample.
func TestBudgetTooSmall(t *testing.T) {
	g := newCallGraph(200)
	m := ccmap.New(ccmap.Options{Names: g.names, MaxBytes: 1})
	samples := g.stacks(20_000, 20, 40)
	m.FoldBatch(samples[:1000])
	if n := testing.AllocsPerRun(1, func() { m.FoldBatch(samples[1000:10_500]) }); n > 2*9500 {
		t.Errorf("%v allocations for 9,500 samples: it tries to prune all the time", n)
	}
	m.FoldBatch(samples[10_500:])
	mustBeValid(t, m)
	s := m.Snapshot()
	if got := selves(s); got != withoutActivations(s.Total()) || got.Samples < int64(len(samples)) {
		t.Errorf("methods have %+v, want %+v", got, s.Total())
	}
	if times := s.Meta().Pruned.Times; times > uint64(len(samples)/20) {
		t.Errorf("pruned %d times for %d samples", times, len(samples))
	}
	if m.Bytes() > 1<<20 {
		t.Errorf("%d bytes", m.Bytes())
	}
}

// TestMergeBudget merges maps that hold far more than the budget, one of them
// pruned itself, and a deep stack that exceeds it alone.
func TestMergeBudget(t *testing.T) {
	t.Parallel()
	g := newCallGraph(200)
	const budget = 512 << 10
	into := ccmap.New(ccmap.Options{Names: g.names, MaxBytes: budget})
	var want ccmap.Counters
	for i := range 4 {
		m := ccmap.New(ccmap.Options{Names: g.names, MaxBytes: int64(i%2) * budget})
		depth := 40
		if i == 3 {
			depth = 30_000
		}
		samples := g.stacks(120_000/depth, depth, depth)
		for i := range samples {
			m.Fold(&samples[i])
		}
		from := m.Snapshot()
		if err := into.Merge(from); err != nil {
			t.Fatal(err)
		}
		want = want.Add(from.Total())
		mustBeValid(t, into)
		if got := into.Bytes(); got > budget+chunkBytes {
			t.Errorf("%d bytes after %d merges", got, i+1)
		}
	}
	s := into.Snapshot()
	if s.Total() != want || selves(s) != withoutActivations(want) {
		t.Errorf("Total() = %+v, methods have %+v, want %+v", s.Total(), selves(s), want)
	}
}

// TestFoldAllocatesNothingWithWindow folds known stacks within a budget, while
// the window's clock goes through several octaves.
func TestFoldAllocatesNothingWithWindow(t *testing.T) {
	g := newCallGraph(100)
	samples := g.stacks(500, 10, 60)
	m := ccmap.New(ccmap.Options{Names: g.names, MaxBytes: 16 << 20, Window: time.Second})
	now := int64(0)
	turn := func() {
		for i := range samples {
			now += 1e6
			samples[i].Time = now
			m.Fold(&samples[i])
		}
	}
	turn()
	if n := testing.AllocsPerRun(20, turn); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
