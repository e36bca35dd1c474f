package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	threads "github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// guestResults are the report's contents on guests.
type guestResults struct {
	config
	began  time.Time
	took   time.Duration
	load   float64 // of the machine, at the beginning
	guests []guestResult
}

// guestResult is the results for one guest.
type guestResult struct {
	loadedGuest
	exact  *ccmap.Snapshot // of one execution
	took   time.Duration   // of that execution
	plain  time.Duration   // of an execution sampled every 10 ms
	shaped []shaped
}

// shaped is the results for a guest in one shape.
type shaped struct {
	shape
	executions int
	time       truth   // by instructions of the exact profile, ns of the sampled one
	calls      truth   // by activations
	timeCurve  []truth // of prefixes, then of the whole
	callsCurve []truth
	leafless   truth // by time; functions without safe points of their own count for their callers
}

// measureGuests samples every guest in every shape and compares the profiles with the
// exact one.
func measureGuests(ctx context.Context, c config) (*guestResults, error) {
	r := &guestResults{config: c, began: time.Now(), load: report.LoadAverage()}
	all, err := loadGuests(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		measured, err := measureGuest(ctx, c, g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.Name, err)
		}
		r.guests = append(r.guests, measured)
	}
	r.took = time.Since(r.began)
	return r, nil
}

func measureGuest(ctx context.Context, c config, g loadedGuest) (guestResult, error) {
	exact, err := execute(ctx, g, wasm.Options{Exact: true}, 0, nil)
	if err != nil {
		return guestResult{}, fmt.Errorf("record exact profile: %w", err)
	}
	r := guestResult{loadedGuest: g, exact: exact.profile, took: exact.took}
	for _, s := range shapes(c) {
		c.Say("%s, every %v", g.Name, s)
		options := wasm.Options{Options: threads.Options{Interval: s.interval, Burst: s.burst}}
		whole := c.guestTime / time.Duration(s.part)
		run, err := execute(ctx, g, options, whole, prefixes(whole))
		if err != nil {
			return r, fmt.Errorf("sample every %v: %w", s, err)
		}
		if s == plainShape {
			r.plain = run.took / time.Duration(run.executions)
		}
		measured, err := r.hold(s, run)
		if err != nil {
			return r, fmt.Errorf("every %v: %w", s, err)
		}
		r.shaped = append(r.shaped, measured)
	}
	return r, nil
}

// hold compares a sampled run, and its prefixes, with the exact profile.
func (r *guestResult) hold(s shape, run guestRun) (shaped, error) {
	m := shaped{shape: s, executions: run.executions}
	var err error
	if m.time, err = holdWarm(run.profile, r.exact, compare.ByTime, nil); err != nil {
		return m, err
	}
	if m.calls, err = holdWarm(run.profile, r.exact, compare.ByActivations, nil); err != nil {
		return m, err
	}
	if m.leafless, err = hold(run.profile, r.exact, compare.ByTime, r.leaf); err != nil {
		return m, err
	}
	for _, prefix := range run.prefixes {
		if prefix.Total().Activations == 0 || prefix.Total().Time == 0 {
			continue
		}
		byTime, err := hold(prefix, r.exact, compare.ByTime, nil)
		if err != nil {
			return m, err
		}
		byCalls, err := hold(prefix, r.exact, compare.ByActivations, nil)
		if err != nil {
			return m, err
		}
		m.timeCurve, m.callsCurve = append(m.timeCurve, byTime), append(m.callsCurve, byCalls)
	}
	m.timeCurve, m.callsCurve = append(m.timeCurve, m.time), append(m.callsCurve, m.calls)
	return m, nil
}

// leaf reports whether a method has no safe point of its own, so that the sampler cannot
// see it.
func (g loadedGuest) leaf(m ccmap.Method) bool { return g.leaves[m.Name] }
