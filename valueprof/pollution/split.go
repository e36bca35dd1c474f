package pollution

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Split is the evidence for a site, divided by the callers of the site.
type Split struct {
	Depth    int       // largest number of callers that tell contexts apart
	Contexts []Context // all, the heaviest first, then by callers
	Entropy  float64   // remaining, in bits: the mean over the contexts, by weight
	// Verdict is Monomorphic if monomorphic contexts have nine tenths of the weight. It
	// is Bimorphic if monomorphic and bimorphic contexts together have it, else Unknown.
	Verdict Verdict
}

// Context is a part of the calls of a site.
type Context struct {
	// Callers are the chain above the site, innermost first, each at its call. The chain
	// is shorter than the depth of the split if there is only one target, if every longer
	// chain has too few observations, or if the stack ends there.
	Callers []ccmap.Frame
	// Rest says that this context has the remaining calls of the chain: their further
	// callers are unknown or too rare.
	Rest bool
	Mix
	// Verdict is Unknown for a rest, and for a context that may look so by chance.
	Verdict Verdict
}

// covered is the share of a site's weight that a split must cover for its verdict.
const covered = 0.9

// Splits divides the evidence by one caller, by two, and so on up to depth. It returns
// nil if there is nothing to divide. Caught calls have at most [ccmap.MaxPointCallers]
// callers.
func (e Evidence) Splits(depth int) []Split {
	if e.contexts == nil || len(e.Targets) == 0 || e.isOne() {
		return nil
	}
	t := e.contexts(depth)
	splits := make([]Split, max(depth, 0))
	for i := range splits {
		splits[i] = e.newSplit(i+1, t.contexts(nil, i+1, e.judge.least))
	}
	return splits
}

func (e Evidence) newSplit(depth int, contexts []Context) Split {
	s := Split{Depth: depth, Contexts: contexts}
	total := float64(e.Total().Weight)
	for i := range contexts {
		c := &contexts[i]
		if !c.Rest {
			c.Verdict = e.judge.inContext(c.Mix, e.Mix)
		}
		if c.Total().Weight > 0 {
			s.Entropy += float64(c.Total().Weight) / total * c.Entropy()
		}
	}
	slices.SortFunc(contexts, compareContexts)
	s.Verdict = s.verdict(total)
	return s
}

func compareContexts(a, b Context) int {
	return cmp.Or(
		cmp.Compare(b.Total().Weight, a.Total().Weight),
		slices.CompareFunc(a.Callers, b.Callers, compareFrames),
	)
}

func (s Split) verdict(total float64) Verdict {
	for _, v := range []Verdict{Monomorphic, Bimorphic} {
		if w := s.weight(v); w > 0 && w >= covered*total {
			return v
		}
	}
	return Unknown
}

// weight returns the weight of the contexts that are certainly as good as v or better.
// V is Monomorphic or Bimorphic.
func (s Split) weight(v Verdict) float64 {
	weight := 0.0
	for _, c := range s.Contexts {
		if c.Verdict >= Monomorphic && c.Verdict <= v {
			weight += float64(c.Total().Weight)
		}
	}
	return weight
}

// Least returns the split of least depth that makes a site monomorphic. If there is no
// such split, it returns the split that makes the site bimorphic, if that is better
// than the site. It reports whether it found a split.
func (e Evidence) Least(splits []Split) (Split, bool) {
	for v := Monomorphic; v < min(e.Verdict, Megamorphic); v++ {
		for _, s := range splits {
			if s.Verdict == v {
				return s, true
			}
		}
	}
	return Split{}, false
}

// tree has the calls of a site by context. A node has the calls with one chain of
// callers, and above it are the nodes for each chain with one more caller. A node may
// have more calls than all nodes above it, because some callers are unknown.
type tree struct {
	tally
	above map[ccmap.Frame]*tree // by the caller, at its call
}

func newTree() *tree { return &tree{newTally(), make(map[ccmap.Frame]*tree)} }

