package perf

import (
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// TestTimeAddsUp: samples and what is unaccounted for make up the CPU time that the
// parent of the target is told, however much was lost: here the time of threads
// without descriptors.
func TestTimeAddsUp(t *testing.T) {
	t.Parallel()
	for _, missing := range []bool{false, true} {
		g := enginetest.Start(t, enginetest.Build(t, "workload"), "threads", "16")
		s, sink := attach(t, g.PID(), Options{})
		before, err := process.ReadCPUTimes(g.PID())
		if err != nil {
			t.Fatal(err)
		}
		if missing {
			leaveRoom(s, 0)
		}
		g.Proceed(t)
		samples, _ := enginetest.Collect(t, s, sink)
		used := g.Wait(t) - before.All
		var seen time.Duration
		for _, smp := range samples {
			seen += time.Duration(smp.Weight)
		}
		stats, kernel := s.Stats(), s.Info().NoKernelTime == ""
		if got := seen + stats.Loss.Unaccounted; got != stats.Loss.Clock {
			t.Errorf("samples stand for %v, %v are unaccounted for: that makes %v, and not %v", seen, stats.Loss.Unaccounted, got, stats.Loss.Clock)
		}
		if !kernel && (stats.Loss.Clock <= 0 || stats.Loss.Clock > used+before.All || stats.Loss.ClockTick <= 0) {
			t.Errorf("user time %v in ticks of %v, the parent is told %v", stats.Loss.Clock, stats.Loss.ClockTick, used)
		}
		if kernel && (stats.Loss.Clock < used || stats.Loss.Clock > used+before.All || stats.Loss.ClockTick != 0) {
			t.Errorf("the clock says %v in ticks of %v, the parent is told %v", stats.Loss.Clock, stats.Loss.ClockTick, used)
		}
		if missing && stats.Loss.Unaccounted < used/4 {
			t.Errorf("%v of %v are unaccounted for, though no thread that works could be sampled", stats.Loss.Unaccounted, used)
		}
		if warned := stats.Warning != ""; warned && !missing {
			t.Errorf("warning %q", stats.Warning)
		}
		t.Logf("missing %t: used %v, loss %+v, seen %v, warning %q", missing, used, stats.Loss, seen, stats.Warning)
	}
}
