package tuning

import (
	"fmt"
	"math"
	"sort"
	"time"
)

// repetitions is the paper's rule. It wants the interval where the rate of repetitions
// lies between the thresholds.
//
// The rule judges the rate at the interval in force, which may be longer than its own
// want. A rate over High at that interval asks for a longer one. A rate under Low does
// not ask for a shorter one: the rule wants a shorter one already.
type repetitions struct {
	want   time.Duration
	window window
	search search // since the rule last woke
	drift  bool   // of the program, at the last observation

	begun    bool    // there was a verdict, or a step without one
	resting  bool    // looks less often
	stretch  int     // length of the present window in configured windows, 1 to maxStretch
	restRate rate    // the rate when the rule came to rest,
	restLoad float64 // and the target's load then, in cores; 0: not metered since
}

// maxStretch is the longest window in configured windows. It bounds the time until a
// resting rule notices that the program has changed.
const maxStretch = 8

func newRepetitions(c Config) repetitions { return repetitions{want: c.Initial, stretch: 1} }

// add takes in an observation. A drift makes earlier intervals of the search
// worthless.
func (r *repetitions) add(o Observation) {
	r.window.add(o)
	if o.Drift && !r.drift {
		r.search = search{}
	}
	r.drift = o.Drift
}

// full reports whether it is time to look.
func (r *repetitions) full(c Config) bool { return r.window.full(c.Window, r.stretch) }

func (r *repetitions) progress(c Config) (known, needed int) {
	if r.resting {
		return 0, 0
	}
	return r.window.progress(c)
}

// restart starts new evidence after a change of the interval.
func (r *repetitions) restart() {
	r.window.restart()
	r.resting, r.stretch = false, 1
}

// lookOutcome is the result of a look at a window.
type lookOutcome uint8

const (
	kept  lookOutcome = iota // the want stays
	moved                    // the rule wants another interval
	woken                    // the rate is new; the rule gathers evidence first
)

// lookResult explains the result of a look.
type lookResult struct {
	outcome lookOutcome
	want    time.Duration // before the clamps
	rate    rate
	verdict verdict
}

// look judges a full window at an interval. A resting rule that meets a new rate wakes
// first, to gather evidence that is not mixed with older samples.
func (r *repetitions) look(interval time.Duration, c Config) lookResult {
	s := lookResult{rate: r.window.rate}
	s.verdict = r.window.judge(c)
	r.begun = r.begun || s.verdict != unknown
	switch {
	case s.verdict == unknown:
	case s.verdict == inside, s.verdict == under && interval > r.want:
		r.rest(s)
	case r.resting && s.rate.differs(r.restRate):
		r.wake()
		s.outcome = woken
	default:
		r.move(interval, c, &s)
	}
	return s
}

// move wants another interval because the rate is outside the thresholds. If no better
// interval can be had, the rule rests.
func (r *repetitions) move(interval time.Duration, c Config, s *lookResult) {
	s.want = r.search.next(interval, s.rate, s.verdict, c.middle())
	got := c.clamp(round(s.want))
	if !worth(interval, got) || r.search.exhausted() {
		r.rest(*s)
		return
	}
	r.search.made()
	r.want = got
	s.outcome = moved
}

// shortenEarly shortens the interval once, before there are enough verdicts: by the step that a
// rate of 0 would give. So far no more repetitions than under Low were seen. It reports
// whether it did.
func (r *repetitions) shortenEarly(interval time.Duration, c Config) bool {
	if seen := r.window.rate; r.begun || seen.known > 0 && seen.value() >= c.Low {
		return false
	}
	r.begun = true
	want := c.clamp(round(interval / blindFactor))
	if want >= r.want || !worth(interval, want) {
		return false
	}
	r.want = want
	return true
}

// shortenEarlyReason says why shortenEarly does.
func (r *repetitions) shortenEarlyReason(settled float64, c Config) string {
	known, needed := r.window.progress(c)
	return fmt.Sprintf("settled to %s < %s, and %d of %d verdicts so far", percent(settled/100), plainPercent(c.Settle/100), known, needed)
}

// rest makes the rule look half as often as before.
func (r *repetitions) rest(s lookResult) {
	if !r.resting {
		r.restLoad = 0
	}
	r.resting, r.restRate = true, s.rate
	r.stretch = min(2*r.stretch, maxStretch)
	if s.verdict == inside {
		r.search = search{}
	}
}

// wake makes a resting rule look at every window again, with new evidence.
func (r *repetitions) wake() {
	r.restart()
	r.search = search{}
}

// checkLoad wakes a resting rule when the target's load has jumped.
func (r *repetitions) checkLoad(cores float64) {
	switch {
	case !r.resting:
	case r.restLoad == 0:
		r.restLoad = cores
	case cores > loadJump*r.restLoad || cores < r.restLoad/loadJump:
		r.wake()
	}
}

// reason explains a move.
func (s lookResult) reason(c Config) string {
	sign, threshold := ">", c.High
	if s.verdict == under {
		sign, threshold = "<", c.Low
	}
	return fmt.Sprintf("repetitions %s of %d known %s %s", percent(s.rate.value()), s.rate.known, sign, plainPercent(threshold))
}

