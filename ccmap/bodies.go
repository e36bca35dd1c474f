package ccmap

import (
	"sync/atomic"
	"unsafe"
)

// MixedBodies is the [Method.Body] of a method that had several bodies, for example in a sum of
// profiles of two builds. It equals no body, so [Fit] never takes it for unchanged code.
const MixedBodies uint64 = 1<<64 - 1

// joinBodies returns the body of a method that two sources describe. If both know a body and the two
// differ, it is MixedBodies. The order of sources does not matter.
func joinBodies(a, b uint64) uint64 {
	switch {
	case a == 0 || a == b:
		return b
	case b == 0:
		return a
	}
	return MixedBodies
}

// bodies are the bodies of methods, which can become known after the methods. Writers hold the
// owner's lock; readers need no lock.
type bodies struct {
	list atomic.Pointer[[]atomic.Uint64] // by MethodID; may be shorter than the table of methods
}

func (b *bodies) at(id MethodID) uint64 {
	list := b.list.Load()
	if list == nil || int64(id) >= int64(len(*list)) {
		return 0
	}
	return (*list)[id].Load()
}

// join joins a body to the one that is known, in a table of so many methods. It returns the memory
// that this took, in bytes. A reader that still has the old list sees the old bodies.
func (b *bodies) join(id MethodID, body uint64, methods int) (bytes int64) {
	list := b.list.Load()
	if list == nil || int64(id) >= int64(len(*list)) {
		grown := make([]atomic.Uint64, methods+methods/2)
		for i := range grown {
			grown[i].Store(b.at(MethodID(i)))
		}
		bytes = int64(len(grown)) * int64(unsafe.Sizeof(grown[0]))
		if list != nil {
			bytes -= int64(len(*list)) * int64(unsafe.Sizeof(grown[0]))
		}
		list = &grown
		b.list.Store(list)
	}
	(*list)[id].Store(joinBodies((*list)[id].Load(), body))
	return bytes
}

// SetBody sets the body of a method, see [Method.Body]. A method that already has another body gets
// [MixedBodies]. SetBody ignores a method that is not in the table, and the body 0.
func (n *Names) SetBody(id MethodID, body uint64) {
	if int64(id) >= int64(n.Len()) || joinBodies(n.bodies.at(id), body) == n.bodies.at(id) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bytes.Add(n.bodies.join(id, body, n.Len()))
}
