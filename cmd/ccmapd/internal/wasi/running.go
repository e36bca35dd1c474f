package wasi

import (
	"context"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/cmd/internal/signals"
)

// Running is a guest that runs beside its session.
//
//	signaled   done when a signal asks the guest to end
//	abandoned  done if the guest goes on for some time after that
//	end        written by the guest's goroutine before it closes done
//
// A guest that waits in a system call cannot be ended: it is abandoned, and ends with
// ccmapd.
type Running struct {
	guest               *Guest
	signaled, abandoned context.Context
	done                chan struct{}
	end                 End
}

// A guest may take this long to its next safe point. A guest that computes has thousands of
// them in a millisecond. Turns are counted, because time passes also while this process
// gets no processor.
const (
	graceTurns = 25
	graceTurn  = 10 * time.Millisecond
)

// Start runs a guest that is sampled, until it ends or signaled is done.
func (g *Guest) Start(signaled context.Context) *Running {
	useTwoProcessors()
	quiet := context.WithoutCancel(signaled)
	abandoned, abandon := context.WithCancelCause(quiet)
	r := &Running{guest: g, signaled: signaled, abandoned: abandoned, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.end = g.Run(quiet)
		g.finish(r.reason())
	}()
	go r.obey(abandon)
	return r
}

// useTwoProcessors lets the marker and the manager run beside a guest. Go cannot
// take its processor from compiled WebAssembly, which gives it back when it calls
// the host: asynchronous preemption is for code of Go's own (Go 1.26,
// runtime.isAsyncSafePoint).
func useTwoProcessors() {
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}

// obey ends the guest when a signal asks for that.
func (r *Running) obey(abandon context.CancelCauseFunc) {
	select {
	case <-r.done:
		return
	case <-r.signaled.Done():
	}
	signal := signals.Of(r.signaled)
	r.guest.exit(uint32(signal.ExitCode()))
	for range graceTurns {
		select {
		case <-r.done:
			return
		case <-time.After(graceTurn):
		}
	}
	abandon(signal)
}

// reason says why the guest has ended, for people.
func (r *Running) reason() string {
	if r.signaled.Err() != nil {
		return "module was ended by " + signals.Of(r.signaled).Error()
	}
	return r.end.reason()
}

// Abandoned returns the context that is done when the guest does not end after a signal.
func (r *Running) Abandoned() context.Context { return r.abandoned }

// Wait waits until the guest has ended or is abandoned. Ended is false if it is abandoned.
func (r *Running) Wait() (end End, ended bool) {
	select {
	case <-r.done:
		return r.end, true
	case <-r.abandoned.Done():
		return End{}, false
	}
}
