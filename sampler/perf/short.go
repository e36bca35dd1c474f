package perf

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls that every sample needs, none of which waits for anything.
// They go around the Go scheduler: announcing a call to it wakes the runtime's
// monitor thread, which then looks after it every 20 µs (sysmon, Go 1.26). That
// was a third of ccmapd's CPU time at 100 Hz.

func shortIoctl(fd int, request uint, arg uintptr) error {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), arg)
	return failure(errno)
}

// shortModify moves a breakpoint (PERF_EVENT_IOC_MODIFY_ATTRIBUTES).
func shortModify(fd int, attr *unix.PerfEventAttr) error {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_MODIFY_ATTRIBUTES, uintptr(unsafe.Pointer(attr)))
	return failure(errno)
}

func shortRead(fd int, buf []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	return int(n), failure(errno)
}

// shortEpoll looks for events without waiting for one.
func shortEpoll(epoll int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	return int(n), failure(errno)
}

// monotonic returns the time of CLOCK_MONOTONIC in ns, which samples carry.
func monotonic() int64 { return int64(shortClock(unix.CLOCK_MONOTONIC)) }

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration { return shortClock(unix.CLOCK_THREAD_CPUTIME_ID) }

// shortClock reads a clock that every Linux has.
func shortClock(id uintptr) time.Duration {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

func failure(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
