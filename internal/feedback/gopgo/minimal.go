package gopgo

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Minimal is the part of a profile that decides something in the compiler.
type Minimal struct {
	Hot   []Edge // those that are hot with the whole profile, the heaviest first
	Light []Edge // not hot: callees of calls that may be devirtualized
	Least int64  // weight of the lightest edge that may be here
}

// Minimize leaves out the edges that decide nothing, and those that are lighter than least. The edges are in
// the order of [Edges].
//
// Of the edges that are not hot, the heaviest callee of a line stays. A line may have several calls, and
// the method's name tells them apart for the compiler: so it is the heaviest callee of each name.
func Minimize(edges []Edge, least int64) Minimal {
	m := Minimal{Least: least}
	type call struct {
		caller string
		offset uint32
		name   string
	}
	heaviest := make(map[call]bool)
	for i, hot := 0, Hot(edges); i < len(edges); i++ {
		e := edges[i]
		if e.Weight < least || e.Offset == ccmap.NoOffset {
			continue
		}
		at := call{e.Caller.Name, e.Offset, lastName(e.Callee.Name)}
		switch {
		case i < hot:
			m.Hot = append(m.Hot, e)
		case !heaviest[at]:
			m.Light = append(m.Light, e)
		}
		heaviest[at] = true
	}
	return m
}

// lastName returns the name of a method without what it belongs to.
func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// Ranks of edges: hot ones are above the base, fillers just below it, light ones begin at 1.
const (
	leastBase = 1 << 20
	mostRanks = 1 << 40 // so that no sum overflows
)

// ErrTooManyEdges is the error of a profile with more edges than ranks have room for.
var ErrTooManyEdges = errors.New("the profile has too many calls")

// ranksMark is the comment of a profile whose samples are ranks. As it begins, package export takes it for one for the
// compiler, and writes names once.
const ranksMark = "for go build -pgo alone: samples/count are ranks of calls, not samples"

// fillerName begins the names of callees that no program has.
const fillerName = "ccmapd.rest"

// Map returns the profile to be written. A sample for each edge has the two frames of the call. Its
// count is a rank, its time the time of the edge. As many calls of functions that no program has
// weigh just over 1 % of the sum, so that the compiler finds exactly the hot edges hot.
func (m Minimal) Map(of ccmap.Meta) (*ccmap.Map, error) {
	hot, light := ranks(m.Hot), ranks(m.Light)
	sumLight := int64(0)
	for _, r := range light {
		sumLight += r
	}
	base := int64(leastBase)
	for len(hot) > 0 && base*int64(len(hot)) < 2*100*sumLight {
		base *= 2
	}
	if len(m.Hot) == 0 {
		return nil, ErrNoEdges
	}
	if base > mostRanks/int64(len(hot)) || len(light) > leastBase {
		return nil, fmt.Errorf("%w: %d hot ones and %d others", ErrTooManyEdges, len(hot), len(light))
	}
	to, sumHot := ccmap.New(ccmap.Options{}), int64(0)
	for i, e := range m.Hot {
		addEdge(to, e.Caller, e.Callee, e.Offset, ccmap.Counters{Samples: base + hot[i], Time: e.Time})
		sumHot += base + hot[i]
	}
	for i, e := range m.Light {
		addEdge(to, e.Caller, e.Callee, e.Offset, ccmap.Counters{Samples: light[i], Time: e.Time})
	}
	addFillers(to, base-1, sumHot, sumLight)
	describe(to, of)
	return to, nil
}

// describe gives the map of ranks the description of the profile.
func describe(to *ccmap.Map, of ccmap.Meta) {
	meta := to.Meta()
	*meta = of
	meta.Unit, meta.Window, meta.Pruned = ccmap.CPUTime, 0, ccmap.PruneStats{}
	meta.Comments = append(slices.Clone(of.Comments), ranksMark)
	to.SetExact(false)
}

// ranks returns the ranks of edges that are in order: 1 for the lightest, and the same for edges of the
// same weight, among which the compiler has reasons of its own to choose.
func ranks(edges []Edge) []int64 {
	all := make([]int64, len(edges))
	rank := int64(0)
	for i := len(edges) - 1; i >= 0; i-- {
		if i == len(edges)-1 || edges[i].Weight != edges[i+1].Weight {
			rank++
		}
		all[i] = rank
	}
	return all
}

// addFillers adds calls of a weight each. One of them is the first edge beyond 99 % of the sum.
func addFillers(to *ccmap.Map, weight, hot, light int64) {
	rest := float64(hot)*(100-hotPercent)/hotPercent - float64(light)
	caller := &ccmap.Method{Name: fillerName, File: "ccmapd", StartLine: 1}
	for i := range int(math.Floor(rest/float64(weight))) + 1 {
		callee := *caller
		callee.Name = fmt.Sprintf("%s%d", fillerName, i+1)
		addEdge(to, caller, &callee, 0, ccmap.Counters{Samples: weight})
	}
}

func addEdge(to *ccmap.Map, caller, callee *ccmap.Method, offset uint32, c ccmap.Counters) {
	above := to.Child(to.Root(), ccmap.NoOffset, to.Names().Intern(*caller))
	to.Add(to.Child(above, offset, to.Names().Intern(*callee)), c)
}

// ErrRanks is the error of a profile whose samples are ranks, where samples are wanted.
var ErrRanks = errors.New("the profile is minimal, and its samples are ranks of calls")

// HasRanks reports whether a profile is of [Minimal.Map]: ranks have no sum, and are no samples.
func HasRanks(m ccmap.Meta) bool { return slices.Contains(m.Comments, ranksMark) }

// Whole returns the edges as a profile for the compiler with their own weights.
func Whole(edges []Edge, by Weight, of ccmap.Meta) *ccmap.Map {
	to := ccmap.New(ccmap.Options{})
	for _, e := range edges {
		if e.Offset != ccmap.NoOffset {
			addEdge(to, e.Caller, e.Callee, e.Offset, ccmap.Counters{Samples: e.Weight, Time: e.Time})
		}
	}
	describe(to, of)
	to.Meta().Comments[len(to.Meta().Comments)-1] = fmt.Sprintf("for go build -pgo alone: samples/count are %s of calls", by)
	return to
}
