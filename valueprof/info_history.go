package valueprof

import "sync/atomic"

// History is the persistent profile info of a method: the best that was
// recorded, and the most recent, which may become the best. It holds a
// reference to each. Any goroutine may use it; there are no locks.
type History struct{ best, recent atomic.Pointer[Info] }

// Renew makes i, to which the caller has a reference, the recent info. The one
// that was recent becomes the best if it is better; else it is let go.
func (h *History) Renew(i *Info) {
	h.evaluate()
	if !i.TryRetain() {
		panic("valueprof: info renewed without a reference to it")
	}
	h.recent.Swap(i).letGo()
}

// Retain returns the best info, after evaluating whether the recent has
// superseded it, with a reference that the caller gives back by Release. It is
// nil if there is none.
func (h *History) Retain() *Info {
	h.evaluate()
	return retained(&h.best)
}

// Drop lets go of both infos. Who uses the history at the same time may bring one
// of them back.
func (h *History) Drop() {
	h.best.Swap(nil).letGo()
	h.recent.Swap(nil).letGo()
}

// evaluate makes the recent info the best one if it is better, or the only one.
func (h *History) evaluate() {
	recent, best := retained(&h.recent), retained(&h.best)
	if recent != best && supersedes(recent, best) {
		h.promote(best, recent)
	}
	recent.letGo()
	best.letGo()
}

func supersedes(recent, best *Info) bool {
	return recent != nil && (best == nil || recent.body.Evidence().Better(best.body.Evidence()))
}

// promote replaces best by recent, unless another goroutine has replaced it.
func (h *History) promote(best, recent *Info) {
	if !recent.TryRetain() {
		return
	}
	if !h.best.CompareAndSwap(best, recent) {
		recent.Release()
		return
	}
	best.letGo()
}

// retained returns the Info that p points to, with a reference, or nil.
func retained(p *atomic.Pointer[Info]) *Info {
	for {
		i := p.Load()
		if i == nil || i.TryRetain() {
			return i
		}
	}
}
