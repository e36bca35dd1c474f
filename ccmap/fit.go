package ccmap

import (
	"cmp"
	"slices"
	"strings"
)

// Build describes the methods and calls of a build of a program to [Fit].
type Build interface {
	// Method describes the method of this name and signature. A Body of 0 is unknown. Method reports
	// false if the build does not know the method.
	Method(name, signature string) (m Method, known bool)

	// MayCall reports whether the caller calls the callee at an offset, or may call any method there. It
	// reports as well whether the build knows the calls of the caller at all. Both methods are described
	// as in the older build.
	MayCall(caller Method, offset uint32, callee Method) (may, known bool)
}

// Stale is a method with other code in the new build.
type Stale struct {
	Method Method   // as in the older build
	Total  Counters // of the contexts that were cut at it
	Calls  bool     // the method stays: contexts were cut at calls that it no longer does
}

// Fit returns the part of an older build's profile that still holds in a build. The result has the
// methods of the new build. A method is stale if both builds know its Body and the two differ:
//
//   - If the new build knows the calls of the method, a context stays as far as its calls still exist.
//     It is cut at the first call that does not. Samples at a position of the method count for the
//     method alone.
//   - Otherwise contexts are cut at the method itself: they end in its caller, which gains nothing.
//
// A method that was inlined into a stale method is stale, too: they share their code. Fit drops the
// points of stale methods, except points of calls that may all still happen. It drops points in
// contexts that were cut, pruned totals of stale methods and of calls to them, addresses of
// instructions, and recent counters.
//
// A cut context counts once, for its outermost stale method. So the total of the result and the
// totals of the stale methods add up to the total of s. The list begins with the largest total. A
// method that either build does not know is not stale.
func Fit(s *Snapshot, b Build) (*Map, []Stale) {
	f := newFitting(s, b)
	f.addNodes()
	f.addEvicted()
	f.addPoints()
	f.adoptPositions()
	f.to.meta, f.to.inexact = s.meta, s.inexact
	f.to.meta.Window = 0
	return f.to, f.stales()
}

// fitting builds a map that fits a build.
type fitting struct {
	from    *Snapshot
	build   Build
	to      *Map
	methods []fitted // by MethodID of from
	cut     map[staleKey]Counters
}

type staleKey struct {
	method MethodID // of from
	calls  bool
}

// fitted is a method of the older build, and its counterpart in the new one.
type fitted struct {
	Method           // as the older build has it
	id      MethodID // in the result; NoMethod: not asked for yet
	now     Method   // as the build has it, or else as the older one
	changed bool
}

func newFitting(s *Snapshot, b Build) *fitting {
	f := &fitting{from: s, build: b, to: New(Options{}), cut: make(map[staleKey]Counters)}
	for id := range MethodID(s.names.Len()) {
		m := fitted{Method: s.names.At(id), id: NoMethod}
		m.now = m.Method
		if now, known := b.Method(m.Name, m.Signature); known && !m.isPseudo() {
			m.changed = m.Body != 0 && now.Body != 0 && (m.Body != now.Body || m.Body == MixedBodies)
			m.now, m.now.Name, m.now.Signature = now, m.Name, m.Signature
		}
		f.methods = append(f.methods, m)
	}
	return f
}

// isPseudo reports whether the method stands for something that is no code of the program.
func (m Method) isPseudo() bool { return strings.HasPrefix(m.Name, "[") }

// method returns the id of a method in the result.
func (f *fitting) method(id MethodID) MethodID {
	if id == NoMethod {
		return NoMethod
	}
	m := &f.methods[id]
	if m.id == NoMethod {
		m.id = f.to.names.Intern(m.now)
	}
	return m.id
}

// callsKnown reports whether the build knows the calls of a method.
func (f *fitting) callsKnown(id MethodID) bool {
	_, known := f.build.MayCall(f.methods[id].Method, NoOffset, Method{})
	return known
}

// stillCalls reports whether a method that has changed may still do a call.
func (f *fitting) stillCalls(caller MethodID, offset uint32, callee MethodID) bool {
	may, known := f.build.MayCall(f.methods[caller].Method, offset, f.methods[callee].Method)
	return known && (may || f.methods[callee].isPseudo())
}

// place is the place of an older map's node in the result.
type place struct {
	node    NodeID // in the result
	cut     bool   // the node is gone, and counts for stale
	changed bool   // the code of its method changed
	stale   staleKey
}

func (f *fitting) addNodes() {
	places := make([]place, f.from.Len())
	for n := range f.from.Nodes() {
		if n.ID == 0 {
			continue
		}
		p := f.placeOf(n, places[n.Parent])
		if places[n.ID] = p; p.cut {
			f.cut[p.stale] = f.cut[p.stale].Add(n.Self)
		} else {
			f.to.Add(p.node, n.Self)
		}
	}
}

