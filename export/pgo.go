package export

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// ErrNoGo is the error of a profile for 'go build -pgo' that has samples, but none in a
// Go function.
var ErrNoGo = errors.New("no sample has a Go function whose start line is known, and Go's compiler looks for nothing else")

// pgoExtension is the extension of default.pgo, which 'go build' looks for.
const pgoExtension = ".pgo"

// forPGO begins a comment of each profile for Go's compiler.
const forPGO = "for go build -pgo"

// IsPGO reports whether [WriteFile] writes a file for 'go build -pgo', by its name.
func IsPGO(path string) bool {
	base, _ := cutCompression(filepath.Base(path))
	return strings.HasSuffix(base, pgoExtension)
}

// isForPGO reports whether a profile says that it is for Go's compiler.
func isForPGO(m ccmap.Meta) bool {
	return slices.ContainsFunc(m.Comments, func(c string) bool { return strings.HasPrefix(c, forPGO) })
}

// ForPGO returns the part of a profile that Go's compiler can use. The compiler counts
// the two innermost locations of a sample, and takes the heaviest callee at a line for
// the target of an interface call there. So all frames that are no Go functions are
// left out: the kernel, the vDSO, C, and the pseudo frames. A sample in one of them
// counts where the Go code called it, and a stack begins after the last one. Activations,
// the window and the points go as well.
//
// Calls that were caught rank the callees of their call site: of two callees, the one
// that was called more often has more samples. The samples for that are added, with
// no time, so that all times remain as they were measured.
//
// A profile of anything but CPU time, or samples of it, is an error.
func ForPGO(s *ccmap.Snapshot) (*ccmap.Snapshot, error) {
	if u := s.Meta().Unit; u != ccmap.CPUTime && u != ccmap.SampleCount {
		return nil, fmt.Errorf("'go build -pgo' wants CPU time, and this profile measures %q: choose another of its sample types if it has one (--sample-type cpu)", u)
	}
	p := pgoProfile{from: s, to: ccmap.New(ccmap.Options{Names: s.Names()}), moved: make([]ccmap.NodeID, s.Len())}
	for n := range s.Nodes() {
		p.add(n)
	}
	if !s.Total().IsZero() && p.to.Snapshot().Total().IsZero() {
		return nil, ErrNoGo
	}
	*p.to.Meta() = s.Meta()
	p.to.Meta().Window = 0
	p.rank()
	p.describe()
	return p.to.Snapshot(), nil
}

// pgoProfile is a profile for Go's compiler, being put together.
type pgoProfile struct {
	from   *ccmap.Snapshot
	to     *ccmap.Map
	moved  []ccmap.NodeID // by node of from: the node of to that gets its counts; the root: none
	ranked int            // call sites
}

// add adds the counts of a node. Its parent came before it.
func (p *pgoProfile) add(n ccmap.Node) {
	above := p.moved[n.Parent]
	switch {
	case n.ID == root:
		return
	case n.IsPosition() && !p.isGo(p.from.Node(n.Parent)):
		p.moved[n.ID] = above
	case n.IsPosition():
		p.moved[n.ID] = p.to.Child(above, n.Offset, ccmap.NoMethod)
	case !p.isGo(n) && p.isGo(p.from.Node(n.Parent)):
		p.moved[n.ID] = p.to.Child(above, n.Offset, ccmap.NoMethod)
	case !p.isGo(n):
		p.moved[n.ID] = above
	case p.isGo(p.from.Node(n.Parent)):
		p.moved[n.ID] = p.to.Child(above, n.Offset, n.Method)
	default:
		p.moved[n.ID] = p.to.Child(p.to.Root(), ccmap.NoOffset, n.Method)
	}
	p.to.Add(p.moved[n.ID], ccmap.Counters{Samples: n.Self.Samples, Time: n.Self.Time})
}

// isGo reports whether a node is a frame in a Go function that the compiler can find.
func (p *pgoProfile) isGo(n ccmap.Node) bool {
	return n.ID != root && !n.IsPosition() && p.isGoMethod(n.Method)
}

