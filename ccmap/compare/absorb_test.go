package compare_test

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"pgregory.net/rapid"
)

// Absorbing a method is cutting every stack before the first call of it.
func TestAbsorbCutsStacks(t *testing.T) {
	t.Parallel()
	absorb := func(m ccmap.Method) bool { return m.Name == "c" }
	always := stack{
		frames: []frame{{"a", 1}, {"b", 2}},
		counts: ccmap.Counters{Samples: 1, Time: 1, Activations: 1},
	}
	rapid.Check(t, func(t *rapid.T) {
		a := append(drawStacks("a").Draw(t, "a"), always)
		b := append(drawStacks("b").Draw(t, "b"), always)
		w := rapid.SampledFrom(weights).Draw(t, "weight")
		got, err := compare.Compare(snapshotOf(a), snapshotOf(b), compare.Options{Weight: w, Absorb: absorb})
		if err != nil {
			t.Fatal(err)
		}
		methodsA, edgesA, contextsA := explicit(cutBefore(a, "c", w), w)
		methodsB, edgesB, contextsB := explicit(cutBefore(b, "c", w), w)
		checkOverlap(t, "methods", got.Methods, methodsA, methodsB)
		checkOverlap(t, "edges", got.Edges, edgesA, edgesB)
		checkOverlap(t, "contexts", got.Contexts, contextsA, contextsB)
	})
}

// cutBefore drops the frames from the first one of a method on. The calls of
// what is dropped are nobody's; its time is the caller's.
func cutBefore(stacks []stack, method string, w compare.Weight) []stack {
	var out []stack
	for _, s := range stacks {
		for i, f := range s.frames {
			if f.method == method {
				s.frames = s.frames[:i]
				if w == compare.ByActivations {
					s.counts.Activations = 0
				}
				break
			}
		}
		if len(s.frames) > 0 {
			out = append(out, s)
		}
	}
	return out
}