// at returns the node with one more caller, which it adds if it is new.
func (t *tree) at(caller ccmap.Frame) *tree {
	longer, known := t.above[caller]
	if !known {
		longer = newTree()
		t.above[caller] = longer
	}
	return longer
}

// sampledTree returns the samples of callees at one site, by at most depth callers. It
// divides the nodes that worth accepts.
func sampledTree(a *Analysis, callees []ccmap.Callee, depth int, worth func(*tree) bool) *tree {
	t := newTree()
	refs := make([]ccmap.CalleeRef, len(callees))
	for i, c := range callees {
		refs[i] = c.Ref()
		t.add(c.Callee(), a.amount(c.Total()))
	}
	t.grow(a, refs, depth, worth)
	return t
}

// isWorthDividing reports whether a node has enough samples to divide, and more than one
// target.
func (t *tree) isWorthDividing() bool { return t.total().Seen >= MinSamples && !t.isOne() }

// grow adds the nodes above a node. A truncated stack ends at the cut.
func (t *tree) grow(a *Analysis, refs []ccmap.CalleeRef, depth int, worth func(*tree) bool) {
	if depth <= 0 || !worth(t) {
		return
	}
	above := make(map[ccmap.Frame][]ccmap.CalleeRef)
	for _, ref := range refs {
		for longer := range ref.Callers() {
			path := longer.Path()
			callee, caller := path[0].Method, path[len(path)-1]
			if caller.Method != ccmap.TruncatedID {
				t.at(caller).add(callee, a.amount(longer.Total()))
				above[caller] = append(above[caller], longer)
			}
		}
	}
	for caller, longer := range above {
		t.above[caller].grow(a, longer, depth-1, worth)
	}
}

// caughtTree returns the caught calls of one site. The points in contexts and the point
// in any context may each have forgotten calls that the other has. The tree has both.
func caughtTree(points []ccmap.Point) *tree {
	t, overall := newTree(), newTally()
	for i := range points {
		p := &points[i]
		if p.Callers == nil {
			overall.addPoint(p)
			continue
		}
		context := t
		context.addPoint(p)
		for _, caller := range p.Callers {
			context = context.at(caller)
			context.addPoint(p)
		}
	}
	t.addRest(&overall)
	return t
}

// addPoint adds the calls of a point.
func (t *tally) addPoint(p *ccmap.Point) {
	unnamed := p.Count - max(p.Nulls, 0)
	for _, v := range p.Values {
		t.add(ccmap.MethodID(v.Value), Amount{v.Count, v.Count})
		unnamed -= v.Count
	}
	t.unnamed = addSaturated(t.unnamed, max(unnamed, 0))
}

// addRest adds the calls that the overall count has beyond the contexts.
func (t *tally) addRest(overall *tally) {
	missing := overall.total().minus(t.total()).Seen
	for _, target := range overall.mix().Targets {
		n := min(target.minus(t.targets[target.Method]).Seen, missing)
		t.add(target.Method, Amount{n, n})
		missing -= n
	}
	t.unnamed = addSaturated(t.unnamed, missing)
}

// contexts divides the calls by at most depth callers. It does not divide calls with
// only one target. Contexts with less than least observations stay together.
func (t *tree) contexts(callers []ccmap.Frame, depth int, least int64) []Context {
	whole := Context{Callers: callers, Mix: t.mix()}
	if depth <= 0 || t.isOne() {
		return []Context{whole}
	}
	var found []Context
	var parts []*tree
	for caller, longer := range t.above {
		if longer.total().Seen < least {
			continue
		}
		found = append(found, longer.contexts(append(slices.Clip(callers), caller), depth-1, least)...)
		parts = append(parts, longer)
	}
	if len(parts) == 0 {
		return []Context{whole}
	}
	rest := t.without(parts)
	if m := rest.mix(); m.Total() != (Amount{}) {
		found = append(found, Context{Callers: callers, Rest: true, Mix: m})
	}
	return found
}
