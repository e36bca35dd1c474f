package ccmap_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// cpuTime returns the CPU time that the process has used. Unlike wall time, it depends
// little on the machine's other load.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// large returns the size of a benchmark's input or, with go test -short, a fiftieth of it: CI runs each
// benchmark once, which shows that it works.
func large(n int) int {
	if testing.Short() {
		return n / 50
	}
	return n
}

// onCPU runs f and returns the CPU time that it takes, in ns.
func onCPU(b *testing.B, f func()) float64 {
	start := cpuTime()
	for b.Loop() {
		f()
	}
	return float64(cpuTime()-start) / float64(b.N)
}

// perFrame runs fold, which folds a number of frames, and reports the times for
// one.
func perFrame(b *testing.B, frames int, fold func()) {
	b.ReportMetric(onCPU(b, fold)/float64(frames), "cpu-ns/frame")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(frames), "ns/frame")
}

// asGoroutines gives each sample another goroutine at the same address: the last
// stack of the thread does not help, and each sample is walked from the root.
func asGoroutines(samples []ccmap.Sample) {
	for i := range samples {
		samples[i].Goroutine = uint64(i + 1)
	}
}

// BenchmarkFold folds stacks that the map has already: for the second time, when the map learns to know
// them, or later, of one goroutine or each of another, whose last stack does not help.
func BenchmarkFold(b *testing.B) {
	for _, w := range []struct {
		stacks, low, high int
	}{{200, 30, 60}, {large(100_000), 60, 60}} {
		g := newCallGraph(2000)
		samples := g.stacks(w.stacks, w.low, w.high)
		m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
		m.FoldBatch(samples)
		run := func(how string, measure func(b *testing.B)) {
			b.Run(fmt.Sprintf("stacks=%d/depth=%d-%d/%s", w.stacks, w.low, w.high, how), func(b *testing.B) {
				measure(b)
				b.ReportMetric(float64(m.Len()), "nodes")
			})
		}
		again := func(b *testing.B) {
			perFrame(b, frames(samples), func() {
				for i := range samples {
					m.Fold(&samples[i])
				}
			})
		}
		run("second", func(b *testing.B) {
			var spent time.Duration
			for b.Loop() {
				m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
				m.FoldBatch(samples)
				start := cpuTime()
				m.FoldBatch(samples)
				spent += cpuTime() - start
			}
			b.ReportMetric(float64(spent)/float64(b.N)/float64(frames(samples)), "cpu-ns/frame")
		})
		m.FoldBatch(samples)
		run("laststack=true", again)
		asGoroutines(samples)
		run("laststack=false", again)
	}
}

// BenchmarkFoldCorrelated folds the stacks of one thread. Only the innermost frames
// change.
func BenchmarkFoldCorrelated(b *testing.B) {
	g := newCallGraph(2000)
	samples := g.correlated(1000, 60)
	m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
	perFrame(b, frames(samples), func() {
		for i := range samples {
			m.Fold(&samples[i])
		}
	})
}

// BenchmarkFoldNovel folds stacks until a new map has about a million nodes.
func BenchmarkFoldNovel(b *testing.B) {
	g := newCallGraph(2000)
	samples := g.stacks(large(30_000), 60, 60)
	var m *ccmap.Map
	perFrame(b, frames(samples), func() {
		m = ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
		for i := range samples {
			m.Fold(&samples[i])
		}
	})
	b.ReportMetric(float64(m.Len()), "nodes")
	b.ReportMetric(float64(m.Bytes())/float64(m.Len()), "B/node")
}

// BenchmarkSnapshot takes a snapshot of a map of a million nodes and sums it up.
func BenchmarkSnapshot(b *testing.B) {
	g := newCallGraph(2000)
	samples := g.stacks(large(30_000), 60, 60)
	m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
	m.FoldBatch(samples)
	for _, pass := range []struct {
		name string
		run  func()
	}{
		{"counters", func() { m.Snapshot() }},
		{"inclusive", func() { m.Snapshot().Inclusive(0) }},
		{"views", func() { m.Snapshot().Method(0) }},
	} {
		b.Run("pass="+pass.name, func(b *testing.B) {
			b.ReportMetric(onCPU(b, pass.run)/1e6, "cpu-ms/op")
			b.ReportMetric(float64(m.Len()), "nodes")
		})
	}
}

// onThreads returns n samples that show one of the stacks each, and that belong
// to as many threads, in turn.
func onThreads(stacks []ccmap.Sample, n, threads int) []ccmap.Sample {
	samples := make([]ccmap.Sample, n)
	for i := range samples {
		samples[i] = stacks[i%len(stacks)]
		samples[i].Thread = uint64(i % threads)
	}
	return samples
}

// BenchmarkFoldManyThreads folds known stacks of threads that take turns: few
// enough that all are remembered, or so many that each is forgotten before its next
// sample. One thread that is forgotten at once gives the cost of a walk from the
// root.
func BenchmarkFoldManyThreads(b *testing.B) {
	const turn = 20_160 // samples; a multiple of the numbers of threads below
	g := newCallGraph(2000)
	for _, depth := range [][2]int{{100, 120}, {5, 200}} {
		stacks := g.stacks(211, depth[0], depth[1])
		for _, threads := range []int{1, 5040, 10_080, 20_160} {
			b.Run(fmt.Sprintf("threads=%d/depth=%d-%d", threads, depth[0], depth[1]), func(b *testing.B) {
				samples := onThreads(stacks, turn, threads)
				m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
				m.FoldBatch(samples)
				m.FoldBatch(samples)
				b.ReportAllocs()
				ns := onCPU(b, func() {
					for i := range samples {
						if threads == 1 {
							m.Forget(0)
						}
						m.Fold(&samples[i])
					}
				})
				b.ReportMetric(ns/turn, "cpu-ns/sample")
				b.ReportMetric(float64(m.Bytes())/1e6, "MB")
			})
		}
	}
}

// BenchmarkFoldShortLived folds the one to three samples of 100,000 threads that
// never come again.
func BenchmarkFoldShortLived(b *testing.B) {
	threads := large(100_000)
	g := newCallGraph(2000)
	stacks := g.stacks(211, 5, 60)
	m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
	thread, folded := uint64(0), 0
	b.ReportAllocs()
	ns := onCPU(b, func() {
		for range threads {
			thread++
			for range 1 + thread%3 {
				s := stacks[folded%len(stacks)]
				s.Thread = thread
				m.Fold(&s)
				folded++
			}
		}
	})
	b.ReportMetric(ns*float64(b.N)/float64(folded), "cpu-ns/sample")
	b.ReportMetric(float64(m.Bytes())/1e6, "MB")
}
