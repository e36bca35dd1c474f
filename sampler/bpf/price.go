package bpf

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
)

// priced has the costs of sampling on this machine, which the first host measures.
var priced struct {
	once  sync.Once
	costs perfevent.Costs
	err   error
}

// price returns the costs of interrupts that run the program, and of watchpoints. The error
// says why they are not measured. Nothing may be sampled yet.
func (h *Host) price() (perfevent.Costs, error) {
	priced.once.Do(func() {
		priced.costs, priced.err = perfevent.CPUCosts(h.program.Sample.FD(), h.aimAtSelf)
		h.drain() // the records are of no source
	})
	return priced.costs, priced.err
}

// aimAtSelf makes this process a target, without a source, until end is called.
func (h *Host) aimAtSelf() (end func(), err error) {
	pid := os.Getpid()
	stat, err := process.ReadStat(pid)
	if err != nil {
		return nil, err
	}
	self := programTarget{Started: stat.Started, MaxStack: firstStack, Drain: ringBytes}
	if err := raised(func() error { return h.program.Targets.Put(uint32(pid), &self) }); err != nil {
		return nil, err
	}
	return func() { h.dropProcess(uint32(pid)) }, nil
}

const (
	// chargeEvery is the least time between two charges, and chargeAtLeast the most.
	chargeEvery   = 20 * time.Millisecond
	chargeAtLeast = time.Second
	// chargeRest bounds the cost of charging many sources at one part in so many of the time.
	chargeRest = 500
)

// charge counts the interrupts since the last charge that took no sample, and charges them
// to the sources. An idle CPU loses nothing, so its interrupts are free. The caller holds
// mu.
func (h *Host) charge() {
	at := time.Now()
	if at.Before(h.due) {
		return
	}
	h.chargeAll()
	h.due = at.Add(min(max(chargeEvery, chargeRest*time.Since(at)), chargeAtLeast))
}

func (h *Host) chargeAll() {
	used := h.used()
	h.meter(used)
	now := used.interrupts - h.counted(idle) - used.samples
	fresh := now - h.charged
	if int64(fresh) <= 0 {
		return // it reads one counter after the other
	}
	h.charged = now
	var sources []*seat
	for s := range h.seats() {
		if !s.left {
			sources = append(sources, s)
		}
	}
	sortByInterval(sources)
	for i, share := range shares(sources) {
		s := sources[i]
		s.owes += float64(fresh) * share
		s.interrupts.Store(uint64(s.owes))
	}
}

// sortByInterval sorts sources, the longest interval first.
func sortByInterval(sources []*seat) {
	slices.SortFunc(sources, func(a, b *seat) int { return cmp.Compare(b.interval, a.interval) })
}

// shares divides the interrupts that took no sample among the sources, the longest interval
// first. The rate of the first is divided among all, the step to the rate of the second
// among all but the first, and so on: a target pays for the rate that it wants, and less
// where others want it, too.
func shares(sources []*seat) []float64 {
	all := make([]float64, len(sources))
	sum, before := 0.0, 0.0
	for i, s := range sources {
		rate := 1 / float64(s.interval)
		sum += (rate - before) / float64(len(sources)-i)
		all[i], before = sum, rate
	}
	for i := range all {
		all[i] /= before
	}
	return all
}

// uses count the interrupts of all CPUs, and the samples that they took.
type uses struct{ interrupts, samples uint64 }

func (h *Host) used() uses { return uses{h.counted(interrupts), h.counted(taken)} }

// meter notes the part of every CPU that the timers take. The interrupts of idle CPUs are
// in it. The caller holds mu.
func (h *Host) meter(now uses) {
	elapsed := time.Since(h.began) * time.Duration(len(h.clocks))
	if elapsed <= 0 || now.interrupts < h.before.interrupts {
		return // without timers, or after the end
	}
	samples := now.samples - h.before.samples
	others := now.interrupts - h.before.interrupts - min(samples, now.interrupts-h.before.interrupts)
	spent := float64(samples)*float64(h.costs.Sample) + float64(others)*float64(h.costs.Interrupt)
	h.share = spent / float64(elapsed)
}

// shortestWithin returns the shortest interval whose interrupts take no more than a part of a
// core of each CPU, if each takes a sample. Without a part above 0 there is no limit.
func shortestWithin(part float64, cost time.Duration) time.Duration {
	if !(part > 0) {
		return 0
	}
	return time.Duration(min(float64(cost)/part, float64(longestInterval)))
}

// clamp returns the interval that a source gets when it asks for one.
func (h *Host) clamp(interval time.Duration) time.Duration {
	interval = min(max(interval, shortest()), longestInterval)
	if interval >= h.floor {
		return interval
	}
	if h.raised.Add(1) == 1 {
		h.log.Warn("the interval is longer than asked for: interrupts of all CPUs would exceed --max-host-overhead",
			"asked", interval, "interval", h.floor, "interrupt", h.costs.Sample)
	}
	return h.floor
}

// shortest returns the shortest interval that a user may ask for.
func shortest() time.Duration {
	if os.Geteuid() == 0 {
		return perfevent.ShortestInterval()
	}
	return max(leastPeriod, perfevent.ShortestInterval())
}
