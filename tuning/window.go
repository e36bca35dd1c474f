package tuning

import (
	"math"
	"sort"
	"time"
)

// window gathers evidence on repetitions. Evidence that is too little for a
// verdict stays in place for the next look, for up to maxLooks looks.
type window struct {
	from    time.Duration // when the last look was, or the first observation came
	to      time.Duration // when the last observation came
	samples int           // since the last look
	looks   int           // that left the evidence in place
	rate    rate
}

const (
	// minKnown is the fewest samples with a known verdict that say anything,
	// unless the window itself is smaller. At 100 the 99 % interval of a rate
	// is ± 13 points at worst, enough to tell most loops from most calls.
	minKnown = 100
	// plentyKnown is how many must leave a doubt before it is given up, however
	// short the window: to be sure of a rate under 1 % takes 660 without a
	// repetition.
	plentyKnown = 1000
	// maxLooks bounds the age of evidence: five minutes of a nearly idle target.
	maxLooks = 30
	// patience is the wall time after which a window is looked at although its
	// samples have not all come.
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

// cores returns the load of the target since the last look: 0 of an idle one.
func (w *window) cores(interval time.Duration) float64 {
	return part(time.Duration(w.samples)*interval, max(w.to-w.from, 1))
}

// restart drops all evidence.
func (w *window) restart() { *w = window{from: w.to, to: w.to} }

// judge ends the window and says what its evidence means. Evidence that leaves a
// doubt when there is enough of it, or it is old, lies on a threshold as near as
// can be told, and that is near enough.
func (w *window) judge(c Config) verdict {
	w.looks++
	old := w.looks >= maxLooks
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

// missing returns how many more known samples give a verdict, if the rate stays as
// it is: 0 if nothing is known, as it is in most programs.
func (w *window) missing(c Config) int {
	least, plenty := min(minKnown, c.Window), c.plenty()
	decided := func(more int) bool {
		switch w.rate.grown(least + more).judge(c) {
		case unknown, unsure:
			return false
		}
		return true
	}
	return max(least+sort.Search(plenty-least, decided)-w.rate.known, 0)
}

// verdict is what a rate means.
type verdict uint8

const (
	unknown verdict = iota // too few samples with a known verdict
	unsure                 // on the far side of a threshold, but chance would do
	inside                 // between the thresholds
	under                  // surely under Low
	over                   // surely over High
)

// rate is a number of repetitions out of a number of known samples.
type rate struct{ repeated, known int }

func (r rate) value() float64 { return float64(r.repeated) / float64(r.known) }

// grown returns a rate of the same value with so many known samples.
func (r rate) grown(known int) rate {
	if r.known == 0 {
		return rate{known: known}
	}
	return rate{repeated: int(math.Round(r.value() * float64(known))), known: known}
}

func (r rate) judge(c Config) verdict {
	if r.known < min(minKnown, c.Window) {
		return unknown
	}
	lo, hi := r.bounds()
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

// bounds returns the 99 % confidence interval of the rate (Wilson 1927), which
// holds for rates of 0 and 1 too. With nothing known it is 0 to 1.
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
