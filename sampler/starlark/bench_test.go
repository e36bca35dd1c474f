package starlark

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// workloads are programs of some ms each, named after their main work.
var workloads = []struct{ name, program string }{
	{"calls", "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(19)\n"},
	{"arithmetic", "def main():\n    n = 0\n    for i in range(100000):\n        n = (n * 31 + i) % 65521\nmain()\n"},
	{"strings", "def main():\n    words = {}\n    for i in range(20000):\n        w = 'w%d' % (i % 1000)\n        words[w] = words.get(w, 0) + len(w.upper())\nmain()\n"},
	{"callbacks", "def main():\n    for i in range(200):\n        sorted(range(200), key=lambda x: x * 7 % 11)\nmain()\n"},
}

// BenchmarkSlowdown runs a workload without and with the profiler in turn. It compares
// the lower quartiles of the CPU times: other load on the machine moves them less than
// the median.
func BenchmarkSlowdown(b *testing.B) {
	for _, w := range workloads {
		for _, exact := range []bool{false, true} {
			for _, interval := range []time.Duration{0, 10 * time.Millisecond, time.Millisecond} {
				b.Run(fmt.Sprintf("program=%s/exact=%t/interval=%v", w.name, exact, interval), func(b *testing.B) {
					benchmarkSlowdown(b, w.program, Options{Exact: exact}, interval)
				})
			}
		}
	}
}

// benchmarkSlowdown's interval is 0 for a thread that is attached and never marked.
func benchmarkSlowdown(b *testing.B, source string, o Options, interval time.Duration) {
	_, program, err := starlark.SourceProgramOptions(dialect, "p.star", source, func(string) bool { return false })
	if err != nil {
		b.Fatal(err)
	}
	p, stop := startMarker(interval)
	defer stop()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var plain, profiled []time.Duration
	for b.Loop() {
		plain = append(plain, timed(b, program, nil))
		profiled = append(profiled, timed(b, program, func(thread *starlark.Thread) *Thread {
			return Attach(p, thread, o)
		}))
		p.Sink().Queue.Drain(func(*ccmap.Sample) {})
	}
	b.ReportMetric(100*(quartile(profiled)/quartile(plain)-1), "slowdown-%")
	b.ReportMetric(1000*quartile(plain), "plain-ms")
}

// quartile returns the lower quartile, in seconds.
func quartile(times []time.Duration) float64 {
	slices.Sort(times)
	return times[len(times)/4].Seconds()
}

// startMarker returns a profiler that marks once an interval until stop is called.
func startMarker(interval time.Duration) (p *managed.Profiler, stop func()) {
	if interval == 0 {
		return managed.New(managed.Options{Interval: -1}), func() {}
	}
	p = managed.New(managed.Options{Interval: interval})
	ctx, cancel := context.WithCancel(context.Background())
	var marker sync.WaitGroup
	marker.Go(func() { _, _ = p.Run(ctx) })
	return p, func() { cancel(); marker.Wait() }
}

// timed runs the program once, on a thread of its own. Attaching is not timed.
func timed(b *testing.B, program *starlark.Program, attach func(*starlark.Thread) *Thread) time.Duration {
	thread := new(starlark.Thread)
	if attach != nil {
		defer attach(thread).Detach()
	}
	begin := threadTime(b)
	if _, err := program.Init(thread, nil); err != nil {
		b.Fatal(err)
	}
	return threadTime(b) - begin
}

// threadTime returns the CPU time of the calling thread.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

func BenchmarkAttach(b *testing.B) {
	for _, limit := range []uint64{unlimited, 1_000_000} {
		b.Run(fmt.Sprintf("limited=%t", limit != unlimited), func(b *testing.B) {
			p := managed.New(managed.Options{Interval: -1})
			thread := new(starlark.Thread)
			Attach(p, thread, Options{}).Detach()
			thread.SetMaxExecutionSteps(limit)
			for b.Loop() {
				Attach(p, thread, Options{}).Detach()
			}
		})
	}
}
