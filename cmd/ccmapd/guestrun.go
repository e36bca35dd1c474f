package main

import (
	"context"
	"errors"
	"time"

	"github.com/ccmapd/ccmapd/internal/signals"
	"github.com/ccmapd/ccmapd/internal/wasi"
)

// guestRun is a guest that runs beside its session.
//
//	signaled   done when a signal asks the guest to end
//	abandoned  done if the guest goes on for some time after that
//	end        written by the guest's goroutine before it closes done
//
// A guest that waits in a system call cannot be ended: it is abandoned, and ends with
// ccmapd.
type guestRun struct {
	*wasi.Guest
	signaled, abandoned context.Context
	done                chan struct{}
	end                 wasi.End
}

// A guest may take this long to its next safe point. A guest that computes has thousands of
// them in a millisecond. Turns are counted, because time passes also while this process
// gets no processor.
const (
	graceTurns = 25
	graceTurn  = 10 * time.Millisecond
)

// startGuest runs a guest that is sampled, until it ends or signaled is done.
func startGuest(signaled context.Context, g *wasi.Guest) *guestRun {
	quiet := context.WithoutCancel(signaled)
	abandoned, abandon := context.WithCancelCause(quiet)
	r := &guestRun{Guest: g, signaled: signaled, abandoned: abandoned, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.end = g.Run(quiet)
		g.Finish(r.reason())
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
	signal := signals.Of(r.signaled)
	r.Exit(uint32(signal.ExitCode()))
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
		return "module was ended by " + signals.Of(r.signaled).Error()
	}
	return r.end.Reason()
}

// exitOfGuest returns the end of a guest as the exit code of ccmapd, with the text of a
// trap.
func exitOfGuest(e wasi.End) error {
	switch {
	case e.Trapped:
		return exitError{exitTrapped, e.Err}
	case e.NotStarted:
		return exitError{exitCannotRun, e.Err}
	case e.Err != nil || e.Code != 0:
		return exitError{e.Code, e.Err}
	}
	return nil
}

// wait returns the end of the guest as the exit code of ccmapd.
func (r *guestRun) wait() error {
	select {
	case <-r.done:
		return errors.Join(exitOfGuest(r.end), r.Close(context.Background()))
	case <-r.abandoned.Done():
		return exitError{code: signals.Of(r.abandoned).ExitCode()}
	}
}
