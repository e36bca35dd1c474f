package perf

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"golang.org/x/sys/unix"
)

// catcher decides when a burst is set, and on which call. It belongs to the
// drainer, which gives it a turn whenever it has one itself, and never waits for
// a burst.
//
//	idle     until due, a random moment
//	burst    until it is over
//	resting  until the next sample, after a burst that has caught nothing
//
// The pauses between bursts are exponential, so that calls are caught at moments
// that have nothing to do with what the target does. On average they are as long
// as what the last burst has taken of the budget. Resting costs an idle target
// nothing, and does not wake the drainer.
type catcher struct {
	code    *code
	memory  reader
	alive   func(tid uint32) bool      // whether a thread is one of the target's
	deliver func(*perfevent.Call) bool // pushes a call; false if its target is not known
	counts  *counts
	log     *slog.Logger

	budget  float64 // calls caught in a second; 0: none
	sites   sites
	burst   *burst // nil: there is none
	resting bool   // the last burst was in vain, and there was no sample since
	due     time.Time
	failed  int // bursts in a row that could not be set
	faded   time.Time
	caught  perfevent.Call // reused
}

const (
	// eventCost is what setting a breakpoint on a thread costs, in hits, and
	// leastCost what a burst costs at least: two breakpoints, and three times to
	// wake the drainer up, which takes some 30 µs each.
	eventCost = 1
	leastCost = 16
	// longestPause bounds how far a pause is over the average, and
	// longestAverage the average.
	longestPause   = 5
	longestAverage = time.Hour
	// idlePause is how soon to look again where no site is hot.
	idlePause = 100 * time.Millisecond
	// fadeEvery is how often older samples lose half their weight, if there are
	// enough.
	fadeEvery = 20 * time.Second
	// Where a breakpoint cannot be set it is tried again after firstRetry, and
	// then after twice as long each time, up to lastRetry. After patientTries it
	// is said why: who else uses debug registers may do so for a moment only.
	firstRetry   = 20 * time.Millisecond
	lastRetry    = time.Minute
	patientTries = 5
)

func newCatcher(d *drainer, budget float64) *catcher {
	now := time.Now()
	c := &catcher{
		code: d.code, memory: d.taker.memory, alive: d.threads.has, deliver: d.takeHit, counts: d.counts, log: d.log,
		budget: max(budget, 0),
		sites:  sites{byPC: make(map[uint64]*site)},
		due:    now.Add(idlePause),
		faded:  now,
	}
	if c.budget == 0 {
		c.explain("switched off")
	}
	return c
}

// explain says why no calls are caught; an empty reason says that they are.
func (c *catcher) explain(reason string) {
	if reason == c.counts.whyNoHits() {
		return
	}
	c.counts.hitReason.Store(&reason)
	c.log.Debug("catching of calls", "hindrance", reason)
}

// watch looks for indirect calls on a stack that was sampled.
func (c *catcher) watch(tid uint32, st *stack) {
	if c.budget == 0 || len(st.pcs) == 0 {
		return
	}
	c.resting = false
	c.sites.next()
	for _, pc := range st.pcs[1:] {
		if call := c.code.callBefore(pc, c.memory); call.indirect() {
			c.sites.meet(call, tid)
		}
	}
}

// patience is how long the drainer may wait before the catcher needs a turn. It
// is never so short that the drainer would not look at what it waits for.
func (c *catcher) patience() time.Duration {
	switch {
	case c.budget == 0:
		return checkEvery
	case c.burst != nil:
		return max(time.Until(c.burst.next), pace)
	case c.resting:
		return checkEvery
	}
	return max(time.Until(c.due), pace)
}

// turn does what is due.
func (c *catcher) turn(now time.Time) {
	if c.budget == 0 {
		return
	}
	c.code.effort.fill(now)
	switch {
	case c.burst != nil && c.burst.over(now):
		c.finish()
	case c.burst == nil && !c.resting && !now.Before(c.due):
		c.begin(now)
	}
	if now.Sub(c.faded) >= fadeEvery {
		c.faded = now
		c.sites.fade()
	}
}

// begin sets a burst on the site whose turn it is.
func (c *catcher) begin(now time.Time) {
	c.counts.hitSites.Store(int64(c.sites.count()))
	s := c.sites.turn()
	if s == nil {
		c.due, c.resting = now.Add(idlePause), true
		return
	}
	b, err := openBurst(s, c.alive, now)
	switch {
	case errors.Is(err, errNoThread):
		s.yield(0)
		c.resting = true
		c.pause(leastCost)
	case err != nil:
		c.retry(err)
	default:
		c.burst, c.failed = b, 0
		c.counts.bursts.Add(1)
		c.explain("")
	}
}

// finish takes what the burst has caught, if there is one, and ends it.
func (c *catcher) finish() {
	b := c.burst
	if b == nil {
		return
	}
	hits, armed := 0, len(b.events)
	b.drain(func(body []byte) {
		hits++
		c.take(b.site, body)
	})
	c.close()
	c.resting = hits == 0
	b.site.yield(hits)
	c.pause(float64(max(hits+eventCost*armed, leastCost)))
}

// take delivers one caught call.
func (c *catcher) take(s *site, body []byte) {
	h := &c.caught
	if err := h.Decode(s.call.breakpoint(), body); err != nil {
		c.counts.corrupt.Add(1)
		return
	}
	if !c.deliver(h) {
		c.counts.strays.Add(1)
		return
	}
	s.hit(h.Target)
	c.counts.hits.Add(1)
}

// pause puts the next burst off for what the last one has cost, in hits.
func (c *catcher) pause(cost float64) {
	average := min(cost/c.budget, longestAverage.Seconds())
	pause := average * min(rand.ExpFloat64(), longestPause)
	c.due = time.Now().Add(time.Duration(pause * float64(time.Second)))
}

// retry puts the next burst off because a breakpoint could not be set.
func (c *catcher) retry(err error) {
	c.due = time.Now().Add(min(firstRetry<<min(c.failed, 16), lastRetry))
	if c.failed++; c.failed < patientTries {
		return
	}
	reason := fmt.Sprintf("hardware breakpoints are not available: %v", err)
	if errors.Is(err, unix.ENOSPC) {
		reason = "debug registers are in use, by a debugger or another profiler"
	}
	c.explain(reason)
}

func (c *catcher) close() {
	if c.burst != nil {
		c.burst.close()
		c.burst = nil
	}
}
