package activation

import (
	"slices"

	"github.com/ccmapd/ccmapd/internal/process"
)

// history remembers the last stack of every goroutine, to tell new activations
// from old ones by comparison.
//
// Every activation that lives at two samples of a goroutine stands in both
// stacks, at the same depth, under the same return addresses: a call writes its
// return address once. So if the two stacks differ anywhere outside the
// innermost function, or in it, that function has been called since: it is new,
// for certain. If they do not differ, the stacks alone cannot tell.
type history struct {
	last    map[uint64]*past
	forgot  bool // goroutines were dropped: one that is not in last may have been sampled
	scratch []uint64
	now     past // reused
}

// past is a goroutine's last sample.
type past struct {
	callers  []uint64 // return addresses, outermost first
	entry    uint64   // of the innermost function
	slot     uint64   // address of its return address; 0 where unknown
	complete bool     // callers begin at a root
	judged   bool     // the next sample gets a verdict
}

// maxPasts bounds the goroutines remembered.
const maxPasts = 1 << 14

func newHistory() *history { return &history{last: make(map[uint64]*past)} }

// likeness of a stack and the one before it of the same goroutine.
type likeness uint8

const (
	unlike  likeness = iota // the innermost function was called since
	covered                 // it may be the one that had called another at the last sample
	same                    // it may be the one that was innermost at the last sample
	unknown                 // nothing can be said
)

// compare compares the goroutine's stacks before and now. entry
// gives the entry of the function that an address belongs to.
func compare(before, now *past, entry func(pc uint64) uint64) likeness {
	if !before.complete || !now.complete {
		return unknown
	}
	n := len(now.callers)
	if len(before.callers) < n || !slices.Equal(before.callers[:n], now.callers) {
		return unlike
	}
	switch {
	case len(before.callers) > n && entry(before.callers[n]) == now.entry:
		return covered
	case len(before.callers) == n && before.entry == now.entry:
		return same
	}
	return unlike
}

// keep stores now as the last sample of the goroutine.
func (h *history) keep(thread uint64, now *past) {
	p := h.last[thread]
	if p == nil {
		h.evict()
		p = &past{}
		h.last[thread] = p
	}
	callers := append(p.callers[:0], now.callers...)
	*p = *now
	p.callers = callers
}

// evict makes room by dropping everything: stacks of idle goroutines
// are worth little, and an order of use would cost more than it saves.
func (h *history) evict() {
	if len(h.last) >= maxPasts {
		clear(h.last)
		h.forgot = true
	}
}

// past describes a stack, until the next one. entry gives the entry of the function at
// an address.
func (h *history) past(st *process.Stack, entry func(pc uint64) uint64) *past {
	h.now = past{slot: st.Slot, complete: st.Rooted}
	if len(st.PCs) > 0 {
		h.now.callers = h.outermostFirst(st.PCs[1:])
		h.now.entry = entry(st.PCs[0])
	}
	return &h.now
}

// outermostFirst fills the scratch with the return addresses of a stack.
func (h *history) outermostFirst(pcs []uint64) []uint64 {
	h.scratch = append(h.scratch[:0], pcs...)
	slices.Reverse(h.scratch)
	return h.scratch
}
