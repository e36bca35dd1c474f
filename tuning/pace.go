package tuning

import (
	"cmp"
	"time"
)

// pace is how much longer the interval is than repetitions ask for, because the
// profile is settled and more samples of the same tell little.
//
// An interval is CPU time: an idle target loses nothing to a longer one, and a
// burst of work is sampled in proportion to its work. With maxSlow it still has
// a quarter of its samples at first. Once the load shows it, or what the samples
// find, the old interval is back.
type pace struct {
	base  time.Duration // the interval to return to; 0: the present one is not slowed
	calm  int           // looks in a row that found the profile settled
	wait  int           // looks to wait for; doubles whenever the pace was wrong
	cores float64       // load at the last look
}

const (
	// slowStep is the factor of one step. The next one waits for a look at what
	// the last has brought.
	slowStep = 2
	// maxSlow bounds all steps together: the default 100 Hz become 25.
	maxSlow = 4
)

// slow lengthens the interval by a step if the profile is settled. It is called
// at the end of a look that has left the interval as it is, with the load.
func (t *Tuner) slow(cores float64) (Decision, bool) {
	t.pace.cores = cores
	if t.config.Settle < 0 || t.drift || t.profile < t.config.Settle {
		t.pace.calm = 0
		return Decision{}, false
	}
	if t.pace.calm++; t.pace.calm <= t.pace.wait {
		return Decision{}, false
	}
	base := cmp.Or(t.pace.base, t.interval)
	got, limit := t.allowed(min(slowStep*t.interval, maxSlow*base))
	if float64(got) < minStep*float64(t.interval) {
		return Decision{}, false
	}
	t.pace.base = base
	reason := settledReason(t.profile, t.config.Settle) + t.change(got) + limit
	return Decision{got, reason}, true
}

// checkBurst ends the slower pace when the load has jumped up since the last
// look.
func (t *Tuner) checkBurst() (Decision, bool) {
	if t.load.cores < loadJump*t.pace.cores {
		return Decision{}, false
	}
	return t.hurry(loadReason(t.pace.cores, t.load.cores))
}

// hurry takes back all steps at once.
func (t *Tuner) hurry(reason string) (Decision, bool) {
	base := t.pace.base
	if base == 0 {
		return Decision{}, false
	}
	t.pace = pace{wait: max(1, 2*t.pace.wait)}
	t.search = search{}
	if t.debt.interval >= base {
		t.debt.interval = 0
	}
	got, limit := t.allowed(base)
	if got > base {
		t.debt.incur(base)
	}
	if got >= t.interval {
		return Decision{}, false
	}
	return Decision{got, reason + t.change(got) + limit}, true
}
