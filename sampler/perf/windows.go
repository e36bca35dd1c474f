package perf

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ccmapd/ccmapd/internal/taker"
)

// windows decides when the target is sampled. Events on threads cost every context switch the
// same, however long the interval is. So where sampling costs more than the budget, the events
// are on in windows only, and a sample stands for the time between windows, too.
//
//	within the budget   always on; factor 1
//	over it             on for a window, off for a random pause, and so on
//
// Each moment lies in a window with the same chance, the share, because pauses are random and
// as long on average as the share asks for. A sample weighs 1/share of its own time. On average
// that is right for each part of the target, however its load comes and goes.
//
// The sum is right on average only, so the factor of a window also makes up for a part of the
// difference from the target's CPU clock. The factor is set before the window begins: one that
// depended on the window's own CPU time would favour quiet windows. The difference is taken in
// the middle of the pause before. At the end of the pause it would be larger wherever the load
// has just begun, and bursts would weigh too much.
type windows struct {
	budget float64 // part of the target's CPU time; 0 or less: no limit
	share  float64 // of the time that is in windows; 1: always on
	factor float64 // of weights

	off   bool
	since time.Time     // when it was set on or off last
	next  time.Time     // when to change that; of use where share < 1
	late  time.Duration // how much the last pause was too long

	clock time.Duration // of the target, when the last window began
	ended time.Duration // of the target, when it ended
	cycle float64       // CPU time of the target from one window to the next, on average, ns
}

const (
	// headroom is the part of the budget that windows aim at.
	headroom = 0.8
	// leastShare bounds a pause, to some 200 windows.
	leastShare = 0.005
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
)

// windowChange is a change of the events.
type windowChange uint8

const (
	windowKept windowChange = iota
	windowOpened
	windowClosed
)

func newWindows(budget float64) windows { return windows{budget: budget, share: 1, factor: 1} }

// pay takes in the price of sampling. Without pauses so far, nothing changes within the budget.
func (w *windows) pay(p taker.Price, now time.Time) {
	if w.budget <= 0 || w.share == 1 && p.Lately <= w.budget {
		return
	}
	aim := headroom * w.budget
	if p.SoFar > w.budget {
		aim /= 2 // too much was spent before
	}
	before := w.share
	w.share = min(max((aim-p.Calls)/p.Throughout, leastShare), 1)
	if before == 1 && w.share < 1 {
		w.since, w.next, w.late = now, now, 0
		w.clock, w.cycle = 0, 0
		w.factor = 1 / w.share
	}
}

// turn says whether the events must be set on or off now.
func (w *windows) turn(now time.Time) windowChange {
	switch {
	case w.off && (w.share == 1 || !now.Before(w.next)):
		w.off = false
		w.late = now.Sub(w.next)
		return windowOpened
	case w.off || w.share == 1 || now.Before(w.next):
		return windowKept
	}
	w.off = true
	window := float64(now.Sub(w.since))
	pause := window * (1 - w.share) / w.share * (0.5 + rand.Float64())
	w.since, w.next = now, now.Add(max(time.Duration(pause)-w.late, 0))
	return windowClosed
}

// begin sets the factor of a window, and how long it lasts. The clock is the target's, and owed
// is the part of it that no sample stands for.
func (w *windows) begin(now time.Time, length, clock, owed time.Duration) {
	w.since, w.next = now, now.Add(length)
	switch passed := float64(clock - w.clock); {
	case w.clock == 0:
	case w.cycle == 0:
		w.cycle = passed
	default:
		w.cycle += cycleShare * (passed - w.cycle)
	}
	owed -= (clock - w.ended) / 2
	w.clock = clock
	w.factor = 1 / w.share
	if w.share < 1 && w.cycle > 0 {
		w.factor *= min(max(1+repaid*float64(owed)/w.cycle, 1./mostRepaid), mostRepaid)
	}
}

// patience is how long nothing changes.
func (w *windows) patience(now time.Time) time.Duration {
	if w.share == 1 && !w.off {
		return checkEvery
	}
	return w.next.Sub(now)
}

// followWindows sets the events on or off when it is time.
func (d *drainer) followWindows(ctx context.Context) {
	now := time.Now()
	if price, fresh := d.Price(d.threads.Interval()); fresh {
		d.windows.pay(price, now)
		d.Scale = d.windows.factor
	}
	switch d.windows.turn(now) {
	case windowOpened:
		d.openWindow(ctx)
	case windowClosed:
		d.threads.stop()
		d.drain(ctx) // the last samples have this window's factor, and their verdicts
		d.threads.pause()
		d.Pause()
		d.windows.ended, _ = d.Owed()
	}
}

// openWindow sets the events on. Records tell nothing of the pause: of threads that have begun,
// of code that was mapped, and of an exec.
func (d *drainer) openWindow(ctx context.Context) {
	d.checked = time.Now()
	d.lookOver(ctx)
	begin := time.Now()
	d.threads.resume()
	d.Resume()
	opening := time.Since(begin)
	length := max(leastWindow, windowIntervals*d.threads.Interval(), windowOpenings*opening)
	clock, owed := d.Owed()
	d.windows.begin(begin, length, clock, owed)
	d.Scale = d.windows.factor
	d.MappedCode()
	if d.Runtime.SameProgram() != nil {
		d.Replace()
	}
}
