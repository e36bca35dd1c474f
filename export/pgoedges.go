package export

import (
	"iter"

	"github.com/ccmapd/ccmapd/ccmap"
)

// PGOEdge is a call as Go's compiler knows one.
type PGOEdge struct {
	Caller, Callee ccmap.MethodID
	Offset         uint32 // of the call, in lines from the caller's first
}

// PGOEdges counts the calls that Go's compiler finds in a profile for 'go build -pgo': in what
// [ForPGO] leaves of s, whose errors it returns. The ids are of s.Names(). Samples and Time are
// counted as the compiler does, Activations are those of the calls at all depths.
//
// A call that the program does and has inlined, too, at one line of one caller, counts as inlined. So
// a few edges more may be found than the compiler finds: 1 of 3,533 in the Go compiler's own profile.
func PGOEdges(s *ccmap.Snapshot) (map[PGOEdge]ccmap.Counters, error) {
	left, err := ForPGO(s)
	if err != nil {
		return nil, err
	}
	edges := make(map[PGOEdge]ccmap.Counters)
	for e, self := range compilerCalls(left) {
		edges[e] = edges[e].Add(ccmap.Counters{Samples: self.Samples, Time: self.Time})
	}
	p := pgoProfile{from: s}
	for n := range s.Nodes() {
		if n.Self.Activations == 0 || !p.isGo(n) || !p.isGo(s.Node(n.Parent)) {
			continue
		}
		e := PGOEdge{s.Node(n.Parent).Method, n.Method, n.Offset}
		edges[e] = edges[e].Add(ccmap.Counters{Activations: n.Self.Activations})
	}
	return edges, nil
}

// compilerCalls yields the calls that the compiler counts for each sample, with the counters
// of the sample (internal/profile/graph.go, Go 1.26 and 1.27): the calls in its two innermost
// locations, inlined ones included.
func compilerCalls(s *ccmap.Snapshot) iter.Seq2[PGOEdge, ccmap.Counters] {
	return func(yield func(PGOEdge, ccmap.Counters) bool) {
		for n := range s.Nodes() {
			self := n.Self
			if self.Samples == 0 {
				continue
			}
			if n.IsPosition() {
				n = s.Node(n.Parent)
			}
			for locations := 1; n.Parent != root; n = s.Node(n.Parent) {
				e := PGOEdge{s.Node(n.Parent).Method, n.Method, n.Offset}
				if !s.Names().Inlined(ccmap.Frame{Method: e.Caller, Offset: e.Offset}, e.Callee) {
					locations++
				}
				if locations > 2 {
					break
				}
				if !yield(e, self) {
					return
				}
			}
		}
	}
}

// compilerWeights are the samples of each callee at each call site, counted as the compiler does.
func compilerWeights(s *ccmap.Snapshot) map[callSite]map[ccmap.MethodID]int64 {
	weights := make(map[callSite]map[ccmap.MethodID]int64)
	for e, self := range compilerCalls(s) {
		at := callSite{e.Caller, e.Offset}
		if weights[at] == nil {
			weights[at] = make(map[ccmap.MethodID]int64)
		}
		weights[at][e.Callee] += self.Samples
	}
	return weights
}
