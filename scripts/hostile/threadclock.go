package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withinCPU returns a context that ends when this thread has taken so much CPU time.
func withinCPU(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	thread := unix.Gettid()
	end := threadTime(thread) + most
	go func() {
		look := time.NewTicker(5 * time.Millisecond)
		defer look.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-look.C:
				if threadTime(thread) > end {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}

// threadTime returns the CPU time of a thread of this process; 0: of the calling one. A thread's clock
// has its number, inverted, above three bits (MAKE_THREAD_CPUCLOCK, Linux 6.18, include/linux/posix-timers_types.h).
func threadTime(thread int) time.Duration {
	clock := int32(unix.CLOCK_THREAD_CPUTIME_ID)
	if thread != 0 {
		clock = int32(^thread<<3 | 6)
	}
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(fmt.Errorf("read the clock of thread %d: %w", thread, err))
	}
	return time.Duration(t.Nano())
}

// deadline kills this process when the thread that made it has taken too much CPU time. Wazero itself
// cannot end a guest that makes tail calls for ever, because its native code never looks at the context.
type deadline struct{ timer int32 }

func newDeadline(most time.Duration) deadline {
	var d deadline
	event := struct { // sigevent(3type)
		value                  uintptr
		signal, notify, thread int32
		_                      [44]byte
	}{signal: int32(unix.SIGKILL)}
	_, _, err := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&d.timer)))
	if err != 0 {
		panic(fmt.Errorf("create a timer: %w", err))
	}
	d.set(most)
	return d
}

// set gives so much time from now on.
func (d deadline) set(most time.Duration) {
	when := struct{ interval, value unix.Timespec }{value: unix.NsecToTimespec(most.Nanoseconds())}
	if _, _, err := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(d.timer), 0, uintptr(unsafe.Pointer(&when)), 0, 0, 0); err != 0 {
		panic(fmt.Errorf("set a timer: %w", err))
	}
}

// end takes the deadline away.
func (d deadline) end() { _, _, _ = unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(d.timer), 0, 0) }

// forgetPeak begins to measure the process's most resident memory anew, without garbage.
func forgetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // otherwise the peak is of mutants before, too
}

// peak returns the most resident memory of this process, in bytes.
func peak() uint64 { return memoryOf(os.Getpid(), "VmHWM") }

// memoryOf returns a figure of the memory of a process, in bytes; 0 if it has ended (proc(5)).
func memoryOf(pid int, figure string) uint64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte(figure+":"))
	var kilobytes uint64
	_, _ = fmt.Sscan(string(rest), &kilobytes)
	return kilobytes << 10
}
