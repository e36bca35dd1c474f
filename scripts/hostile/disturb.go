package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// repeat does something again and again while the time of the disturbance lasts, at least once.
func (s *stage) repeat(ctx context.Context, every time.Duration, do func() error) (n int, err error) {
	for end := time.Now().Add(s.span); n == 0 || time.Now().Before(end); n++ {
		if err := errors.Join(ctx.Err(), do()); err != nil {
			return n, err
		}
		time.Sleep(every)
	}
	return n, s.goesOn(ctx)
}

// crashes starts a program ten times a second that ends soon.
func (s *stage) crashes(ctx context.Context) (string, error) {
	const every, life = 100 * time.Millisecond, "60ms"
	if err := s.link("crashing"); err != nil {
		return "", err
	}
	var all sync.WaitGroup
	defer all.Wait()
	n, err := s.repeat(ctx, every, func() error {
		cmd := exec.CommandContext(ctx, s.executable("crashing"), "eases", "for", life)
		if err := cmd.Start(); err != nil {
			return err
		}
		all.Go(func() { cmd.Wait() })
		return nil
	})
	targets, err2 := s.served.targets(ctx)
	t := targets["crashing"]
	if len(t.Processes) > mostProcesses {
		err2 = errors.Join(err2, fmt.Errorf("the daemon knows %d processes of the target", len(t.Processes)))
	}
	return fmt.Sprintf("%d processes ended, %d of them sampled", n, t.Restarts), errors.Join(err, err2)
}

// mostProcesses is how many processes a target has by default.
const mostProcesses = 8

// first starts a program that gets a CPU whenever it wants one.
const first = "nice -n -15"

// families starts a program that computes in children.
func (s *stage) families(ctx context.Context) error {
	_, err := s.join(ctx, "forking", "children", "")
	return err
}

// execs makes a program replace itself. Targets of children go on meanwhile.
func (s *stage) execs(ctx context.Context) (string, error) {
	if err := s.link("execing"); err != nil {
		return "", err
	}
	c, err := s.computeBy(ctx, append(strings.Fields(first), s.executable("execing"), "calls"))
	if err != nil {
		return "", err
	}
	defer c.stop()
	var waits []float64
	_, err = s.repeat(ctx, 0, func() error {
		before, err := s.restarts(ctx, "execing")
		if err == nil {
			err = s.samples(ctx, "execing", c.pid())
		}
		if err != nil {
			return err
		}
		began := time.Now()
		if err := c.tell("exec"); err != nil || !c.out.Scan() {
			return errors.Join(err, errors.New("the program is gone after exec"))
		}
		err = s.served.awaits(ctx, "go on after exec", []string{"execing"}, func(t daemon.TargetStatus) bool {
			return t.Restarts > before && sampled(t, c.pid())
		})
		waits = append(waits, time.Since(began).Seconds())
		return err
	})
	return fmt.Sprintf("%d execs, %s until the first sample", len(waits), medianAndMost(waits)), err
}

// medianAndMost prints times.
func medianAndMost(seconds []float64) string {
	if len(seconds) == 0 {
		return "–"
	}
	return fmt.Sprintf("%s s at the median and %s at most", report.Number(campaign.Median(seconds), 2), report.Number(slices.Max(seconds), 2))
}

func (s *stage) restarts(ctx context.Context, name string) (uint64, error) {
	all, err := s.served.targets(ctx)
	return all[name].Restarts, err
}

// sampled reports whether there are samples of a process.
func sampled(t daemon.TargetStatus, pid int) bool {
	return slices.ContainsFunc(t.Processes, func(p daemon.ProcessStatus) bool { return p.PID == pid && p.Status.Samples > 0 })
}

// samples returns when there are samples of a process.
func (s *stage) samples(ctx context.Context, name string, pid int) error {
	return s.served.awaits(ctx, "sample the process", []string{name}, func(t daemon.TargetStatus) bool { return sampled(t, pid) })
}

// stops stops programs for a while, one at a time.
func (s *stage) stops(ctx context.Context) (string, error) {
	const longest = 200 * time.Millisecond
	n, err := s.repeat(ctx, longest/10, func() error {
		p := s.members[s.IntN(len(s.members))].cmd.Process
		err := p.Signal(unix.SIGSTOP)
		time.Sleep(time.Duration(s.Int64N(int64(longest))))
		return errors.Join(err, p.Signal(unix.SIGCONT))
	})
	return fmt.Sprintf("%d stops", n), err
}

