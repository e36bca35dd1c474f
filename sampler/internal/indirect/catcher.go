package indirect

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/sys/unix"
)

// Catcher decides when a burst is set, and on which call. The engine gives it a turn
// whenever it has one itself, and the catcher never waits for a burst.
//
//	idle     until due, a random moment
//	burst    until it is over
//	resting  until the next sample, after a burst that has caught nothing
//
// The pauses between bursts are exponential, so that calls are caught at moments that
// are independent of the target's work. On average a pause is as long as the last burst
// takes of the budget. Resting costs an idle target nothing, and does not wake the
// engine.
type Catcher struct {
	Options

	sites   sites
	finder  Finder
	burst   *burst        // nil: no burst now
	resting bool          // the last burst was in vain, and there was no sample since
	owed    time.Duration // CPU time that the target must use before the next burst; negative: it has used more
	due     time.Time
	held    bool // no bursts now
	failed  int  // bursts in a row that could not be set
	faded   time.Time
	caught  perfevent.Call // reused
}

// Options of a catcher. All of them are required but Code.
type Options struct {
	Code    Code // nil: the runtime has no calls that can be caught
	Memory  process.Memory
	Alive   func(tid uint32) bool      // whether a thread is one of the target's
	Deliver func(*perfevent.Call) bool // pushes a call; false if its target is not known
	Counts  *Counts
	Budget  float64 // calls caught in a second, and in a second of the target's CPU time; 0: none
	Log     *slog.Logger
}

// Code finds the calls in a runtime's code, and remembers them.
type Code interface {
	// CallBefore returns the call that a return address belongs to. It asks the finder
	// once for each address, and again while the result is [Unseen].
	CallBefore(ret uint64, f *Finder) Call
}

// Counts are written by the catcher and may be read by any goroutine.
type Counts struct {
	Caught, Strays atomic.Uint64 // calls delivered; calls dropped, because their target is not known
	Corrupt        atomic.Uint64 // malformed records
	Bursts         atomic.Uint64
	Set            atomic.Uint64 // breakpoints set, each on one thread, in bursts that are over
	SetTime        atomic.Int64  // for how long, the sum, ns
	Sites          atomic.Int64  // that are hot
	reason         atomic.Pointer[string]
}

// Reason says why no calls are caught; empty if they are.
func (c *Counts) Reason() string {
	if reason := c.reason.Load(); reason != nil {
		return *reason
	}
	return ""
}

const (
	// eventCost is the cost of a breakpoint on a thread, in calls, and leastCost the
	// least cost of a burst: as many calls as one breakpoint catches. A burst wakes
	// ccmapd up two or three times, however few calls it catches.
	eventCost = 1
	leastCost = threadCalls
	// longestPause bounds a pause, in averages, and longestAverage the average.
	longestPause   = 5
	longestAverage = time.Hour
	// idlePause is how soon to look again where no site is hot.
	idlePause = 100 * time.Millisecond
	// fadeEvery is how often older samples lose half their weight, if there are
	// enough.
	fadeEvery = 20 * time.Second
	// Where a breakpoint cannot be set it is tried again after firstRetry, and
	// then after twice as long each time, up to lastRetry. The reason is told after
	// patientTries: a debugger may use debug registers for a moment only.
	firstRetry   = 20 * time.Millisecond
	lastRetry    = time.Minute
	patientTries = 5
)

// forever is the patience of a catcher that needs no turn.
const forever = time.Hour

// New returns a catcher.
func New(o Options) *Catcher {
	now := time.Now()
	c := &Catcher{
		Options: o,
		sites:   sites{byPC: make(map[uint64]*site)},
		finder:  Finder{memory: o.Memory},
		due:     now.Add(idlePause),
		faded:   now,
	}
	switch {
	case c.Code == nil:
		c.Budget = 0
		c.explain("calls of this runtime cannot be caught")
	case c.Budget == 0:
		c.explain("switched off")
	}
	return c
}

// explain says why no calls are caught; an empty reason says that they are.
func (c *Catcher) explain(reason string) {
	if reason == c.Counts.Reason() {
		return
	}
	c.Counts.reason.Store(&reason)
	c.Log.Debug("catching of calls", "hindrance", reason)
}

// Watch looks for indirect calls among the return addresses of a sample.
func (c *Catcher) Watch(tid uint32, returns []uint64) {
	if c.Budget == 0 {
		return
	}
	c.resting = false
	c.sites.next()
	for _, pc := range returns {
		if call := c.Code.CallBefore(pc, &c.finder); call.indirect() {
			c.sites.meet(call, tid)
		}
	}
}

