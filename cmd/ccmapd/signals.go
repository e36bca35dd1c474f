package main

import (
	"context"
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
