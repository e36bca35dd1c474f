package perf

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// Numbers that golang.org/x/sys/unix does not have, from linux/perf_event.h,
// linux/hw_breakpoint.h and arch/x86/include/uapi/asm/perf_regs.h (Linux 6.18).
const (
	regBX, regBP, regSP, regIP             = 1, 6, 7, 8
	regR10, regR12, regR13, regR14, regR15 = 18, 20, 21, 22, 23

	breakpointWrite   = 2 // HW_BREAKPOINT_W
	breakpointExecute = 4 // HW_BREAKPOINT_X
	breakpointBytes   = 8 // HW_BREAKPOINT_LEN_8; for execution it must be sizeof(long)
)

const sampleFields = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
	unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_READ | unix.PERF_SAMPLE_CALLCHAIN |
	unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER

const hitFields = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
	unix.PERF_SAMPLE_CALLCHAIN | unix.PERF_SAMPLE_REGS_USER

const attrSize = uint32(unsafe.Sizeof(unix.PerfEventAttr{}))

// sampleRegisters are those that a sample carries, as a mask: what Go and the
// runtime keep in registers, and those that C functions leave to their callers.
const sampleRegisters = 1<<regBX | 1<<regBP | 1<<regSP | 1<<regIP |
	1<<regR10 | 1<<regR12 | 1<<regR13 | 1<<regR14 | 1<<regR15

// samplingAttr describes the event that samples one thread on one CPU.
//
// The period is a number of nanoseconds and never a frequency: the kernel turns
// a frequency into a period when it opens the event, and a later
// PERF_EVENT_IOC_PERIOD takes nanoseconds all the same (Linux 6.18).
func samplingAttr(period time.Duration, dump uint32, userOnly bool) *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type:              unix.PERF_TYPE_SOFTWARE,
		Size:              attrSize,
		Config:            unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample:            uint64(period),
		Sample_type:       sampleFields,
		Read_format:       unix.PERF_FORMAT_LOST,
		Sample_regs_user:  sampleRegisters,
		Sample_stack_user: dump,
		Clockid:           unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitExcludeHv | unix.PerfBitExcludeCallchainKernel | unix.PerfBitSampleIDAll |
			unix.PerfBitUseClockID | unix.PerfBitTask | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitMmap,
	}
	if userOnly {
		a.Bits |= unix.PerfBitExcludeKernel
	}
	return a
}

// ownerAttr describes the event that owns a ring. It counts nothing. Once so
// many bytes have been written, the drainer is woken.
func ownerAttr(watermark uint32) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_SOFTWARE,
		Size:    attrSize,
		Config:  unix.PERF_COUNT_SW_DUMMY,
		Wakeup:  watermark,
		Clockid: unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitDisabled | unix.PerfBitWatermark | unix.PerfBitUseClockID |
			unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
}

// watchAttr describes a watchpoint for writes to the 8 bytes at addr by user
// code. It is opened and moved disabled; PERF_EVENT_IOC_REFRESH arms it.
func watchAttr(addr uint64) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_BREAKPOINT,
		Size:    attrSize,
		Sample:  1,
		Bp_type: breakpointWrite,
		Ext1:    addr,
		Ext2:    breakpointBytes,
		Bits:    unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
}

// breakpointAttr describes a breakpoint on a call through a register, which
// samples that register and the callers. It is opened disabled;
// PERF_EVENT_IOC_REFRESH arms it for a number of hits.
func breakpointAttr(c call) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type:             unix.PERF_TYPE_BREAKPOINT,
		Size:             attrSize,
		Sample:           1,
		Sample_type:      hitFields,
		Sample_regs_user: 1<<c.reg | 1<<regR14,
		Sample_max_stack: hitCallers,
		Bp_type:          breakpointExecute,
		Ext1:             c.pc,
		Ext2:             breakpointBytes,
		Clockid:          unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv |
			unix.PerfBitExcludeCallchainKernel | unix.PerfBitUseClockID,
	}
}

// openEvent opens an event of one thread, on one CPU or, for cpu -1, on all.
func openEvent(a *unix.PerfEventAttr, tid, cpu int) (int, error) {
	for {
		fd, err := perfEventOpen(a, tid, cpu)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, fmt.Errorf("open perf event of thread %d on CPU %d: %w", tid, cpu, err)
		}
		return fd, nil
	}
}

func perfEventOpen(a *unix.PerfEventAttr, tid, cpu int) (int, error) {
	defer privilege.Raise().Lower()
	return unix.PerfEventOpen(a, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// closeEvent closes an event of the target. A process that forks shares its
// descriptors with the child until that executes a program, and as long the event
// would go on and keep its debug register: so this waits for the child.
func closeEvent(fd int) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	unix.Close(fd)
}

// setPeriod changes the period of a sampling event. The kernel starts a new
// period at once: what had run of the old one is not sampled.
func setPeriod(fd int, period time.Duration) error {
	ns := uint64(period)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&ns)))
	if errno != 0 {
		return fmt.Errorf("set period of perf event: %w", errno)
	}
	return nil
}

// readCount returns the count of an event and how many of its samples found
// its ring full (PERF_FORMAT_LOST, since Linux 6.0).
func readCount(fd int) (count, lost uint64, err error) {
	var buf [16]byte
	n, err := shortRead(fd, buf[:])
	if err != nil {
		return 0, 0, fmt.Errorf("read perf event: %w", err)
	}
	c := cursor{b: buf[:n]}
	return c.u64(), c.u64(), nil
}
