package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
)

// controller acts on hot methods of JVMs: it tells the compiler C2 what their profiles know, if the configuration has
// it so (feedback.hotspot). It works like this:
//
//  1. The manager of a session offers each hot event, and waits for nothing.
//  2. One goroutine takes the sessions in turn, each once in a while, with all methods that have become hot since. It
//     finds hints about them, as 'ccmapd hints' does, and leaves out those that the process has had. It looks at
//     methods without hints again, as the JVM's counts of their calls come later than their samples.
//  3. It raises an event with the hints, with what is kept of the fleet's fan-in of their callees, and the directives that give them to a JVM.
//  4. To apply them, it does as 'ccmapd apply' does: until C2 has compiled their methods, or a minute is over, the
//     directives are in force in one JVM. The event then says what became of the hints, or why they could not be given.
//
// A user who may not see a process does not hear of its hints, and a JVM that refuses the daemon's user gets none.
//
//	config … begin   never change once Run has begun
//	wanted           under mu
//	had              the goroutine of run
type controller struct {
	config func() *config.Config
	log    *slog.Logger
	find   func(*ccmap.Snapshot) []hotspot.Hint
	begin  func(ctx context.Context, pid int, hints []hotspot.Hint) (trial, error)
	fleet  func(target string, s *ccmap.Snapshot) fanin.List // what is kept of the fleet's fan-in

	woken chan struct{} // has a token when something was offered
	mu    sync.Mutex
	// wanted are the sessions with hot methods that were not looked at yet.
	wanted map[*session]*wanted
	had    map[lifetime]*hinted
}

// trial is hints in force in a JVM: a [hotspot.Trial].
type trial interface {
	Apply(ctx context.Context, thrown map[string]int64) error
	Settled() <-chan struct{}
	Ended() <-chan struct{}
	Results() []hotspot.Result
	End(keep bool) error
}

// wanted are the methods of a session that have become hot.
type wanted struct {
	methods  map[ccmap.MethodID]int // and how often they were looked at
	identity process.Identity       // of the process, when it was attached to
}

// lifetime tells processes of one number apart.
type lifetime struct {
	pid     int
	started uint64
}

// hinted is what a process has had.
type hinted struct {
	next  time.Time // of the next look, at the earliest
	idle  int       // looks without new hints, since there were some
	given map[call]bool
}

// call is what a hint is about.
type call struct{ root, callee hotspot.Method }

const (
	// suggestEvery and applyEvery are the times from hints to the next look at a process. After a look without new
	// hints it is againAfter, and twice as long after each further one, up to suggestEvery. A look is a pass over the
	// map, with all caught calls; to apply hints takes a recording of the JVM.
	suggestEvery, applyEvery, againAfter = time.Minute, 10 * time.Minute, 10 * time.Second
	// applyTime is how long hints are in force: the --wait of 'ccmapd apply'.
	applyTime = time.Minute
	// mostWanted bounds the methods of a look, mostLooks the looks at a method without hints, and mostGiven the hints
	// of an event, which the daemon keeps.
	mostWanted, mostLooks, mostGiven = 1000, 10, 20
	// mostRemembered bounds the processes whose hints are remembered.
	mostRemembered = 1000
)

func newController(c func() *config.Config, log *slog.Logger) *controller {
	return &controller{
		config: c, log: log, woken: make(chan struct{}, 1), wanted: make(map[*session]*wanted), had: make(map[lifetime]*hinted),
		find: func(s *ccmap.Snapshot) []hotspot.Hint {
			hints, _ := hotspot.Find(s, hotspot.DefaultFind())
			return hints
		},
		begin: func(ctx context.Context, pid int, hints []hotspot.Hint) (trial, error) {
			return hotspot.Begin(ctx, pid, hints)
		},
	}
}

