package manager

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Thresholds say how much CPU time of the target makes a method or an edge hot
// (the paper, section 3.1.3: "a total counter exceeding threshold"). 0 is never.
type Thresholds struct {
	Method time.Duration // cumulative: a sample counts once for a method
	Edge   time.Duration // total: a sample counts for each occurrence of the call
}

// Event says that a method or an edge has become hot.
type Event struct {
	Method ccmap.MethodID // that is hot, or that is called by the edge
	// The call, if an edge is hot. Caller is NoMethod if a method is.
	Caller ccmap.MethodID
	Offset uint32

	Counters ccmap.Counters  // that crossed the threshold
	Snapshot *ccmap.Snapshot // in which they did; it has the contexts
}

// hotness finds what has become hot. A look costs a pass over the map, so there
// is none for a sample: one is due at the end of a turn, once the time sampled
// since the last one is a lateStep of the smaller threshold. Looks take at most
// one part in lookShare of the manager's time.
type hotness struct {
	limit Thresholds
	raise func(Event)
	every time.Duration // between two looks, at least
	step  int64         // ns of sampled time between two looks; 0: never look

	next     int64     // sampled time from which a look is due
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

// due reports whether it is time to look, after sampled ns in all.
func (h *hotness) due(sampled int64) bool {
	return h.step > 0 && sampled >= h.next && !time.Now().Before(h.earliest)
}

// look raises an event for all that has become hot since the last look.
func (h *hotness) look(s *ccmap.Snapshot) {
	if h.step == 0 {
		return
	}
	start := time.Now()
	h.lookAtMethods(s)
	h.lookAtEdges(s)
	now := time.Now()
	h.next = s.Total().Time + h.step
	h.earliest = now.Add(max(h.every, lookShare*now.Sub(start)))
}

func (h *hotness) lookAtMethods(s *ccmap.Snapshot) {
	if h.limit.Method <= 0 {
		return
	}
	pruned := prunedMethod(s)
	for m := range s.Methods() {
		if m.ID() == pruned {
			continue
		}
		h.check(s, h.limit.Method, edge{ccmap.NoMethod, m.ID(), ccmap.NoOffset}, m.Cumulative())
	}
}

func (h *hotness) lookAtEdges(s *ccmap.Snapshot) {
	if h.limit.Edge <= 0 {
		return
	}
	pruned := prunedMethod(s)
	for e := range s.Edges() {
		if e.Callee() == pruned {
			continue
		}
		h.check(s, h.limit.Edge, edge{e.Caller(), e.Callee(), e.Offset()}, e.Total())
	}
}

// check raises the event of k if its counters have reached the limit for the
// first time.
func (h *hotness) check(s *ccmap.Snapshot, limit time.Duration, k edge, c ccmap.Counters) {
	if c.Time < int64(limit) || h.raised[k] {
		return
	}
	h.raised[k] = true
	h.raise(Event{Method: k.callee, Caller: k.caller, Offset: k.offset, Counters: c, Snapshot: s})
}