// placeOf returns the place of a node. Its parent has the place above.
func (f *fitting) placeOf(n Node, above place) place {
	caller := f.from.at(n.Parent).method // of the root: unused, as nothing there has changed
	switch {
	case above.cut, n.IsPosition() && above.changed:
		return above
	case n.IsPosition():
		return place{node: f.to.Child(above.node, n.Offset, NoMethod)}
	case above.changed && !f.stillCalls(caller, n.Offset, n.Method):
		return place{cut: true, stale: staleKey{caller, true}}
	}
	changed := f.methods[n.Method].changed || above.changed && f.from.names.Inlined(Frame{caller, n.Offset}, n.Method)
	if changed && !f.callsKnown(n.Method) {
		return place{cut: true, stale: staleKey{n.Method, false}}
	}
	return place{node: f.to.Child(above.node, n.Offset, f.method(n.Method)), changed: changed}
}

// whole reports whether no context was cut at the method itself.
func (f *fitting) whole(id MethodID) bool {
	return id == NoMethod || !f.methods[id].changed || f.callsKnown(id)
}

// addEvicted adds the totals of pruned contexts. The samples of these contexts hang at nodes that stay
// or were cut. So only their activations are left to count for stale methods.
func (f *fitting) addEvicted() {
	for e := range f.from.PrunedEdges() {
		key := staleKey{e.Callee, false}
		if f.whole(e.Callee) {
			key = staleKey{e.Caller, f.whole(e.Caller)}
		}
		if f.keepsEdge(e) {
			e.Caller, e.Callee, e.Recent = f.method(e.Caller), f.method(e.Callee), Counters{}
			f.to.AddPruned(e)
		} else {
			f.cut[key] = f.cut[key].Add(Counters{Activations: e.Total.Activations})
		}
	}
	for p := range f.from.PrunedMethods() {
		if f.whole(p.Method) {
			p.Method, p.RecentSelf, p.RecentCumulative = f.method(p.Method), Counters{}, Counters{}
			f.to.AddPrunedMethod(p)
		}
	}
}

// keepsEdge reports whether the totals of an edge stay. Totals of positions go with the old code of
// their method.
func (f *fitting) keepsEdge(e PrunedEdge) bool {
	if !f.whole(e.Caller) || !f.whole(e.Callee) {
		return false
	}
	if e.Caller == NoMethod || !f.methods[e.Caller].changed {
		return true
	}
	return e.Callee != NoMethod && f.stillCalls(e.Caller, e.Offset, e.Callee)
}

func (f *fitting) addPoints() {
	for _, p := range f.from.points {
		if f.keepsPoint(&p) {
			p.Method, p.Callers, p.Values = f.method(p.Method), slices.Clone(p.Callers), slices.Clone(p.Values)
			for i := range p.Callers {
				p.Callers[i].Method = f.method(p.Callers[i].Method)
			}
			for i := range p.Values {
				if p.Kind.HasMethods() {
					p.Values[i].Value = uint64(f.method(MethodID(p.Values[i].Value)))
				}
			}
			f.to.AddPoint(p)
		}
	}
}

func (f *fitting) keepsPoint(p *Point) bool {
	if f.methods[p.Method].changed && !f.stillReaches(p) {
		return false
	}
	callee := p.Method
	for _, c := range p.Callers {
		if f.methods[c.Method].changed && !f.stillCalls(c.Method, c.Offset, callee) {
			return false
		}
		callee = c.Method
	}
	return true
}

// stillReaches reports whether a point is of a call that its changed method may still do, to all targets
// of the point.
func (f *fitting) stillReaches(p *Point) bool {
	if p.Kind != PointCall || len(p.Values) == 0 {
		return false
	}
	return !slices.ContainsFunc(p.Values, func(v PointValue) bool {
		return !f.stillCalls(p.Method, p.Offset, MethodID(v.Value))
	})
}

// adoptPositions adds the lines of positions in unchanged methods, and the calls that were inlined there.
func (f *fitting) adoptPositions() {
	stays := func(id MethodID) bool { return f.methods[id].id != NoMethod && !f.methods[id].changed }
	for at, line := range f.from.names.lines.all() {
		if stays(at.Method) {
			f.to.names.SetLine(Frame{f.method(at.Method), at.Offset}, line)
		}
	}
	for call := range f.from.names.inlined.all() {
		if stays(call.caller.Method) && f.methods[call.callee].id != NoMethod {
			f.to.names.SetInlined(Frame{f.method(call.caller.Method), call.caller.Offset}, f.method(call.callee))
		}
	}
}

// stales lists the methods that contexts were cut at.
func (f *fitting) stales() []Stale {
	var list []Stale
	for id := range f.methods {
		for _, calls := range []bool{false, true} {
			if total, ok := f.cut[staleKey{MethodID(id), calls}]; ok {
				list = append(list, Stale{f.methods[id].Method, total, calls})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Stale) int {
		return cmp.Or(b.Total.Compare(a.Total), cmp.Compare(a.Method.Name, b.Method.Name),
			cmp.Compare(a.Method.Signature, b.Method.Signature))
	})
	return list
}