// offer takes a hot method, if it is a JVM's. The goroutine of the session's manager calls it.
func (c *controller) offer(s *session, e manager.Event) {
	if c.config().Feedback.HotSpot == config.FeedbackOff || s.follower.hasNoProcess() || !hotspot.Runs(s.Info().Target) {
		return
	}
	c.want(s, map[ccmap.MethodID]int{e.Method: 0}, s.follower.identity)
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// want adds methods to those that the next look at a session is for.
func (c *controller) want(s *session, methods map[ccmap.MethodID]int, identity process.Identity) {
	if len(methods) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.wanted[s]
	if w == nil {
		w = &wanted{make(map[ccmap.MethodID]int), identity}
		c.wanted[s] = w
	}
	for id, looks := range methods {
		if len(w.methods) < mostWanted {
			w.methods[id] = max(w.methods[id], looks)
		}
	}
}

// run looks at sessions, one at a time, until ctx is done.
func (c *controller) run(ctx context.Context) {
	for ctx.Err() == nil {
		s, w, wait := c.next(time.Now())
		if s != nil {
			c.look(ctx, s, w)
			continue
		}
		select {
		case <-ctx.Done():
		case <-c.woken:
		case <-time.After(wait):
		}
	}
}

// next takes the session that may be looked at for the longest time, or returns how long to wait for one.
func (c *controller) next(now time.Time) (s *session, w *wanted, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	earliest := now.Add(applyEvery)
	for one := range c.wanted {
		if one.follower.session.Load() != one {
			delete(c.wanted, one) // it has ended
			continue
		}
		if next := c.of(one).next; next.Before(earliest) {
			s, earliest = one, next
		}
	}
	if wait = earliest.Sub(now); wait > 0 {
		return nil, nil, wait
	}
	w = c.wanted[s]
	delete(c.wanted, s)
	return s, w, 0
}

// of returns what the process of a session has had.
func (c *controller) of(s *session) *hinted {
	f := s.follower.facts
	key := lifetime{f.PID, f.Started}
	if c.had[key] == nil {
		c.had[key] = &hinted{given: make(map[call]bool)}
	}
	return c.had[key]
}

// forget forgets the processes that were looked at the longest time ago, if there are too many.
func (c *controller) forget() {
	for len(c.had) > mostRemembered {
		var oldest lifetime
		for key, h := range c.had {
			if first := c.had[oldest]; first == nil || h.next.Before(first.next) {
				oldest = key
			}
		}
		delete(c.had, oldest)
	}
}

// look finds hints about methods of a session, and suggests or applies them.
func (c *controller) look(ctx context.Context, s *session, w *wanted) {
	had, mode := c.of(s), c.config().Feedback.HotSpot
	had.next = time.Now().Add(min(againAfter<<min(had.idle, mostLooks), suggestEvery))
	had.idle++
	defer c.forget()
	snapshot, err := s.Manager.Fresh(ctx)
	if err != nil || mode == config.FeedbackOff {
		return
	}
	all := c.find(snapshot)
	hints := had.news(all, namesOf(snapshot, w))
	c.want(s, had.without(all, snapshot, w), w.identity)
	if len(hints) == 0 {
		return
	}
	hotspot.Share(hints, fanin.CalledIn(fanin.OfFleet, fanin.Of(snapshot), c.fleet(s.follower.Name, snapshot), hotspot.Callees(hints)))
	had.idle, had.next = 0, time.Now().Add(suggestEvery)
	if mode == config.FeedbackSuggest {
		s.follower.raiseHints(hints, nil, nil, false)
		return
	}
	had.next = time.Now().Add(applyEvery)
	results, err := c.apply(ctx, s, w, hints, hotspot.Thrown(snapshot))
	if ctx.Err() == nil {
		s.follower.raiseHints(hints, results, err, true)
	}
}

// namesOf returns the texts of methods.
func namesOf(s *ccmap.Snapshot, w *wanted) map[string]bool {
	names := make(map[string]bool)
	for id := range w.methods {
		names[nameOf(s, id)] = true
	}
	return names
}

// nameOf returns the text of a method.
func nameOf(s *ccmap.Snapshot, id ccmap.MethodID) string {
	m := s.Names().At(id)
	return m.Name + m.Signature
}

// isAbout reports whether a hint is about one of some methods.
func isAbout(h hotspot.Hint, about map[string]bool) bool {
	return about[h.Root.String()] || about[h.Caller.String()] || about[h.Callee.String()]
}

// without returns the methods of a look that the process has had no hint about, and how often they were looked at,
// but for those that were looked at often enough.
func (h *hinted) without(all []hotspot.Hint, s *ccmap.Snapshot, w *wanted) map[ccmap.MethodID]int {
	methods := make(map[ccmap.MethodID]int)
	for id, looks := range w.methods {
		about := map[string]bool{nameOf(s, id): true}
		given := func(one hotspot.Hint) bool { return isAbout(one, about) && h.given[call{one.Root, one.Callee}] }
		if looks+1 < mostLooks && !slices.ContainsFunc(all, given) {
			methods[id] = looks + 1
		}
	}
	return methods
}

// news returns the hints about some methods that the process has not had, and notes that it has them now. Hints of
// one root belong together.
func (h *hinted) news(all []hotspot.Hint, about map[string]bool) (hints []hotspot.Hint) {
	roots := make(map[hotspot.Method]bool)
	for _, one := range all {
		if isAbout(one, about) && !h.given[call{one.Root, one.Callee}] {
			roots[one.Root] = true
		}
	}
	for _, root := range hotspot.Roots(all) {
		group := slices.DeleteFunc(slices.Clone(all), func(one hotspot.Hint) bool { return one.Root != root })
		if !roots[root] || len(hints) > 0 && len(hints)+len(group) > mostGiven {
			continue
		}
		for _, one := range group {
			h.given[call{one.Root, one.Callee}] = true
		}
		hints = append(hints, group...)
	}
	return hints
}

// apply gives hints to the JVM of a session, for a while, and returns what became of them.
func (c *controller) apply(ctx context.Context, s *session, w *wanted, hints []hotspot.Hint, thrown map[string]int64) (results []hotspot.Result, err error) {
	f := s.follower
	pin, err := f.host.Pin(f.facts.PID)
	if err != nil {
		return nil, err
	}
	defer pin.Close()
	if err := f.isStill(w.identity); err != nil {
		return nil, err
	}
	t, err := c.begin(ctx, f.facts.PID, hints)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, t.End(false))
		results = t.Results()
	}()
	if err := f.isStill(w.identity); err != nil || pin.Gone() {
		return nil, cmp.Or(err, fmt.Errorf("process %d: %w", f.facts.PID, sampler.ErrNoProcess))
	}
	if err := t.Apply(ctx, thrown); err != nil {
		return nil, err
	}
	late, looks := time.NewTimer(applyTime), time.NewTicker(time.Second)
	defer late.Stop()
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-t.Ended():
		case <-t.Settled():
		case <-late.C:
		case <-looks.C:
			if f.session.Load() == s && c.config().Feedback.HotSpot == config.FeedbackApply {
				continue
			}
		}
		return nil, nil
	}
}

