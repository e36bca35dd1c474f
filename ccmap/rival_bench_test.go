package ccmap_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/pprof/profile"
)

// refMap is the paper's CC-Map (its section 3.1.2 and figure 3) written out: the
// nodes it names, and the references between them, down, up and to the contexts.
// As there, methods are found by a hash table and all else by references.
type refMap struct {
	profiles map[ccmap.MethodID]*methodProfile
	calls    []*callee // of the stack at hand: frame by the one outside it
}

type methodProfile struct {
	method   ccmap.MethodID
	counters ccmap.Counters
	sites    []*callSite
}

type callSite struct {
	caller   *methodProfile
	offset   uint32
	callees  []*callee
	contexts []*callSiteRef
}

// callee is a call in any context, and the root of the contexts that begin with
// it.
type callee struct {
	site     *callSite
	profile  *methodProfile
	counters ccmap.Counters
	contexts []*calleeRef
	sites    []*callSiteRef
}

type callSiteRef struct {
	site    *callSite
	caller  *calleeRef // nil below a callee
	callees []*calleeRef
}

type calleeRef struct {
	callee   *callee
	site     *callSiteRef
	counters ccmap.Counters
	sites    []*callSiteRef
}

// update is the paper's section 3.1.4: a counter for every sub-path of the stack.
// The common part of the sub-paths is looked up once.
func (r *refMap) update(s *ccmap.Sample) {
	r.countCalls(s)
	for i := len(r.calls) - 1; i > 0; i-- {
		caller, sites := (*calleeRef)(nil), &r.calls[i].sites
		for j := i - 1; j >= 0; j-- {
			call := r.calls[j]
			caller = siteRef(sites, call.site, caller).calleeRef(call)
			caller.counters.Samples++
			caller.counters.Time += s.Weight
			sites = &caller.sites
		}
	}
}

// countCalls counts the methods and calls of a stack, in any context.
func (r *refMap) countCalls(s *ccmap.Sample) {
	r.calls = r.calls[:0]
	for i, f := range s.Frames {
		p := r.profile(f.Method)
		p.counters.Samples++
		p.counters.Time += s.Weight
		if i > 0 {
			call := p.site(f.Offset).callee(r.profile(s.Frames[i-1].Method))
			call.counters.Samples++
			call.counters.Time += s.Weight
			r.calls = append(r.calls, call)
		}
	}
}

func (r *refMap) profile(m ccmap.MethodID) *methodProfile {
	p := r.profiles[m]
	if p == nil {
		p = &methodProfile{method: m}
		r.profiles[m] = p
	}
	return p
}

func (p *methodProfile) site(offset uint32) *callSite {
	for _, s := range p.sites {
		if s.offset == offset {
			return s
		}
	}
	s := &callSite{caller: p, offset: offset}
	p.sites = append(p.sites, s)
	return s
}

func (s *callSite) callee(profile *methodProfile) *callee {
	for _, c := range s.callees {
		if c.profile == profile {
			return c
		}
	}
	c := &callee{site: s, profile: profile}
	s.callees = append(s.callees, c)
	return c
}

func siteRef(refs *[]*callSiteRef, site *callSite, caller *calleeRef) *callSiteRef {
	for _, s := range *refs {
		if s.site == site {
			return s
		}
	}
	s := &callSiteRef{site: site, caller: caller}
	*refs = append(*refs, s)
	site.contexts = append(site.contexts, s)
	return s
}

func (s *callSiteRef) calleeRef(general *callee) *calleeRef {
	for _, c := range s.callees {
		if c.callee == general {
			return c
		}
	}
	c := &calleeRef{callee: general, site: s}
	s.callees = append(s.callees, c)
	general.contexts = append(general.contexts, c)
	return c
}

// BenchmarkAgainstExplicit compares with the paper's explicit update, in speed
// on stacks that both know already, the two in turn, and in memory.
func BenchmarkAgainstExplicit(b *testing.B) {
	for _, depth := range []int{30, 60} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			g := newCallGraph(2000)
			samples := g.stacks(large(60_000)/depth, depth, depth)
			m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
			m.FoldBatch(samples)

			before := heap()
			rival := refMap{profiles: make(map[ccmap.MethodID]*methodProfile)}
			for i := range samples {
				rival.update(&samples[i])
			}
			size := heap() - before
			asGoroutines(samples)
			const passes = 100 // of the fold for one of the update: about as long
			var rivalTime, ownTime time.Duration
			for b.Loop() {
				rivalTime += timed(func() {
					for i := range samples {
						rival.update(&samples[i])
					}
				})
				ownTime += timed(func() {
					for range passes {
						m.FoldBatch(samples)
					}
				})
			}
			runtime.KeepAlive(rival)
			b.ReportMetric(passes*float64(rivalTime)/float64(ownTime), "x-faster")
			b.ReportMetric(float64(size)/float64(m.Bytes()), "x-smaller")
		})
	}
}

// timed returns the CPU time that f takes.
func timed(f func()) time.Duration {
	start := cpuTime()
	f()
	return cpuTime() - start
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
			samples := g.stacks(large(1000), depth, depth)
			rivalTime := timed(func() {
				profiles := make([]*profile.Profile, len(samples))
				for i := range samples {
					profiles[i] = oneSample(g, &samples[i])
				}
				if _, err := profile.Merge(profiles); err != nil {
					b.Fatal(err)
				}
			})
			ownTime := onCPU(b, func() {
				m := ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
				for i := range samples {
					m.Fold(&samples[i])
				}
			})
			b.ReportMetric(float64(rivalTime)/ownTime, "x-faster")
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
