package column

import "github.com/ccmapd/ccmapd/ccmap"

// reader restores a map.
type reader struct {
	coder
	m       *ccmap.Map
	names   *ccmap.Names
	methods []ccmap.Method
	ids     []ccmap.MethodID // by number
	places  []ccmap.NodeID   // by number; the root first
	records
}

// head reads the description and the methods.
func (r *reader) head() {
	var exact bool
	r.take(mapMemory)
	r.bool(&exact)
	r.m.SetExact(exact)
	r.meta(r.m.Meta())
	list(&r.coder, &r.methods, r.method)
	r.ids = make([]ccmap.MethodID, len(r.methods))
	for i := range r.methods {
		if r.methods[i].Name == "" {
			r.in.Fail(errMethod)
			return
		}
		r.ids[i] = r.names.Intern(r.methods[i])
	}
}

// id reads a method.
func (r *reader) id(id *ccmap.MethodID) {
	var number uint64
	r.uint(&number)
	switch {
	case number == 0:
		*id = ccmap.NoMethod
	case number > uint64(len(r.ids)):
		*id = ccmap.NoMethod
		r.in.Fail(errMethod)
	default:
		*id = r.ids[number-1]
	}
}

// leastNode is how many bytes a node takes at least: one in each column.
const leastNode = 3 + int(ccmap.NumCounters)

func (r *reader) nodes() {
	n := r.length(0)
	if n > len(r.in.Data)/leastNode {
		r.in.Fail(errLong)
		return
	}
	if r.take(int64(n) * nodeMemory); r.in.Err != nil {
		return
	}
	nodes := make([]node, n)
	if r.columns(nodes, r.id); r.in.Err != nil {
		return
	}
	places := make([]ccmap.NodeID, n+1)
	r.places = places
	for i := range nodes {
		k := &nodes[i]
		if k.up > uint64(i) {
			r.in.Fail(errParent)
			return
		}
		at := r.m.Child(places[uint64(i)-k.up], k.offset, k.method)
		r.m.Add(at, k.self)
		places[i+1] = at
	}
}

func (r *reader) lists() {
	r.all(&r.coder, r.id)
	if r.in.Err != nil {
		return
	}
	for _, l := range r.lines {
		if l.frame.Method != ccmap.NoMethod {
			r.names.SetLine(l.frame, l.line)
		}
	}
	for _, i := range r.inlined {
		r.names.SetInlined(i.caller, i.callee)
	}
	for _, m := range r.mappings {
		r.names.SetMapping(m.module, m.Mapping)
	}
	for _, a := range r.addresses {
		if r.haveMethods(a.Frames) {
			r.names.SetAddress(a.Frames, a.Call, a.Offset)
		}
	}
	for _, e := range r.edges {
		r.m.AddPruned(e)
	}
	for _, p := range r.pruned {
		r.m.AddPrunedMethod(p)
	}
	for _, p := range r.points {
		r.m.AddPoint(p)
	}
}

// tail reads the bodies, and what a delta does not have.
func (r *reader) tail() {
	if r.in.Empty() {
		return
	}
	if r.bodies(r.methods); r.in.Empty() {
		return
	}
	var s rest
	r.rest(&s, &r.records, len(r.places)-1)
	if r.in.Err == nil && !r.in.Empty() {
		r.in.Fail(errRest)
	}
	if r.in.Err == nil {
		r.addRest(&s)
	}
}

// addRest adds the rest to the map.
func (r *reader) addRest(s *rest) {
	r.m.Meta().Target.Commit = s.commit
	if s.window == 0 {
		return
	}
	r.m.SetWindow(s.window)
	for i, c := range s.recent {
		if !c.IsZero() {
			r.m.AddRecent(r.places[i+1], c)
		}
	}
	for _, e := range r.edges {
		e.Total = ccmap.Counters{} // which was added
		r.m.AddPruned(e)
	}
	for _, p := range r.pruned {
		p.Self, p.Cumulative = ccmap.Counters{}, ccmap.Counters{}
		r.m.AddPrunedMethod(p)
	}
}

func (r *reader) haveMethods(frames []ccmap.Frame) bool {
	for _, f := range frames {
		if f.Method == ccmap.NoMethod {
			return false
		}
	}
	return true
}
