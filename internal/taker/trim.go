package taker

import "time"

// trim lets weights follow the target's CPU clock. The clock leaves out what a hypervisor and
// interrupts take, and timers do not. And a timer of a CPU finds a target by chance: of 1,500
// samples of a target that uses a third of the CPUs, the sum is off by 2 % as often as not.
//
// Once a second the weights of the next samples become larger or smaller, so that they would make up
// for the difference within trimOver of CPU time. What is drawn when a sample comes does not depend on
// what runs then, so all of the target's code is weighed alike. Time that samples were lost in is left out:
// a loss is shown, and not spread over what is left.
type trim struct {
	owed           time.Duration // CPU time that weights have not stood for
	clock, weights time.Duration // of the target and of its samples, when last looked
	lost           uint64        // then
}

const (
	// trimOver is longer than the noise that one weight has, and shorter than a session.
	trimOver = 2 * time.Second
	// A difference of more than this, as parts of trimOver, is not made up for.
	mostOwed, mostAhead = 0.1, 0.5
)

// scale returns what to multiply weights with from now on, most at most.
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

// Trim lets the weights of the samples to come follow the target's clock; they are multiplied with
// most at most. lost counts what the engine could not sample so far. Call it once a second, after
// the moments until then were taken.
func (t *Taker) Trim(most float64, lost uint64) {
	now, ok := t.ledger.Read()
	if !ok || t.Replaced || t.Process != nil { // the whole host has a clock of its own
		return
	}
	if l := t.ledger.Balance(now); l.ClockTick == 0 { // else the clock is a sample itself
		t.Scale = t.trim.scale(l.Clock, t.Weights, lost+t.Lost.Load()+t.Throttled.Load()+t.Corrupt.Load(), most)
	}
}
