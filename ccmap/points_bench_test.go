package ccmap_test

import (
	"fmt"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// BenchmarkSetPoints replaces points and takes a snapshot of them, as the manager
// does once a second.
func BenchmarkSetPoints(b *testing.B) {
	for _, points := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("points=%d", points), func(b *testing.B) {
			g := newCallGraph(500)
			m := ccmap.New(ccmap.Options{Names: g.names})
			list := make([]ccmap.Point, points)
			for i := range list {
				list[i] = ccmap.Point{Method: ccmap.MethodID(i * 7 % 500), Offset: uint32(i), Nulls: ccmap.NullsUnknown}
				list[i].Callers = g.stack(i % 4)
				for v := range 1 + i%5 {
					list[i].Values = append(list[i].Values, ccmap.PointValue{Value: uint64(v), Count: 10})
				}
			}
			for b.Loop() {
				m.SetPoints(ccmap.OriginBurst, list)
				m.Snapshot()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(points), "ns/point")
		})
	}
}
