package pollution

import (
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// tree has the calls of a site by their context: each node those with one chain of
// callers, and above it those with every chain that is one longer. Where less is
// known of callers than of the calls, a node has more than all above it.
type tree struct {
	tally
	above map[ccmap.Frame]*tree // by the caller, at its call
}

func newTree() *tree { return &tree{newTally(), make(map[ccmap.Frame]*tree)} }

// at returns the contexts with one more caller, which it adds if they are new.
func (t *tree) at(caller ccmap.Frame) *tree {
	longer, known := t.above[caller]
	if !known {
		longer = newTree()
		t.above[caller] = longer
	}
	return longer
}

// sampledTree returns the samples of callees at one site, by up to depth callers.
func sampledTree(a *Analysis, callees []ccmap.Callee, depth int) *tree {
	t := newTree()
	refs := make([]ccmap.CalleeRef, len(callees))
	for i, c := range callees {
		refs[i] = c.Ref()
		t.add(c.Callee(), a.amount(c.Total()))
	}
	t.grow(a, refs, depth)
	return t
}

// grow adds the contexts above those of a node, if it is to be divided. A stack that
// was cut ends where it was cut.
func (t *tree) grow(a *Analysis, refs []ccmap.CalleeRef, depth int) {
	if depth <= 0 || t.total().Seen < MinSamples || t.isOne() {
		return
	}
	above := make(map[ccmap.Frame][]ccmap.CalleeRef)
	for _, ref := range refs {
		for longer := range ref.Callers() {
			path := longer.Path()
			callee, caller := path[0].Method, path[len(path)-1]
			if caller.Method != a.truncated {
				t.at(caller).add(callee, a.amount(longer.Total()))
				above[caller] = append(above[caller], longer)
			}
		}
	}
	for caller, longer := range above {
		t.above[caller].grow(a, longer, depth-1)
	}
}

// caughtTree returns the caught calls of one site. The contexts may have kept what
// the point of any context has forgotten, and may lack what it has: the tree has
// both.
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

// addRest adds what the overall count has beyond what was counted by context.
func (t *tally) addRest(overall *tally) {
	missing := overall.total().minus(t.total()).Seen
	for _, target := range overall.mix().Targets {
		n := min(target.minus(t.targets[target.Method]).Seen, missing)
		t.add(target.Method, Amount{n, n})
		missing -= n
	}
	t.unnamed = addSaturated(t.unnamed, missing)
}

// contexts divides the calls by their callers, up to depth of them, as far as there
// are enough observations: what has one target only is not divided, and contexts
// of less than least observations remain together.
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