// isStill returns an error unless the process runs the program of its identity, for the same user.
func (f *follower) isStill(as process.Identity) error {
	now, err := f.host.identity(f.facts.PID)
	if err == nil && (!as.SameProgram(now) || now.Owner != f.facts.Owner) {
		err = fmt.Errorf("process %d has become another program: %w", f.facts.PID, sampler.ErrNoProcess)
	}
	return err
}

// Hinted is the data of an [EventHint].
type Hinted struct {
	Mode       string           `json:"mode" doc:"suggest or apply"`
	Directives string           `json:"directives" doc:"of the hints, as -XX:CompilerDirectivesFile reads them"`
	Hints      hotspot.File     `json:"hints" doc:"the hints, as ccmapd apply reads them from a file"`
	Results    []hotspot.Result `json:"results,omitempty" doc:"what became of the hints that were applied"`
	Refused    string           `json:"refused,omitempty" doc:"why the hints could not be applied, or their directives not be removed"`
}

// raiseHints raises an event about hints, and if they were to be applied, about what became of them.
func (f *follower) raiseHints(hints []hotspot.Hint, results []hotspot.Result, refused error, applied bool) {
	h := Hinted{Mode: config.FeedbackSuggest, Hints: hotspot.NewFile(hints, nil), Results: results}
	text := describeHints(hints)
	if applied {
		h.Mode = config.FeedbackApply
		text += fmt.Sprintf("; applied: %d taken, and the directives are removed", taken(results))
	}
	if refused != nil {
		h.Refused = refused.Error()
		text = describeHints(hints) + "; not applied, or not removed: " + h.Refused
	}
	var directives bytes.Buffer
	if err := hotspot.WriteDirectives(&directives, hints); err != nil {
		f.details.Error("leave out directives of an event", "error", err)
	}
	h.Directives = directives.String()
	f.raiseWith(EventHint, h, text)
}

func taken(results []hotspot.Result) (n int) {
	for _, r := range results {
		if r.Outcome == hotspot.Taken {
			n++
		}
	}
	return n
}

// describeHints says what hints are for, and what they can save at most.
func describeHints(hints []hotspot.Hint) string {
	var roots []string
	saves := make(map[string]float64) // by reason: hints of one reason save the same
	for _, root := range hotspot.Roots(hints) {
		roots = append(roots, root.Short())
	}
	for _, h := range hints {
		saves[h.Reason] = h.Saves
	}
	most := 0.0
	for _, s := range saves {
		most += s
	}
	slices.Sort(roots)
	text := roots[0]
	if n := len(roots) - 1; n > 0 {
		text += fmt.Sprintf(" and %s", figure.PluralOf(int64(n), "other method", "other methods"))
	}
	return fmt.Sprintf("%s for compilations of %s, which save %s at most", figure.Plural(int64(len(hints)), "hint"), text, figure.Percent(most))
}
