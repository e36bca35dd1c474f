package tuning

import "time"

// slowdown is the rule that lengthens the interval while the profile is settled,
// because more samples of the same tell little.
//
// An interval is CPU time: an idle target loses nothing to a longer one, and a burst
// of work is sampled in proportion to its work. With maxSlow the burst still gets a
// quarter of its samples at first. The slowdown ends when the load shows the burst, or
// when the samples show a drift.
type slowdown struct {
	want    time.Duration // 0: no slowdown
	settled float64       // of the profile, percent, at the last observation
	drift   bool          // of the program, at the last observation
	looks   int           // in a row that found the profile settled
	backOff int           // looks to wait for before a step; doubles when a slowdown was wrong
	cores   float64       // load at the last look
}

const (
	// slowStep is the factor of one step. The next step waits for a look at the samples
	// of the last one.
	slowStep = 2
	// maxSlow bounds all steps together: the default 100 Hz become 25.
	maxSlow = 4
)

func (s *slowdown) add(o Observation) { s.settled, s.drift = o.Settled, o.Drift }

// look lengthens the interval by a step if the profile is settled, and reports whether
// it did. Base is the interval without the slowdown.
func (s *slowdown) look(interval, base time.Duration, cores float64, c Config) bool {
	s.cores = cores
	if c.Settle < 0 || s.drift || s.settled < c.Settle {
		s.looks = 0
		return false
	}
	if s.looks++; s.looks <= s.backOff {
		return false
	}
	want := min(slowStep*interval, maxSlow*base)
	if got := c.clamp(round(want)); got <= interval || !worth(interval, got) {
		return false
	}
	s.want = want
	return true
}

// unsettled reports whether the profile is known not to be settled.
func (s *slowdown) unsettled(c Config) bool {
	return c.Settle >= 0 && !s.drift && 0 < s.settled && s.settled < c.Settle
}

// burst reports whether the load has jumped up since the last look.
func (s *slowdown) burst(cores float64) bool { return cores >= loadJump*s.cores }

// stop takes back all steps at once, and reports whether there were any.
func (s *slowdown) stop(base time.Duration) bool {
	if s.want <= base {
		return false
	}
	s.want, s.looks, s.backOff = 0, 0, max(1, 2*s.backOff)
	return true
}

// reason explains a step.
func (s *slowdown) reason(c Config) string {
	return settles + percent(s.settled/100) + " ≥ " + plainPercent(c.Settle/100)
}
