package column

import "github.com/ccmapd/ccmapd/ccmap"

// reader restores a map.
type reader struct {
	coder
	m     *ccmap.Map
	names *ccmap.Names
	ids   []ccmap.MethodID // by number
	records
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
	nodes := make([]node, n)
	if r.columns(nodes, r.id); r.in.Err != nil {
		return
	}
	places := make([]ccmap.NodeID, n+1)
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

func (r *reader) haveMethods(frames []ccmap.Frame) bool {
	for _, f := range frames {
		if f.Method == ccmap.NoMethod {
			return false
		}
	}
	return true
}