// threadsOfTask is how many threads the computer's task starts at a time.
const threadsOfTask = 4

// threaded starts a program whose threads begin and end.
func (s *stage) threaded(ctx context.Context) error {
	_, err := s.join(ctx, "threads", "threads", first)
	return err
}

func (s *stage) threads(ctx context.Context) (string, error) {
	m := s.members[s.programs()]
	began := time.Now()
	_, err := s.nothing(ctx)
	if err != nil {
		return "", err
	}
	took := time.Since(began)
	before := m.last
	if err := m.tell("rest"); err != nil {
		return "", err
	}
	now, err := m.answer()
	if err != nil {
		return "", err
	}
	m.last = before // the rest to come counts from there
	rate := float64(threadsOfTask*(now.Answers-before.Answers)) / took.Seconds()
	return fmt.Sprintf("%s threads a second", report.Count(rate)), m.tell("")
}

// maps lets a program of testdata/hostile run.
func (s *stage) maps(ctx context.Context) (string, error) {
	const kind = "code that is mapped and unmapped all the time"
	maker, err := s.build(ctx, "make", "./testdata/hostile/make")
	if err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, maker, kind, s.executable("mapping")).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make it: %w\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, s.executable("mapping"))
	if err := cmd.Start(); err != nil {
		return "", err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := s.samples(ctx, "mapping", cmd.Process.Pid); err != nil {
		return "", err
	}
	return s.nothing(ctx)
}

// builds makes two builds of a program.
func (s *stage) builds(ctx context.Context) error {
	for _, name := range []string{"build-a", "build-b"} {
		file, err := s.build(ctx, name, "./scripts/hostile/testdata/computer", "-ldflags=-buildid="+name)
		if err != nil {
			return err
		}
		if err := os.Rename(file, filepath.Join(s.folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// replaces puts another build in the place of a running program, and restarts it.
func (s *stage) replaces(ctx context.Context) (string, error) {
	const life = 1200 * time.Millisecond // shorter lives make the daemon wait
	var waits []float64
	n, err := s.repeat(ctx, 0, func() error {
		name := []string{"build-a", "build-b"}[len(waits)%2]
		if err := install(filepath.Join(s.folder, name), s.executable("replaced")); err != nil {
			return err
		}
		c, err := s.computeBy(ctx, append(strings.Fields(first), s.executable("replaced"), "calls"))
		if err != nil {
			return err
		}
		defer c.stop()
		began := time.Now()
		err = s.samples(ctx, "replaced", c.pid())
		waits = append(waits, time.Since(began).Seconds())
		if most := mostRestart * s.slack(); err == nil && time.Since(began) > most {
			err = fmt.Errorf("the first sample came %v after the start", time.Since(began))
		}
		time.Sleep(life)
		return err
	})
	return fmt.Sprintf("%d restarts of two builds, %s until the first sample", n, medianAndMost(waits)), err
}

// mostRestart is the time until the first sample of a program that has started.
const mostRestart = 2500 * time.Millisecond

// install replaces a file by a link to another one.
func install(from, to string) error {
	if err := os.Link(from, to+".new"); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// reloads loads the configuration again and again.
func (s *stage) reloads(ctx context.Context) (string, error) {
	var waits []float64
	c := s.webClient(rootUser)
	defer c.CloseIdleConnections()
	_, err := s.repeat(ctx, 100*time.Millisecond, func() error {
		took, err := c.want(ctx, http.StatusAccepted, http.MethodPost, "/v1/reload")
		waits = append(waits, took.Seconds())
		return err
	})
	if most := (mostReload * s.slack()).Seconds(); len(waits) > 0 && campaign.Median(waits) > most {
		err = errors.Join(err, fmt.Errorf("a reload takes %.3f s", campaign.Median(waits)))
	}
	return fmt.Sprintf("%d reloads, %s", len(waits), medianAndMost(waits)), err
}

const (
	mostReload   = 100 * time.Millisecond
	largeTargets = 200
)

// large adds targets that no process fits.
func (s *stage) large() order {
	var more strings.Builder
	for i := range largeTargets - s.programs() {
		fmt.Fprintf(&more, "[[target]]\nname = \"other%d\"\nmatch = { exe = \"/srv/*/other%d\", cmdline = '-addr :80\\d\\d' }\n", i, i)
	}
	return order{rotate: rotation, store: s.store, more: more.String()}
}
