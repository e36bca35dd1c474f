package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// results are the contents of the report.
type results struct {
	config
	at      map[string]map[string]agreement // by mode and program
	curves  map[string]*curve               // by program
	tuning  map[string][][]time.Duration    // by program: the intervals of each tuned run
	long    []time.Duration                 // of the run with the paper's thresholds
	costs   map[string]cost                 // by mode
	load    float64                         // of the machine, median over all runs
	seconds float64                         // of all runs
	last    time.Time                       // beginning of the last run
}

// analyze reads all runs and compares them.
func analyze(c config) (*results, error) {
	r := &results{
		config: c,
		at:     make(map[string]map[string]agreement),
		curves: make(map[string]*curve),
		tuning: make(map[string][][]time.Duration),
	}
	spent := make(spending)
	var loads []float64
	for _, p := range programs(c) {
		for _, m := range modes(c) {
			all, err := sessions(c, p, m)
			if err == nil {
				err = r.take(p, m, all)
			}
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", p.name, m.name, err)
			}
			for _, s := range all {
				loads = append(loads, s.Load)
				r.seconds += s.Wall.Seconds()
				r.last = later(r.last, s.begin())
			}
			spent.add(p, m, all)
		}
	}
	if len(loads) == 0 {
		return nil, fmt.Errorf("no runs in %s", c.Work)
	}
	r.load, r.costs = campaign.Median(loads), spent.costs(c)
	return r, nil
}

// take adds the results of a program's runs in a mode.
func (r *results) take(p program, m mode, all []session) error {
	switch {
	case m.name == tunedLong && len(all) > 0:
		r.long = all[0].intervals()
		return nil
	case m.sampling == nil || len(all) < 2:
		return nil
	case m.share < 1:
		return appendTo(&r.curve(p.name).shorter, profilesOf(all))
	}
	if m.name == tuned {
		for _, s := range all {
			r.tuning[p.name] = append(r.tuning[p.name], s.intervals())
		}
	}
	return r.compare(p, m, all)
}

// compare measures the agreement of runs and, at the shortest interval, how it depends on
// the number of samples.
func (r *results) compare(p program, m mode, all []session) error {
	a, err := agree(profilesOf(all))
	if err != nil {
		return err
	}
	if r.at[m.name] == nil {
		r.at[m.name] = make(map[string]agreement)
	}
	r.at[m.name][p.name] = a
	if m.name == oneMilli && !r.table {
		return r.curve(p.name).trace(profilesOf(all))
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// curve returns the curve of a program, initially empty.
func (r *results) curve(name string) *curve {
	if r.curves[name] == nil {
		r.curves[name] = new(curve)
	}
	return r.curves[name]
}

// cost is the cost of sampling in a mode, over all workloads that print their CPU time.
type cost struct {
	programs int
	target   float64 // percent of CPU time more than without sampling, mean over the programs
	error    float64 // its standard error, percent
	daemon   float64 // percent of the target's CPU time
}

// spending is CPU time in seconds, by mode and program: of the target in each
// run, and of ccmapd.
type spending map[string]map[string]*spent

type spent struct{ target, daemon []float64 }

func (s spending) add(p program, m mode, all []session) {
	for _, x := range all {
		if x.TargetCPU == 0 {
			continue
		}
		if s[m.name] == nil {
			s[m.name] = make(map[string]*spent)
		}
		if s[m.name][p.name] == nil {
			s[m.name][p.name] = new(spent)
		}
		at := s[m.name][p.name]
		at.target = append(at.target, x.TargetCPU.Seconds())
		at.daemon = append(at.daemon, x.DaemonCPU.Seconds())
	}
}

// costs compares each mode that does the same work with the programs alone: run by run,
// because a run of each was made at about the same time.
func (s spending) costs(c config) map[string]cost {
	all := make(map[string]cost)
	for _, m := range modes(c) {
		if m.sampling == nil || m.share != 1 {
			continue
		}
		var more, daemon []float64
		for name, at := range s[m.name] {
			if plain := s[alone][name]; plain != nil {
				more = append(more, 100*(campaign.Median(ratios(at.target, plain.target))-1))
				daemon = append(daemon, 100*campaign.Mean(at.daemon)/campaign.Mean(at.target))
			}
		}
		if n := len(more); n > 0 {
			all[m.name] = cost{n, campaign.Mean(more), campaign.Deviation(more) / math.Sqrt(float64(n)), campaign.Mean(daemon)}
		}
	}
	return all
}

// ratios returns a[i]/b[i] for each i that both have.
func ratios(a, b []float64) []float64 {
	all := make([]float64, min(len(a), len(b)))
	for i := range all {
		all[i] = a[i] / b[i]
	}
	return all
}

// session is one sampled run.
type session struct {
	recorded
	profile *ccmap.Snapshot
}

// begin returns the beginning of the run, or zero for a run that was not sampled.
func (s session) begin() time.Time {
	if s.profile == nil {
		return time.Time{}
	}
	return s.profile.Meta().Start
}

// intervals returns the settings of the sampling interval.
func (s session) intervals() []time.Duration {
	var all []time.Duration
	for _, change := range s.profile.Meta().Interval {
		all = append(all, change.Interval)
	}
	return all
}

// sessions reads all runs of a program in a mode.
func sessions(c config, p program, m mode) ([]session, error) {
	var all []session
	for i := range m.times(c.runs) {
		var s session
		err := campaign.ReadJSON(factsPath(c, p, m, i), &s.recorded)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && m.sampling != nil {
			s.profile, err = campaign.ReadProfile(profilePath(c, p, m, i))
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s, run %d: %w", p.name, m.name, i, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func profilesOf(all []session) []*ccmap.Snapshot {
	profiles := make([]*ccmap.Snapshot, len(all))
	for i, s := range all {
		profiles[i] = s.profile
	}
	return profiles
}
