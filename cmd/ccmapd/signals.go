package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"
)

// untilInterrupted returns a context that is done at the first SIGINT, SIGTERM
// or SIGHUP, the last of which nohup(1) turns off. The second one has its usual
// effect.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{unix.SIGINT, unix.SIGTERM}
	ctx, stop := signal.NotifyContext(ctx, append(signals, notIgnored(unix.SIGHUP)...)...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// notIgnored returns those of the signals that whoever has started ccmapd does
// not have it ignore.
func notIgnored(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
}

// survivePipes makes writes to a pipe that nobody reads any more plain errors,
// until restore is called: what is sampled is worth more than what is said
// meanwhile. Otherwise such a write to standard output or error ends the process
// (package os/signal, "SIGPIPE").
func survivePipes() (restore func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, unix.SIGPIPE)
	return func() { signal.Stop(ignored) }
}

// forwarder passes the signals that would end ccmapd on to the program that it
// runs, which decides what they mean.
type forwarder struct {
	signals chan os.Signal
	done    chan struct{}
}

// forwarded are the signals that a forwarder passes on.
var forwarded = []os.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP}

// catchSignals begins to catch signals. Before a call of to they wait. Those that
// are ignored stay so, that the program inherits it, as from nohup(1).
func catchSignals() *forwarder {
	f := &forwarder{signals: make(chan os.Signal, 8), done: make(chan struct{})}
	caught := append(notIgnored(forwarded...), unix.SIGTERM) // to name none would mean all
	signal.Notify(f.signals, caught...)
	return f
}

// interrupted returns a context that is done when a signal waits, until stop is
// called. The signal waits on.
func (f *forwarder) interrupted(ctx context.Context) (_ context.Context, stop func()) {
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
			cancel(signalError{s.(unix.Signal)})
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

// to passes signals on to a process that has been started, until stop.
func (f *forwarder) to(p *os.Process) {
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

func (f *forwarder) stop() {
	signal.Stop(f.signals)
	close(f.done)
}

// fromTerminal reports whether the terminal has sent a signal, as Ctrl-C does:
// then the program has got it, too, being in the same process group. Nobody can
// tell for sure, so in the foreground of a terminal it is taken for granted.
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

// signalError is why something ends that a signal has ended.
type signalError struct{ unix.Signal }

func (e signalError) Error() string { return unix.SignalName(e.Signal) }

// signalOf returns the signal that has ended a context: SIGTERM, where that was
// nobody's signal.
func signalOf(ctx context.Context) signalError {
	var e signalError
	if !errors.As(context.Cause(ctx), &e) {
		return signalError{unix.SIGTERM}
	}
	return e
}

// exitCode returns the exit code that shells give to what a signal has ended.
func (e signalError) exitCode() int { return 128 + int(e.Signal) }

// untilSignal returns a context that is done at the first SIGINT, SIGTERM or
// SIGHUP, as untilInterrupted does. Its cause is a signalError.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, append([]os.Signal{unix.SIGINT, unix.SIGTERM}, notIgnored(unix.SIGHUP)...)...)
	go func() {
		defer signal.Stop(caught)
		select {
		case s := <-caught:
			cancel(signalError{s.(unix.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
