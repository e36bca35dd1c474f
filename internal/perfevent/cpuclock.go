package perfevent

import (
	"errors"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"golang.org/x/sys/unix"
)

// CPUClock is a timer of one CPU, for all threads that run there. Each time that it expires, a BPF
// program runs. It writes no records.
//
// Threads pay nothing for it when they are switched: it belongs to no thread. It expires
// on an idle CPU, too, but may run no program there.
//
// The kernel ends it when its CPU goes offline, and does not start it again (perf_event_exit_cpu):
// see [CPUClock.Runs].
type CPUClock struct {
	fd      int
	counted uint64 // when Runs was asked last, ns
}

// OpenCPUClock opens a timer that runs a BPF program of type perf_event.
func OpenCPUClock(cpu int, period time.Duration, program int) (*CPUClock, error) {
	attr := &unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Size:   attrSize,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample: uint64(period),
		Bits:   unix.PerfBitDisabled,
	}
	defer privilege.Raise().Lower()
	fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open timer of CPU %d: %w", cpu, err)
	}
	err = errors.Join(
		ioctl(fd, unix.PERF_EVENT_IOC_SET_BPF, uintptr(program)),
		ioctl(fd, unix.PERF_EVENT_IOC_ENABLE, 0),
	)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set program of timer of CPU %d: %w", cpu, err)
	}
	return &CPUClock{fd: fd}, nil
}

// SetPeriod changes the period. The kernel starts a new period at once and forgets the
// part of the old one that had passed.
func (c *CPUClock) SetPeriod(period time.Duration) error { return setPeriod(c.fd, period) }

// Runs reports whether the timer has counted time since it was asked last.
func (c *CPUClock) Runs() bool {
	count, _, err := readCount(c.fd)
	before := c.counted
	c.counted = count
	return err == nil && count > before
}

// Close ends the timer.
func (c *CPUClock) Close() { closeEvent(c.fd) }
