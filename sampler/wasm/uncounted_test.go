package wasm

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// Without the code that tells activations, the samples are the same, and the
// activations unknown.
func TestNoActivations(t *testing.T) {
	t.Parallel()
	for _, c := range exportCalls {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			binary := guests.Small(c.guest)
			counted, known := c.samples(t, binary, everySafePoint(1))
			o := everySafePoint(1)
			o.NoActivations, o.HitBudget = true, -1
			uncounted, unknown := c.samples(t, binary, o)
			if diff := cmp.Diff(counted, uncounted); diff != "" {
				t.Errorf("samples (-counted +uncounted):\n%s", diff)
			}
			if !known || unknown && len(uncounted) > 0 {
				t.Errorf("activations known: %v with the code, %v without", known, unknown)
			}
		})
	}
}

// samples calls the export and returns the samples by context, and whether the
// activations are known.
func (c exportCall) samples(t *testing.T, binary []byte, o Options) (samples paths, known bool) {
	t.Helper()
	p := newProfile(t, o, compiling())
	provide(t, context.Background(), p.runtime, reenter)
	guest := p.instantiate(p.compile(binary))
	for _, name := range []string{rewrite.DepthGlobal, rewrite.VisitedGlobal} {
		if (guest.ExportedGlobal(name) != nil) == o.NoActivations {
			t.Errorf("%s: NoActivations is %v", name, o.NoActivations)
		}
	}
	p.mark(guest)
	if _, err := guest.ExportedFunction(c.function).Call(context.Background(), c.params...); err != nil {
		t.Fatal(err)
	}
	p.contexts()
	s := p.folded.Snapshot()
	return countPaths(s, func(n ccmap.Node) int64 { return n.Self.Samples }), s.ActivationsExact()
}
