package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// waiter blocks the drainer until there is something to do. It blocks the
// thread in epoll_wait, and not the goroutine in the runtime's poller, because
// that wakes it sooner.
type waiter struct {
	epoll int
	bell  int // eventfd
	pidfd int
}

func newWaiter(pidfd int) (*waiter, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open epoll: %w", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("open eventfd: %w", err)
	}
	w := &waiter{epoll: epoll, bell: bell, pidfd: pidfd}
	if err := errors.Join(w.add(bell), w.add(pidfd)); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// add makes the waiter wake up for a descriptor.
func (w *waiter) add(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("wait for descriptor %d: %w", fd, err)
	}
	return nil
}

// ringAfter wakes the drainer up when ctx is done. The function that it returns
// ends that, and must be called before the waiter is closed.
func (w *waiter) ringAfter(ctx context.Context) func() {
	rung := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		unix.Write(w.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		close(rung)
	})
	return func() {
		if !stop() {
			<-rung
		}
	}
}

// wait blocks until a ring has records, the bell has rung, the target has ended
// or the time is over. It says whether the target has ended.
func (w *waiter) wait(timeout time.Duration) (bool, error) {
	var events [16]unix.EpollEvent
	n, err := unix.EpollWait(w.epoll, events[:], int(timeout.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("wait for samples: %w", err)
	}
	for _, e := range events[:max(n, 0)] {
		if int(e.Fd) == w.pidfd {
			return true, nil
		}
	}
	return false, nil
}

func (w *waiter) close() {
	unix.Close(w.bell)
	unix.Close(w.epoll)
}
