package perf

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ccmapd/ccmapd/internal/beat"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
)

// windows decides when the target is sampled. Events on threads cost every context switch the
// same, however long the interval is. So where sampling costs more than the budget, the events
// are on in windows only, and a sample stands for the time between windows, too.
//
//	within the budget, or little was spent   always on; factor 1
//	over it                                  on for a window, off for a random pause, and so on
//
// Each moment lies in a window with the same chance, the share, because pauses are random and
// as long on average as the share asks for. A sample weighs 1/share of its own time. On average
// that is right for each part of the target, however its load comes and goes.
//
// The price changes. The share of a window and of the pause after it is the share when the window
// begins. All the time without pauses is like one window with a share of 1.
//
// The sum is right on average only, so the factor of a window also makes up for a part of the
// difference that pauses have made, by the target's CPU clock. The factor is set before the window
// begins: one that depended on the window's own CPU time would favour quiet windows. The
// difference is taken in the middle of the pause before. At the end of the pause it would be larger
// wherever the load has just begun, and bursts would weigh too much. A window with losses counts as
// if it had none, so that none is hidden.
//
// A sample that stands for long pauses could decide a profile that is young. So the share falls only
// as fast as the weights so far permit: see mostFactor.
type windows struct {
	budget float64 // part of the target's CPU time; 0 or less: no limit
	share  float64 // of the time that should be in windows from the next one on; 1: always on
	most   float64 // the largest factor of weights, at the last price
	over   int     // readings in a row over the budget, while always on

	drawn  float64 // share of the window that is on or was last
	factor float64 // of its weights
	off    bool
	since  time.Time     // when it was set on or off last
	next   time.Time     // when to change that; of use where drawn < 1
	late   time.Duration // how much the last pause was too long

	clock time.Duration // of the target, when the last window began
	ended time.Duration // of the target, when it ended
	cycle float64       // CPU time of the target from one window to the next, on average, ns
	owed  float64       // CPU time until the last change that weights do not stand for, ns
	began tally         // samples until the last window
}

// tally counts the weights of samples, and losses: of samples, and of threads without events.
type tally struct {
	weights time.Duration
	lost    uint64
}

const (
	// headroom is the part of the budget that windows aim at.
	headroom = 0.8
	// leastShare bounds a pause, to some 200 windows.
	leastShare = 0.005
	// overReadings in a row over the budget begin windows, and a reading changes the share by a
	// factor of shareStep at most.
	overReadings = 2
	shareStep    = 2
	// A window has some samples of each busy thread, so that there are verdicts. It is much
	// longer than it takes to set the events on.
	leastWindow     = 20 * time.Millisecond
	windowIntervals = 4
	windowOpenings  = 20
	// repaid is the part of the difference from the clock that a window makes up for, within
	// a factor of mostRepaid.
	repaid     = 0.1
	mostRepaid = 2
	// cycleShare is the weight of the last cycle in the average.
	cycleShare = 0.1
	// A sample weighs mostWeight of a profile of manySamples at most. The period of an event
	// is between leastPeriod and mostPeriod intervals, with the time that a change of it has
	// discarded. A tuner may shorten the interval by a factor of shorterBy.
	mostWeight              = 0.02
	manySamples             = 1000
	leastPeriod, mostPeriod = 0.7, 1.5
	shorterBy               = 4
)

// mostFactor returns the largest factor for the weights of a target that has so many samples of
// certain weights. Samples that are missing to manySamples will have short intervals, in the worst case.
func mostFactor(weights time.Duration, samples uint64, interval time.Duration) float64 {
	missing := float64(manySamples - min(samples, manySamples))
	total := float64(weights) + missing*leastPeriod/shorterBy*float64(interval)
	return max(mostWeight*total/(mostPeriod*float64(interval)), 1)
}

// windowChange is a change of the events.
type windowChange uint8

const (
	windowKept windowChange = iota
	windowOpened
	windowClosed
)

func newWindows(budget float64) windows {
	return windows{budget: budget, share: 1, most: 1, drawn: 1, factor: 1}
}

// pay takes in the price of sampling, and the largest factor of weights. It returns whether the share
// is not yet as the price asks.
func (w *windows) pay(p taker.Price, most float64) (unsettled bool) {
	w.most = most
	switch {
	case w.budget <= 0:
		return false
	case w.share < 1:
	case p.Lately <= w.budget, p.Little:
		w.over = 0
		return false
	default:
		if w.over++; w.over < overReadings {
			return false
		}
	}
	aim := headroom * w.budget
	if p.SoFar > w.budget {
		aim /= 2 // too much was spent before
	}
	asked := min(max((aim-min(p.Calls, aim/2))/p.Throughout, leastShare, 1/most), 1)
	w.share = min(max(asked, w.share/shareStep), w.share*shareStep)
	if w.share == 1 {
		w.over = 0
	}
	return w.share != asked
}

