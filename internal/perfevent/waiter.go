package perfevent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter blocks the draining goroutine until there is something to do. It waits in the
// runtime's poller, not in a system call: a goroutine that blocks in a system call holds
// on to its processor until the runtime's monitor thread takes the processor away, which
// made ccmapd use three times the CPU time at 100 Hz (Go 1.26).
//
// The time is the kernel's timer, not the runtime's: the monitor thread wakes up with every
// timer of the runtime, and then some four times more. That was a quarter of ccmapd's CPU
// time at 100 Hz.
type Waiter struct {
	epoll  int      // of all descriptors to wait for
	prompt []*Ring  // the waiter blocks only while these are empty
	file   *os.File // is epoll, in the runtime's poller
	conn   syscall.RawConn
	timer  int // timerfd
	bell   int // eventfd
	pidfd  int
}

// NewWaiter returns a waiter that also wakes up when the target of a pidfd ends; -1
// stands for no target.
func NewWaiter(pidfd int) (*Waiter, error) {
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open eventfd: %w", err)
	}
	w := &Waiter{bell: bell, timer: -1, pidfd: pidfd}
	if w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		w.Close()
		return nil, fmt.Errorf("open timerfd: %w", err)
	}
	if err := w.openEpoll(); err != nil {
		w.Close()
		return nil, err
	}
	err = errors.Join(w.add(bell), w.add(w.timer))
	if pidfd >= 0 {
		err = errors.Join(err, w.add(pidfd))
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// openEpoll makes the epoll descriptor, non-blocking so that the runtime polls
// it.
func (w *Waiter) openEpoll() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open epoll: %w", err)
	}
	w.epoll = fd
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return fmt.Errorf("make epoll non-blocking: %w", err)
	}
	w.file = os.NewFile(uintptr(fd), "epoll")
	w.conn, err = w.file.SyscallConn()
	return err
}

// add makes the waiter wake up for a descriptor.
func (w *Waiter) add(fd int) error { return w.addFor(fd, unix.EPOLLIN) }

// AddWakeups makes the waiter wake up whenever the kernel wakes the readers of a
// descriptor, and not for data alone.
func (w *Waiter) AddWakeups(fd int) error { return w.addFor(fd, unix.EPOLLIN|unix.EPOLLET) }

func (w *Waiter) addFor(fd int, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(fd)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("wait for descriptor %d: %w", fd, err)
	}
	return nil
}

// Add makes the waiter wake up for a ring. It never blocks while a prompt ring has
// records.
func (w *Waiter) Add(r *Ring, prompt bool) error {
	if prompt {
		w.prompt = append(w.prompt, r)
	}
	return w.add(r.fd)
}

// RingAfter ends the wait when ctx is done. The returned function cancels this, and must be
// called before the waiter is closed.
func (w *Waiter) RingAfter(ctx context.Context) func() {
	rung := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		w.Ring()
		close(rung)
	})
	return func() {
		if !stop() {
			<-rung
		}
	}
}

// Ring ends the wait. Any goroutine may call it until the waiter is closed.
func (w *Waiter) Ring() { ring(w.bell) }

// Wait blocks until a ring has records, the bell has rung, the target has ended or the
// time is over. It reports whether the target has ended.
func (w *Waiter) Wait(timeout time.Duration) (bool, error) {
	if err := setTimer(w.timer, max(timeout, 1)); err != nil {
		return false, fmt.Errorf("wait for samples: set timer: %w", err)
	}
	var exited, woken bool
	err := w.conn.Read(func(uintptr) bool {
		ready, gone := w.look()
		exited = gone
		// The kernel tells of a ring's records once. If it has just told the
		// poller, epoll has nothing left to tell.
		ready = ready || woken
		woken = true
		return ready
	})
	if err != nil {
		return false, fmt.Errorf("wait for samples: %w", err)
	}
	return exited, nil
}

// look reports, without waiting, whether anything is ready, and whether the target
// has ended. It looks into the prompt rings, too: when a record was written after the
// last drain, the kernel may have told the poller before Wait began, and the poller
// has forgotten it since.
func (w *Waiter) look() (ready, exited bool) {
	var events [16]unix.EpollEvent
	n, err := pollNow(w.epoll, events[:])
	if err != nil {
		n = 0 // EINTR: the next look finds it
	}
	for _, e := range events[:n] {
		exited = exited || int(e.Fd) == w.pidfd
		if int(e.Fd) == w.bell {
			var rung [8]byte
			read(w.bell, rung[:])
		}
	}
	return n > 0 || slices.ContainsFunc(w.prompt, (*Ring).unread), exited
}

// Close releases the waiter. The rings stay open.
func (w *Waiter) Close() {
	unix.Close(w.bell)
	if w.timer >= 0 {
		unix.Close(w.timer)
	}
	if w.file != nil {
		w.file.Close()
	}
}
