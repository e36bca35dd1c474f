package manager

import (
	"iter"
	"log/slog"
	"math"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/advice"
)

// Event says that a method, an edge or a path has become hot.
type Event struct {
	Method ccmap.MethodID // the hot method, the callee of the hot edge, or the last method of the hot path
	Caller ccmap.MethodID // of the hot edge; NoMethod: a method or a path is hot
	Offset uint32         // of the call in the caller; NoOffset without a caller
	Path   query.Path     // the hot path; nil: a method or an edge is hot

	Threshold Threshold       // that was crossed
	Counters  ccmap.Counters  // since the map began, as the threshold counts
	Recent    time.Duration   // CPU time in the threshold's window; 0 if the threshold is a time
	Percent   float64         // of the target's recent CPU time; an edge of a recursion may have over 100
	Snapshot  *ccmap.Snapshot // with these counters, and the contexts
}

// hotness finds what has become hot. A look is a pass over the map, too expensive for
// each sample. A look is due at the end of a turn:
//
//   - of a threshold that is a time, when the time sampled since the last look is one part
//     in lateStep of it
//   - of a share, when that time is one part in lateStep of the recent time, or when one part
//     of the window is over
//
// Looks take at most one part in lookShare of the manager's time. hotness belongs to the
// manager's goroutine.
type hotness struct {
	watches []*watch
	paths   []*pathWatch
	raise   func(Event)
	every   time.Duration // between two looks, at least

	before   int64     // sampled time of earlier sessions, ns
	seen     int64     // sampled time at the last look, ns
	next     int64     // sampled time of the next look, ns
	looked   time.Time // the last look
	earliest time.Time // of the next look
	latest   time.Time // of the next look, if there are samples; zero: there is no share to be judged
}

const (
	lateStep  = 16
	lookShare = 20
	// fewSamples is the number of samples from which on a share says something, as for
	// the receivers of a call (package pollution).
	fewSamples = 30
)

func newHotness(c Config) hotness {
	h := hotness{raise: c.OnHot, every: c.PublishEvery, looked: time.Now(), next: 1}
	h.add(c.Hot.Method, walkMethods, func(k edge) Event { return Event{Method: k.callee, Caller: k.caller, Offset: k.offset} })
	h.add(c.Hot.Edge, walkEdges, func(k edge) Event { return Event{Method: k.callee, Caller: k.caller, Offset: k.offset} })
	for _, w := range h.watches {
		w.scale = c.Hot.Scale
	}
	for i, limit := range c.Hot.ofPaths() {
		p := &pathWatch{path: c.Hot.Paths[i].Path, log: c.Logger}
		h.paths = append(h.paths, p)
		h.add(limit, p.walk, func(k edge) Event { return Event{Method: k.callee, Caller: k.caller, Offset: k.offset, Path: p.path} })
	}
	h.plan(0)
	return h
}

// add adds a watch, unless its threshold is never reached.
func (h *hotness) add(limit Threshold, walk walk, event func(edge) Event) {
	if limit != (Threshold{}) {
		h.watches = append(h.watches, &watch{limit: limit, walk: walk, event: event, heat: make(map[edge]heat)})
	}
}

// resume takes in the map of earlier sessions: what was hot then raises no event.
func (h *hotness) resume(s *ccmap.Snapshot) {
	h.before = s.Total().Time
	if h.before == 0 {
		return
	}
	for _, w := range h.watches {
		w.resume(s)
	}
	h.plan(0)
}

// due reports whether it is time to look, after sampled ns in all.
func (h *hotness) due(sampled int64) bool {
	if len(h.watches) == 0 || sampled == h.seen {
		return false
	}
	now := time.Now()
	isLate := !h.latest.IsZero() && !now.Before(h.latest)
	return (sampled >= h.next || isLate) && !now.Before(h.earliest)
}

// look raises an event for all that has become hot since the last look.
func (h *hotness) look(s *ccmap.Snapshot) {
	if len(h.watches) == 0 {
		return
	}
	start := time.Now()
	for _, w := range h.watches {
		w.look(s, start.Sub(h.looked), h.raise)
	}
	now := time.Now()
	h.looked = start
	h.earliest = now.Add(max(h.every, lookShare*now.Sub(start)))
	h.plan(s.Total().Time - h.before)
}

