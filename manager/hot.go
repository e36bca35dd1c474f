package manager

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Thresholds are the CPU times of the target that make a method or an edge hot (the
// paper, section 3.1.3: "a total counter exceeding threshold"). 0: never hot.
type Thresholds struct {
	Method time.Duration // cumulative: a sample counts once for a method
	Edge   time.Duration // total: a sample counts for each occurrence of the call
}

// Event says that a method or an edge has become hot.
type Event struct {
	Method ccmap.MethodID // the hot method, or the callee of the hot edge
	Caller ccmap.MethodID // of the hot edge; NoMethod: a method is hot
	Offset uint32         // of the call in the caller

	Counters ccmap.Counters  // that have crossed the threshold
	Snapshot *ccmap.Snapshot // with these counters, and the contexts
}

// hotness finds methods and edges that have become hot. A look is a pass over the
// map, too expensive for each sample. A look is due at the end of a turn, once the time
// sampled since the last look is one part in lateStep of the smaller threshold. Looks
// take at most one part in lookShare of the manager's time.
type hotness struct {
	limit Thresholds
	raise func(Event)
	every time.Duration // between two looks, at least
	step  int64         // ns of sampled time between two looks; 0: never look

	before   int64     // sampled time of earlier sessions, ns
	next     int64     // sampled time of the next look, ns
	earliest time.Time // of the next look
	raised   map[edge]bool
}

const (
	lateStep  = 16
	lookShare = 20
)

func newHotness(c Config) hotness {
	h := hotness{limit: c.Hot, raise: c.OnHot, every: c.PublishEvery, raised: make(map[edge]bool)}
	for _, limit := range []time.Duration{c.Hot.Method, c.Hot.Edge} {
		if step := max(int64(limit)/lateStep, 1); limit > 0 && (h.step == 0 || step < h.step) {
			h.step = step
		}
	}
	h.next = h.step
	return h
}

// resume takes in the map of earlier sessions: methods that were hot then raise no event.
func (h *hotness) resume(s *ccmap.Snapshot) {
	h.before = s.Total().Time
	if h.before == 0 {
		return
	}
	raise := h.raise
	h.raise = func(Event) {}
	h.look(s)
	h.raise, h.earliest = raise, time.Time{}
}

// due reports whether it is time to look, after sampled ns in all.
func (h *hotness) due(sampled int64) bool {
	return h.step > 0 && sampled >= h.next && !time.Now().Before(h.earliest)
}

// look raises an event for each method and edge that has become hot since the last
// look.
func (h *hotness) look(s *ccmap.Snapshot) {
	if h.step == 0 {
		return
	}
	start := time.Now()
	h.lookAtMethods(s)
	h.lookAtEdges(s)
	now := time.Now()
	h.next = s.Total().Time - h.before + h.step
	h.earliest = now.Add(max(h.every, lookShare*now.Sub(start)))
}

func (h *hotness) lookAtMethods(s *ccmap.Snapshot) {
	if h.limit.Method <= 0 {
		return
	}
	for m := range s.Methods() {
		if m.ID() == ccmap.PrunedID {
			continue // the map has counted this at other edges
		}
		h.check(s, h.limit.Method, edge{ccmap.NoMethod, m.ID(), ccmap.NoOffset}, m.Cumulative())
	}
}

func (h *hotness) lookAtEdges(s *ccmap.Snapshot) {
	if h.limit.Edge <= 0 {
		return
	}
	for e := range s.Edges() {
		if e.Callee() == ccmap.PrunedID {
			continue // the map has counted this at other edges
		}
		h.check(s, h.limit.Edge, edge{e.Caller(), e.Callee(), e.Offset()}, e.Total())
	}
}

// check raises an event for k when its counters first reach the limit.
func (h *hotness) check(s *ccmap.Snapshot, limit time.Duration, k edge, c ccmap.Counters) {
	if c.Time < int64(limit) || h.raised[k] {
		return
	}
	h.raised[k] = true
	h.raise(Event{Method: k.callee, Caller: k.caller, Offset: k.offset, Counters: c, Snapshot: s})
}
