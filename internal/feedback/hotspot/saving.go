package hotspot

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// candidate is a context of a polluted call, with what hints for it can save.
type candidate struct {
	site pollution.Polluted
	pollution.Clean
	saves float64 // percent of the profile's weight, at most
}

// candidates returns the contexts of polluted calls, those first that can save most.
func (f *finder) candidates(sites []pollution.Polluted) []candidate {
	var list []candidate
	for _, site := range sites {
		for _, c := range site.Clean {
			list = append(list, candidate{site, c, part(f.saving(site, c), f.total)})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.saves, a.saves) })
	return list
}

// saving returns the most weight that inlining can save in a context: what the methods take themselves that
// are inlined, or that the polluted call reaches. The price of a virtual call is part of it, and so is what the
// compiler makes better where it sees both sides of the call. What these methods call in turn stays.
func (f *finder) saving(site pollution.Polluted, c pollution.Clean) (sum int64) {
	callers := make(map[ccmap.NodeID]bool)
	inlined := make(map[ccmap.NodeID]bool)
	for _, id := range f.nodesOf(site.Caller) {
		if chain, ok := f.chain(id, c.Callers); ok {
			callers[id] = true
			for _, n := range chain {
				inlined[n] = true
			}
		}
	}
	for _, target := range f.targets(site) {
		for _, id := range f.nodesOf(target) {
			if n := f.s.Node(id); callers[n.Parent] && n.Offset == site.Offset {
				inlined[id] = true
			}
		}
	}
	for id := range inlined {
		sum += f.self(id)
	}
	return sum
}

// self returns the weight of a node alone, at all its positions.
func (f *finder) self(id ccmap.NodeID) int64 {
	if f.selves == nil {
		f.selves = make(map[ccmap.NodeID]int64)
		for n := range f.s.Nodes() {
			of := n.ID
			if n.IsPosition() {
				of = n.Parent
			}
			f.selves[of] += weight(n.Self)
		}
	}
	return f.selves[id]
}

// chain returns the nodes from the one of a polluted call's method up to the root, without the root. ok is false unless
// they are the callers.
func (f *finder) chain(id ccmap.NodeID, callers []ccmap.Frame) (chain []ccmap.NodeID, ok bool) {
	for _, at := range callers {
		n := f.s.Node(id)
		if f.s.Node(n.Parent).Method != at.Method || n.Offset != at.Offset {
			return nil, false
		}
		chain = append(chain, id)
		id = n.Parent
	}
	return chain, true
}
