package gopgo

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// BenchmarkMinimal makes the minimal profile of a map of so many nodes, of 5,000 functions, and says how many bytes
// both have, compressed.
func BenchmarkMinimal(b *testing.B) {
	const nodes = 1_000_000
	m, random := ccmap.New(ccmap.Options{}), rand.New(rand.NewPCG(1, 2))
	functions := make([]ccmap.MethodID, 5000)
	for i := range functions {
		functions[i] = m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("p.f%d", i), File: "p.go", StartLine: 1})
	}
	at, offset := m.Root(), ccmap.NoOffset
	for m.Len() < nodes {
		if random.IntN(30) == 0 {
			m.Add(at, ccmap.Counters{Samples: 1, Time: 1})
			at, offset = m.Root(), ccmap.NoOffset
		}
		// A function has few callees, and the hot ones are few.
		line := random.Uint32N(4)
		at = m.Child(at, offset, functions[(int(line)*7919+int(float64(len(functions))*random.Float64()*random.Float64()))%len(functions)])
		offset = line
	}
	s := m.Snapshot()
	b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
		var minimal *ccmap.Map
		for b.Loop() {
			edges, err := Edges(s, BySamples)
			if err != nil {
				b.Fatal(err)
			}
			if minimal, err = Minimize(edges, 1).Map(ccmap.Meta{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(compressed(b, s)), "whole-bytes")
		b.ReportMetric(float64(compressed(b, minimal.Snapshot())), "minimal-bytes")
	})
}
