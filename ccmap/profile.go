package ccmap

import "iter"

// MethodProfile is the total of one method, in any context (the paper's
// MethodProfile).
type MethodProfile struct {
	s      *Snapshot
	method MethodID
}

// Methods returns the profiles of all sampled methods, by their ID.
func (s *Snapshot) Methods() iter.Seq[MethodProfile] {
	return func(yield func(MethodProfile) bool) {
		for id, m := range s.indexed().methods {
			if m.seen && !yield(MethodProfile{s, MethodID(id)}) {
				return
			}
		}
	}
}

// Method returns the profile of one method, and whether it was sampled.
func (s *Snapshot) Method(id MethodID) (MethodProfile, bool) {
	methods := s.indexed().methods
	ok := int64(id) < int64(len(methods)) && methods[id].seen
	return MethodProfile{s, id}, ok
}

func (p MethodProfile) totals() methodTotals {
	methods := p.s.indexed().methods
	if int64(p.method) >= int64(len(methods)) {
		return methodTotals{}
	}
	return methods[p.method]
}

// ID returns the method's id in the snapshot's Names.
func (p MethodProfile) ID() MethodID { return p.method }

// Method returns the method's description.
func (p MethodProfile) Method() Method { return p.s.names.At(p.method) }

// Total counts a sample once for every frame of the method in it, as the paper
// does: recursion counts repeatedly.
func (p MethodProfile) Total() Counters { return p.totals().total }

// Cumulative counts a sample once, however many frames of the method are in it
// ("cum" in pprof). Its activations are those of Total.
func (p MethodProfile) Cumulative() Counters { return p.totals().cumulative }

// Self counts the samples whose innermost frame is the method's ("flat" in
// pprof). Its activations are those of Total.
func (p MethodProfile) Self() Counters { return p.totals().self }

// Lines returns Self by position, in the order of offsets.
func (p MethodProfile) Lines() iter.Seq2[uint32, Counters] {
	return func(yield func(uint32, Counters) bool) {
		x := p.s.indexed()
		unknown := p.Self()
		for _, i := range x.callees(p.method) {
			e := &x.edges[i]
			if e.callee != NoMethod {
				continue
			}
			unknown.Samples -= e.total.Samples
			unknown.Time -= e.total.Time
			if !yield(e.site, e.total) {
				return
			}
		}
		unknown.Activations = 0
		if !unknown.IsZero() {
			yield(NoOffset, unknown)
		}
	}
}

// CallSites returns the positions that the method was seen calling from, in any
// context, by offset.
func (p MethodProfile) CallSites() iter.Seq[CallSite] {
	return func(yield func(CallSite) bool) {
		x := p.s.indexed()
		calls := x.callees(p.method)
		for len(calls) > 0 {
			n := sameSite(x, calls)
			site := CallSite{p.s, p.method, x.edges[calls[0]].site, calls[:n]}
			if !site.onlyPosition() && !yield(site) {
				return
			}
			calls = calls[n:]
		}
	}
}

// Callers returns the edges that lead to the method, by caller and offset.
// Where it is the outermost frame nobody calls it.
func (p MethodProfile) Callers() iter.Seq[Callee] {
	return func(yield func(Callee) bool) {
		for _, e := range p.s.indexed().callers(p.method) {
			if e.caller != NoMethod && !yield(Callee{p.s, e}) {
				return
			}
		}
	}
}
