package hotspot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// Training says how well the counts of a training run serve production: whether C2, by its rules,
// would make of each call, branch and check of a type what production needs. Shares are percent of production's CPU
// time in the Java methods themselves, and add up to 100.
type Training struct {
	Serves    float64 // methods whose calls, branches and checks all are served
	Differs   float64 // methods with one that is not
	Unknown   float64 // methods that training has not counted
	Positions int     // calls, branches and checks of production that were compared
	Unserved  []Unserved
}

// Unserved is a method that training does not serve.
type Unserved struct {
	Method string
	Share  float64
	Reason string // one of them
}

// seldom is the part of the executions that a side of a branch has for which it is taken to be needed.
const seldom = 0.01

// Train holds the counts of a training run against those of production.
func Train(training, production *ccmap.Snapshot) Training {
	trained, needed := plans(training), plans(production)
	var t Training
	total := int64(0)
	for m := range production.Methods() {
		if m.Method().Coordinate == ccmap.CoordinateBytecode {
			total += weight(m.Self())
		}
	}
	for m := range production.Methods() {
		at := m.Method()
		if at.Coordinate != ccmap.CoordinateBytecode || weight(m.Self()) == 0 {
			continue
		}
		name, share := at.Name+at.Signature, part(weight(m.Self()), total)
		reason := ""
		for _, position := range needed[name].positions() {
			t.Positions++
			if why := trained[name].unserved(position, needed[name][position]); reason == "" && why != "" {
				reason = fmt.Sprintf("at %d %s", position.offset, why)
			}
		}
		switch {
		case trained[name] == nil:
			t.Unknown += share
			t.Unserved = append(t.Unserved, Unserved{at.Name, share, "not counted in training"})
		case reason != "":
			t.Differs += share
			t.Unserved = append(t.Unserved, Unserved{at.Name, share, reason})
		default:
			t.Serves += share
		}
	}
	slices.SortStableFunc(t.Unserved, func(a, b Unserved) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Method, b.Method))
	})
	return t
}

// plan is what C2 would make of the calls, branches and checks of a method: nil where they have few counts.
type plan map[place][]string

// place is a call, a branch or a check of a type.
type place struct {
	offset uint32
	kind   ccmap.PointKind
}

// positions returns the places with enough counts, in order.
func (p plan) positions() []place {
	all := make([]place, 0, len(p))
	for at, made := range p {
		if made != nil {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.kind, b.kind)) })
	return all
}

// unserved returns why the plan does not serve what production needs at a place: empty if it does, or
// if training has few counts there.
func (p plan) unserved(at place, needs []string) string {
	has, known := p[at]
	isMissing := func(need string) bool { return !slices.Contains(has, need) }
	switch {
	case !known:
		return "never in training, " + strings.Join(needs, " and ") + " in production"
	case has == nil || !slices.ContainsFunc(needs, isMissing):
		return ""
	}
	return fmt.Sprintf("%s in training, %s in production", strings.Join(has, " and "), strings.Join(needs, " and "))
}

// Words of plans that are no names of methods.
const (
	virtual = "any receiver"
	others  = "a few others"
	anyType = "any type"
	null    = "null"
)

// plans returns the plan of each method by its text.
func plans(s *ccmap.Snapshot) map[string]plan {
	all := make(map[string]plan)
	of := func(m ccmap.MethodID) plan {
		at := s.Names().At(m)
		name := at.Name + at.Signature
		if all[name] == nil {
			all[name] = make(plan)
		}
		return all[name]
	}
	for _, p := range s.Points() {
		if p.Origin != ccmap.OriginVM {
			continue
		}
		known := of(p.Method)
		switch {
		case p.Kind == ccmap.PointBranch && p.Count >= pollution.MinCalls:
			known[place{p.Offset, p.Kind}] = sides(p)
		case p.Kind == ccmap.PointType && p.Count >= pollution.MinCalls:
			known[place{p.Offset, p.Kind}] = types(s.Names(), p)
		case p.Kind == ccmap.PointBranch || p.Kind == ccmap.PointCall || p.Kind == ccmap.PointType:
			known[place{p.Offset, p.Kind}] = nil
		}
	}
	isBytecode := func(m ccmap.MethodID) bool { return s.Names().At(m).Coordinate == ccmap.CoordinateBytecode }
	for _, site := range pollution.New(s, pollution.Options{Weight: weight}).Sites(isBytecode) {
		if site.VM != nil && site.VM.Compiled != pollution.CompiledUnknown {
			of(site.Caller)[place{site.Offset, ccmap.PointCall}] = receivers(s.Names(), site)
		}
	}
	return all
}

// sides returns the sides of a branch that are taken now and then. C2 leaves out one that never is,
// and throws the code away when it comes.
func sides(p ccmap.Point) (taken []string) {
	for _, v := range p.Values {
		if float64(v.Count) >= seldom*float64(p.Count) {
			taken = append(taken, map[uint64]string{ccmap.BranchTaken: "taken", ccmap.BranchUntaken: "not taken"}[v.Value])
		}
	}
	return taken
}

// types returns what C2 takes for granted of a checked object: its type, if there is one alone, and that it is not null
// unless one came (GraphKit::maybe_cast_profiled_receiver and seems_never_null in opto/graphKit.cpp, JDK 17 to 25).
func types(names *ccmap.Names, p ccmap.Point) (taken []string) {
	taken = []string{anyType}
	if len(p.Values) == 1 && p.Other == 0 && p.Aged == 0 {
		taken[0] = names.At(ccmap.MethodID(p.Values[0].Value)).Name
	}
	if p.Nulls > 0 || p.Nulls == ccmap.NullsSeen {
		taken = append(taken, null)
	}
	return taken
}

// receivers returns what C2 inlines at a call.
func receivers(names *ccmap.Names, site pollution.Site) (inlined []string) {
	name := func(i int) string { return names.At(site.Calls.Targets[i].Method).Name }
	switch site.VM.Compiled {
	case pollution.InlinedOne:
		return []string{name(0)}
	case pollution.InlinedMajor:
		return []string{name(0), others}
	case pollution.InlinedTwo:
		return []string{name(0), name(1)}
	}
	return []string{virtual}
}
