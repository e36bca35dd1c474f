package daemon

import (
	"math"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// level returns the bound that makes costs fit into a budget if each is cut to it. It is
// infinite if they fit as they are.
func level(costs []float64, budget float64) float64 {
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

// share is the CPU time of the daemon that one session has cost. The goroutine of Run charges, the
// manager's goroutine reads.
type share struct {
	charged atomic.Int64 // ns, as the session's tuner hears of it
	samples uint64       // that were charged for
}

// oneCore is the budget that tuners are told: a charge is in proportion to the session's own bound.
const oneCore = 1.0

func (s *share) cpu() time.Duration { return time.Duration(s.charged.Load()) }

// cpuMeter divides the CPU time of the daemon among the sessions.
type cpuMeter struct {
	used time.Duration // of this process, at the last charge
	at   time.Time     // of the last charge
}

// charge divides the CPU time since the last charge by samples. A session whose cost is over the
// level that makes all costs fit into the budget, cores, is charged so much that its tuner
// lengthens the interval.
func (c *cpuMeter) charge(now time.Time, used time.Duration, budget float64, shares []*share, samples []uint64) {
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
		bound := min(level(costs, budget), budget)
		for i, s := range shares {
			s.charged.Add(int64(costs[i] / bound * oneCore * float64(since)))
		}
	}
	for i, s := range shares {
		s.samples = samples[i]
	}
}

// Spent tells the daemon of CPU time of this process that was not for sampling: no interval grows
// for it.
func (d *Daemon) Spent(cpu time.Duration) { d.elsewhere.Add(int64(cpu)) }

// processCPU returns the CPU time that this process has used. Getrusage of the process itself does
// not fail (getrusage(2)).
func processCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const (
	// mapsShare is the part of the budget of memory that maps may take. Symbols, snapshots that
	// readers hold, and the collector's room take the rest.
	mapsShare = 0.5
	// heapShare is the part of the budget of memory at which the collector works harder.
	heapShare = 0.9
	// leastMap is the least bound of a map: some hundred contexts.
	leastMap = 64 << 10
)

// limitHeap tells the collector the budget of memory.
func limitHeap(budget int64) {
	limit := int64(math.MaxInt64)
	if budget > 0 {
		limit = int64(heapShare * float64(budget))
	}
	debug.SetMemoryLimit(limit)
}

// keepBudgets charges the sessions, and bounds the maps. It runs once a second.
func (d *Daemon) keepBudgets(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var shares []*share
	var samples []uint64
	for s := range d.sessions() {
		shares, samples = append(shares, &s.share), append(samples, s.manager.Status().Samples)
	}
	d.meter.charge(now, d.usedCPU()-time.Duration(d.elsewhere.Load()), d.config.Budget.CPU, shares, samples)
	d.boundMaps()
}

// boundMaps prunes the largest maps if all together exceed the budget. The caller holds mu.
func (d *Daemon) boundMaps() {
	var slots []*slot
	var sizes []float64
	for s := range d.slots() {
		slots, sizes = append(slots, s), append(sizes, float64(s.bytes()))
	}
	bound := math.Inf(1)
	if d.config.Budget.Memory > 0 {
		bound = level(sizes, mapsShare*float64(d.config.Budget.Memory))
	}
	for i, s := range slots {
		most := s.target.MaxMemory
		if sizes[i] > bound || most == 0 && !math.IsInf(bound, 1) {
			most = max(int64(bound), leastMap)
		}
		s.setMaxBytes(most)
	}
}
