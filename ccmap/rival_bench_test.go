package ccmap_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/pprof/profile"
)

// refTree is the paper's CC-Map with its trees of CalleeRef written out, as fast
// as Go's own maps make it: one lookup for each of a stack's d²/2 counters.
type refTree struct {
	numbers  map[refKey]uint32
	refs     []ref                // by number; 0 is none
	contexts map[refEdge][]uint32 // refs of each call, in all its contexts
}

type refKey struct {
	caller uint32 // number of the ref, 0 for a MethodProfile
	site   uint32
	callee ccmap.MethodID
}

type refEdge struct{ caller, callee ccmap.Frame }

// ref has the counters, and the references down to what it calls.
type ref struct {
	counters                ccmap.Counters
	firstCallee, nextCallee uint32
}

func newRefTree() *refTree {
	return &refTree{
		numbers:  make(map[refKey]uint32),
		refs:     make([]ref, 1),
		contexts: make(map[refEdge][]uint32),
	}
}

func (r *refTree) update(s *ccmap.Sample) {
	for i := range s.Frames {
		caller, site := uint32(0), ccmap.NoOffset
		for j := i; j >= 0; j-- {
			k := refKey{caller, site, s.Frames[j].Method}
			n, ok := r.numbers[k]
			if !ok {
				n = r.add(k, s.Frames, j)
			}
			c := &r.refs[n].counters
			c.Samples++
			c.Time += s.Weight
			caller, site = n, s.Frames[j].Offset
		}
	}
}

func (r *refTree) add(k refKey, frames []ccmap.Frame, j int) uint32 {
	n := uint32(len(r.refs))
	r.numbers[k] = n
	r.refs = append(r.refs, ref{nextCallee: r.refs[k.caller].firstCallee})
	r.refs[k.caller].firstCallee = n
	if k.caller != 0 {
		call := refEdge{frames[j+1], ccmap.Frame{Method: k.callee}}
		r.contexts[call] = append(r.contexts[call], n)
	}
	return n
}

// BenchmarkAgainstExplicit compares with the paper's explicit update, in speed
// on stacks that both know already, and in memory.
func BenchmarkAgainstExplicit(b *testing.B) {
	for _, depth := range []int{30, 60} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			g := newCallGraph(2000)
			samples := g.stacks(60_000/depth, depth, depth)
			m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
			m.FoldBatch(samples)

			before := heap()
			rival := newRefTree()
			for i := range samples {
				rival.update(&samples[i])
			}
			size := heap() - before
			rivalTime := timed(func() {
				for i := range samples {
					rival.update(&samples[i])
				}
			})
			runtime.KeepAlive(rival)
			for b.Loop() {
				for i := range samples {
					m.Forget(0)
					m.Fold(&samples[i])
				}
			}
			b.ReportMetric(float64(rivalTime)*float64(b.N)/float64(b.Elapsed()), "x-faster")
			b.ReportMetric(float64(size)/float64(m.Bytes()), "x-smaller")
		})
	}
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// heap returns the bytes of live objects.
func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// BenchmarkAgainstPprof compares with google/pprof profiles of one sample each,
// merged per 1,000.
func BenchmarkAgainstPprof(b *testing.B) {
	for _, depth := range []int{10, 60} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			g := newCallGraph(2000)
			samples := g.stacks(1000, depth, depth)
			rivalTime := timed(func() {
				profiles := make([]*profile.Profile, len(samples))
				for i := range samples {
					profiles[i] = oneSample(g, &samples[i])
				}
				if _, err := profile.Merge(profiles); err != nil {
					b.Fatal(err)
				}
			})
			for b.Loop() {
				m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
				for i := range samples {
					m.Fold(&samples[i])
				}
			}
			b.ReportMetric(float64(rivalTime)*float64(b.N)/float64(b.Elapsed()), "x-faster")
		})
	}
}

// oneSample returns a profile of one sample.
func oneSample(g *callGraph, s *ccmap.Sample) *profile.Profile {
	p := &profile.Profile{
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample:     []*profile.Sample{{Value: []int64{1, s.Weight}}},
	}
	functions := map[ccmap.MethodID]*profile.Function{}
	locations := map[ccmap.Frame]*profile.Location{}
	for _, f := range s.Frames {
		if functions[f.Method] == nil {
			functions[f.Method] = &profile.Function{ID: uint64(len(p.Function) + 1), Name: g.names.At(f.Method).Name}
			p.Function = append(p.Function, functions[f.Method])
		}
		if locations[f] == nil {
			line := profile.Line{Function: functions[f.Method], Line: int64(f.Offset)}
			locations[f] = &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{line}}
			p.Location = append(p.Location, locations[f])
		}
		p.Sample[0].Location = append(p.Sample[0].Location, locations[f])
	}
	return p
}
