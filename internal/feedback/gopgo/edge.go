package gopgo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// Weight is what the weight of an edge counts.
type Weight string

// The weights.
const (
	BySamples     Weight = "samples"     // samples with the call in their two innermost locations, as the compiler counts
	ByActivations Weight = "activations" // calls that samples found, at all depths
)

// Weights lists all weights.
func Weights() []Weight { return []Weight{BySamples, ByActivations} }

// Edge is a call with its weight.
type Edge struct {
	Caller, Callee *ccmap.Method // shared by edges
	Offset         uint32        // of the call, in lines from the caller's first; it may wrap: lines before the first
	Weight         int64         // in the unit of the [Weight]
	Time           int64         // for people: CPU time of its samples, ns; the weight if it counts another thing
}

// ErrNoEdges is the error of a profile without a call that the compiler could find.
var ErrNoEdges = errors.New("the profile has no call from one Go function to another whose lines are known")

// ErrNoActivations is the error of a profile that was asked for activations, and has none.
var ErrNoActivations = errors.New("the profile counts no activations of calls")

// Edges returns the calls of a profile in the compiler's order: the heaviest first, equal ones by
// names. Those without weight are left out.
func Edges(s *ccmap.Snapshot, by Weight) ([]Edge, error) {
	if HasRanks(s.Meta()) {
		return nil, ErrRanks
	}
	return countEdges(s, by)
}

// countEdges is Edges, of minimal profiles, too.
func countEdges(s *ccmap.Snapshot, by Weight) ([]Edge, error) {
	counted, err := export.PGOEdges(s)
	if err != nil {
		return nil, err
	}
	if len(counted) == 0 {
		return nil, ErrNoEdges
	}
	var edges []Edge
	methods := make([]*ccmap.Method, s.Names().Len())
	method := func(id ccmap.MethodID) *ccmap.Method {
		if methods[id] == nil {
			m := s.Names().At(id)
			methods[id] = &m
		}
		return methods[id]
	}
	for e, c := range counted {
		weight, time := c.Samples, c.Time
		if by == ByActivations {
			weight, time = c.Activations, c.Activations
		} else if s.Meta().Unit != ccmap.CPUTime {
			time = weight
		}
		if weight > 0 {
			edges = append(edges, Edge{method(e.Caller), method(e.Callee), e.Offset, weight, time})
		}
	}
	if len(edges) == 0 {
		return nil, ErrNoActivations // edges have samples or activations
	}
	slices.SortFunc(edges, compareEdges)
	return edges, nil
}

// compareEdges is the compiler's order (cmd/internal/pgo.sortByWeight).
func compareEdges(a, b Edge) int {
	return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Caller.Name, b.Caller.Name),
		cmp.Compare(a.Callee.Name, b.Callee.Name), cmp.Compare(int32(a.Offset), int32(b.Offset)))
}

// hotPercent is the share of the sum of all weights that hot edges have
// (inline.inlineCDFHotCallSiteThresholdPercent).
const hotPercent = 99

// Hot returns how many of the edges, in the compiler's order, are hot: the first one that goes
// beyond the share is the last hot one.
func Hot(edges []Edge) int {
	total := Sum(edges)
	sum := int64(0)
	for i, e := range edges {
		sum = add(sum, e.Weight)
		if float64(sum)/float64(total)*100 > hotPercent {
			return i + 1
		}
	}
	return len(edges)
}

// Sum returns the weight of edges.
func Sum(edges []Edge) (sum int64) {
	for _, e := range edges {
		sum = add(sum, e.Weight)
	}
	return sum
}

// add adds weights, which hostile profiles make as large as they like.
func add(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}

// String returns the call for people.
func (e Edge) String() string {
	return fmt.Sprintf("%s%+d → %s", e.Caller.Name, int32(e.Offset), e.Callee.Name)
}
