package compare

import (
	"cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

// edge is a caller, a call site in it and a callee, as dense numbers of methods
// that hold for both profiles. The caller of an outermost frame is noMethod.
type edge struct{ caller, offset, callee uint32 }

const noMethod = 1<<32 - 1

func (e edge) outermost() bool { return e.caller == noMethod }

// union is the trie of the stacks of both profiles. Node 0 is above the outermost
// frames; a parent's number is smaller than its children's. No two children of a node
// have the same edge.
//
// A map without counts grows the trie, as it finds children fast. After all profiles are
// placed, numberNodes lists its nodes with numbered edges.
type union struct {
	trie   *ccmap.Map // until numberNodes
	parent []uint32   // by node
	edge   []uint32   // by node: number of the edge from its parent; 0 for node 0
	depth  []uint32   // by node: methods on its path, and so the number of counters that end at it
	edges  []edge     // by number

	names       *ccmap.Names    // the methods of both profiles: their ids are the dense numbers
	described   [][]description // by number of a method: its descriptions, one for every profile that has it
	edgeNumbers map[edge]uint32
}

// description is a place where a method is described.
type description struct {
	names *ccmap.Names
	id    ccmap.MethodID
}

// newUnion returns a union of node 0.
func newUnion() *union {
	names := ccmap.NewNames()
	u := &union{
		trie:        ccmap.New(ccmap.Options{Names: names}),
		names:       names,
		edgeNumbers: make(map[edge]uint32),
	}
	u.number(edge{noMethod, ccmap.NoOffset, noMethod})
	return u
}

// add lays the stacks of a profile over the union, and returns the union's node for
// each node of the profile; methods are the numbers of the profile's methods. A
// position has its method's node. An absorbed method and everything below it have
// the caller's node, or node 0 if calls are counted: a call of an absorbed method
// does not count for its caller.
func (u *union) add(s *ccmap.Snapshot, methods []uint32, w Weight) []uint32 {
	placed := make([]uint32, s.Len())
	inside := make([]bool, s.Len()) // by node: in an absorbed method
	for n := range s.Nodes() {
		at := placed[n.Parent]
		if n.Method != ccmap.NoMethod {
			if methods[n.Method] == absorbed || inside[n.Parent] {
				inside[n.ID] = true
			}
			switch {
			case !inside[n.ID]:
				at = uint32(u.trie.Child(ccmap.NodeID(at), n.Offset, ccmap.MethodID(methods[n.Method])))
			case !w.inclusive():
				at = 0
			}
		}
		placed[n.ID] = at
	}
	return placed
}

// absorbed is the number of all methods that count for their callers.
// [ccmap.PrunedName] is always one.
const absorbed = noMethod - 1

// methods numbers the methods of a table, by their ids in it.
func (u *union) methods(names *ccmap.Names, absorb func(ccmap.Method) bool) []uint32 {
	numbers := make([]uint32, names.Len())
	for id := range numbers {
		m := names.At(ccmap.MethodID(id))
		if m.Name == ccmap.PrunedName || absorb != nil && absorb(m) {
			numbers[id] = absorbed
			continue
		}
		number := uint32(u.names.Intern(m))
		for len(u.described) < u.names.Len() {
			u.described = append(u.described, nil)
		}
		u.described[number] = append(u.described[number], description{names, ccmap.MethodID(id)})
		numbers[id] = number
	}
	return numbers
}

// numberOf returns the number of a method, and whether a profile has it and does not
// absorb it.
func (u *union) numberOf(m ccmap.Method) (uint32, bool) {
	n, ok := u.names.Lookup(m.Name, m.Signature)
	return uint32(n), ok && int(n) < len(u.described) && u.described[n] != nil
}

// numberNodes lists the nodes of the trie with their edges, after all profiles are placed.
func (u *union) numberNodes() {
	s := u.trie.Snapshot()
	u.trie = nil
	u.parent, u.edge, u.depth = make([]uint32, s.Len()), make([]uint32, s.Len()), make([]uint32, s.Len())
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		u.parent[n.ID] = uint32(n.Parent)
		u.depth[n.ID] = u.depth[n.Parent] + 1
		caller := u.edges[u.edge[n.Parent]].callee
		u.edge[n.ID] = u.number(edge{caller, n.Offset, uint32(n.Method)})
	}
}

// number returns the number of an edge, the next one if it is new.
func (u *union) number(e edge) uint32 {
	n, ok := u.edgeNumbers[e]
	if !ok {
		n = uint32(len(u.edges))
		u.edgeNumbers[e] = n
		u.edges = append(u.edges, e)
	}
	return n
}

func (u *union) len() int { return len(u.parent) }

// Frame is one frame of a path.
type Frame struct {
	Method    string `json:"method"`
	Signature string `json:"signature,omitempty"`
	File      string `json:"file,omitempty"` // empty where unknown
	Line      int32  `json:"line,omitempty"` // of the call or, in the innermost frame, of the declaration; 0 where unknown

	// Position is the offset of a call, as ccmap.Coordinate prints it, if the line is
	// unknown or may have several calls; else empty.
	Position string `json:"position,omitempty"`
}

func (f Frame) compare(o Frame) int {
	return cmp.Or(cmp.Compare(f.Method, o.Method), cmp.Compare(f.Signature, o.Signature), cmp.Compare(f.Line, o.Line), cmp.Compare(f.Position, o.Position))
}

// path is the path that ends at a node and begins a number of edges above it.
type path struct{ node, edges uint32 }

// frames returns the frames of a path, innermost first.
func (u *union) frames(p path) []Frame {
	frames := make([]Frame, 0, p.edges+1)
	frames = append(frames, u.declaration(u.edges[u.edge[p.node]].callee))
	for v := p.node; uint32(len(frames)) <= p.edges; v = u.parent[v] {
		e := u.edges[u.edge[v]]
		frames = append(frames, u.call(e.caller, e.offset))
	}
	return frames
}

// declaration describes a method, like the first profile that has it.
func (u *union) declaration(method uint32) Frame {
	m := u.described[method][0].method()
	return Frame{Method: m.Name, Signature: m.Signature, File: m.File, Line: m.StartLine}
}

// call describes a method at a call, whose line may be known to one profile only.
func (u *union) call(method, offset uint32) Frame {
	f := u.declaration(method)
	f.Line = 0
	for _, d := range u.described[method] {
		if f.Line = d.names.Line(ccmap.Frame{Method: d.id, Offset: offset}); f.Line != 0 {
			break
		}
	}
	if c := u.described[method][0].method().Coordinate; f.Line == 0 || c != ccmap.CoordinateLine {
		f.Position = c.Format(offset)
	}
	return f
}

func (d description) method() ccmap.Method { return d.names.At(d.id) }
