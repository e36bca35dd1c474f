package manager

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// workload draws stacks: a few hot ones and many rare ones.
type workload struct {
	*rand.Rand
	names  *ccmap.Names
	prefix string // of its methods' names
	stacks int
}

func newWorkload(names *ccmap.Names, prefix string, seed uint64) *workload {
	return &workload{rand.New(rand.NewPCG(seed, 1)), names, prefix, 100}
}

// next returns a sample of 4 frames below a common root.
func (w *workload) next() *ccmap.Sample {
	k := int(float64(w.stacks) * math.Pow(w.Float64(), 3))
	return stack(w.names, fmt.Sprint(w.prefix, "leaf", k), fmt.Sprint(w.prefix, "mid", k/3), w.prefix+"top", "main")
}

// fold folds samples of the workload and looks at the map after every chunk. It returns
// the number of chunks that were drift.
func (w *workload) fold(m *ccmap.Map, p *phases, chunks int) (drifts int) {
	for range chunks {
		for range driftChunk {
			m.Fold(w.next())
		}
		if p.look(m.Snapshot()); p.drift {
			drifts++
		}
	}
	return drifts
}

// The expected overlap of halves is their real overlap, as far as one split can tell.
func TestPhaseConvergesAsTheNoiseFloor(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine folds samples")
	}
	t.Parallel()
	for seed := range uint64(5) {
		m := ccmap.New(ccmap.Options{Seed: 1})
		w := newWorkload(m.Names(), "a.", seed)
		var p phases
		for chunks := 1; chunks <= 16; chunks *= 2 {
			w.fold(m, &p, chunks)
			f, err := compare.Floors(m.Snapshot(), compare.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if off := math.Abs(f.Edges - p.converged); off > 100/math.Sqrt(float64(f.Samples)) {
				t.Errorf("seed %d, %d samples: settled to %.1f %%, halves overlap %.1f %%", seed, f.Samples, p.converged, f.Edges)
			}
		}
	}
}

func TestSteadyProgramDoesNotDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine folds samples")
	}
	t.Parallel()
	for seed := range uint64(10) {
		m := ccmap.New(ccmap.Options{Seed: 1})
		var p phases
		if n := newWorkload(m.Names(), "a.", seed).fold(m, &p, 30); n > 0 {
			t.Errorf("seed %d: %d chunks of 30 drift", seed, n)
		}
	}
}

// Pruning moves old samples to other nodes, all at once.
func TestPruningIsNoDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine folds samples")
	}
	t.Parallel()
	m := ccmap.New(ccmap.Options{Seed: 1, MaxBytes: 128 << 10})
	w := newWorkload(m.Names(), "a.", 1)
	w.stacks = 3000
	var p phases
	for i := range 30 {
		if n := w.fold(m, &p, 1); n > 0 {
			t.Errorf("chunk %d drifts: %.1f %% in common, chance explains %.1f %%", i, p.common, p.chance)
		}
	}
	if m.Meta().Pruned.Times < 3 {
		t.Errorf("pruned: %+v", m.Meta().Pruned)
	}
}

// The scatter of a coin is the hardest to tell from drift: there are only two edges.
func TestTwoStacksDoNotDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine folds samples")
	}
	t.Parallel()
	m := ccmap.New(ccmap.Options{Seed: 1})
	w := newWorkload(m.Names(), "a.", 1)
	w.stacks = 2
	var p phases
	if n := w.fold(m, &p, 200); n > 1 {
		t.Errorf("%d chunks of 200 drift", n)
	}
}

func TestNewPhaseIsDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine folds samples")
	}
	t.Parallel()
	m := ccmap.New(ccmap.Options{Seed: 1})
	a, b := newWorkload(m.Names(), "a.", 1), newWorkload(m.Names(), "b.", 2)
	var p phases
	a.fold(m, &p, 50)
	before := p.converged
	if n := b.fold(m, &p, 1); n != 1 || p.converged >= before {
		t.Fatalf("%d drifts in the first chunk; settled to %.1f %%, before to %.1f %%", n, p.converged, before)
	}
	if n := b.fold(m, &p, 50); n != 0 {
		t.Errorf("%d chunks of the new phase drift from itself", n)
	}
	if math.Abs(p.converged-before) > 1 {
		t.Errorf("the new phase settled to %.1f %%, the old one to %.1f %%", p.converged, before)
	}
}

// A fifth of the work moves elsewhere.
func TestPartialChangeIsDrift(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{Seed: 1})
	a, b := newWorkload(m.Names(), "a.", 1), newWorkload(m.Names(), "b.", 2)
	var p phases
	a.fold(m, &p, 50)
	for i := range driftChunk {
		if i%5 == 0 {
			m.Fold(b.next())
		} else {
			m.Fold(a.next())
		}
	}
	if p.look(m.Snapshot()); !p.drift {
		t.Error("no drift was found")
	}
}

// Stacks of one frame have no edges.
func TestNoEdgesDoNotDrift(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{Seed: 1})
	var p phases
	for i := range 3 * driftChunk {
		m.Fold(stack(m.Names(), fmt.Sprint("f", i%7)))
		p.look(m.Snapshot())
	}
	if p.drift || p.converged != 100 {
		t.Errorf("drift %v, settled to %v %%", p.drift, p.converged)
	}
}
