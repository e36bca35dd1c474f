package ccmap_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time that the calling thread has used. So it measures
// a goroutine locked to it, independently of the rest of the process and the
// machine.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// lockThread keeps the goroutine of a benchmark on its thread, for threadTime.
// Each sub-benchmark has a goroutine of its own.
func lockThread(b *testing.B) {
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
}

// BenchmarkFoldPause folds novel stacks into a new map until it has the nodes, and
// reports the longest fold of each run. It reports CPU time, as wall time includes
// other processes. With gc=off it contains only the map's own growth. Deep stacks
// have few nodes in the table, wide ones have all; these are so cheap that the
// clock, a system call, is read for every 16 of them.
func BenchmarkFoldPause(b *testing.B) {
	g := newCallGraph(2000)
	stacks := g.stacks(large(120_000), 60, 60)
	deep := func(i int) *ccmap.Sample { return &stacks[i] }
	for _, shape := range []struct {
		name   string
		sample func(i int) *ccmap.Sample
		batch  int // folds timed together
	}{{"deep", deep, 1}, {"wide", wide(), 16}} {
		for _, nodes := range []int{1_000_000, 4_000_000} {
			for _, gc := range []string{"on", "off"} {
				b.Run(fmt.Sprintf("shape=%s/nodes=%dM/gc=%s", shape.name, nodes/1_000_000, gc), func(b *testing.B) {
					lockThread(b)
					if gc == "off" {
						defer debug.SetGCPercent(debug.SetGCPercent(-1))
					}
					o := ccmap.Options{Names: g.names, Seed: 1, Window: 15 * time.Minute}
					var longest []float64 // ms, by run
					for b.Loop() {
						longest = append(longest, longestFold(o, shape.sample, shape.batch, large(nodes)).Seconds()*1e3)
						runtime.GC()
					}
					slices.Sort(longest)
					b.ReportMetric(longest[len(longest)/2], "p50-longest-ms")
					b.ReportMetric(longest[len(longest)-1], "longest-ms")
				})
			}
		}
	}
}

// wide returns stacks of depth 2 that have nothing but the outermost frame's
// method in common.
func wide() func(i int) *ccmap.Sample {
	s := &ccmap.Sample{Frames: []ccmap.Frame{{Method: 1, Offset: ccmap.NoOffset}, {Method: 0}}}
	return func(i int) *ccmap.Sample {
		s.Frames[1].Offset = uint32(i)
		return s
	}
}

// longestFold folds samples into a new map until it has the nodes, and returns the
// time of the longest batch of folds.
func longestFold(o ccmap.Options, sample func(i int) *ccmap.Sample, batch, nodes int) time.Duration {
	m := ccmap.New(o)
	var longest time.Duration
	before := threadTime()
	for i := 0; m.Len() < nodes; i++ {
		m.Fold(sample(i))
		if i%batch == 0 {
			after := threadTime()
			longest = max(longest, after-before)
			before = after
		}
	}
	return longest
}

// BenchmarkPrune prunes a map of a million nodes to half of its bytes.
func BenchmarkPrune(b *testing.B) {
	g := newCallGraph(2000)
	samples := g.stacks(large(25_400), 60, 60)
	for _, window := range []time.Duration{0, 15 * time.Minute} {
		b.Run(fmt.Sprintf("window=%v", window), func(b *testing.B) {
			lockThread(b)
			var times []float64 // ms, by run
			var nodes, left int
			for b.Loop() {
				b.StopTimer()
				m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1, Window: window})
				m.FoldBatch(samples)
				nodes = m.Len()
				runtime.GC()
				b.StartTimer()
				start := threadTime()
				m.Prune(m.Bytes() / 2)
				times = append(times, (threadTime()-start).Seconds()*1e3)
				left = m.Len()
			}
			slices.Sort(times)
			b.ReportMetric(times[len(times)/2], "cpu-ms/op")
			b.ReportMetric(times[len(times)-1], "longest-cpu-ms")
			b.ReportMetric(float64(nodes), "nodes")
			b.ReportMetric(float64(left), "nodes-left")
		})
	}
}

// BenchmarkFoldBudget folds 100,000 stacks, which make 3.6 million nodes, over and
// over into a map that has no room for them: it prunes all the time.
func BenchmarkFoldBudget(b *testing.B) {
	g := newCallGraph(2000)
	samples := g.stacks(large(100_000), 60, 60)
	for i := range samples {
		samples[i].Time = int64(i) * int64(10*time.Millisecond)
	}
	for _, mebibytes := range []int64{16, 64, 0} {
		for _, window := range []time.Duration{0, time.Minute} {
			b.Run(fmt.Sprintf("MiB=%d/window=%v", mebibytes, window), func(b *testing.B) {
				m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1, MaxBytes: mebibytes << 20, Window: window})
				m.FoldBatch(samples)
				before := m.Meta().Pruned.Times
				ns := onCPU(b, func() { m.FoldBatch(samples) })
				b.ReportMetric(ns/float64(len(samples)), "cpu-ns/sample")
				b.ReportMetric(float64(m.Meta().Pruned.Times-before)/float64(b.N), "prunes/op")
			})
		}
	}
}

// BenchmarkFoldWindow folds stacks that the map has, with and without a window.
func BenchmarkFoldWindow(b *testing.B) {
	for _, stacks := range []int{200, large(100_000)} {
		g := newCallGraph(2000)
		samples := g.stacks(stacks, 60, 60)
		for i := range samples {
			samples[i].Time = int64(i) * int64(10*time.Millisecond)
		}
		for _, window := range []time.Duration{0, 15 * time.Minute} {
			b.Run(fmt.Sprintf("stacks=%d/window=%v", stacks, window), func(b *testing.B) {
				m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1, Window: window})
				m.FoldBatch(samples)
				perFrame(b, frames(samples), func() { m.FoldBatch(samples) })
				b.ReportMetric(float64(m.Bytes())/float64(m.Len()), "B/node")
			})
		}
	}
}

// BenchmarkHeap compares the bytes that a map reports with the bytes that the heap
// holds for it.
func BenchmarkHeap(b *testing.B) {
	g := newCallGraph(2000)
	samples := g.stacks(large(30_000), 60, 60)
	for _, window := range []time.Duration{0, 15 * time.Minute} {
		b.Run(fmt.Sprintf("window=%v", window), func(b *testing.B) {
			var m *ccmap.Map
			var size int64
			for b.Loop() {
				m = nil
				before := heap()
				m = ccmap.New(ccmap.Options{Names: g.names, Seed: 1, Window: window})
				m.FoldBatch(samples)
				size = heap() - before
			}
			b.ReportMetric(float64(size)/float64(m.Len()), "heap-B/node")
			b.ReportMetric(float64(m.Bytes())/float64(m.Len()), "B/node")
			b.ReportMetric(float64(size)/float64(m.Bytes()), "heap/Bytes")
		})
	}
}
