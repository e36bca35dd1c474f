package goproc

// A Go function has its return address delta bytes above SP. Where it has a frame, the word below is its
// caller's frame pointer.

// slot returns where a function that runs with SP sp has its return address.
func (p *place) slot(sp uint64) uint64 { return sp + uint64(p.delta) }

// callerSP returns SP after the return.
func (p *place) callerSP(sp uint64) uint64 { return sp + uint64(p.delta) + 8 }

// slotAbove returns where a function has its return address that goes on at the one in a slot.
func (p *place) slotAbove(slot uint64) uint64 { return p.slot(slot + 8) }

// links reports whether a function has saved its caller's frame pointer.
func (p *place) links() bool { return p.delta >= 8 }
