package perfevent

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls here are the calls that every sample needs. They never wait, and so
// they go around the Go scheduler: announcing a call to it wakes the runtime's
// monitor thread, which then looks after the call every 20 µs (sysmon, Go 1.26). That
// was a third of ccmapd's CPU time at 100 Hz.

func ioctl(fd int, request uint, arg uintptr) error {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), arg)
	return failure(errno)
}

// modify moves a breakpoint (PERF_EVENT_IOC_MODIFY_ATTRIBUTES).
func modify(fd int, attr *unix.PerfEventAttr) error {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_MODIFY_ATTRIBUTES, uintptr(unsafe.Pointer(attr)))
	return failure(errno)
}

func read(fd int, buf []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	return int(n), failure(errno)
}

// ring adds one to an eventfd.
func ring(fd int) {
	one := [8]byte{1}
	unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), uintptr(len(one)))
}

// pollNow looks for events and returns at once.
func pollNow(epoll int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	return int(n), failure(errno)
}

// setTimer makes a timerfd readable after a time, and not before.
func setTimer(fd int, after time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}
	_, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	return failure(errno)
}

// Monotonic returns the time of CLOCK_MONOTONIC, ns, which samples carry.
func Monotonic() int64 { return int64(clock(unix.CLOCK_MONOTONIC)) }

// ThreadTime returns the CPU time of the calling thread.
func ThreadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// clock reads a clock that every Linux has.
func clock(id uintptr) time.Duration {
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

// Sysctl reads a number below /proc/sys/kernel.
func Sysctl(name string) (int, error) {
	text, err := os.ReadFile("/proc/sys/kernel/" + name)
	if err != nil {
		return 0, fmt.Errorf("read kernel.%s: %w", name, err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read kernel.%s: %w", name, err)
	}
	return n, nil
}
