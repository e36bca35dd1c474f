package pollution_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// BenchmarkSites finds all call sites of a program of 500 methods, and divides the sites
// with several receivers by three callers. The snapshot has its index already.
func BenchmarkSites(b *testing.B) {
	for _, samples := range []int{1_000, 20_000} {
		b.Run(fmt.Sprintf("samples=%d/depth=40", samples), func(b *testing.B) {
			s := randomProgram(samples, 40).Snapshot()
			sites := 0
			b.ReportAllocs()
			for b.Loop() {
				sites = 0
				for _, site := range pollution.New(s, pollution.Options{}).Sites(nil) {
					site.Samples.Splits(3)
					sites++
				}
			}
			b.ReportMetric(float64(sites), "sites")
			b.ReportMetric(float64(s.Len()), "nodes")
		})
	}
}

// randomProgram returns the map of samples of random stacks: each site has one to
// three receivers.
func randomProgram(samples, depth int) *ccmap.Map {
	const methods = 500
	m := ccmap.New(ccmap.Options{})
	for i := range methods {
		m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("program.T%d.Do", i)})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	frames := make([]ccmap.Frame, depth)
	for range samples {
		method := rng.Uint32N(8)
		for i := depth - 1; i >= 0; i-- {
			site := rng.Uint32N(4)
			frames[i] = ccmap.Frame{Method: ccmap.MethodID(method), Offset: site}
			method = (method*7 + site*13 + rng.Uint32N(3)) % methods
		}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 10_000_000, Fresh: ccmap.FreshUnknown})
	}
	return m
}
