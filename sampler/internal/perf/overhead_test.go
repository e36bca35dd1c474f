package perf

import (
	"context"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// TestOverhead samples a thread that leaves its CPU a thousand times and does little else:
// the switches are the overhead. Without costs nothing is known.
func TestOverhead(t *testing.T) {
	t.Parallel()
	const naps = 1000
	for name, costs := range map[string]perfevent.Costs{
		"known":   {Sample: 50 * time.Microsecond, Switch: 2 * time.Microsecond},
		"unknown": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := enginetest.Start(t, enginetest.Build(t, "workload"), "naps", "1000")
			s, _ := attach(t, g.PID(), Options{Watchpoints: -1})
			s.drainer.Costs = costs
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() {
				_, err := s.Run(ctx)
				done <- err
			}()
			g.Proceed(t)
			g.Line(t)
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			o := s.Stats().Overhead
			switch {
			case costs == perfevent.Costs{}:
				if o.String() != "" {
					t.Errorf("%s without costs", o)
				}
			case o.Switches < naps*costs.Switch || o.Watches != 0 || o.Of <= 0:
				t.Errorf("%+v after %d switches of %v", o, naps, costs.Switch)
			}
			t.Log(o)
		})
	}
}