func (p *pgoProfile) isGoMethod(id ccmap.MethodID) bool {
	m := p.from.Names().At(id)
	return m.StartLine > 0 && m.File != "" && m.Coordinate == ccmap.CoordinateLine && !strings.HasPrefix(m.Name, "[")
}

// describe adds a comment on the changes.
func (p *pgoProfile) describe() {
	all, kept := p.from.Total().Time, p.to.Snapshot().Total().Time
	meta := p.to.Meta()
	meta.Comments = append(meta.Comments, fmt.Sprintf(
		forPGO+": frames that are no Go functions left out, and %.1f %% of the time that had no others; caught calls rank the callees of %d sites",
		100*float64(all-kept)/float64(max(all, 1)), p.ranked))
}

// leastCaught is how many calls must have been caught at a site for them to rank its
// callees.
const leastCaught = 30

// rank adds samples to callees, so that at each call site the order by samples is the
// order by caught calls.
func (p *pgoProfile) rank() {
	var weights map[callSite]map[ccmap.MethodID]int64
	for _, point := range ccmap.SumPhases(p.from.Points()) {
		if point.Origin != ccmap.OriginBurst || point.Kind != ccmap.PointCall || point.Callers != nil {
			continue
		}
		calls := p.calls(point)
		if len(calls) == 0 || !p.isGoMethod(point.Method) {
			continue
		}
		if weights == nil {
			weights = compilerWeights(p.to.Snapshot())
		}
		p.rankSite(siteOf(&point), calls, weights[siteOf(&point)])
	}
}

// calls returns how often methods were called at a site, under the names that they have
// on stacks; none if too few calls were caught.
func (p *pgoProfile) calls(point ccmap.Point) map[ccmap.MethodID]int64 {
	calls, caught := make(map[ccmap.MethodID]int64), int64(0)
	for _, v := range point.Values {
		if id, ok := p.declared(ccmap.MethodID(v.Value)); ok {
			calls[id] += v.Count
			caught += v.Count
		}
	}
	if caught < leastCaught {
		return nil
	}
	return calls
}

// declared returns the method that a caught call has reached, as its source declares it.
// The wrapper (*T).M of a method M of T stands for that method. Other wrappers are of
// no use to the compiler.
func (p *pgoProfile) declared(id ccmap.MethodID) (ccmap.MethodID, bool) {
	names := p.from.Names()
	m := names.At(id)
	if m.File == "<autogenerated>" {
		var found bool
		if id, found = names.Lookup(pointerMarks.Replace(m.Name), m.Signature); !found {
			return id, false
		}
	}
	return id, p.isGoMethod(id) && names.At(id).File != "<autogenerated>"
}

var pointerMarks = strings.NewReplacer("(*", "", ")", "")

// rankSite gives each callee of a site more samples than those with fewer calls have.
func (p *pgoProfile) rankSite(site callSite, calls, weights map[ccmap.MethodID]int64) {
	most := int64(0) // samples of a callee so far
	for id, weight := range weights {
		if calls[id] == 0 {
			most = max(most, weight)
		}
	}
	caller := p.to.Child(p.to.Root(), ccmap.NoOffset, site.method)
	p.ranked++
	least, before := most, int64(0)
	for _, id := range byCalls(calls) {
		if calls[id] > before {
			least, before = most+1, calls[id]
		}
		if more := least - weights[id]; more > 0 {
			p.to.Add(p.to.Child(caller, site.offset, id), ccmap.Counters{Samples: more})
		}
		most = max(most, least, weights[id])
	}
}

// byCalls returns the callees with the fewest calls first.
func byCalls(calls map[ccmap.MethodID]int64) []ccmap.MethodID {
	return slices.SortedFunc(maps.Keys(calls), func(a, b ccmap.MethodID) int {
		return cmp.Or(cmp.Compare(calls[a], calls[b]), cmp.Compare(a, b))
	})
}
