package privilege

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrSignals means that no signal can be queued for this user's processes: threads could not be told to drop rights.
var ErrSignals = errors.New("no signal can be queued for processes of this user: another program holds as many timers or unread signals as RLIMIT_SIGPENDING permits; end it, or raise the limit with ulimit -i")

// canSignal makes room for signals. It fails with ErrSignals if there is none: psx would wait for ever, since the
// kernel then delivers a signal without its sender (__send_signal_locked, Linux 6.18), and psx repeats what does not
// come from itself. Programs that this process starts inherit a raised limit.
func canSignal() error {
	if hasRoom() {
		return nil
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, &limit); err != nil {
		return fmt.Errorf("read RLIMIT_SIGPENDING: %w", err)
	}
	for _, wider := range []unix.Rlimit{{Cur: limit.Max, Max: limit.Max}, {Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}} {
		if unix.Setrlimit(unix.RLIMIT_SIGPENDING, &wider) == nil && hasRoom() {
			return nil
		}
	}
	return ErrSignals
}

// hasRoom reports whether one more signal can be queued: a timer reserves its signal (timer_create(2)).
func hasRoom() bool {
	// sigevent of sigevent(7) on 64 bits: value, signal, notify, room.
	event := struct {
		value          uint64
		signal, notify int32
		_              [48]byte
	}{notify: notifyNone}
	var timer int32
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&timer)))
	if errno == 0 {
		unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0)
	}
	return errno != unix.EAGAIN
}

const notifyNone = 1 // SIGEV_NONE
