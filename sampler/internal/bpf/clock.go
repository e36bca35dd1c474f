package bpf

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"golang.org/x/sys/unix"
)

const (
	// Another period is drawn after redrawEvery, up to twice that, and after redrawPeriods at least: sampling must not
	// run in lockstep with periodic work. A period that happens to do so is then few of a profile's samples.
	redrawEvery   = 100 * time.Millisecond
	redrawPeriods = 8
	// followEvery is the time between two looks for CPUs that have come or gone.
	followEvery = 500 * time.Millisecond
)

// clock is the timer of a CPU. It expires one period after began, another one later, and
// so on: an interrupt that comes late moves no other one (hrtimer_forward, Linux 6.18).
type clock struct {
	timer
	period time.Duration
	began  time.Duration // CLOCK_MONOTONIC, when the first period began
	broken time.Duration // time before then that the first interrupt stands for, too
}

// timer is the part of a clock that the kernel has. It ends when its CPU goes offline, and
// does not begin again with it.
type timer interface {
	SetPeriod(time.Duration) error
	Runs() bool // since the last call
	Close()
}

// beginPeriod describes a period that begins now. The timer forgets how much of its last period
// had passed, so the first interrupt stands for that, too.
func (c *clock) beginPeriod(now, period time.Duration) programClock {
	switch passed := now - c.began; {
	case c.period == 0:
	case passed < c.period:
		c.broken += passed
	default:
		c.broken = passed % c.period
	}
	c.began, c.period = now, period
	return programClock{Period: uint64(period), Broken: uint64(c.broken), Until: uint64(now + period + period/2)}
}

// setPeriods draws a period for each CPU that is online, opens the timers that are missing,
// and closes timers of CPUs that have gone. The caller holds mu.
func (h *Host) setPeriods() error {
	cpus, err := h.online()
	if err != nil {
		return err
	}
	h.cpus = cpus
	if len(h.clocks) == 0 {
		h.began, h.before = time.Now(), h.used()
	}
	every := max(redrawEvery, redrawPeriods*h.period)
	h.redraw = time.Now().Add(every + rand.N(every))
	h.follows = time.Now().Add(followEvery)
	h.closeClocksIf(func(cpu int, _ *clock) bool { return !slices.Contains(cpus, cpu) })
	var all error
	for _, cpu := range cpus {
		if err := h.setPeriod(cpu, perfevent.Drawn(h.period)); err != nil && !errors.Is(err, unix.ENODEV) { // ENODEV: it went offline just now
			all = errors.Join(all, err)
		}
	}
	return all
}

// sampledCPUs returns the CPUs that were online when periods were drawn last.
func (h *Host) sampledCPUs() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cpus
}

// setPeriod begins another period of a CPU's timer, or opens it.
func (h *Host) setPeriod(cpu int, period time.Duration) error {
	c := h.clocks[cpu]
	if c == nil {
		c = new(clock)
	}
	entry := c.beginPeriod(time.Duration(perfevent.Monotonic()), period)
	if err := raised(func() error { return h.program.Clocks.Put(uint32(cpu), &entry) }); err != nil {
		return fmt.Errorf("describe timer of CPU %d: %w", cpu, err)
	}
	if c.timer != nil {
		return c.SetPeriod(period)
	}
	timer, err := perfevent.OpenCPUClock(cpu, period, h.program.Sample.FD())
	if err != nil {
		return err
	}
	c.timer, h.clocks[cpu] = timer, c
	return nil
}

func (h *Host) closeClocks() {
	h.closeClocksIf(func(int, *clock) bool { return true })
	h.period = 0
}

func (h *Host) closeClocksIf(ends func(cpu int, c *clock) bool) {
	for cpu, c := range h.clocks {
		if ends(cpu, c) {
			c.Close()
			delete(h.clocks, cpu)
		}
	}
}

// cpusChanged looks, when it is time, whether CPUs have come or gone.
func (h *Host) cpusChanged(now time.Time) bool {
	if now.Before(h.follows) {
		return false
	}
	h.follows = now.Add(followEvery)
	cpus, err := h.online()
	return err == nil && !slices.Equal(cpus, h.cpus)
}

// keepTime draws other periods when it is time, and when CPUs have come or gone.
func (h *Host) keepTime(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.period == 0 || now.Before(h.redraw) && !h.cpusChanged(now) {
		return
	}
	h.closeClocksIf(func(_ int, c *clock) bool { return !c.Runs() })
	if err := h.setPeriods(); err != nil {
		h.log.Debug("change period of CPUs", "error", err)
	}
}
