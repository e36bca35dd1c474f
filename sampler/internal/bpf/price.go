package bpf

import (
	"os"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
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

// meterEvery is the least time between two readings of the counters, which are system calls.
const meterEvery = 100 * time.Millisecond

// uses count the interrupts of all CPUs, those of idle CPUs, and the samples that they took.
type uses struct{ interrupts, idle, samples uint64 }

func (h *Host) used() uses {
	return uses{h.counted(interrupts), h.counted(idle), h.counted(taken)}
}

// meter notes the cost of the timers since they were started. An idle CPU has nothing to lose, so
// its interrupts cost no program anything, but they are part of what timers take of every CPU. The
// caller holds mu.
func (h *Host) meter() {
	now := time.Now()
	if now.Before(h.due) {
		return
	}
	h.due = now.Add(meterEvery)
	h.account(now, h.used())
}

// account takes in the counters, which are read one after the other.
func (h *Host) account(at time.Time, now uses) {
	elapsed := at.Sub(h.began) * time.Duration(len(h.clocks))
	if elapsed <= 0 || now.interrupts < h.before.interrupts {
		return // without timers, or after the end
	}
	passed := uses{now.interrupts - h.before.interrupts, now.idle - h.before.idle, now.samples - h.before.samples}
	others := passed.interrupts - min(passed.samples, passed.interrupts)
	spent := float64(passed.samples)*float64(h.costs.Sample) + float64(others)*float64(h.costs.Interrupt)
	h.share = spent / float64(elapsed)
	h.others = time.Duration(others-min(passed.idle, others)) * h.costs.Interrupt
}

// addTo enters the host's part of an overhead.
func (h *Host) addTo(o *sampler.Overhead) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.meter()
	o.Host, o.Interrupts, o.Least, o.Raised = h.share, h.others, h.floor, h.raised.Load()
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
