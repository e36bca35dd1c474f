package perf

import (
	"context"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"golang.org/x/sys/unix"
)

// record keeps the bodies of n sample records of a source that is not run.
func record(b *testing.B, s *Source, n int) [][]byte {
	b.Helper()
	d := s.drainer
	var bodies [][]byte
	for len(bodies) < n {
		if _, err := d.wait(time.Now()); err != nil {
			b.Fatal(err)
		}
		for rest := d.seat.inbox.Swap(nil); len(rest) > 0; {
			var r perfevent.Record
			var ring int
			ring, r, rest = next(rest)
			if r.Kind == unix.PERF_RECORD_SAMPLE {
				bodies = append(bodies, r.Body)
			} else if err := d.record(context.Background(), ring, &r); err != nil {
				b.Fatal(err)
			}
		}
	}
	return bodies
}

// BenchmarkTake turns recorded samples of a live process into samples of the
// queue: unwinding, goroutine, verdict and names, without the wake-up.
func BenchmarkTake(b *testing.B) {
	for _, watches := range []int{-1, 0} {
		name := "watch=true"
		if watches < 0 {
			name = "watch=false"
		}
		b.Run(name, func(b *testing.B) {
			g := enginetest.Start(b, enginetest.Build(b, "workload"), "busy", "60000")
			s, sink := attach(b, g.PID(), Options{Interval: time.Millisecond, Watchpoints: watches, WatchBudget: 1})
			defer s.Close()
			g.Proceed(b)
			bodies := record(b, s, 256)
			s.threads.setInterval(time.Hour)
			d := s.drainer
			d.Local = sink.Queue.Ring()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := d.sample.Decode(0, bodies[i%len(bodies)]); err != nil {
					b.Fatal(err)
				}
				d.sample.Time = uint64(perfevent.Monotonic()) // drained at once
				d.Take(context.Background(), d.momentOf(&d.sample), time.Millisecond, true)
				i++
			}
		})
	}
}
