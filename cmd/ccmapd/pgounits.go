package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/feedback/unitcost"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler"
)

// measurement reads the clocks and the units of processes. One goroutine owns it.
type measurement struct{ sides [sides]*measured }

// measured is one process.
type measured struct {
	name  string // of its flag
	found processOf
	pidfd int
	is    process.Identity
	build string // "": not known

	counter *perfevent.Counter // of executions; nil: the metrics count
	metrics *served.Server
	metric  string

	readings []unitcost.Period // since the process's begin
}

// open finds the processes, and begins to count.
func (f *pgoMeasureFlags) open(ctx context.Context, env *environment) (*measurement, error) {
	m := &measurement{}
	for side, ref := range f.refs {
		if ref == "" {
			continue
		}
		p := &measured{name: "--" + sideNames[side], pidfd: -1, metric: f.metric}
		m.sides[side] = p
		if err := p.open(ctx, env, ref, f.root, f.urls[side]); err != nil {
			m.close()
			return nil, fmt.Errorf("measure %s %s: %w", p.name, ref, err)
		}
	}
	if m.sides[sideSame] != nil && !m.sameBuild(sideBefore, sideSame) {
		m.close()
		return nil, withHint(errors.New("--same is not the build of --before"), "Start a second process of the old build.")
	}
	return m, nil
}

func (p *measured) open(ctx context.Context, env *environment, ref, root, url string) (err error) {
	if p.found, err = findMeasured(ctx, ref); err != nil {
		return err
	}
	if p.pidfd, err = process.Open(p.found.pid); err != nil {
		return err
	}
	if p.is, err = process.IdentityOf(p.found.pid); err != nil {
		return err
	}
	p.build, _ = gosym.BuildIDOf(ctx, p.found.pid, nil)
	if root != "" {
		return p.countRoot(ctx, env, root)
	}
	at, err := served.Parse(url, "/metrics", served.Credentials{})
	if err != nil {
		return err
	}
	p.metrics, err = served.New(at, served.Options{})
	return err
}

// findMeasured finds the process that is named, or the only one of a target of the daemon here.
func findMeasured(ctx context.Context, ref string) (processOf, error) {
	d, name, isTarget := client.ParseDaemon(ref)
	switch {
	case !isTarget:
		return findProcess([]string{ref}, "")
	case d.URL != nil:
		return processOf{}, withHint(usage.Errorf("the processes of a daemon elsewhere cannot be measured here"), "Run ccmapd there.")
	}
	var list targetList
	if err := d.Get(ctx, &list, "targets"); err != nil {
		return processOf{}, err
	}
	name = strings.TrimPrefix(name, "live:")
	for _, t := range list.Targets {
		if t.Name != name {
			continue
		}
		pids := strings.Fields(pidsOf(t))
		switch len(pids) {
		case 0:
			return processOf{}, fmt.Errorf("target %s has no process: %w", name, sampler.ErrNoProcess)
		case 1:
			return findProcess(pids, "")
		}
		return processOf{}, withHint(usage.Errorf("target %s has %d processes: give the id of one", name, len(pids)), "They are %s.", terminal.ListNames(pids))
	}
	return processOf{}, withHint(fmt.Errorf("the daemon has no target %q: %w", name, sampler.ErrNoProcess), "'ccmapd targets' lists them.")
}

// countRoot begins to count the executions of a function.
func (p *measured) countRoot(ctx context.Context, env *environment, root string) error {
	if env.borrows(p.found.pid) {
		return tooMuch("--per stops each execution for a moment")
	}
	table, err := gosym.Open(ctx, p.found.pid, gosym.Options{})
	if err != nil {
		return err
	}
	pc, err := table.Once(ctx, root)
	if err = errors.Join(err, table.Close()); err != nil {
		return err
	}
	p.counter, err = perfevent.OpenCounter(func() ([]uint32, error) { return process.Threads(p.found.pid) }, pc)
	return err
}

