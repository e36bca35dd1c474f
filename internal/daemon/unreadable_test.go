package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

var errTooOld = process.As(errors.New("built by go1.17"), sampler.ErrProgram)

// unreadable returns a process of the program that the tests' rules fit, which no engine can read.
func unreadable(pid int) fakeProcess {
	p := web(pid)
	p.refuse = errTooOld
	return p
}

// TestProgramIsRefusedOnce: a program that no engine can read is read once for each of its owners, and the log says it
// once. Another file is read, and so is the same file after a reload.
func TestProgramIsRefusedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	inLoggingDaemon(t, webConfig(), slog.New(slog.NewTextHandler(&log, nil)), func(t *testing.T, h *fakeHost, d *Daemon) {
		said := func() int { return strings.Count(log.String(), `msg="cannot sample`) }
		is := func(what string, attempts, lines int) {
			t.Helper()
			time.Sleep(13 * time.Minute)
			if n := h.attempts(); n != attempts {
				t.Errorf("%s: the program was read %d times, want %d", what, n, attempts)
			}
			if n := said(); n != lines {
				t.Errorf("%s: %d lines of the log, want %d:\n%s", what, n, lines, log.String())
			}
		}
		first := h.start(unreadable(7))
		is("one process", 1, 1)
		status := mustTarget(t, d, "web")
		if p := status.Processes; len(p) != 1 || p[0].State != Refused || !strings.HasSuffix(p[0].Reason, errTooOld.Error()) || !strings.Contains(p[0].Cure, "changes") {
			t.Errorf("%+v", p)
		}
		if n := status.Counters.Failures.Unsupported; n != 1 {
			t.Errorf("%d failures are counted, want 1", n)
		}
		h.start(unreadable(8))
		is("another process of it", 1, 1)
		of := unreadable(9)
		of.Owner.UID = 1000
		h.start(of)
		is("another owner's", 2, 2)
		changed := web(7)
		changed.file.Inode = 2
		h.exec(first, changed)
		awaitMethod(t, d, "main.work")
		is("another file", 3, 2)
		if err := d.Reload(); err != nil {
			t.Fatal(err)
		}
		is("after a reload", 5, 4)
	})
}

// TestUnreadableServes: of a program that no engine can read, its own profiles are taken as soon as it serves them.
func TestUnreadableServes(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	inLoggingDaemon(t, webConfig(), slog.New(slog.NewTextHandler(&log, nil)), func(t *testing.T, h *fakeHost, d *Daemon) {
		var serves atomic.Bool
		last := engine.Engine{Name: engine.PProfHTTP, Open: func(_ context.Context, o sampler.ProcessOptions) (engine.Source, error) {
			p, err := h.of(o.PID)
			if err != nil {
				return nil, err
			}
			if !serves.Load() {
				return nil, engine.ErrNoEndpoint
			}
			of := *p
			of.method = "main.served"
			return &ownProfiles{fakeSource: &fakeSource{h: h, p: &of, sink: o.Sink, interval: o.Interval}, finished: make(chan struct{})}, nil
		}}
		d.engines = append(d.engines, last)
		h.start(unreadable(7))
		time.Sleep(10 * time.Minute)
		serves.Store(true)
		awaitMethod(t, d, "main.served")
		time.Sleep(time.Hour) // in which better engines are tried
		if n := h.attempts(); n != 1 {
			t.Errorf("the program was read %d times, want once", n)
		}
		if n := strings.Count(log.String(), `msg="cannot sample`); n != 1 {
			t.Errorf("%d lines of the log, want 1:\n%s", n, log.String())
		}
	})
}
