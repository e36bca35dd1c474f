package pollution

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Options of an analysis. The zero value is useful.
type Options struct {
	// Weight returns the base of the shares of CPU samples, ≥ 0; nil: their time.
	Weight func(ccmap.Counters) int64
	// Points are the profile points with the caught or counted calls, summed over their
	// phases; nil: the points of the snapshot.
	Points []ccmap.Point
}

// Analysis finds the receivers in a snapshot. Any goroutine may use it.
type Analysis struct {
	s       *ccmap.Snapshot
	weight  func(ccmap.Counters) int64
	counted bool // the profile has a number of samples
	caught  map[position][]ccmap.Point
	vm      vmCounts
}

// position is a call site.
type position struct {
	method ccmap.MethodID
	offset uint32
}

// New returns the analysis of a snapshot.
func New(s *ccmap.Snapshot, o Options) *Analysis {
	a := &Analysis{
		s: s, weight: o.Weight, counted: s.Total().Samples > 0,
		caught: make(map[position][]ccmap.Point),
	}
	if a.weight == nil {
		a.weight = func(c ccmap.Counters) int64 { return c.Time }
	}
	points := o.Points
	if points == nil {
		points = s.Points()
	}
	for _, p := range points {
		if p.Origin == ccmap.OriginBurst && p.Kind == ccmap.PointCall {
			at := position{p.Method, p.Offset}
			a.caught[at] = append(a.caught[at], p)
		}
	}
	a.vm = newVMCounts(points)
	return a
}

// amount returns the amount of samples. In a profile without a number of samples it
// uses their weight as the number.
func (a *Analysis) amount(c ccmap.Counters) Amount {
	weight := a.weight(c)
	if !a.counted {
		return Amount{weight, weight}
	}
	return Amount{weight, c.Samples}
}

// Site is the evidence for one call site.
type Site struct {
	Caller ccmap.MethodID
	Offset uint32 // position of the call in the caller

	Samples Evidence // from CPU samples
	Calls   Evidence // from caught calls or, in a VM that counts itself, from its counts
	VM      *Counted // more of the VM's counts; nil: Calls are caught ones

	names *ccmap.Names
}

// Evidence has the observations of one kind at one call site.
type Evidence struct {
	Mix
	Verdict Verdict

	judge    judge
	contexts func(depth int) *tree // nil: no observations
}

func newEvidence(m Mix, j judge, contexts func(depth int) *tree) Evidence {
	return Evidence{m, j.verdict(m), j, contexts}
}

// Sites returns the call sites of the wanted callers, sorted by caller and offset. With
// nil it returns all.
func (a *Analysis) Sites(wanted func(caller ccmap.MethodID) bool) []Site {
	var sites []Site
	for at, call := range a.positions(wanted) {
		site := Site{Caller: at.method, Offset: at.offset, names: a.s.Names()}
		site.Calls, site.VM = a.calls(at)
		if call != nil {
			site.Samples = a.samples(*call, site.Calls)
		}
		if site.Samples.Total() != (Amount{}) || site.Calls.Total() != (Amount{}) {
			sites = append(sites, site)
		}
	}
	slices.SortFunc(sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Offset, b.Offset))
	})
	return sites
}

// positions returns the positions of calls with their sampled site. The site is nil if
// calls there were only caught or counted.
func (a *Analysis) positions(wanted func(caller ccmap.MethodID) bool) map[position]*ccmap.CallSite {
	all := make(map[position]*ccmap.CallSite)
	for at := range a.caught {
		if wanted == nil || wanted(at.method) {
			all[at] = nil
		}
	}
	for at := range a.vm.calls {
		if wanted == nil || wanted(at.method) {
			all[at] = nil
		}
	}
	for m := range a.s.Methods() {
		if wanted != nil && !wanted(m.ID()) {
			continue
		}
		for site := range m.CallSites() {
			all[position{m.ID(), site.Offset()}] = &site
		}
	}
	return all
}

// Samples returns the evidence from CPU samples at a call site. Callees that the source
// does not call count only if there are no others. These are pseudo methods such as
// "[kernel]", functions of Go's runtime that the compiler calls, wrappers, and initializers
// of Java classes.
func (a *Analysis) Samples(site ccmap.CallSite) Evidence { return a.samples(site, Evidence{}) }

func (a *Analysis) samples(site ccmap.CallSite, calls Evidence) Evidence {
	callees := a.written(site, calls)
	total := newTally()
	for _, callee := range callees {
		total.add(callee.Callee(), a.amount(callee.Total()))
	}
	j := judge{a.s.Names(), site.Offset(), MinSamples, 1}
	return newEvidence(total.mix(), j, func(depth int) *tree { return sampledTree(a, callees, depth, (*tree).isWorthDividing) })
}

// Calls returns the evidence from caught calls at a call site or, if the VM has a profile
// of the site, from the VM's counts.
func (a *Analysis) Calls(caller ccmap.MethodID, offset uint32) Evidence {
	e, _ := a.calls(position{caller, offset})
	return e
}

func (a *Analysis) calls(at position) (Evidence, *Counted) {
	if p, ok := a.vm.calls[at]; ok {
		return a.ofVM(p)
	}
	points := a.caught[at]
	if len(points) == 0 {
		return Evidence{}, nil
	}
	j := judge{a.s.Names(), at.offset, MinCalls, callsPerBurst}
	t := caughtTree(points)
	return newEvidence(t.mix(), j, func(int) *tree { return t }), nil
}

// MaybeDynamic reports whether the site may be a call through an interface or of a
// function value: its calls were caught, the VM has counted several receivers, or it
// reaches several methods of one name.
func (s Site) MaybeDynamic() bool {
	if s.VM != nil && (len(s.Calls.Targets) > 1 || s.Calls.Unnamed > 0) {
		return true
	}
	return s.VM == nil && s.Calls.Total().Seen > 0 || len(s.Samples.Targets) > 1 && haveOneName(s.names, s.Samples.Targets)
}
