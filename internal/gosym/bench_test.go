package gosym

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// BenchmarkOpen opens this process; a second process would only add its own
// page faults.
func BenchmarkOpen(b *testing.B) {
	b.Run(fmt.Sprintf("functions=%d", openSelf(b).modules[0].nfunc), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table, err := Open(context.Background(), os.Getpid(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			table.Close()
		}
	})
}

func BenchmarkStack(b *testing.B) {
	table := openSelf(b)
	for _, depth := range []uint64{1, 60, 1000} {
		pcs, names := codeAddresses(table, depth), ccmap.NewNames()
		dst := table.Stack(pcs, names, nil)
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("depth=%d/cached=%t", depth, cached), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !cached {
						clear(table.frames)
					}
					dst = table.Stack(pcs, names, dst[:0])
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(depth), "ns/pc")
			})
		}
	}
}

func BenchmarkSPDelta(b *testing.B) {
	table := openSelf(b)
	pcs := codeAddresses(table, 1000)
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprintf("cached=%t", cached), func(b *testing.B) {
			for b.Loop() {
				if !cached {
					clear(table.deltas)
				}
				for _, pc := range pcs {
					table.SPDelta(pc)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(pcs)), "ns/pc")
		})
	}
}

func BenchmarkFunc(b *testing.B) {
	table := openSelf(b)
	pcs := codeAddresses(table, 1000)
	for b.Loop() {
		for _, pc := range pcs {
			table.Func(pc)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(pcs)), "ns/pc")
}
