package wasm

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// earlierRun returns the profile of a guest's first run, through a file, as the next run reads it.
func earlierRun(t *testing.T, s *ccmap.Snapshot) *managed.Cached {
	t.Helper()
	var file bytes.Buffer
	if err := export.Write(&file, export.JSON, s); err != nil {
		t.Fatal(err)
	}
	m, _, err := export.Read(&file, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := managed.ReadCachedProfile(nil, m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run samples calls of a guest at every stride-th safe point.
func (p *profile) run(binary []byte, export string, params ...uint64) (result string, s *ccmap.Snapshot) {
	p.Helper()
	guest := p.instantiate(p.compile(binary))
	p.mark(guest)
	for range 200 {
		got, err := guest.ExportedFunction(export).Call(context.Background(), params...)
		result += fmt.Sprint(got, err)
	}
	p.contexts()
	return result, p.folded.Snapshot()
}

// TestLightRun: in mode 2 a guest does what it did, with fewer safe points; no activation is counted that was not,
// and the profile agrees with the first one. Functions whose code is another one are instrumented as ever.
func TestLightRun(t *testing.T) {
	t.Parallel()
	for _, c := range exportCalls {
		t.Run(c.guest+"/"+c.function, func(t *testing.T) {
			t.Parallel()
			binary := guests.Small(c.guest)
			tr, plain := newTruth(t, binary, reenter)
			for range 200 {
				_, _ = plain.ExportedFunction(c.function).Call(context.Background(), c.params...)
			}
			first := newProfile(t, everySafePoint(1), compiling())
			provide(t, context.Background(), first.runtime, reenter)
			want, cold := first.run(binary, c.function, c.params...)
			o := everySafePoint(1)
			o.Cached, o.Light = earlierRun(t, cold), true
			second := newProfile(t, o, compiling())
			provide(t, context.Background(), second.runtime, reenter)
			got, warm := second.run(binary, c.function, c.params...)
			if got != want {
				t.Errorf("the guest returned something else")
			}
			second.checkAtMost(tr.all)
			if cold.Total().Samples < fewestSamples {
				return
			}
			if len(second.profiler.CachedUses()) == 0 {
				t.Error("nothing is used")
			}
			if warm.Total().Samples > cold.Total().Samples {
				t.Errorf("%d safe points, more than %d", warm.Total().Samples, cold.Total().Samples)
			}
		})
	}
}