// plan says when the next look is due, after one at that sampled time.
func (h *hotness) plan(sampled int64) {
	h.seen, h.latest = sampled, time.Time{}
	step := int64(math.MaxInt64)
	for _, w := range h.watches {
		whole := int64(w.limit.Time)
		if w.limit.isShare() {
			whole = int64(w.total.recent)
			if late := h.looked.Add(w.limit.Window / lateStep); h.latest.IsZero() || late.Before(h.latest) {
				h.latest = late
			}
		}
		if w.scale != nil {
			whole = int64(leastScale * float64(whole))
		}
		step = min(step, max(whole/lateStep, 1))
	}
	if step < math.MaxInt64-sampled {
		h.next = sampled + step
	}
}

// end looks for the last time, and says which paths the target never had.
func (h *hotness) end(s *ccmap.Snapshot) {
	h.look(s)
	for _, p := range h.paths {
		if p.missing != nil && !p.ambiguous {
			p.log.Warn("hot path was never counted", "path", p.path, "error", p.missing)
		}
	}
}

// walk walks over what may become hot, with its counters. A method has no caller, and a path no key.
type walk func(*ccmap.Snapshot) iter.Seq2[edge, ccmap.Counters]

// watch is what one threshold is held against.
type watch struct {
	limit Threshold
	walk  walk
	event func(edge) Event // without counters
	heat  map[edge]heat    // of a time: of what was hot alone
	total heat             // of the target; of a share
	scale func(ccmap.MethodID) float64
}

// leastScale is the least part of a threshold that makes a method hot.
const leastScale = 0.01

// scaleOf returns the part of the threshold that counts for something.
func (w *watch) scaleOf(k edge) float64 {
	if w.scale == nil {
		return 1
	}
	if scale := w.scale(k.callee); scale < 1 { // false for what is not a number
		return max(scale, leastScale)
	}
	return 1
}

// heat is how hot something was at the last look.
type heat struct {
	last   int64   // ns, since the map began
	recent float64 // ns, in the window; of a share
	hot    bool
}

// look raises an event for all that has become hot, some time after the last look.
func (w *watch) look(s *ccmap.Snapshot, after time.Duration, raise func(Event)) {
	f := w.fade(after)
	w.total.add(s.Total().Time, f)
	for k, c := range w.walk(s) {
		if h, becomes := w.judge(s, k, c, f); becomes {
			raise(w.complete(s, k, c, h))
		}
	}
}

// judge counts what came since the last look, and reports whether it has made something hot.
func (w *watch) judge(s *ccmap.Snapshot, k edge, c ccmap.Counters, f fade) (h heat, becomes bool) {
	h = w.heat[k]
	was := h.hot
	if !w.limit.isShare() {
		if h.hot = h.hot || float64(c.Time) >= w.scaleOf(k)*float64(w.limit.Time); h.hot && !was {
			w.heat[k] = h
		}
		return h, h.hot && !was
	}
	h.add(c.Time, f)
	h.hot = w.isHot(s.Total(), h, w.scaleOf(k))
	w.heat[k] = h
	return h, h.hot && !was
}

// isHot judges a share, held against a part of the threshold.
func (w *watch) isHot(total ccmap.Counters, h heat, scale float64) bool {
	limit := scale * w.limit.Percent / 100 * w.total.recent
	if h.hot { // cold under half, where the threshold would have enough samples
		return h.recent >= limit/2 || !areEnough(total, limit)
	}
	return h.recent >= limit && h.recent > 0 && areEnough(total, h.recent)
}

// areEnough reports whether so much time has fewSamples or more, of samples of the mean weight. Profiles
// without numbers of samples have enough.
func areEnough(total ccmap.Counters, ns float64) bool {
	return ns*float64(total.Samples) >= fewSamples*float64(total.Time) || total.Samples == 0
}

// complete returns the event of something that is hot.
func (w *watch) complete(s *ccmap.Snapshot, k edge, c ccmap.Counters, h heat) Event {
	e := w.event(k)
	e.Threshold, e.Counters, e.Snapshot = w.limit, c, s
	if w.limit.isShare() {
		e.Recent, e.Percent = time.Duration(h.recent), 100*h.recent/w.total.recent
	}
	return e
}

