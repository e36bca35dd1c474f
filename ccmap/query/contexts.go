package query

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Context is a method and a chain of callers that leads to it.
type Context struct {
	Method  ccmap.MethodID
	Callers []ccmap.Frame  // innermost first, each at its call
	More    bool           // some of the chains that are counted here go on
	Total   ccmap.Counters // a sample counts once
}

// ContextList has the contexts of some methods.
type ContextList struct {
	Contexts []Context      // sorted by the names in them
	Total    ccmap.Counters // of the methods, in all contexts
	Pruned   ccmap.Counters // the part of Total that no context has
}

// Contexts returns the contexts in which methods were called. It tells them apart by up
// to depth callers, or by all of them if depth is 0. A sample counts for the outermost
// frame of the methods on its stack.
//
// Pruned is known for a single method only: several may have been on one stack.
func Contexts(s *ccmap.Snapshot, methods Methods, depth uint) ContextList {
	l := ContextList{Contexts: contexts(s, methods, depth)}
	for _, c := range l.Contexts {
		l.Total = l.Total.Add(c.Total)
	}
	if ids := methods.IDs(); isPruned(s) && len(ids) == 1 {
		m, _ := s.Method(ids[0])
		l.Pruned = missing(m.Cumulative(), l.Total)
		l.Total = l.Total.Add(l.Pruned)
	}
	return l
}

// missing returns the counts that known lacks of the exact ones.
func missing(exact, known ccmap.Counters) ccmap.Counters {
	var left ccmap.Counters
	for k := range ccmap.NumCounters {
		*k.Of(&left) = max(*k.Of(&exact)-*k.Of(&known), 0)
	}
	return left
}

// contexts groups the outermost frames of the methods by their callers.
func contexts(s *ccmap.Snapshot, methods Methods, depth uint) []Context {
	var list []Context
	index := make(map[string]int) // in list, by chain
	for n := range Outermost(s, func(n ccmap.Node) bool { return methods.Has(n.Method) }) {
		total := s.Inclusive(n.ID)
		if total.IsZero() {
			continue // nothing recent
		}
		chain, more := chainAbove(s, n, depth)
		key := chainKey(n.Method, chain)
		i, known := index[key]
		if !known {
			i = len(list)
			index[key] = i
			list = append(list, Context{Method: n.Method, Callers: chain})
		}
		list[i].Total = list[i].Total.Add(total)
		list[i].More = list[i].More || more
	}
	slices.SortFunc(list, func(a, b Context) int { return compareContexts(s.Names(), a, b) })
	return list
}

func compareContexts(names *ccmap.Names, a, b Context) int {
	return cmp.Or(
		Compare(names, a.Method, b.Method),
		slices.CompareFunc(a.Callers, b.Callers, func(x, y ccmap.Frame) int { return compareCalls(names, x, y) }),
	)
}

// chainAbove returns up to depth callers of a node, and whether there are more. Depth 0
// means all.
func chainAbove(s *ccmap.Snapshot, n ccmap.Node, depth uint) (chain []ccmap.Frame, more bool) {
	for caller := range Callers(s, n) {
		if depth > 0 && uint(len(chain)) == depth {
			return chain, true
		}
		chain = append(chain, caller)
	}
	return chain, false
}

func chainKey(method ccmap.MethodID, chain []ccmap.Frame) string {
	key := binary.LittleEndian.AppendUint32(nil, uint32(method))
	for _, f := range chain {
		key = binary.LittleEndian.AppendUint32(key, uint32(f.Method))
		key = binary.LittleEndian.AppendUint32(key, f.Offset)
	}
	return string(key)
}

// Callers walks the frames above a node, innermost first, each at its call.
func Callers(s *ccmap.Snapshot, n ccmap.Node) iter.Seq[ccmap.Frame] {
	return func(yield func(ccmap.Frame) bool) {
		for n.Parent != 0 {
			parent := s.Node(n.Parent)
			if !yield(ccmap.Frame{Method: parent.Method, Offset: n.Offset}) {
				return
			}
			n = parent
		}
	}
}

// Outermost walks the wanted nodes that have no wanted node above them. No sample is
// below two of them.
func Outermost(s *ccmap.Snapshot, wanted func(ccmap.Node) bool) iter.Seq[ccmap.Node] {
	return func(yield func(ccmap.Node) bool) {
		below := make([]bool, s.Len()) // at or below a wanted node; parents come first
		for n := range s.Nodes() {
			below[n.ID] = below[n.Parent]
			if below[n.ID] || !wanted(n) {
				continue
			}
			below[n.ID] = true
			if !yield(n) {
				return
			}
		}
	}
}
