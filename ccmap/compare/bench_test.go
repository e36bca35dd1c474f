package compare_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// BenchmarkCompare compares two profiles of one random program. Together they have about as many nodes as the name
// says, and about half of the nodes are in both. It measures a whole comparison: union, order, the overlaps, both
// floors and the draws of what is expected, correlations and coverage, and the families if the profiles differ;
// and all memory that it allocates, by node of the union.
func BenchmarkCompare(b *testing.B) {
	for _, nodes := range unions() {
		for _, recursive := range []bool{false, true} {
			for _, differs := range []bool{false, true} {
				b.Run(fmt.Sprintf("union=%d/recursive=%v/differs=%v", nodes, recursive, differs), func(b *testing.B) {
					benchmarkCompare(b, nodes, recursive, differs)
				})
			}
		}
	}
}

func benchmarkCompare(b *testing.B, nodes int, recursive, differs bool) {
	p := newProgram(5_000, recursive)
	first, second := p.profile(nodes*2/3, 1), p.profile(nodes*2/3, 2)
	if differs {
		m := p.newMap()
		if err := m.Merge(second); err != nil {
			b.Fatal(err)
		}
		m.Add(ccmap.NodeID(m.Len()-1), second.Total()) // half of it in one place
		second = m.Snapshot()
	}
	r := mustCompare(b, first, second, compare.Options{})
	if differs != (r.Verdict == compare.Differs) {
		b.Fatalf("verdict is %v: %+v", r.Verdict, r.Contexts)
	}
	measure(b, r.UnionNodes, func() { mustCompare(b, first, second, compare.Options{}) })
}

// BenchmarkDifferences lists the changes of every method, edge and context between
// two profiles like the ones in BenchmarkCompare.
func BenchmarkDifferences(b *testing.B) {
	for _, nodes := range unions() {
		for _, all := range []bool{false, true} {
			b.Run(fmt.Sprintf("union=%d/all=%v", nodes, all), func(b *testing.B) {
				p := newProgram(5_000, true)
				first, second := p.profile(nodes*2/3, 1), p.profile(nodes*2/3, 2)
				o := compare.DiffOptions{All: all, Limit: 100}
				union := mustCompare(b, first, second, compare.Options{}).UnionNodes
				measure(b, union, func() { mustDiffer(b, first, second, o) })
			})
		}
	}
}

// unions are the nodes that two profiles have together. CI runs each benchmark once, with -short.
func unions() []int {
	if testing.Short() {
		return []int{10_000}
	}
	return []int{10_000, 1_000_000}
}

// measure runs a function, and reports its time and memory by node.
func measure(b *testing.B, nodes int, run func()) {
	before := allocated()
	for b.Loop() {
		run()
	}
	bytes := float64(allocated() - before)
	b.ReportMetric(float64(nodes), "nodes")
	b.ReportMetric(bytes/float64(b.N)/float64(nodes), "B/node")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(nodes), "ns/node")
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// profile samples the program until its map has a number of nodes. Half of the
// stacks occur in every profile.
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
