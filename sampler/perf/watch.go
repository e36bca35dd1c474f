package perf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A watch is a hardware watchpoint for writes to one word of the target, set on
// every thread of it, because a goroutine runs on any of them. Every event is
// one shot: it counts one write and switches itself off, so that a word that is
// written all the time costs one trap a thread. It belongs to the drainer.
type watch struct {
	addr   uint64
	hit    bool           // by a thread that has ended
	events map[uint32]int // thread to descriptor
}

var errNoThreads = errors.New("not enough descriptors to watch every thread")

// openWatch tries for a watchpoint, with an event on one thread. It watches an
// address that nothing can be at.
func openWatch(tid uint32) (*watch, error) {
	w := &watch{addr: 8, events: make(map[uint32]int)}
	if err := w.open(tid); err != nil {
		return nil, err
	}
	return w, nil
}

// arm moves the watch to addr, on all of tids, or closes it where there are none. Unless it returns nil the watch
// must not be asked whether it is dirty.
func (w *watch) arm(addr uint64, tids []uint32) error {
	w.addr, w.hit = addr, false
	if len(tids) == 0 {
		w.close() // the descriptors are worth more to threads that are not sampled
		return errNoThreads
	}
	for _, tid := range tids {
		if err := w.armThread(tid); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// armThread sets the watch on one thread. An event that was never hit is moved.
// One that was is opened anew: since it switched itself off, Linux 6.18 leaves
// its PERF_HES_STOPPED state set for good and it would never count again.
func (w *watch) armThread(tid uint32) error {
	if fd, ok := w.events[tid]; ok {
		if err := moveBreakpoint(fd, w.addr); err != nil {
			return err
		}
		// Looked at last, so that a hit during the move is not overlooked.
		if hits, _, err := readCount(fd); err == nil && hits == 0 {
			return nil
		}
		closeEvent(fd)
		delete(w.events, tid)
	}
	return w.open(tid)
}

// open sets the watch on a thread that has no event.
func (w *watch) open(tid uint32) error {
	fd, err := openEvent(watchAttr(w.addr), int(tid), -1)
	if err != nil {
		return fmt.Errorf("set watchpoint: %w", err)
	}
	// Enables the event for one hit.
	if err := shortIoctl(fd, unix.PERF_EVENT_IOC_REFRESH, 1); err != nil {
		unix.Close(fd)
		return fmt.Errorf("arm watchpoint: %w", err)
	}
	w.events[tid] = fd
	return nil
}

// moveBreakpoint gives a breakpoint that was not hit yet another address
// (PERF_EVENT_IOC_MODIFY_ATTRIBUTES, since Linux 4.17). Moving it switches it
// off; the one hit that it is good for is left.
func moveBreakpoint(fd int, addr uint64) error {
	if err := shortModify(fd, watchAttr(addr)); err != nil {
		return fmt.Errorf("move watchpoint: %w", err)
	}
	if err := shortIoctl(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("arm watchpoint: %w", err)
	}
	return nil
}

// dirty says whether the word was written since the watch was armed.
func (w *watch) dirty() (bool, error) {
	if w.hit {
		return true, nil
	}
	for _, fd := range w.events {
		hits, _, err := readCount(fd)
		if err != nil {
			return false, err
		}
		if hits > 0 {
			return true, nil
		}
	}
	return false, nil
}

// forget closes the event of a thread that has ended.
func (w *watch) forget(tid uint32) {
	if fd, ok := w.events[tid]; ok {
		hits, _, err := readCount(fd)
		w.hit = w.hit || err != nil || hits > 0
		closeEvent(fd)
		delete(w.events, tid)
	}
}

func (w *watch) close() {
	for tid := range w.events {
		w.forget(tid)
	}
}
