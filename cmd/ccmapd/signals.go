package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// forwarder passes the signals that would end ccmapd on to the program that it
// runs, which decides what they mean.
type forwarder struct {
	signals chan os.Signal
	done    chan struct{}
}

// catchSignals begins to catch signals. Before a call of to they wait.
func catchSignals() *forwarder {
	f := &forwarder{signals: make(chan os.Signal, 8), done: make(chan struct{})}
	signal.Notify(f.signals, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP)
	return f
}

// to passes signals on to a process, until stop.
func (f *forwarder) to(p *os.Process) {
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
