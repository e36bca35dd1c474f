package ccmap_test

import (
	"fmt"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

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
// enough that all are remembered, or so many that each is forgotten before it
// comes again. One thread that is forgotten at once is what a walk from the root
// costs.
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
	const threads = 100_000
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
