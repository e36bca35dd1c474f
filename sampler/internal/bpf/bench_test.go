package bpf

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// BenchmarkProgram takes the time of the kernel's program for a sample, with the kernel's stack and without. The
// target reads a file without a pause. The program's runs that take no sample count, too.
func BenchmarkProgram(b *testing.B) {
	for _, kernel := range []bool{false, true} {
		b.Run(fmt.Sprintf("kernel=%t", kernel), func(b *testing.B) {
			o := Options{Interval: time.Millisecond, Watchpoints: -1, HitBudget: -1, MaxHostOverhead: -1}
			if kernel {
				o.KernelNames = func(uint64) (string, bool) { return "", false }
			}
			g := enginetest.Start(b, enginetest.Build(b, "workload"), "read", "3600000")
			s, _ := enginetest.Attach(b, Open, g.PID(), o)
			on, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
			if err != nil {
				b.Fatal(err)
			}
			defer on.Close()
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := s.Run(ctx)
				ended <- err
			}()
			g.Proceed(b)
			enginetest.AwaitSamples(b, s, 100)
			before, samples := runTime(b, s), s.host.counted(taken)
			enginetest.AwaitSamples(b, s, 100+uint64(b.N))
			time, n := runTime(b, s)-before, s.host.counted(taken)-samples
			b.ReportMetric(float64(time)/float64(n), "ns/sample")
			b.ReportMetric(0, "ns/op")
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// runTime returns the time of all runs of the program.
func runTime(b *testing.B, s *Source) time.Duration {
	b.Helper()
	st, err := s.host.program.Sample.Stats()
	if err != nil {
		b.Fatal(err)
	}
	return st.Runtime
}
