package perfevent

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Watchpoint is a hardware watchpoint for writes to one word of the target. It is set
// on every thread, because a goroutine runs on any of them. Every event is
// one shot: it counts one write and switches itself off, so that a word that is
// written all the time costs one trap a thread.
type Watchpoint struct {
	addr   uint64
	hit    bool           // by a thread that has ended
	hits   uint64         // see Hits
	events map[uint32]int // thread to descriptor
}

var errNoThreads = errors.New("not enough descriptors to watch every thread")

// OpenWatchpoint tries whether there is a watchpoint, with an event on one thread. It
// watches an address where nothing can be.
func OpenWatchpoint(tid uint32) (*Watchpoint, error) {
	w := &Watchpoint{addr: 8, events: make(map[uint32]int)}
	if err := w.open(tid); err != nil {
		return nil, err
	}
	return w, nil
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

// Arm moves the watchpoint to addr, on all of tids, or closes it without any.
// After an error the watchpoint must not be asked whether it is dirty.
func (w *Watchpoint) Arm(addr uint64, tids []uint32) error {
	w.addr, w.hit = addr, false
	if len(tids) == 0 {
		w.Close() // the descriptors are worth more to threads that are not sampled
		return errNoThreads
	}
	for _, tid := range tids {
		if err := w.ArmAt(tid); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// ArmAt sets the watchpoint on one thread. An event that was never hit is moved.
// An event that was hit is opened anew: since it switched itself off, Linux 6.18 leaves
// its PERF_HES_STOPPED state set for good, and it would never count again.
func (w *Watchpoint) ArmAt(tid uint32) error {
	if fd, ok := w.events[tid]; ok {
		if err := moveWatch(fd, w.addr); err != nil {
			return err
		}
		// Looked at last, so that a hit during the move is not overlooked.
		if hits, _, err := readCount(fd); err == nil && hits == 0 {
			return nil
		}
		w.hits++
		closeEvent(fd)
		delete(w.events, tid)
	}
	return w.open(tid)
}

// open sets the watchpoint on a thread that has no event.
func (w *Watchpoint) open(tid uint32) error {
	fd, err := open(watchAttr(w.addr), int(tid), -1)
	if err != nil {
		return fmt.Errorf("set watchpoint: %w", err)
	}
	// Enables the event for one hit.
	if err := ioctl(fd, unix.PERF_EVENT_IOC_REFRESH, 1); err != nil {
		unix.Close(fd)
		return fmt.Errorf("arm watchpoint: %w", err)
	}
	w.events[tid] = fd
	return nil
}

// moveWatch gives an event that was not hit yet another address
// (PERF_EVENT_IOC_MODIFY_ATTRIBUTES, since Linux 4.17). Moving the event switches it
// off; it still has its one hit.
func moveWatch(fd int, addr uint64) error {
	if err := modify(fd, watchAttr(addr)); err != nil {
		return fmt.Errorf("move watchpoint: %w", err)
	}
	if err := ioctl(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("arm watchpoint: %w", err)
	}
	return nil
}

// OnCPUs is part of activation.Watch.
func (w *Watchpoint) OnCPUs() bool { return false }

// Dirty reports whether the word was written since the watchpoint was armed. The time of a
// write is not known.
func (w *Watchpoint) Dirty(int64) (bool, error) {
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

// Hits returns how often a word was written that was watched, as far as it was noticed: no
// later than the event is set again or closed.
func (w *Watchpoint) Hits() uint64 { return w.hits }

// Forget closes the event of a thread that has ended.
func (w *Watchpoint) Forget(tid uint32) {
	if fd, ok := w.events[tid]; ok {
		hits, _, err := readCount(fd)
		w.hit = w.hit || err != nil || hits > 0
		w.hits += hits
		closeEvent(fd)
		delete(w.events, tid)
	}
}

// Close ends watching on all threads.
func (w *Watchpoint) Close() {
	for tid := range w.events {
		w.Forget(tid)
	}
}