// turn says whether the events must be set on or off now.
func (w *windows) turn(now time.Time) windowChange {
	switch {
	case w.always() && w.share == 1, !w.always() && now.Before(w.next):
		return windowKept
	case w.off:
		return windowOpened
	}
	return windowClosed
}

// always says that there is no pause until the share changes.
func (w *windows) always() bool { return w.drawn == 1 && !w.off }

// end draws the pause after a window. The clock is the target's.
func (w *windows) end(now time.Time, clock time.Duration, samples tally) {
	pause := 0.
	if w.drawn < 1 {
		pause = float64(now.Sub(w.since)) * (1 - w.drawn) / w.drawn * (0.5 + rand.Float64())
	}
	w.off = true
	w.since, w.next = now, now.Add(max(time.Duration(pause)-w.late, 0))
	if samples.lost == w.began.lost {
		w.owed -= float64(samples.weights - w.began.weights)
	} else {
		w.owed -= w.factor * float64(clock-w.clock)
	}
	w.ended, w.began = clock, samples
}

// openWindow sets the factor of a window, and how long it lasts.
func (w *windows) openWindow(now time.Time, length, clock time.Duration) {
	if w.drawn < 1 {
		w.account(float64(clock - w.clock))
		w.late = now.Sub(w.next)
	} else {
		w.owed, w.cycle, w.late = 0, 0, 0
	}
	w.off = false
	w.since, w.next = now, now.Add(length)
	w.drawn, w.factor = w.share, 1/w.share
	if w.drawn < 1 && w.cycle > 0 {
		owed := w.owed - float64(clock-w.ended)/2
		w.factor = min(w.factor*min(max(1+repaid*owed/w.cycle, 1./mostRepaid), mostRepaid), max(w.factor, w.most))
	}
	w.clock = clock
}

// account takes in the CPU time from one window to the next.
func (w *windows) account(passed float64) {
	w.owed += passed
	if w.cycle == 0 {
		w.cycle = passed
	}
	w.cycle += cycleShare * (passed - w.cycle)
}

// patience is how long nothing changes.
func (w *windows) patience(now time.Time) time.Duration {
	if w.always() {
		return checkEvery
	}
	return w.next.Sub(now)
}

// followWindows sets the events on or off when it is time.
func (d *drainer) followWindows(ctx context.Context) {
	interval := d.threads.Interval()
	if price, fresh := d.Price(interval); fresh && d.windows.pay(price, mostFactor(d.Weights, d.Taken(), interval)) {
		d.PriceSoon()
	}
	switch d.windows.turn(time.Now()) {
	case windowOpened:
		d.openWindow(ctx)
	case windowClosed:
		d.closeWindow(ctx)
	}
}

func (d *drainer) closeWindow(ctx context.Context) {
	at, clock, _ := d.during(d.threads.stop)
	d.takeLast(ctx) // the last samples have this window's factor, and their verdicts
	d.threads.pause()
	d.Pause()
	d.windows.end(at, clock, tally{d.Weights, d.Lost.Load() + d.Throttled.Load() + d.Corrupt.Load() + d.threads.losses()})
}

// openWindow sets the events on. Records tell nothing of the pause: of threads that have begun,
// of code that was mapped, and of an exec, which is looked for before and after.
func (d *drainer) openWindow(ctx context.Context) {
	if d.Balance(); d.Replaced {
		return
	}
	at, clock, took := d.during(d.threads.resume)
	d.checked = beat.Of(time.Now(), checkEvery)
	d.lookOver(ctx)
	d.Resume()
	d.windows.openWindow(at, max(leastWindow, windowIntervals*d.threads.Interval(), windowOpenings*took), clock)
	d.Scale = d.windows.factor
	d.Cycle = max(d.Cycle, time.Duration(d.windows.cycle))
	d.MappedCode()
}

// during changes the events. It returns the middle of the change, the CPU time of the target
// then, and how long the change took.
func (d *drainer) during(change func()) (at time.Time, clock, took time.Duration) {
	began, before := time.Now(), d.Clock()
	change()
	took = time.Since(began)
	return began.Add(took / 2), (before + d.Clock()) / 2, took
}
