package ccmap

import (
	"sync"
	"sync/atomic"
)

// Names is a table of methods, of the lines and addresses of positions in them, and
// of the calls between them that were inlined. All are only ever added; ids are dense
// from 0 and never change.
//
// All may be called from any goroutine. At and Len wait for nobody; the others
// for as long as it takes to add one entry.
type Names struct {
	mu   sync.RWMutex
	ids  map[nameKey]MethodID
	list atomic.Pointer[[]Method] // append-only: a published prefix never changes

	pruned atomic.Uint32 // the method PrunedName; NoMethod until there is one

	lines     lines
	inlined   inlined
	addresses addresses
}

type nameKey struct{ name, signature string }

// NewNames returns an empty table.
func NewNames() *Names {
	n := &Names{ids: make(map[nameKey]MethodID)}
	n.list.Store(&[]Method{})
	n.pruned.Store(uint32(NoMethod))
	return n
}

// Intern returns the id of the method, adding it if its Name and Signature are
// new. The first description of a method is kept.
func (n *Names) Intern(m Method) MethodID {
	key := nameKey{m.Name, m.Signature}
	n.mu.RLock()
	id, ok := n.ids[key]
	n.mu.RUnlock()
	if ok {
		return id
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if id, ok := n.ids[key]; ok {
		return id
	}
	old := *n.list.Load()
	id = MethodID(len(old))
	grown := append(old, m)
	n.list.Store(&grown)
	n.ids[key] = id
	if key == (nameKey{PrunedName, ""}) {
		n.pruned.Store(uint32(id))
	}
	return id
}

// prunedID returns the id of [PrunedName], NoMethod if the table has it not.
func (n *Names) prunedID() MethodID { return MethodID(n.pruned.Load()) }

// Lookup returns the id of the method with this name and signature.
func (n *Names) Lookup(name, signature string) (MethodID, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	id, ok := n.ids[nameKey{name, signature}]
	return id, ok
}

// At returns the method with the given id, which must be one of this table's.
func (n *Names) At(id MethodID) Method { return (*n.list.Load())[id] }

// Len returns the number of methods.
func (n *Names) Len() int { return len(*n.list.Load()) }
