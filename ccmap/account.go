package ccmap

// account adds what the removed nodes have counted to the bases of their edges
// and methods.
func (p *pruning) account() {
	b := &p.m.bases
	b.own(&p.m.recent.clock)
	w := walker{pruning: p, bases: b, edges: make([]uint32, len(p.sums))}
	for r := range p.keep {
		if p.fate[r] != kept {
			w.addRun(r)
		}
	}
	w.addAllCumulative()
}

// addAllCumulative goes through the runs depth first, to know which nodes are the
// outermost of their method.
func (w *walker) addAllCumulative() {
	first, next := w.kin()
	open := newOpenMethods(w.m.names.Len(), w.pruned)
	for r := uint32(0); ; {
		open.enter()
		w.visit(open, int(r))
		if c := first[r]; c != 0 {
			r = c
			continue
		}
		for next[r] == 0 {
			open.leave()
			if r == 0 {
				return
			}
			r = w.above[r]
		}
		open.leave()
		r = next[r]
	}
}

// kin links every run to the first below it and to the next below the same one,
// but for those that are kept with all below them.
func (p *pruning) kin() (first, next []uint32) {
	first, next = make([]uint32, len(p.sums)), make([]uint32, len(p.sums))
	for r := len(p.sums) - 1; r > 0; r-- {
		if above := p.above[r]; first[r] != 0 || !p.whole(r) {
			next[r], first[above] = first[above], uint32(r)
		}
	}
	return first, next
}

// openMethods are the methods on a path, and which of its runs has brought each.
type openMethods struct {
	has    []bool // by method
	opened []MethodID
	before []int // by run of the path: how many were opened before it
}

// newOpenMethods has [pruned] open everywhere: what hangs there has been counted in
// the methods above it.
func newOpenMethods(methods int, pruned MethodID) *openMethods {
	o := &openMethods{has: make([]bool, methods)}
	if pruned != NoMethod {
		o.has[pruned] = true
	}
	return o
}

func (o *openMethods) enter() { o.before = append(o.before, len(o.opened)) }

func (o *openMethods) leave() {
	last := len(o.before) - 1
	for _, m := range o.opened[o.before[last]:] {
		o.has[m] = false
	}
	o.opened, o.before = o.opened[:o.before[last]], o.before[:last]
}

// openAll adds the methods of nodes that follow each other down, and returns those
// that were not on the path.
func (o *openMethods) openAll(path []node) []MethodID {
	before := len(o.opened)
	for i := range path {
		if m := path[i].method; m != NoMethod && !o.has[m] {
			o.has[m] = true
			o.opened = append(o.opened, m)
		}
	}
	return o.opened[before:]
}

// walker adds removed nodes to bases, run by run.
type walker struct {
	*pruning
	bases *bases
	edges []uint32 // by run: the edge to its last node, if that is removed
}

// addRun adds what is removed of a run to the bases of its edges, and what its
// last node counts to that of its method.
func (w *walker) addRun(r int) {
	for n, end := w.gone(r), w.last[r]+1; n < end; {
		some := w.old.from(n, end)
		w.addEdges(r, n, some)
		n += NodeID(len(some))
	}
	if w.fate[r] != absorbed {
		w.addSelf(w.last[r])
	}
}

// visit adds the methods of a run to the path, and what it weighs to those that
// the nodes removed of it are the outermost of.
func (w *walker) visit(open *openMethods, r int) {
	gone, end := w.gone(r), w.last[r]+1
	for n := w.first(r); n < gone; {
		some := w.old.from(n, gone)
		open.openAll(some)
		n += NodeID(len(some))
	}
	for n := gone; n < end; {
		some := w.old.from(n, end)
		for _, m := range open.openAll(some) {
			w.addCumulative(m, r)
		}
		n += NodeID(len(some))
	}
}

// addEdges adds removed nodes of a run, from n on, to the bases of their edges.
func (w *walker) addEdges(r int, n NodeID, some []node) {
	edge, caller := w.edgeAbove(r, n), w.old.at(some[0].parent).method
	cells := w.old.columns.from(n, n+NodeID(len(some)))[:len(some)]
	sum := w.sums[r].counters()
	for i := range some {
		what := &some[i]
		if what.method == w.pruned && w.pruned != NoMethod {
			break // what hangs there has been counted in its own edges
		}
		edge = w.bases.edgeBelow(edge, edgeKey{caller, what.offset, what.method})
		sum.Activations = int64(cells[i].activations)
		base := &w.bases.edges[edge]
		base.total = base.total.Add(sum)
		if w.lately != nil {
			base.recent.add(w.lately[r])
		}
		caller = what.method
	}
	w.edges[r] = edge
}

// edgeAbove returns the edge above a removed node of a run, or any if its parent
// is kept.
func (w *walker) edgeAbove(r int, n NodeID) uint32 {
	switch {
	case n > w.gone(r):
		return w.edges[r]
	case w.keep[r] == 0:
		return w.edges[w.above[r]]
	}
	return 0
}

func (w *walker) addCumulative(method MethodID, r int) {
	b := w.bases.method(method)
	b.cumulative.saturate(w.sums[r].counters())
	if w.lately != nil {
		b.recentCumulative.add(w.lately[r])
	}
}

// addSelf adds what the last node of a removed run counts itself to its method.
func (w *walker) addSelf(n NodeID) {
	method := w.old.at(n).method
	switch method {
	case NoMethod:
		method = w.old.at(w.old.at(n).parent).method
	case w.pruned:
		return
	}
	if over, ok := w.old.columns.wide[n]; ok {
		key := w.old.edgeOf(n)
		base := &w.bases.edges[w.bases.edge(key)]
		base.total.Activations = addSaturated(base.total.Activations, over.Activations)
	}
	b := w.bases.method(method)
	b.self.saturate(w.old.columns.at(n))
	if w.lately != nil {
		b.recentSelf.add(w.old.recent.inOctave(n))
	}
}