// read takes readings until the time is over, or ctx is done.
func (m *measurement) read(ctx context.Context, duration, period time.Duration) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for range int(duration/period) + 1 {
		for _, p := range m.sides {
			if p == nil {
				continue
			}
			if err := p.read(ctx); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return fmt.Errorf("measure %s: %w", p.name, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	return nil
}

// read takes a reading. The page of metrics is made somewhen while it is read, so the clock is that of the middle.
func (p *measured) read(ctx context.Context) error {
	before, err := process.ReadCPUTimes(p.found.pid)
	if err != nil || process.Ended(p.pidfd) {
		return fmt.Errorf("process %d has ended: %w", p.found.pid, sampler.ErrNoProcess)
	}
	units, err := p.count(ctx)
	if err != nil {
		return err
	}
	if now, err := process.IdentityOf(p.found.pid); err == nil && !p.is.SameProgram(now) {
		return fmt.Errorf("process %d runs another program now", p.found.pid)
	}
	after, err := process.ReadCPUTimes(p.found.pid)
	if err != nil {
		return fmt.Errorf("process %d has ended: %w", p.found.pid, sampler.ErrNoProcess)
	}
	if n := len(p.readings); n > 0 && units < p.readings[n-1].Units {
		return fmt.Errorf("counter %s went back from %d to %d: another process answers, or it began anew", p.metric, p.readings[n-1].Units, units)
	}
	p.readings = append(p.readings, unitcost.Period{CPU: (before.All + after.All) / 2, Units: units})
	return nil
}

// count returns the units so far.
func (p *measured) count(ctx context.Context) (uint64, error) {
	if p.counter != nil {
		return p.counter.Count()
	}
	ctx, cancel := context.WithTimeout(ctx, served.Patience)
	defer cancel()
	r, err := p.metrics.Get(ctx, "", "")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return 0, p.metrics.Failure(r)
	}
	return unitcost.ReadCounter(r.Body, p.metric)
}

// periods returns what a process has done between readings.
func (m *measurement) periods(side int) (all []unitcost.Period) {
	readings := m.sides[side].readings
	for i := 1; i < len(readings); i++ {
		a, b := readings[i-1], readings[i]
		all = append(all, unitcost.Period{CPU: b.CPU - a.CPU, Units: b.Units - a.Units})
	}
	return all
}

// sameBuild reports whether two processes are known to run one build.
func (m *measurement) sameBuild(a, b int) bool {
	return m.sides[a].build != "" && m.sides[a].build == m.sides[b].build
}

// units returns the units of before and after.
func (m *measurement) units() (n uint64) {
	for _, side := range []int{sideBefore, sideAfter} {
		for _, p := range m.periods(side) {
			n += p.Units
		}
	}
	return n
}

func (m *measurement) close() {
	for _, p := range m.sides {
		if p == nil {
			continue
		}
		if p.counter != nil {
			p.counter.Close()
		}
		if p.metrics != nil {
			p.metrics.Close()
		}
		if p.pidfd >= 0 {
			unix.Close(p.pidfd)
		}
		p.found.close()
	}
}

// explainRoot adds advice to an error of counting executions.
func explainRoot(err error) error {
	switch {
	case errors.Is(err, gosym.ErrNoFunction):
		return withHint(err, "Names are those of symbols, as net/http.(*conn).serve: 'ccmapd top' shows them.")
	case errors.Is(err, gosym.ErrInlined), errors.Is(err, gosym.ErrFrameless):
		return withHint(err, "Take the function that calls it, if that is a unit of work, or --per-metric.")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return &advice.Error{Code: advice.CodeNotPermitted, Err: err, Hint: "Run as the user of the processes, or take --per-metric."}
	case errors.Is(err, unix.ENOSPC):
		return withHint(err, "All debug registers are in use, by a debugger or 'attach --hits'. Try again without it.")
	case errors.Is(err, perfevent.ErrSilent):
		return withHint(err, "Take --per-metric, or a machine with debug registers.")
	}
	return err
}
