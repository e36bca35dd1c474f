package compare_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// BenchmarkCompare compares two profiles of one random program, which have
// about half of their nodes in common and in all about as many as the name
// says. It measures a whole comparison: union, order, the overlaps and both
// floors, correlations and coverage; and all memory that it allocates, by node
// of the union.
func BenchmarkCompare(b *testing.B) {
	for _, nodes := range []int{10_000, 1_000_000} {
		for _, recursive := range []bool{false, true} {
			b.Run(fmt.Sprintf("union=%d/recursive=%v", nodes, recursive), func(b *testing.B) {
				benchmarkCompare(b, nodes, recursive)
			})
		}
	}
}

func benchmarkCompare(b *testing.B, nodes int, recursive bool) {
	p := newProgram(5_000, recursive)
	first, second := p.profile(nodes*2/3, 1), p.profile(nodes*2/3, 2)
	union := float64(mustCompare(b, first, second, compare.Options{}).UnionNodes)
	before := allocated()
	for b.Loop() {
		mustCompare(b, first, second, compare.Options{})
	}
	bytes := float64(allocated() - before)
	b.ReportMetric(union, "nodes")
	b.ReportMetric(bytes/float64(b.N)/union, "B/node")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/union, "ns/node")
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// profile samples the program until its map has so many nodes. Half of the
// stacks are those of any other profile.
func (p program) profile(nodes int, seed uint64) *ccmap.Snapshot {
	m := p.newMap()
	own, common := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(0, 3))
	for m.Len() < nodes {
		if own.IntN(2) == 0 {
			p.sample(m, own)
		} else {
			p.sample(m, common)
		}
	}
	return m.Snapshot()
}
