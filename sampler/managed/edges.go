package managed

import (
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/compilation"
)

// LookAtCalls holds the sampled calls of methods against those of the cached profile, and counts a mismatch for each
// method whose calls differ by more than chance explains ([compare.Differs]): in where it calls, whom, or how often.
// Methods with few samples of calls are left out. Call it once a period, with what the period has counted:
// [ccmap.Delta] returns that. It returns the methods whose cached profiles are out of use now.
func (p *Profiler) LookAtCalls(period *ccmap.Snapshot) (out []ccmap.MethodID) {
	c := p.cached
	if c == nil || c.profile == nil {
		return nil
	}
	earlier := make(map[compilation.Method]ccmap.MethodProfile)
	for m := range c.profile.Methods() {
		earlier[withoutBody(methodOf(c.profile.Names(), m.ID()))] = m
	}
	for now := range period.Methods() {
		m := methodOf(period.Names(), now.ID())
		before, known := earlier[withoutBody(m)]
		if known && p.usesCached(m) && callsDiffer(callsOf(c.profile, before), callsOf(period, now)) && p.wrong(m) {
			out = append(out, now.ID())
		}
	}
	slices.Sort(out)
	return out
}

// usesCached reports whether a method has a cached profile that is in use.
func (p *Profiler) usesCached(m compilation.Method) bool {
	p.cached.mu.Lock()
	defer p.cached.mu.Unlock()
	return p.cached.records.Level(m) > 0
}

// callsOf returns a profile of a method's calls alone. Its callees are those of any build.
func callsOf(s *ccmap.Snapshot, m ccmap.MethodProfile) *ccmap.Snapshot {
	of := func(id ccmap.MethodID) ccmap.Method {
		method := s.Names().At(id)
		method.Body = 0
		return method
	}
	calls := ccmap.New(ccmap.Options{})
	*calls.Meta() = s.Meta()
	caller := calls.Child(calls.Root(), ccmap.NoOffset, calls.Names().Intern(of(m.ID())))
	for site := range m.CallSites() {
		for callee := range site.Callees() {
			calls.Add(calls.Child(caller, callee.Offset(), calls.Names().Intern(of(callee.Callee()))), callee.Total())
		}
	}
	return calls.Snapshot()
}

// callsDiffer reports whether two profiles of calls are of two behaviours.
func callsDiffer(before, now *ccmap.Snapshot) bool {
	r, err := compare.Compare(before, now, compare.Options{Seed: 1, Tolerance: compare.DefaultTolerance})
	return err == nil && r.Verdict == compare.Differs // an error: there are no calls, or another unit
}
