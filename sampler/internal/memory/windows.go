package memory

import "math"

// windows are the times in which calls were counted. Their sum tells the calls of all the time by what a window is worth:
// its switches, or its length. How much the windows differ from that tells how far to trust it (the variance of a ratio
// estimate): requests come in bursts, so their number alone does not.
type windows struct {
	n                          int
	seen                       float64 // calls counted so far
	calls, worth               float64
	callsSquared, worthSquared float64
	product                    float64
}

// add adds a window, given the calls that were counted so far.
func (w *windows) add(seen, worth float64) {
	calls := seen - w.seen
	w.seen = seen
	w.n++
	w.calls, w.worth = w.calls+calls, w.worth+worth
	w.callsSquared, w.worthSquared, w.product = w.callsSquared+calls*calls, w.worthSquared+worth*worth, w.product+calls*worth
}

// restart forgets the windows so far, but not which calls they had.
func (w *windows) restart() { *w = windows{seen: w.seen} }

// independent returns how many calls that come independently of each other would tell as much; 0: not known. The windows
// are a part of all the time, which need not be estimated. Few windows do not tell well how much they differ: the factor is
// about that of Student's distribution, squared.
func (w *windows) independent(part float64) int64 {
	if w.n < 2 || w.calls == 0 || w.worth == 0 || part >= 1 {
		return 0
	}
	each := w.calls / w.worth
	squares := max(w.callsSquared-2*each*w.product+each*each*w.worthSquared, 0)
	n := float64(w.n)
	variance := squares / (w.calls * w.calls) * n / (n - 1) * (1 + 4/(n-1)) * (1 - part)
	return int64(max(min(1/variance, w.calls, math.MaxInt32), 1))
}
