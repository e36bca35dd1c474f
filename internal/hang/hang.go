// Package hang gives up work that waits for somebody else's memory or file system.
//
// A read of another process's memory waits in the kernel for the page. Where that process,
// or a program that works for it, serves the pages (userfaultfd, FUSE), it may wait for
// ever, and only a signal that kills ends it (handle_userfault and filemap_fault, Linux
// 6.12): no deadline, no context, no closing of a descriptor. Such a thread is lost until
// the other process ends. This package makes sure that nothing else is lost with it.
package hang

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"
)

// ErrHung says that a call does not return. All later calls are refused.
var ErrHung = errors.New("it keeps a read waiting, as memory does that userfaultfd or FUSE serves")

// Watch sees whether calls return.
//
//	state    the goroutine of the calls, which adds to it before and after each; Run, which
//	         sets abandoned while a call lasts. The goroutine never runs on after that.
//
// A nil Watch watches nothing.
type Watch struct {
	state atomic.Uint64 // odd: in a call
}

const abandoned = 1 << 63

// Call makes a call that may not return. It runs on the calling goroutine, and f must use
// a system call that tells Go's scheduler. It returns ErrHung, without a call, after one
// that did not return.
func (w *Watch) Call(f func() error) error {
	if err := w.Enter(); err != nil {
		return err
	}
	defer w.Leave()
	return f()
}

// Enter begins a call, see Call.
func (w *Watch) Enter() error {
	if w == nil {
		return nil
	}
	state := w.state.Load()
	if state&abandoned != 0 {
		return ErrHung
	}
	w.state.Store(state + 1)
	return nil
}

// Leave ends a call. If Run has given up the call, the goroutine ends here: its data
// belongs to the caller of Run.
func (w *Watch) Leave() {
	if w == nil {
		return
	}
	if state := w.state.Load(); state&abandoned != 0 || !w.state.CompareAndSwap(state, state+1) {
		runtime.Goexit()
	}
}

// Hung reports whether a call did not return.
func (w *Watch) Hung() bool { return w.state.Load()&abandoned != 0 }

// Times that a call may take: one that reads from a slow disk takes no second.
const (
	patience = 2 * time.Second
	hurry    = 400 * time.Millisecond // after the context is done
)

// Run runs f, which makes its calls by the watch, in a goroutine of its own, and returns
// when f does. If a call does not return it gives up f, and returns ErrHung: within some
// seconds, or half a second after ctx is done. Then f never runs on, but for its deferred
// functions if the call returns after all; so f must not defer what Run's caller does
// then. Only one Run at a time may use a watch.
func (w *Watch) Run(ctx context.Context, f func()) error {
	if w.Hung() {
		return ErrHung
	}
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	tick := time.NewTicker(patience)
	defer tick.Stop()
	over := ctx.Done()
	last := w.state.Load()
	for {
		select {
		case <-done:
			return nil
		case <-over:
			over = nil
			tick.Reset(hurry)
		case <-tick.C:
			if state := w.state.Load(); state&1 != 0 && state == last && w.state.CompareAndSwap(state, state|abandoned) {
				return ErrHung
			}
		}
		last = w.state.Load()
	}
}
