package manager

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// BenchmarkFold measures the manager's cost of a sample. Either all samples are of one
// thread, whose innermost frames change, or each sample is of another thread, with
// another stack.
func BenchmarkFold(b *testing.B) {
	for _, depth := range []int{10, 40} {
		for _, threads := range []int{1, 1000} {
			b.Run(fmt.Sprintf("depth=%d/threads=%d", depth, threads), func(b *testing.B) {
				m, err := New(newSession(nil).config)
				if err != nil {
					b.Fatal(err)
				}
				samples := walks(m.config.Map.Names(), 1000, depth, threads)
				fold := func() {
					for i := range samples {
						m.fold(&samples[i])
					}
				}
				fold()
				b.ReportAllocs()
				for b.Loop() {
					fold()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(samples)), "ns/sample")
			})
		}
	}
}

// BenchmarkPoints measures an update of all profile points of the map.
func BenchmarkPoints(b *testing.B) {
	for _, sites := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("points=%d", sites), func(b *testing.B) {
			names := ccmap.NewNames()
			m := ccmap.New(ccmap.Options{Names: names, Seed: 1})
			v := newValues(ValueOptions{}, names, slog.New(slog.DiscardHandler))
			leaf, root := names.Intern(ccmap.Method{Name: "leaf"}), names.Intern(ccmap.Method{Name: "root"})
			for i := range sites {
				v.count(&ccmap.Sample{Frames: []ccmap.Frame{{Method: leaf}, {Method: root, Offset: uint32(i)}}})
			}
			for b.Loop() {
				m.SetPoints(ccmap.OriginBurst, v.points())
				m.Snapshot()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*sites), "ns/point")
		})
	}
}

// walks returns samples of a program of 2,000 methods that call up to six others
// each, mostly the first of them. A thread changes its eight innermost frames at
// most from one sample to the next.
func walks(names *ccmap.Names, n, depth, threads int) []ccmap.Sample {
	rng := rand.New(rand.NewPCG(1, 1))
	calls := make([][]ccmap.Frame, 2000)
	for i := range calls {
		names.Intern(ccmap.Method{Name: fmt.Sprint("f", i)})
		for range 1 + rng.IntN(6) {
			calls[i] = append(calls[i], ccmap.Frame{Method: ccmap.FirstID + ccmap.MethodID(rng.IntN(len(calls))), Offset: rng.Uint32N(100)})
		}
	}
	samples := make([]ccmap.Sample, n)
	for i := range samples {
		s := &samples[i]
		*s = ccmap.Sample{Thread: uint64(i%threads + 1), Weight: 1e7, Fresh: ccmap.FreshUnknown, Frames: make([]ccmap.Frame, depth)}
		kept, callee := 0, ccmap.FirstID+ccmap.MethodID(rng.IntN(8))
		if i >= threads {
			last := samples[i-threads].Frames
			kept = max(depth-1-rng.IntN(8), 0)
			copy(s.Frames[depth-kept:], last[depth-kept:])
			callee = last[depth-kept-1].Method
		}
		for at := depth - kept - 1; at >= 0; at-- {
			likely := calls[callee-ccmap.FirstID]
			call := likely[max(rng.IntN(12)-6, 0)%len(likely)]
			s.Frames[at] = ccmap.Frame{Method: callee, Offset: call.Offset}
			callee = call.Method
		}
	}
	return samples
}
