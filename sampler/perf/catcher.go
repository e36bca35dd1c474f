package perf

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// catcher decides when a burst is set, and on which call. It belongs to the
// drainer, which gives it a turn whenever it has one itself, and never waits for
// a burst.
//
//	idle   until due, a random moment
//	burst  until it is over
//
// The pauses between bursts are exponential, so that calls are caught at moments
// that have nothing to do with what the target does. On average they are as long
// as what the last burst has taken of the budget.
type catcher struct {
	code    *code
	memory  reader
	deliver func(*hit) bool // pushes a call; false if what it reaches is not known
	counts  *counts
	log     *slog.Logger

	budget float64 // calls caught in a second; 0: none
	sites  sites
	burst  *burst // nil: idle
	due    time.Time
	failed int // bursts in a row that could not be set
	faded  time.Time
	hit    hit // reused
}

const (
	// eventCost is what setting a breakpoint on a thread costs, in hits.
	eventCost = 1
	// longestPause bounds how far a pause is over the average, and
	// longestAverage the average.
	longestPause   = 5
	longestAverage = time.Hour
	// idlePause is how soon to look again where no site is hot.
	idlePause = 100 * time.Millisecond
	// fadeEvery is how often older samples lose half their weight.
	fadeEvery = 20 * time.Second
	// Where a breakpoint cannot be set it is tried again after firstRetry, and
	// then after twice as long each time, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

func newCatcher(d *drainer, budget float64) *catcher {
	now := time.Now()
	c := &catcher{
		code: d.code, memory: d.taker.memory, deliver: d.takeHit, counts: d.counts, log: d.log,
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
	}
	return max(time.Until(c.due), pace)
}

// turn does what is due.
func (c *catcher) turn(now time.Time) {
	switch {
	case c.budget == 0:
		return
	case c.burst != nil && c.burst.over(now):
		c.finish()
	case c.burst == nil && !now.Before(c.due):
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
		c.due = now.Add(idlePause)
		return
	}
	b, err := openBurst(s, now)
	switch {
	case errors.Is(err, errNoThread):
		s.yield(0)
		c.pause(burstHits)
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
	hits := 0
	b.drain(func(body []byte) {
		hits++
		c.take(b.site, body)
	})
	cost := hits + eventCost*len(b.events)
	if hits == 0 {
		cost = burstHits // it woke the drainer up for nothing
	}
	b.site.yield(hits)
	c.pause(float64(cost))
	c.close()
}

// take delivers one caught call.
func (c *catcher) take(s *site, body []byte) {
	h := &c.hit
	if err := h.decode(s.call, body); err != nil {
		c.counts.corrupt.Add(1)
		return
	}
	if !c.deliver(h) {
		c.counts.strays.Add(1)
		return
	}
	s.hit(h.target)
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
	reason := fmt.Sprintf("hardware breakpoints are not available: %v", err)
	if errors.Is(err, unix.ENOSPC) {
		reason = "debug registers are in use, by a debugger or another profiler"
	}
	c.explain(reason)
	c.due = time.Now().Add(min(firstRetry<<min(c.failed, 10), lastRetry))
	c.failed++
}

func (c *catcher) close() {
	if c.burst != nil {
		c.burst.close()
		c.burst = nil
	}
}
