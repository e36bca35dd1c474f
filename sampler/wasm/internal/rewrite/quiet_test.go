package rewrite_test

import (
	"context"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// noPolls asks for no polls at all.
func noPolls(exits [][]uint32) []rewrite.Quiet {
	return slices.Repeat([]rewrite.Quiet{{Entry: true, Exit: true}}, len(exits))
}

// TestEveryCycleHasASafePoint: where polls are taken away, functions that call each other keep some, or a guest could
// neither be sampled nor ended. What hosts call keeps its entry.
func TestEveryCycleHasASafePoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		guest, function string
		param           uint64
	}{{"fib", "fib", 15}, {"mutual", "even", 500}, {"tailcalls", "even", 500}, {"indirect", "run", 500}} {
		o := stubbed
		o.Announce, o.Quiet = nil, noPolls
		polls := uint64(0)
		guest := countPolls(t, rewritten(t, guests.Small(c.guest), o).Binary, &polls)
		if _, err := guest.ExportedFunction(c.function).Call(context.Background(), c.param); err != nil {
			t.Fatal(err)
		}
		if polls < 100 {
			t.Errorf("%s(%d): %d polls", c.function, c.param, polls)
		}
	}
}

// TestExitsAreThoseOfPolls: the positions that Quiet is asked for are those of exits.
func TestExitsAreThoseOfPolls(t *testing.T) {
	t.Parallel()
	asked := 0
	o := stubbed
	o.Quiet = func(exits [][]uint32) []rewrite.Quiet {
		for _, of := range exits {
			asked += len(of)
		}
		return make([]rewrite.Quiet, len(exits))
	}
	m, plain := rewritten(t, fibGuest(), o), stubbed
	if asked == 0 || string(m.Binary) != string(rewritten(t, fibGuest(), plain).Binary) {
		t.Errorf("%d exits; a function that keeps its polls has changed", asked)
	}
}
