package taker

import "time"

// trim lets weights follow the target's CPU clock. The clock leaves out what a hypervisor and
// interrupts take; timers count that time. A timer of a CPU also finds a target by chance: with 1,500
// samples of a target that uses a third of two CPUs, the standard deviation of the sum is 2 %.
//
// Once a second the weights of the next samples become larger or smaller, so that they would make up
// for the difference within trimOver of CPU time. The factor is known before a sample comes, so it weighs
// all of the target's code alike. A second in which samples were lost is left out: the profile shows the
// loss, and no other sample stands for it.
type trim struct {
	owed           time.Duration // CPU time of the target that samples still have to stand for; less than 0: too much
	clock, weights time.Duration // of the target and of its samples, when last looked
	lost           uint64        // then
}

const (
	// trimOver is longer than the noise that one weight has, and shorter than a session.
	trimOver = 2 * time.Second
	// A difference of more than this, as parts of trimOver, is not made up for.
	mostOwed, mostAhead = 0.1, 0.5
)

// scale returns the factor for the weights of the samples to come. It is at most most.
func (t *trim) scale(clock, weights time.Duration, lost uint64, most float64) float64 {
	passed := clock - t.clock
	if lost == t.lost {
		t.owed += passed - (weights - t.weights)
	}
	t.clock, t.weights, t.lost = clock, weights, lost
	over := float64(max(trimOver, 2*passed))
	part := min(max(float64(t.owed)/over, -mostAhead), mostOwed)
	t.owed = time.Duration(part * over)
	return min(1+part, most)
}

// Trim sets the factor for the weights of the samples to come, at most most, so that their sum follows
// the target's clock. lost is how many samples the engine has not made so far. The goroutine that takes moments
// calls it once a second, when it has taken those until then.
func (t *Taker) Trim(most float64, lost uint64) {
	now, ok := t.ledger.Read()
	if !ok || t.Replaced || t.Process != nil { // the whole host has a clock of its own
		return
	}
	if l := t.ledger.Balance(now); l.ClockTick == 0 { // else the clock is a sample itself
		t.Scale = t.trim.scale(l.Clock, t.Weights, lost+t.Lost.Load()+t.Throttled.Load()+t.Corrupt.Load(), most)
	}
}
