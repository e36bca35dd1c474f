// Package signals catches the signals that would end this process: they end a session, or go
// to the program that runs under it.
package signals

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

// UntilInterrupted returns a context that is done at the first SIGINT, SIGTERM or SIGHUP;
// nohup(1) turns SIGHUP off. The second signal has its usual effect.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{unix.SIGINT, unix.SIGTERM}
	ctx, stop := signal.NotifyContext(ctx, append(signals, notIgnored(unix.SIGHUP)...)...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// notIgnored leaves out signals that this process was started to ignore.
func notIgnored(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
}

// SurvivePipes makes writes to a pipe without readers plain errors, until restore is called:
// samples are worth more than messages about them. Otherwise such a write to standard
// output or error ends the process (package os/signal, "SIGPIPE").
func SurvivePipes() (restore func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, unix.SIGPIPE)
	return func() { signal.Stop(ignored) }
}

// Forwarder passes signals that would end this process on to a program that it runs. The
// program decides how to take them.
type Forwarder struct {
	signals chan os.Signal
	done    chan struct{}
}

// forwarded are the signals that a Forwarder passes on.
var forwarded = []os.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP}

// Catch begins to catch signals. They wait until To is called. Ignored signals stay ignored,
// so that the program inherits that, as from nohup(1).
func Catch() *Forwarder {
	f := &Forwarder{signals: make(chan os.Signal, 8), done: make(chan struct{})}
	caught := append(notIgnored(forwarded...), unix.SIGTERM) // an empty list would mean all
	signal.Notify(f.signals, caught...)
	return f
}

// Interrupted returns a context that is done when a signal waits, until stop is
// called. The signal waits on.
func (f *Forwarder) Interrupted(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case s := <-f.signals:
			select {
			case f.signals <- s:
			default: // as many wait as there is room for
			}
			cancel(Error{s.(unix.Signal)})
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

// To passes signals on to a process that was started, until Stop.
func (f *Forwarder) To(p *os.Process) {
	signal.Notify(f.signals, forwarded...)
	go func() {
		for {
			select {
			case <-f.done:
				return
			case s := <-f.signals:
				if !fromTerminal(s) {
					_ = p.Signal(s) // fails only if the program has ended
				}
			}
		}
	}()
}

// Stop ends the catching of signals.
func (f *Forwarder) Stop() {
	signal.Stop(f.signals)
	close(f.done)
}

// fromTerminal reports whether the terminal has sent a signal, as Ctrl-C does: then the
// program, which is in the same process group, has got it, too. The kernel does not say
// where a signal comes from, so in the foreground of a terminal it is taken for granted.
func fromTerminal(s os.Signal) bool {
	if s != unix.SIGINT && s != unix.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // no terminal
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// Error is the signal that has ended something.
type Error struct{ unix.Signal }

func (e Error) Error() string { return unix.SignalName(e.Signal) }

// Of returns the signal that has ended a context; SIGTERM if no signal has.
func Of(ctx context.Context) Error {
	var e Error
	if !errors.As(context.Cause(ctx), &e) {
		return Error{unix.SIGTERM}
	}
	return e
}

// ExitCode returns the exit code that shells give to a program that the signal has ended.
func (e Error) ExitCode() int { return 128 + int(e.Signal) }

// Until returns a context that is done at the first SIGINT, SIGTERM or SIGHUP. Its cause is
// an Error.
func Until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, append([]os.Signal{unix.SIGINT, unix.SIGTERM}, notIgnored(unix.SIGHUP)...)...)
	go func() {
		defer signal.Stop(caught)
		select {
		case s := <-caught:
			cancel(Error{s.(unix.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
