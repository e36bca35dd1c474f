package compare

import (
	"cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/internal/tree"
)

// edge is a caller, a call site in it and a callee, as dense numbers of methods
// that hold for both profiles. The caller of an outermost frame is noMethod.
type edge = tree.Edge[uint32]

const noMethod = 1<<32 - 1

func isOutermost(e edge) bool { return e.Caller == noMethod }

// union is the trie of the stacks of both profiles. Node 0 is above the outermost
// frames; a parent's number is smaller than its children's. No two children of a
// node have the same edge.
//
// The nodes that one stack adds follow each other, as in the maps themselves: the
// common child of node v is v+1. Only the others are branches. It counts nothing: with a
// ccmap.Map in its place a comparison took 97 bytes a node instead of 67.
type union struct {
	parent []uint32 // by node
	edge   []uint32 // by node: number of the edge from its parent; 0 for node 0
	depth  []uint32 // by node: methods on its path, and so the number of counters that end at it
	edges  tree.Edges[uint32]

	oneKernel     bool            // all system calls are one method, the first that was described
	flatKernel    bool            // the kernel's functions are part of the system call that leads to them
	described     [][]description // by number of a method: its descriptions, one for every profile that has it
	methodNumbers map[methodKey]uint32
	branches      map[branch]uint32
}

type methodKey struct{ name, signature string }

// keyOf returns the key of a method: methods with the same key are the same in both profiles.
func (u *union) keyOf(m ccmap.Method) methodKey {
	if u.oneKernel && m.IsKernel() {
		return methodKey{name: m.Name}
	}
	return methodKey{m.Name, m.Signature}
}

// namesSyscalls reports whether a profile tells system calls apart.
func namesSyscalls(s *ccmap.Snapshot) bool {
	for id := range ccmap.MethodID(s.Names().Len()) {
		if m := s.Names().At(id); m.IsKernel() && m.Signature != "" {
			return true
		}
	}
	return false
}

// nestsKernel reports whether a profile has the kernel's functions below its system calls.
func nestsKernel(s *ccmap.Snapshot) bool {
	for n := range s.Nodes() {
		if isNested(s, n) {
			return true
		}
	}
	return false
}

// isNested reports whether a node is a function of the kernel that another one calls, or a system call.
func isNested(s *ccmap.Snapshot, n ccmap.Node) bool {
	if n.Parent == 0 || n.Method == ccmap.NoMethod {
		return false
	}
	return s.Names().At(n.Method).IsKernel() && s.Names().At(s.Node(n.Parent).Method).IsKernel()
}

type branch struct{ parent, edge uint32 }

// description is a place where a method is described.
type description struct {
	names *ccmap.Names
	id    ccmap.MethodID
}

// newUnion returns a union of node 0, with room for a number of nodes.
func newUnion(nodes int) *union {
	u := &union{
		parent:        make([]uint32, 1, nodes),
		edge:          make([]uint32, 1, nodes),
		depth:         make([]uint32, 1, nodes),
		methodNumbers: make(map[methodKey]uint32),
		branches:      make(map[branch]uint32),
	}
	u.edges.Number(edge{Caller: noMethod, Site: ccmap.NoOffset, Callee: noMethod})
	return u
}

// addProfile lays the stacks of a profile over the union, and returns the union's node for
// each node of the profile; methods are the numbers of the profile's methods. A
// position has its method's node. An absorbed method and everything below it have
// the caller's node, or node 0 if calls are counted: a call of an absorbed method
// does not count for its caller.
func (u *union) addProfile(s *ccmap.Snapshot, methods []uint32, w Weight) []uint32 {
	const inside = 1 << 31 // a flag of nodes in an absorbed method; a map has fewer nodes
	placed := make([]uint32, s.Len())
	for n := range s.Nodes() {
		at := placed[n.Parent]
		if n.Method != ccmap.NoMethod && !(u.flatKernel && isNested(s, n)) {
			if methods[n.Method] == absorbed {
				at |= inside
			}
			switch {
			case at&inside == 0:
				at = u.child(at, n.Offset, methods[n.Method])
			case !w.inclusive():
				at = inside
			}
		}
		placed[n.ID] = at
	}
	for n := range placed {
		placed[n] &^= inside
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
		key := u.keyOf(m)
		number, ok := u.methodNumbers[key]
		if !ok {
			number = uint32(len(u.methodNumbers))
			u.methodNumbers[key] = number
			u.described = append(u.described, nil)
		}
		u.described[number] = append(u.described[number], description{names, ccmap.MethodID(id)})
		numbers[id] = number
	}
	return numbers
}

// child finds or adds the node of a call by the method of parent.
func (u *union) child(parent, offset, callee uint32) uint32 {
	above := u.edge[parent]
	e := edge{Caller: u.edges.Keys[above].Callee, Site: offset, Callee: callee}
	next := parent + 1
	if int(next) == len(u.parent) {
		return u.append(parent, u.edges.NumberBelow(above, e))
	}
	if u.parent[next] == parent && u.edges.Keys[u.edge[next]] == e {
		return next
	}
	key := branch{parent, u.edges.NumberBelow(above, e)}
	v, ok := u.branches[key]
	if !ok {
		v = u.append(parent, key.edge)
		u.branches[key] = v
	}
	return v
}

func (u *union) append(parent, edge uint32) uint32 {
	v := uint32(len(u.parent))
	u.parent = append(u.parent, parent)
	u.edge = append(u.edge, edge)
	u.depth = append(u.depth, u.depth[parent]+1)
	return v
}

func (u *union) len() int { return len(u.parent) }

// Frame is one frame of a path.
type Frame struct {
	Method    string
	Signature string
	File      string // empty where unknown
	Line      int32  // of the call or, in the innermost frame, of the declaration; 0 where unknown

	// Position is the offset of a call, as ccmap.Coordinate prints it, if the line is
	// unknown or may have several calls; else empty.
	Position string
}

func (f Frame) compare(o Frame) int {
	return cmp.Or(cmp.Compare(f.Method, o.Method), cmp.Compare(f.Signature, o.Signature), cmp.Compare(f.Line, o.Line), cmp.Compare(f.Position, o.Position))
}

// path is the path that ends at a node and begins a number of edges above it.
type path struct{ node, edges uint32 }

// frames returns the frames of a path, innermost first.
func (u *union) frames(p path) []Frame {
	frames := make([]Frame, 0, p.edges+1)
	frames = append(frames, u.declaration(u.edges.Keys[u.edge[p.node]].Callee))
	for v := p.node; uint32(len(frames)) <= p.edges; v = u.parent[v] {
		e := u.edges.Keys[u.edge[v]]
		frames = append(frames, u.call(e.Caller, e.Site))
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