// resume takes in the counters of earlier sessions. What is recent is known if the map has a window,
// whose shares stand for those of the threshold's own.
func (w *watch) resume(s *ccmap.Snapshot) {
	all := fade{0, 0}
	if !w.limit.isShare() {
		w.look(s, 0, func(Event) {})
		return
	}
	w.total.add(s.Total().Time, all)
	for k, c := range w.walk(s) {
		h := w.heat[k]
		h.add(c.Time, all)
		w.heat[k] = h
	}
	recent, ok := s.Recent()
	if !ok {
		return
	}
	scale := float64(w.limit.Window) / float64(s.Meta().Window)
	w.total.recent = scale * float64(recent.Total().Time)
	for k, c := range w.walk(recent) {
		h := w.heat[k]
		h.recent = scale * float64(c.Time)
		h.hot = w.isHot(s.Total(), h, w.scaleOf(k))
		w.heat[k] = h
	}
}

// fade are the factors by which a look counts: the recent time of before, and the time since the last look,
// which came evenly.
type fade struct{ old, fresh float64 }

// fade returns the factors for some time after the last look.
func (w *watch) fade(after time.Duration) fade {
	if !w.limit.isShare() || after <= 0 {
		return fade{1, 1}
	}
	x := float64(after) / float64(w.limit.Window)
	return fade{math.Exp(-x), -math.Expm1(-x) / x}
}

// add counts up to now, the time since the map began. It is less than before where contexts were pruned.
func (h *heat) add(now int64, f fade) {
	h.recent = h.recent*f.old + float64(max(now-h.last, 0))*f.fresh
	h.last = now
}

func walkMethods(s *ccmap.Snapshot) iter.Seq2[edge, ccmap.Counters] {
	return func(yield func(edge, ccmap.Counters) bool) {
		for m := range s.Methods() {
			if m.ID() == ccmap.PrunedID {
				continue // the map has counted this at other edges
			}
			if !yield(edge{ccmap.NoMethod, m.ID(), ccmap.NoOffset}, m.Cumulative()) {
				return
			}
		}
	}
}

func walkEdges(s *ccmap.Snapshot) iter.Seq2[edge, ccmap.Counters] {
	return func(yield func(edge, ccmap.Counters) bool) {
		for e := range s.Edges() {
			if e.Callee() == ccmap.PrunedID {
				continue // the map has counted this at other edges
			}
			if !yield(edge{e.Caller(), e.Callee(), e.Offset()}, e.Total()) {
				return
			}
		}
	}
}

// pathWatch counts one path. Its names are looked up again when there are new ones.
type pathWatch struct {
	path query.Path
	log  *slog.Logger

	names     int // that were there at the last look-up
	found     map[string]finding
	missing   error // why the path was not counted at the last look; nil: it was
	ambiguous bool  // and the log says so
}

type finding struct {
	methods query.Methods
	err     error
}

// walk yields the path, if its methods are known.
func (p *pathWatch) walk(s *ccmap.Snapshot) iter.Seq2[edge, ccmap.Counters] {
	return func(yield func(edge, ccmap.Counters) bool) {
		var q *query.Query
		if q, p.missing = query.New(s, p.path, p.find); p.missing != nil {
			p.warn()
			return
		}
		last := q.Methods[len(q.Methods)-1].IDs()
		yield(edge{ccmap.NoMethod, last[0], ccmap.NoOffset}, q.Count().Distinct)
	}
}

// warn logs once that a name of the path stands for several methods. A method that is missing may come.
func (p *pathWatch) warn() {
	if !p.ambiguous && advice.CodeOf(p.missing) == advice.CodeAmbiguousMethod {
		p.ambiguous = true
		p.log.Warn("hot path is not counted", "path", p.path, "error", p.missing)
	}
}

// find finds the methods of a name, once for each state of the table.
func (p *pathWatch) find(names *ccmap.Names, text string) (query.Methods, error) {
	if n := names.Len(); n != p.names || p.found == nil {
		p.names, p.found = n, make(map[string]finding)
	}
	f, known := p.found[text]
	if !known {
		f.methods, f.err = query.Named(names, text)
		p.found[text] = f
	}
	return f.methods, f.err
}
