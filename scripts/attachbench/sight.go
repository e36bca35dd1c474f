package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// unseen are methods that runtime/pprof counts for their callers: the kernel and the vDSO.
var unseen = regexp.MustCompile(`^\[kernel\]$|clock_gettime$|^\[vdso\]`)

// sighted are the workloads whose profiles are looked at.
var sighted = []string{"server", "busy", "short"}

// view is a profile, with the CPU time that its target used between ccmapd's first line and
// the signal that ended the session.
type view struct {
	*ccmap.Snapshot
	report campaign.SessionReport
	clock  time.Duration
}

// measureSights compares profiles of one program at the same time: two by ccmapd for each
// engine, whose overlap is the noise floor, and one by runtime/pprof.
func (b *bench) measureSights(ctx context.Context) (*report.Table, error) {
	t := &report.Table{Head: []string{"workload", "engine", "samples", "of the CPU clock, %", "rooted, %", "first callers repaired, %", "truncated, %",
		"overlap with itself: methods, edges, contexts", "with `runtime/pprof`", "with the other engine"}}
	for _, name := range sighted {
		if !b.Wants(name) || b.Quick && find(name).slow {
			continue
		}
		if err := b.sightOf(ctx, find(name), t); err != nil {
			return nil, fmt.Errorf("profiles of %s: %w", name, err)
		}
	}
	return t, nil
}

func (b *bench) sightOf(ctx context.Context, w workload, table *report.Table) error {
	t, err := start(ctx, w)
	if err != nil {
		return err
	}
	defer t.stop()
	b.Say("%s: what profilers see", w.name)
	var sessions []*campaign.Session
	var clocks []time.Duration
	p := t.processes[0]
	for i := range 2 * len(b.engines) {
		flags := append([]string{"--tune=false", "--max-overhead=0"}, b.engines[i/2].flags...)
		s, err := b.Attach(ctx, p.PID(), "", b.sightFile(i), flags...)
		if err != nil {
			return err
		}
		clock, err := p.CPU() // it samples by now
		if err != nil {
			return err
		}
		sessions, clocks = append(sessions, s), append(clocks, clock)
	}
	if _, err := p.ask(fmt.Sprintf("profile %s %s", b.Path("own.pb.gz"), b.sight)); err != nil {
		return fmt.Errorf("profile target by itself: %w", err)
	}
	views := make([]view, len(sessions))
	for i, s := range sessions {
		clock, err1 := p.CPU()
		r, err2 := s.End()
		profile, err3 := campaign.ReadProfile(b.sightFile(i))
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		views[i] = view{profile, r, clock - clocks[i]}
	}
	own, err := campaign.ReadProfile(b.Path("own.pb.gz"))
	if err != nil {
		return err
	}
	return b.sightRows(w, views, own, table)
}

func (b *bench) sightFile(i int) string { return b.Path(fmt.Sprintf("sight-%d.pb.gz", i)) }

// sightRows adds a row for each engine.
func (b *bench) sightRows(w workload, views []view, own *ccmap.Snapshot, table *report.Table) error {
	for i, e := range b.engines {
		v := views[2*i]
		s := v.report.Source
		part := func(n uint64) string { return report.Percent(100 * float64(n) / float64(max(s.Samples, 1))) }
		row := []string{w.about, e.name, report.Count(float64(s.Samples)), report.Percent(100 * float64(v.Total().Time) / float64(v.clock)),
			part(s.Rooted), part(s.Repaired), part(s.Truncated)}
		others := []*ccmap.Snapshot{views[2*i+1].Snapshot, own}
		if len(b.engines) > 1 {
			others = append(others, views[2*(1-i)].Snapshot)
		}
		for _, other := range others {
			c, err := compare.Compare(v.Snapshot, other, compare.Options{Seed: 1, Absorb: func(m ccmap.Method) bool { return unseen.MatchString(m.Name) }})
			if err != nil {
				return err
			}
			row = append(row, fmt.Sprintf("%s, %s, %s", report.Percent(c.Methods.Percent), report.Percent(c.Edges.Percent), report.Percent(c.Contexts.Percent)))
		}
		for len(row) < len(table.Head) {
			row = append(row, "")
		}
		table.Row(row...)
	}
	return nil
}

// intervalChange measures how long engine perf takes to change the interval of 500
// threads: two system calls for each event.
func (b *bench) intervalChange(ctx context.Context) (string, error) {
	const changes = 50
	if !b.Wants("threads") {
		return "", nil
	}
	t, err := start(ctx, find("threads"))
	if err != nil {
		return "", err
	}
	defer t.stop()
	var took []float64
	err = campaign.Perf.Sample(ctx, sampler.ProcessOptions{PID: t.processes[0].PID()}, func(ctx context.Context, source campaign.Source) error {
		for i := range changes {
			began := time.Now()
			if err := source.SetInterval(10*time.Millisecond + time.Duration(i%2)*time.Millisecond); err != nil {
				return err
			}
			took = append(took, 1e3*time.Since(began).Seconds())
		}
		return nil
	}, func(*ccmap.Sample, *ccmap.Names) {})
	i := campaign.MedianOf(took)
	return fmt.Sprintf("\nEngine perf changes the interval of 500 threads in %s ms (median of %d; %s to %s): the goal is 0.1 ms.\n",
		report.Number(i.Middle, 2), changes, report.Number(i.Low, 2), report.Number(i.High, 2)), err
}
