// Package budget divides a budget, and what was spent of it, among many users of one process. A
// [Meter] tells the tuner of each session its share of the process's CPU time: of all the time,
// each would hear of the work for the others.
//
// Values belong to one goroutine unless they say otherwise.
package budget

import (
	"math"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// Level returns the bound that makes costs fit into a budget if each is cut to it. It is
// infinite if they fit as they are.
func Level(costs []float64, budget float64) float64 {
	sorted := slices.Sorted(slices.Values(costs))
	for i, c := range sorted {
		each := budget / float64(len(sorted)-i)
		if c > each {
			return each
		}
		budget -= c
	}
	return math.Inf(1)
}

// Share is the CPU time of this process that one session has cost. One goroutine charges, the
// manager's goroutine reads.
type Share struct {
	charged atomic.Int64 // ns, as the session's tuner hears of it
	samples uint64       // that were charged for
}

// OneCore is the budget that tuners are told: a charge is in proportion to the session's own bound.
const OneCore = 1.0

// CPU returns what the session was charged.
func (s *Share) CPU() time.Duration { return time.Duration(s.charged.Load()) }

// Meter divides the CPU time of this process among its sessions.
type Meter struct {
	used time.Duration // of this process, at the last charge
	at   time.Time     // of the last charge
}

// Charge divides the CPU time since the last charge by samples. A session whose cost is over the
// level that makes all costs fit into the budget, cores, is charged so much that its tuner
// lengthens the interval.
func (c *Meter) Charge(now time.Time, used time.Duration, budget float64, shares []*Share, samples []uint64) {
	since, spent := now.Sub(c.at), max(used-c.used, 0)
	first := c.at.IsZero()
	c.at, c.used = now, used
	total := uint64(0)
	for i, s := range shares {
		total += samples[i] - s.samples
	}
	if !first && since > 0 && total > 0 {
		costs := make([]float64, len(shares)) // cores
		for i, s := range shares {
			costs[i] = float64(spent) / float64(since) * float64(samples[i]-s.samples) / float64(total)
		}
		bound := min(Level(costs, budget), budget)
		for i, s := range shares {
			s.charged.Add(int64(costs[i] / bound * OneCore * float64(since)))
		}
	}
	for i, s := range shares {
		s.samples = samples[i]
	}
}

// ProcessCPU returns the CPU time that this process has used. Getrusage of the process itself does
// not fail (getrusage(2)).
func ProcessCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
