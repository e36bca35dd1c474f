package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
)

// A process can keep a read of its memory or its executable waiting, by userfaultfd or FUSE. The thread
// that reads is lost until the process ends (see package hang). So such a process is read once, and there is
// a bound for all processes of one owner.

const (
	// mostHung bounds the processes of an owner that cost a thread.
	mostHung = 16
	// hungLook is the time between two looks whether such a process has ended.
	hungLook = 10 * time.Second
)

// errHungOwner says that an owner's processes have cost too many threads.
var errHungOwner = errors.New("too many processes of its owner keep a read waiting, and each costs the daemon a thread")

// lostThread is a process that costs a thread.
type lostThread struct {
	started uint64
	owner   int
}

// hungOf counts the processes of an owner that cost a thread. The caller holds mu.
func (d *Daemon) hungOf(owner int) (n int) {
	for _, q := range d.asked {
		if q.late && q.owner == owner {
			n++
		}
	}
	for _, h := range d.hung {
		if h.owner == owner {
			n++
		}
	}
	return n
}

// mayRead returns an error if the process must not be read: it has cost a thread already, or others of its
// owner have cost too many.
func (f *follower) mayRead() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if h, known := f.d.hung[f.facts.PID]; known && h.started == f.facts.Started {
		return fmt.Errorf("attach to process %d: %w", f.facts.PID, hang.ErrHung)
	}
	if f.d.hungOf(f.facts.UID) >= mostHung {
		return fmt.Errorf("attach to process %d: %w", f.facts.PID, errHungOwner)
	}
	return nil
}

// file identifies the executable of the process.
func (f *follower) file(ctx context.Context) (file process.FileID, err error) {
	err = hang.Once(ctx, func() (err error) {
		file, err = f.d.host.file(f.facts.PID)
		return err
	})
	if errors.Is(err, hang.ErrHung) {
		return process.FileID{}, fmt.Errorf("find executable of process %d: %w", f.facts.PID, err)
	}
	return file, err
}

// endure waits until a process ends that has cost a thread.
func (f *follower) endure(ctx context.Context, err error) {
	f.noteHung()
	f.change(Refused, err.Error(), "It costs the daemon a thread, and is not tried again. End the process.", time.Time{})
	f.d.log.Warn("cannot sample, and does not try again", "target", f.target.Name, f.attr(), "error", err)
	tick := time.NewTicker(hungLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if now, err := f.d.host.facts(f.facts.PID); err != nil || now.Ended || now.Started != f.facts.Started {
				f.end("the process has ended")
				return
			}
		}
	}
}

// noteHung notes that the process costs a thread.
func (f *follower) noteHung() {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.hung[f.facts.PID] = lostThread{f.facts.Started, f.facts.UID}
}

// end notes why the target has the process no more.
func (f *follower) end(reason string) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.target.ending = reason
}
