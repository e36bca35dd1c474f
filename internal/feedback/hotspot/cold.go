package hotspot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// Which calls are cold: rules of C2 and our own.
const (
	// smallCode is how many bytes of bytecode a callee may have that C2 inlines even where the
	// call is not hot (-XX:MaxInlineSize). A larger one stays out by itself.
	smallCode = 35
	// hotCalls is from how many calls by invocation of the caller on C2 takes a call for hot
	// (-XX:InlineFrequencyRatio).
	hotCalls = 0.25
	// coldShare is the largest part of a root's samples that a cold callee has.
	coldShare = 0.01
	// coldSamples are enough of them: with fewer, a callee without a sample may have more.
	coldSamples = 300
	// hotRoot is the percent of the profile's weight that a root has at least.
	hotRoot = 1
)

// countedCall is a call of one method, as the VM has counted it in the caller.
type countedCall struct {
	caller ccmap.MethodID
	offset uint32
	count  int64
}

// entry is the VM's count of the invocations of a method.
type entry struct {
	count    int64
	compiled bool // by C2
}

// coldFinder finds what is cold in a hot method.
type coldFinder struct {
	*finder
	calls   map[ccmap.MethodID][]countedCall
	entries map[ccmap.MethodID]entry
}

// addCold adds hints to keep out what is cold in a hot method, and calls methods of more types than C2
// inlines: it is in the root's code only because it is short.
func (f *finder) addCold(sites []pollution.Polluted) {
	c := coldFinder{finder: f, calls: make(map[ccmap.MethodID][]countedCall), entries: make(map[ccmap.MethodID]entry)}
	c.read()
	for _, site := range sites {
		if site.VM == nil || site.VM.Compiled != pollution.VirtualCall || f.sizes[site.Caller] > smallCode {
			continue
		}
		for _, at := range c.calls[site.Caller] {
			reason, ok := c.reason(site.Site, at)
			if !ok || len(f.hints) >= mostHints {
				continue
			}
			if saves := part(c.weightBelow(site.Caller, at.caller), f.total); f.isWorth(saves) {
				c.keepOut(site.Caller, at, reason, saves)
			}
		}
	}
}

// read reads the VM's counts of calls that have one target, the most frequent first, and of
// invocations.
func (c *coldFinder) read() {
	for _, p := range c.s.Points() {
		switch {
		case p.Origin != ccmap.OriginVM:
		case p.Kind == ccmap.PointCall && len(p.Values) == 1 && p.Other == 0 && p.Offset != ccmap.NoOffset:
			callee := ccmap.MethodID(p.Values[0].Value)
			c.calls[callee] = append(c.calls[callee], countedCall{p.Method, p.Offset, p.Count})
		case p.Kind == ccmap.PointBlock && p.Offset == 0:
			c.entries[p.Method] = entry{p.Count, p.Frozen}
		}
	}
	for _, list := range c.calls {
		slices.SortStableFunc(list, func(a, b countedCall) int { return cmp.Compare(b.count, a.count) })
	}
}

// reason says in figures why the method that makes a polluted call is to be kept out of a caller. It
// returns false unless C2 has compiled the caller, the caller is hot, and all its calls of the
// method together are cold.
func (c *coldFinder) reason(site pollution.Site, at countedCall) (string, bool) {
	made, in := int64(0), c.entries[at.caller]
	for _, other := range c.calls[site.Caller] {
		if other.caller == at.caller {
			made += other.count
		}
	}
	if !in.compiled || at.caller == site.Caller || float64(made) >= hotCalls*float64(in.count) {
		return "", false
	}
	root, _ := c.s.Method(at.caller)
	whole := root.Cumulative()
	below := part(c.weightBelow(site.Caller, at.caller), weight(whole))
	if part(weight(whole), c.total) < hotRoot || whole.Samples < coldSamples || below > 100*coldShare {
		return "", false
	}
	return fmt.Sprintf("%s:%d is a virtual call, as it has more receivers than C2 inlines; %s comes to it in %d of %d invocations, with %.1f %% of their time",
		c.names.At(site.Caller).Name, site.Offset, c.names.At(at.caller).Name, made, in.count, below), true
}

// weightBelow returns the weight of a method below a root. Recursion counts again, so it is an upper
// bound.
func (f *finder) weightBelow(method, root ccmap.MethodID) (sum int64) {
	for _, id := range f.nodesOf(method) {
		if f.hasAbove(f.s.Node(id), root) {
			sum += weight(f.s.Inclusive(id))
		}
	}
	return sum
}

// hasAbove reports whether a root is above a node.
func (f *finder) hasAbove(n ccmap.Node, root ccmap.MethodID) bool {
	for n = f.s.Node(n.Parent); n.Parent != n.ID; n = f.s.Node(n.Parent) {
		if n.Method == root {
			return true
		}
	}
	return false
}

// keepOut adds the hint to keep a callee out of its caller. One without a pattern is no loss.
func (c *coldFinder) keepOut(callee ccmap.MethodID, at countedCall, reason string, saves float64) {
	root, err := c.method(at.caller)
	if err != nil || c.mayHave(root) != nil {
		return
	}
	out, err := c.method(callee)
	if err != nil {
		return
	}
	m, _ := c.s.Method(at.caller)
	c.put(Hint{
		Action: KeepOut, Callee: out, Caller: root, Bytecode: int32(at.offset), Root: root, Reason: reason,
		Share: part(weight(m.Cumulative()), c.total), Saves: saves, ThrownBefore: c.thrown[root.String()],
	})
}
