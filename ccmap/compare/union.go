package compare

import "github.com/ccmapd/ccmapd/ccmap"

// edge is a caller, a call site in it and a callee, as dense numbers of
// methods that hold for both profiles. An outermost frame is entered by an edge
// from nobody.
type edge struct{ caller, offset, callee uint32 }

const nobody = 1<<32 - 1

func (e edge) outermost() bool { return e.caller == nobody }

// union is the trie of the stacks of both profiles. Node 0 is above the
// outermost frames; a parent's number is smaller than its children's. No two
// children of a node have the same edge.
//
// The nodes that one stack adds follow each other, as in the maps themselves:
// the common child of node v is v+1. Only the others are in branches.
type union struct {
	parent []uint32 // by node
	edge   []uint32 // by node: number of the edge from its parent; 0 for node 0
	depth  []uint32 // by node: methods on its path, which is how many counters end at it
	edges  []edge   // by number

	described     [][]description // by number of a method: of every profile that has it
	methodNumbers map[methodKey]uint32
	edgeNumbers   map[edge]uint32
	branches      map[branch]uint32
}

type methodKey struct{ name, signature string }

// description is where a method is described.
type description struct {
	names *ccmap.Names
	id    ccmap.MethodID
}

type branch struct{ parent, edge uint32 }

// newUnion returns a union of node 0, with room for so many nodes.
func newUnion(nodes int) *union {
	u := &union{
		parent:        make([]uint32, 1, nodes),
		edge:          make([]uint32, 1, nodes),
		depth:         make([]uint32, 1, nodes),
		methodNumbers: make(map[methodKey]uint32),
		edgeNumbers:   make(map[edge]uint32),
		branches:      make(map[branch]uint32),
	}
	u.number(edge{nobody, ccmap.NoOffset, nobody})
	return u
}

// add lays the stacks of a profile over the union, and returns the union's
// node for each of the profile's; methods are its methods' numbers. A position
// has its method's node. An absorbed method and everything below it have its
// caller's, or node 0 where calls are counted: a call of an absorbed method is
// none of its caller's.
func (u *union) add(s *ccmap.Snapshot, methods []uint32, w Weight) []uint32 {
	placed := make([]uint32, s.Len())
	inside := newBitset(s.Len()) // an absorbed method
	for n := range s.Nodes() {
		at := placed[n.Parent]
		if n.Method != ccmap.NoMethod {
			if methods[n.Method] == absorbed || inside.has(uint32(n.Parent)) {
				inside.add(uint32(n.ID))
			}
			switch {
			case !inside.has(uint32(n.ID)):
				at = u.child(at, n.Offset, methods[n.Method])
			case !w.inclusive():
				at = 0
			}
		}
		placed[n.ID] = at
	}
	return placed
}

// absorbed is the number of all methods that count for their callers. What hangs
// at [ccmap.PrunedName] always does.
const absorbed = nobody - 1

// methods numbers the methods of a table, by their ids in it.
func (u *union) methods(names *ccmap.Names, absorb func(ccmap.Method) bool) []uint32 {
	numbers := make([]uint32, names.Len())
	for id := range numbers {
		m := names.At(ccmap.MethodID(id))
		if m.Name == ccmap.PrunedName || absorb != nil && absorb(m) {
			numbers[id] = absorbed
			continue
		}
		key := methodKey{m.Name, m.Signature}
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
	e := edge{u.edges[u.edge[parent]].callee, offset, callee}
	next := parent + 1
	if int(next) == len(u.parent) {
		return u.append(parent, u.number(e))
	}
	if u.parent[next] == parent && u.edges[u.edge[next]] == e {
		return next
	}
	key := branch{parent, u.number(e)}
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
