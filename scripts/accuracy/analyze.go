package main

import (
	"fmt"
	"time"
)

// results are all that the report tells.
type results struct {
	config
	at      map[string]map[string]agreement // by mode and program
	curves  map[string]*curve               // by program
	tuning  map[string][][]time.Duration    // by program: the intervals of each tuned run
	long    []time.Duration                 // of the run with the paper's thresholds
	costs   map[string]cost                 // by mode
	load    float64                         // of the machine, median over all runs
	seconds float64                         // that all runs took
	last    time.Time                       // when the last one began
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
		return nil, fmt.Errorf("no runs in %s", c.work)
	}
	r.load, r.costs = median(loads), spent.costs(c)
	return r, nil
}

// take adds what the runs of a program in a mode tell.
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

// compare measures how the runs agree, and from those at the shortest interval
// how that depends on the number of samples.
func (r *results) compare(p program, m mode, all []session) error {
	a, err := agree(profilesOf(all))
	if err != nil {
		return err
	}
	if r.at[m.name] == nil {
		r.at[m.name] = make(map[string]agreement)
	}
	r.at[m.name][p.name] = a
	if m.name == oneMilli {
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

// curve returns the curve of a program, at first an empty one.
func (r *results) curve(name string) *curve {
	if r.curves[name] == nil {
		r.curves[name] = new(curve)
	}
	return r.curves[name]
}
