package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"golang.org/x/sys/unix"
)

// open makes everything that sampling needs. What it has made when it fails is
// closed by Close.
func (s *Source) open(ctx context.Context, o Options) error {
	d := &drainer{pid: o.PID, log: o.Logger, sink: o.Sink, threads: s.threads, counts: s.counts, target: &s.target, pidfd: -1, watch: new(hang.Watch)}
	s.drainer = d
	var err error
	if hung := d.watch.Run(ctx, func() { err = s.openAll(ctx, d, o) }); hung != nil {
		return fmt.Errorf("load symbols: %w", hung)
	}
	return err
}

// openAll opens all parts.
func (s *Source) openAll(ctx context.Context, d *drainer, o Options) error {
	var err error
	if d.pidfd, err = openProcess(o.PID); err != nil {
		return err
	}
	if d.code, err = openCode(ctx, o.PID, d.watch, o.Logger); err != nil {
		return err
	}
	if s.kernelReason, err = s.threads.negotiate(); err != nil {
		return err
	}
	if d.waiter, err = newWaiter(d.pidfd); err != nil {
		return err
	}
	if err := d.openRings(); err != nil {
		return err
	}
	if err := s.threads.scanFirst(ctx); err != nil {
		return explain(o.PID, err)
	}
	if err := d.code.same(); err != nil { // from here on a record tells of an exec
		return err
	}
	d.ledger = openLedger(o.PID, s.threads.form.userOnly)
	d.prepare(o)
	s.target.Store(describe(o.PID, d.code))
	return nil
}

// negotiate finds out what the kernel permits by opening an event on the
// target's first thread. It returns why time in the kernel is left out, or
// nothing where it is not.
func (t *threads) negotiate() (string, error) {
	t.form = eventForm{dump: firstDump}
	reason := ""
	for {
		fd, err := openEvent(t.form.attr(t.interval), t.pid, -1)
		switch {
		case err == nil:
			unix.Close(fd)
			return reason, nil
		case errors.Is(err, unix.EACCES) && !t.form.userOnly:
			t.form.userOnly = true
			reason = "kernel.perf_event_paranoid forbids kernel samples to users without CAP_PERFMON"
		case errors.Is(err, unix.EINVAL) && !t.form.noLost:
			t.form.noLost = true
		default:
			return "", explain(t.pid, err)
		}
	}
}

// openRings makes the rings of every CPU that is online and has none.
func (d *drainer) openRings() error {
	cpus, err := onlineCPUs()
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if slices.ContainsFunc(d.rings, func(r *ring) bool { return r.cpu == cpu }) {
			continue
		}
		out, err := openOutput(cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // went offline just now
		}
		if err != nil {
			return err
		}
		d.rings = append(d.rings, out.prompt, out.bulk)
		if err := d.waiter.addRings(out); err != nil {
			return err
		}
		if err := d.threads.addOutput(out); err != nil {
			return err
		}
	}
	return nil
}

// describe reads who the target is.
func describe(pid int, c *code) *ccmap.Target {
	t := &ccmap.Target{PID: pid}
	t.Executable, _ = executablePath(pid)
	if line, err := readProc(pid, "cmdline"); err == nil && len(line) > 0 {
		t.CommandLine = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	if c.table != nil {
		t.BuildID, t.Runtime = c.table.BuildID(), c.table.GoVersion()
	}
	return t
}