// Ran says that the target has used CPU time, for which a sample stands.
func (c *Catcher) Ran(cpu time.Duration) { c.owed = max(c.owed-cpu, -cpu) }

// Patience is how long the engine may wait before the catcher needs a turn.
func (c *Catcher) Patience() time.Duration {
	switch {
	case c.Budget == 0 || c.held:
		return forever
	case c.burst != nil:
		return time.Until(c.burst.next)
	case c.resting || c.owed > 0:
		return forever // a sample ends that
	}
	return time.Until(c.due)
}

// Turn does the work that is due.
func (c *Catcher) Turn(now time.Time) {
	if c.Budget == 0 {
		return
	}
	c.finder.fill(now)
	switch {
	case c.burst != nil && c.burst.over(now):
		c.Finish()
	case c.burst == nil && !c.held && !c.resting && c.owed <= 0 && !now.Before(c.due):
		c.setBurst(now)
	}
	if now.Sub(c.faded) >= fadeEvery {
		c.faded = now
		c.sites.fade()
	}
}

// setBurst sets a burst on the site whose turn it is.
func (c *Catcher) setBurst(now time.Time) {
	c.Counts.Sites.Store(int64(c.sites.count()))
	s := c.sites.turn()
	if s == nil {
		c.due, c.resting = now.Add(idlePause), true
		return
	}
	b, err := openBurst(s, c.Alive, now)
	switch {
	case errors.Is(err, errNoThread):
		s.yield(0, false)
		c.resting = true
		c.pause(leastCost)
	case err != nil:
		c.retry(err)
	default:
		c.burst, c.failed = b, 0
		c.Counts.Bursts.Add(1)
		c.explain("")
	}
}

// Hold ends a burst, and begins no other one until it is called with false.
func (c *Catcher) Hold(held bool) {
	c.held = held
	c.Finish()
}

// Finish takes the calls of the burst, if there is one, and ends it.
func (c *Catcher) Finish() {
	b := c.burst
	if b == nil {
		return
	}
	calls, armed := 0, len(b.events)
	b.drain(func(body []byte) {
		calls++
		c.deliverCall(b.site, body)
	})
	c.Close()
	c.resting = calls == 0
	b.site.yield(calls, calls >= threadCalls*armed)
	c.pause(float64(max(calls+eventCost*armed, leastCost)))
}

// deliverCall delivers one caught call.
func (c *Catcher) deliverCall(s *site, body []byte) {
	call := &c.caught
	if err := call.Decode(s.breakpoint(), body); err != nil {
		c.Counts.Corrupt.Add(1)
		return
	}
	if !c.Deliver(call) {
		c.Counts.Strays.Add(1)
		return
	}
	s.caught(call.Target)
	c.Counts.Caught.Add(1)
}

// pause puts the next burst off for the cost of the last one, in calls. A target that uses
// less than a core waits until it has used as much CPU time: calls cost it the same part.
func (c *Catcher) pause(cost float64) {
	average := min(cost/c.Budget, longestAverage.Seconds())
	pause := average * min(rand.ExpFloat64(), longestPause)
	wait := time.Duration(pause * float64(time.Second))
	c.due = time.Now().Add(wait)
	c.owed = min(c.owed, 0) + wait
}

// retry puts the next burst off because a breakpoint could not be set.
func (c *Catcher) retry(err error) {
	c.due = time.Now().Add(min(firstRetry<<min(c.failed, 16), lastRetry))
	if c.failed++; c.failed < patientTries {
		return
	}
	reason := fmt.Sprintf("hardware breakpoints are not available: %v", err)
	switch {
	case errors.Is(err, unix.ENOSPC):
		reason = "debug registers are in use, by a debugger or another profiler"
	case errors.Is(err, perfevent.ErrSilent):
		reason = perfevent.ErrSilent.Error()
	}
	c.explain(reason)
}

// Bursting reports whether a breakpoint is set now.
func (c *Catcher) Bursting() bool { return c.burst != nil }

// Close ends a burst and drops its calls.
func (c *Catcher) Close() {
	if b := c.burst; b != nil {
		c.Counts.Set.Add(uint64(len(b.events)))
		c.Counts.SetTime.Add(int64(len(b.events)) * int64(time.Since(b.began)))
		b.close()
		c.burst = nil
	}
}
