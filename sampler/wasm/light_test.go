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
// and no more samples are missing than may. What 30 samples have met is known from the first sample on. Functions whose code is another one are instrumented as ever.
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
			checkTrusted(t, cold, second.profiler.CachedUses())
			if missing := missingIn(warm, cold); float64(missing) > mostUnfound*float64(cold.Total().Samples) {
				t.Errorf("%d of %d safe points are missing", missing, cold.Total().Samples)
			}
			if warm.Total().Samples > cold.Total().Samples {
				t.Errorf("%d safe points, more than %d", warm.Total().Samples, cold.Total().Samples)
			}
		})
	}
}

// checkTrusted checks that the cached profile serves each function that 30 samples have met, from the first sample on.
func checkTrusted(t *testing.T, cold *ccmap.Snapshot, uses []CachedUse) {
	t.Helper()
	used := make(map[string]bool)
	for _, u := range uses {
		used[u.Method.Name] = u.Reason == ""
	}
	for m := range cold.Methods() {
		if want := m.Cumulative().Samples >= fewestCaught; m.Method().Body != 0 && used[m.Method().Name] != want {
			t.Errorf("%s: %d samples, used: %v", m.Method().Name, m.Cumulative().Samples, !want)
		}
	}
}

// missingIn returns the samples of methods that one run has and another, of the same program at the same safe points,
// has not.
func missingIn(warm, cold *ccmap.Snapshot) (missing int64) {
	left := make(map[string]int64)
	for m := range warm.Methods() {
		left[m.Method().Name] = m.Self().Samples
	}
	for m := range cold.Methods() {
		missing += max(0, m.Self().Samples-left[m.Method().Name])
	}
	return missing
}
