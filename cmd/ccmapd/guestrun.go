package main

import (
	"context"
	"errors"
	"time"
)

// guestRun is a guest that runs beside its session.
//
//	signaled   done when a signal asks the guest to end
//	abandoned  done when it has been waited for long enough after that
//	end        written by the guest's goroutine before it closes done
//
// A guest that waits in a system call cannot be ended: it is abandoned, and ends with
// ccmapd.
type guestRun struct {
	*guest
	signaled, abandoned context.Context
	done                chan struct{}
	end                 guestEnd
}

// A guest may take this long to its next safe point, of which one that computes has
// thousands in a millisecond. Turns are counted, and not the time alone, which also
// passes while this process gets no processor.
const (
	graceTurns = 25
	graceTurn  = 10 * time.Millisecond
)

// startGuest runs a guest that is sampled, until it ends or signaled is done.
func startGuest(signaled context.Context, g *guest) *guestRun {
	quiet := context.WithoutCancel(signaled)
	abandoned, abandon := context.WithCancelCause(quiet)
	r := &guestRun{guest: g, signaled: signaled, abandoned: abandoned, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.end = g.run(quiet)
		g.profiler.Finish(r.reason())
	}()
	go r.obey(abandon)
	return r
}

// obey ends the guest when a signal asks for that.
func (r *guestRun) obey(abandon context.CancelCauseFunc) {
	select {
	case <-r.done:
		return
	case <-r.signaled.Done():
	}
	signal := signalOf(r.signaled)
	r.profiler.Exit(uint32(signal.exitCode()))
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
func (r *guestRun) reason() string {
	if r.signaled.Err() != nil {
		return "module was ended by " + signalOf(r.signaled).Error()
	}
	return r.end.reason()
}

// wait returns how the guest has ended, as the exit code of ccmapd.
func (r *guestRun) wait() error {
	select {
	case <-r.done:
		return errors.Join(r.end.exit(), r.close(context.Background()))
	case <-r.abandoned.Done():
		return exitError{code: signalOf(r.abandoned).exitCode()}
	}
}
