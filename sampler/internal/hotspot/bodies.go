package hotspot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
)

// maxPending bounds the methods that wait for their body.
const maxPending = 1 << 14

var _ process.Bodied = (*Process)(nil)

// wantBody notes a method that has no body yet.
func (n *named) wantBody(m *classes.Method, id ccmap.MethodID) {
	if len(n.pending) < maxPending {
		n.pending[m] = id
	}
}

// HashBodies is part of [process.Bodied]. It reads bytecode from the JVM's memory: no file, so that it matters
// neither who may read the JVM's class path, nor what has become of it.
func (p *Process) HashBodies(bytes int) {
	if len(p.named.pending) == 0 {
		return
	}
	found := make(map[*classes.Method]uint64)
	for _, m := range p.named.byClass() {
		if bytes <= 0 {
			break
		}
		if !p.classes.Has(m.Class) {
			delete(p.named.pending, m)
			continue
		}
		hash, cost := p.classes.Body(m)
		bytes -= cost
		found[m] = hash
	}
	p.classes.Refresh() // what is still there now, was there when it was read
	for m, hash := range found {
		if p.classes.Has(m.Class) {
			p.named.names.SetBody(p.named.pending[m], hash)
		}
		delete(p.named.pending, m)
	}
}

// byClass returns the methods that wait for their body. Those of one class are together: they have one constant pool.
func (n *named) byClass() []*classes.Method {
	return slices.SortedFunc(maps.Keys(n.pending), func(a, b *classes.Method) int {
		return cmp.Or(cmp.Compare(a.Class.Address, b.Class.Address), cmp.Compare(a.Address, b.Address))
	})
}
