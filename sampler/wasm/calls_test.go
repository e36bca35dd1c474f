package wasm

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// Indirect calls are caught with what they reach, in the order in which they are made.
func TestIndirectCallsAreCaught(t *testing.T) {
	t.Parallel()
	p := newProfile(t, everySafePoint(1<<20), compiling())
	guest := p.instantiate(p.compile(guests.Small("indirect")))
	p.mark(guest)
	p.profiler.Mark(24 * time.Hour) // a burst of calls is due since long
	if _, err := guest.ExportedFunction("run").Call(context.Background(), 14); err != nil {
		t.Fatal(err)
	}
	p.profiler.instances.get(guest).thread.Park()
	names := p.profiler.Sink().Names
	var got []string
	p.profiler.Sink().Queue.Drain(func(s *ccmap.Sample) {
		if !s.Hit {
			return
		}
		got = append(got, names.At(s.Frames[0].Method).Name)
		if site := s.Frames[1]; names.At(site.Method).Name != "$5" || site.Offset == ccmap.NoOffset || len(s.Frames) != 2 {
			t.Errorf("called from %v", s.Frames[1:])
		}
	})
	counts := map[string]int{}
	for _, name := range got {
		counts[name]++
	}
	if diff := cmp.Diff(map[string]int{"square": 8, "circle": 4, "triangle": 2}, counts); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
