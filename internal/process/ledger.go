package process

import (
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
	"golang.org/x/sys/unix"
)

// Ledger compares the weights of samples with the CPU time that the target has used
// by its own clock. One goroutine owns it.
type Ledger struct {
	// Seen is the weight of the samples so far.
	Seen time.Duration

	clock    func() (CPUTimes, error)
	userOnly bool          // samples leave out time in the kernel
	tick     time.Duration // see [ccmap.Loss]
	began    CPUTimes
	broken   bool // the clock could not be read at the beginning
}

// CPUTimes are readings of a process's clocks, which include threads that have
// ended.
type CPUTimes struct {
	All time.Duration // that the scheduler has counted
	// User and Kernel divide it as the kernel's ticks found it, unless the kernel
	// counts exactly (CONFIG_VIRT_CPU_ACCOUNTING_GEN; Linux 6.18).
	User, Kernel time.Duration
}

// OpenLedger begins to compare the weights of a process's samples.
func OpenLedger(pid int, userOnly bool) *Ledger {
	var tick time.Duration
	if userOnly {
		tick = kernelTick()
	}
	read := readAllTime
	if userOnly {
		read = ReadCPUTimes
	}
	l := NewLedger(func() (CPUTimes, error) { return read(pid) }, userOnly, tick)
	if l.broken {
		l = NewLedger(func() (CPUTimes, error) { return readStatTimes(pid) }, userOnly, statTick)
	}
	return l
}

// NewLedger begins to compare weights with a clock that advances by ticks. Without a
// clock it has nothing to compare with.
func NewLedger(clock func() (CPUTimes, error), userOnly bool, tick time.Duration) *Ledger {
	l := &Ledger{clock: clock, userOnly: userOnly, tick: tick}
	var err error
	l.began, err = clock()
	l.broken = err != nil
	return l
}

// Balance compares a reading with the samples, which must be taken up to then.
func (l *Ledger) Balance(now CPUTimes) ccmap.Loss {
	used := now.since(l.began, l.userOnly)
	return ccmap.Loss{Clock: used, ClockTick: l.tick, Unaccounted: used - l.Seen}
}

// Read reads the clock. It returns false without a clock or after the process's end.
func (l *Ledger) Read() (CPUTimes, bool) {
	if l.broken {
		return CPUTimes{}, false
	}
	now, err := l.clock()
	return now, err == nil && now.All >= l.began.All
}

// since returns the time between two readings. User time is the scheduler's time,
// which is exact, in the proportion that the ticks of this time give.
func (t CPUTimes) since(began CPUTimes, userOnly bool) time.Duration {
	all := t.All - began.All
	user, kernel := t.User-began.User, t.Kernel-began.Kernel
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

// ReadCPUTimes reads the clocks of a process. It needs no privilege (pid_for_clock,
// Linux 6.18), and works until the parent has waited for the process.
func ReadCPUTimes(pid int) (t CPUTimes, err error) {
	var both time.Duration
	for _, clock := range []struct {
		kind int32
		to   *time.Duration
	}{{clockScheduler, &t.All}, {clockUserAndKernel, &both}, {clockUser, &t.User}} {
		now, err := readClock(^int32(pid)<<3 | clock.kind)
		if err != nil {
			return t, err
		}
		*clock.to = now
	}
	t.Kernel = max(both-t.User, 0)
	return t, nil
}

// readAllTime is ReadCPUTimes without the parts of the time.
func readAllTime(pid int) (t CPUTimes, err error) {
	t.All, err = readClock(^int32(pid)<<3 | clockScheduler)
	return t, err
}

// readClock reads a clock, which never waits. It goes around the Go scheduler: announcing a
// call to it wakes the runtime's monitor thread (sysmon, Go 1.26).
func readClock(id int32) (time.Duration, error) {
	var now unix.Timespec
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		return 0, errno
	}
	return time.Duration(now.Nano()), nil
}

// statTick is the unit of times in /proc/PID/stat: USER_HZ is 100 on amd64.
const statTick = 10 * time.Millisecond

// readStatTimes reads /proc/PID/stat, where clocks are not permitted.
func readStatTimes(pid int) (CPUTimes, error) {
	stat, err := ReadStat(pid)
	if err != nil {
		return CPUTimes{}, err
	}
	return CPUTimes{
		All:    time.Duration(stat.user+stat.kernel) * statTick,
		User:   time.Duration(stat.user) * statTick,
		Kernel: time.Duration(stat.kernel) * statTick,
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
