package perf

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"golang.org/x/sys/unix"
)

// ledger compares the weights of samples with the CPU time that the target has used
// by its own clock. The drainer's goroutine owns it.
type ledger struct {
	clock    func() (cpuTimes, error)
	userOnly bool          // samples leave out time in the kernel
	tick     time.Duration // see [ccmap.Loss]
	began    cpuTimes
	broken   bool          // the clock could not be read at the beginning
	seen     time.Duration // weights of the samples that the queue has taken
}

// cpuTimes are readings of a process's clocks, which include threads that have
// ended.
type cpuTimes struct {
	all time.Duration // that the scheduler has counted
	// user and kernel divide it as the kernel's ticks found it, unless the kernel
	// counts exactly (CONFIG_VIRT_CPU_ACCOUNTING_GEN; Linux 6.18).
	user, kernel time.Duration
}

// openLedger begins to compare. Without a clock it has nothing to compare with.
func openLedger(pid int, userOnly bool) *ledger {
	l := &ledger{clock: func() (cpuTimes, error) { return readCPUTimes(pid) }, userOnly: userOnly}
	var err error
	if l.began, err = l.clock(); err != nil {
		l.clock, l.tick = func() (cpuTimes, error) { return readStatTimes(pid) }, statTick
		l.began, err = l.clock()
	} else if userOnly {
		l.tick = kernelTick()
	}
	l.broken = err != nil
	return l
}

// balance compares a reading with the samples, which must be taken up to then.
func (l *ledger) balance(now cpuTimes) ccmap.Loss {
	used := now.since(l.began, l.userOnly)
	return ccmap.Loss{Clock: used, ClockTick: l.tick, Unaccounted: used - l.seen}
}

// read reads the clock. It returns false without a clock or after the process's end.
func (l *ledger) read() (cpuTimes, bool) {
	if l.broken {
		return cpuTimes{}, false
	}
	now, err := l.clock()
	return now, err == nil && now.all >= l.began.all
}

// since returns the time between two readings. User time is the scheduler's time,
// which is exact, in the proportion that the ticks of this time give.
func (t cpuTimes) since(began cpuTimes, userOnly bool) time.Duration {
	all := t.all - began.all
	user, kernel := t.user-began.user, t.kernel-began.kernel
	if !userOnly || user+kernel <= 0 {
		return all
	}
	return time.Duration(float64(all) * float64(user) / float64(user+kernel))
}

// Kinds of CPU clocks of processes (CPUCLOCK_… of linux/posix-timers_types.h).
const (
	clockUserAndKernel = 0
	clockUser          = 1
	clockScheduler     = 2
)

// readCPUTimes reads the clocks of a process. It needs no privilege (pid_for_clock,
// Linux 6.18), and works until the parent has waited for the process.
func readCPUTimes(pid int) (t cpuTimes, err error) {
	var both time.Duration
	for _, clock := range []struct {
		kind int32
		to   *time.Duration
	}{{clockScheduler, &t.all}, {clockUserAndKernel, &both}, {clockUser, &t.user}} {
		var now unix.Timespec
		if err := unix.ClockGettime(^int32(pid)<<3|clock.kind, &now); err != nil {
			return t, err
		}
		*clock.to = time.Duration(now.Nano())
	}
	t.kernel = max(both-t.user, 0)
	return t, nil
}

// statTick is the unit of times in /proc/PID/stat: USER_HZ is 100 on amd64.
const statTick = 10 * time.Millisecond

// readStatTimes reads /proc/PID/stat, where clocks are not permitted.
func readStatTimes(pid int) (cpuTimes, error) {
	stat, err := readStat(pid)
	if err != nil {
		return cpuTimes{}, err
	}
	return cpuTimes{
		all:    time.Duration(stat.user+stat.kernel) * statTick,
		user:   time.Duration(stat.user) * statTick,
		kernel: time.Duration(stat.kernel) * statTick,
	}, nil
}

// kernelTick returns the time between two ticks of the kernel, 1/CONFIG_HZ, by
// which coarse clocks advance.
func kernelTick() time.Duration {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return statTick
	}
	return time.Duration(tick.Nano())
}
