package ccmap

import (
	"errors"
	"math"
)

// ErrTooLarge is the error of a merge whose result may have 2³² nodes or more.
var ErrTooLarge = errors.New("too many context nodes")

// Merge adds all that from counts. Methods are unified by Name and Signature,
// Meta is merged, and activations remain exact only if both are.
//
// Merging is associative, and commutative but for the order of ids and for
// those fields of Meta of which the first is kept. Its cost is linear in the
// nodes of from, which may be a snapshot of m itself. On an error m is as
// before.
func (m *Map) Merge(from *Snapshot) error {
	if uint64(m.Len())+uint64(from.Len()) > math.MaxUint32 {
		return ErrTooLarge
	}
	methods := m.adopt(from)
	moved := make([]NodeID, from.Len())
	for n := range from.Nodes() {
		if n.ID == 0 {
			continue
		}
		method := NoMethod
		if !n.IsPosition() {
			method = methods[n.Method]
		}
		moved[n.ID] = m.Child(moved[n.Parent], n.Offset, method)
		m.Add(moved[n.ID], n.Self)
	}
	m.inexact = m.inexact || from.inexact
	m.meta.merge(from.meta)
	return nil
}

// adopt interns the methods of another map and returns their ids here.
func (m *Map) adopt(from *Snapshot) []MethodID {
	ids := make([]MethodID, from.names.Len())
	for id := range ids {
		ids[id] = MethodID(id)
		if from.names != m.names {
			ids[id] = m.names.Intern(from.names.At(MethodID(id)))
		}
	}
	return ids
}