// window gathers evidence on repetitions. Evidence that is too little for a verdict
// stays for the next look, for maxLooks looks and five minutes.
type window struct {
	began   time.Duration // with no evidence
	from    time.Duration // of the last look or the first observation
	to      time.Duration // of the last observation
	samples int           // since the last look
	looks   int           // that left the evidence in place
	rate    rate
}

const (
	// minKnown is the least number of known samples that say anything, unless the
	// window itself is smaller. At 100 the 99 % interval of a rate is ± 13 points at
	// worst, enough to tell most loops from most calls.
	minKnown = 100
	// certainlyOver is the least number of known samples of which a rate over High may be told: where a busy
	// machine leaves few verdicts, a method that runs for seconds shows in all of them. A wrong step of the
	// interval for 20 samples is mended by the next look.
	certainlyOver = 20
	// plentyKnown is the number of known samples after which a doubt is given up, even
	// in a short window. A rate under 1 % is certain after 660 samples without a
	// repetition.
	plentyKnown = 1000
	// Evidence is old after maxLooks looks and maxAge of wall time: five minutes of a
	// nearly idle target. An engine that judges few samples needs the time.
	maxLooks = 30
	maxAge   = maxLooks * patience
	// patience is the wall time after which the rule looks at a window that is not
	// full.
	patience = 10 * time.Second
)

func (w *window) add(o Observation) {
	w.to = max(w.to, o.At)
	w.samples += o.Samples
	w.rate.known += o.Known
	w.rate.repeated += o.Repeated
}

// full reports whether it is time to look, with windows stretched by a factor.
func (w *window) full(samples, stretch int) bool {
	return w.samples/stretch >= samples || (w.to-w.from)/time.Duration(stretch) >= patience
}

// cores returns the load of the target since the last look: 0 for an idle target.
func (w *window) cores(interval time.Duration) float64 {
	return part(time.Duration(w.samples)*interval, max(w.to-w.from, 1))
}

// restart drops all evidence.
func (w *window) restart() { *w = window{began: w.to, from: w.to, to: w.to} }

// judge ends the window and returns the verdict. If much or old evidence still leaves
// a doubt, the rate lies close to a threshold, and counts as inside.
func (w *window) judge(c Config) verdict {
	w.looks++
	old := w.looks >= maxLooks && w.to-w.began >= maxAge
	v := w.rate.judge(c)
	if v == unsure {
		v = unknown
		if old || w.rate.known >= c.plenty() {
			v = inside
		}
	}
	if v == unknown && !old {
		w.from, w.samples = w.to, 0
	} else {
		w.restart()
	}
	return v
}

// progress returns how many known samples there are, and how many give a verdict if the
// rate stays the same. Without known samples it assumes a rate of 0, the rate of most
// programs.
func (w *window) progress(c Config) (known, needed int) {
	least, plenty := min(certainlyOver, c.Window), c.plenty()
	decided := func(more int) bool {
		switch w.rate.grown(least + more).judge(c) {
		case unknown, unsure:
			return false
		}
		return true
	}
	return w.rate.known, max(least+sort.Search(plenty-least, decided), w.rate.known)
}

// verdict judges a rate.
type verdict uint8

const (
	unknown verdict = iota // too few known samples
	unsure                 // outside a threshold, but chance may explain it
	inside                 // between the thresholds
	under                  // certainly under Low
	over                   // certainly over High
)

// rate is a number of repetitions and of known samples.
type rate struct{ repeated, known int }

func (r rate) value() float64 { return float64(r.repeated) / float64(r.known) }

// grown returns a rate of the same value with another number of known samples.
func (r rate) grown(known int) rate {
	if r.known == 0 {
		return rate{known: known}
	}
	return rate{repeated: int(math.Round(r.value() * float64(known))), known: known}
}

func (r rate) judge(c Config) verdict {
	lo, hi := r.bounds()
	if r.known < min(minKnown, c.Window) {
		if r.known >= certainlyOver && lo > c.High {
			return over
		}
		return unknown
	}
	switch v := r.value(); {
	case hi < c.Low:
		return under
	case lo > c.High:
		return over
	case v < c.Low || v > c.High:
		return unsure
	}
	return inside
}

// bounds returns the 99 % confidence interval of the rate (Wilson 1927). It holds for
// rates of 0 and 1, too. Without known samples it is 0 to 1.
func (r rate) bounds() (lo, hi float64) {
	if r.known == 0 {
		return 0, 1
	}
	const z = 2.576
	n, p := float64(r.known), r.value()
	center := p + z*z/(2*n)
	spread := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	scale := 1 + z*z/n
	return max(0, (center-spread)/scale), min(1, (center+spread)/scale)
}

// differs reports whether chance rarely explains the difference of two rates.
func (r rate) differs(o rate) bool {
	lo, hi := r.bounds()
	olo, ohi := o.bounds()
	return hi < olo || ohi < lo
}
