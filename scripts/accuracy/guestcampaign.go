package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	threads "github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/scripts/report"
	"github.com/ccmapd/ccmapd/testdata/guests"
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
	leafless   truth    // by time; functions without safe points of their own count for their callers
	clocked    *clocked // nil: not measured
}

// clocked compares with the exact profile by time: each function's instructions weigh the
// time that its clock has measured.
type clocked struct {
	inside       float64 // part of the thread's time that is in the guest's functions, in percent
	instructions truth   // the exact profile by instructions, held against the same by time
	time         truth   // the sampled profile, held against the exact one by time
}

// measureGuests samples each guest of a list in every shape and compares the profiles with the
// exact one.
func measureGuests(ctx context.Context, c config, list []guests.Guest) (*guestResults, error) {
	r := &guestResults{config: c, began: time.Now(), load: report.LoadAverage()}
	all, err := loadGuests(ctx, list)
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
	exact, err := execute(ctx, g, wasm.Options{Exact: true}, 0, nil, nil)
	if err != nil {
		return guestResult{}, fmt.Errorf("record exact profile: %w", err)
	}
	r := guestResult{loadedGuest: g, exact: exact.profile, took: exact.took}
	for _, s := range shapes(c) {
		c.Say("%s, every %v", g.Name, s)
		options := wasm.Options{Options: threads.Options{Interval: s.interval, Burst: s.burst}, CollectAtSamples: true}
		whole := c.guestTime / time.Duration(s.part)
		var clock *guestClock
		if s == plainShape {
			clock = c.clock()
		}
		run, err := execute(ctx, g, options, whole, prefixes(whole), clock)
		if err != nil {
			return r, fmt.Errorf("sample every %v: %w", s, err)
		}
		if s == plainShape {
			r.plain = run.took / time.Duration(run.executions)
		}
		measured, err := r.hold(s, run)
		if err == nil && clock != nil {
			measured.clocked, err = r.holdClocked(run.profile, clock)
		}
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

// clock returns a clock, or nil if the kernel permits none.
func (c config) clock() *guestClock {
	clock, err := newGuestClock()
	if err != nil {
		c.Say("the time of functions is not measured: %v", err)
		return nil
	}
	return clock
}

// holdClocked compares with the exact profile by time.
func (r *guestResult) holdClocked(sampled *ccmap.Snapshot, clock *guestClock) (*clocked, error) {
	spent, inside, err := r.spent(clock)
	if err != nil {
		return nil, err
	}
	timed := weighed(r.exact, spent)
	c := &clocked{inside: inside}
	if c.instructions, err = hold(r.exact, timed, compare.ByTime, nil); err != nil {
		return nil, err
	}
	c.time, err = holdWarm(sampled, timed, compare.ByTime, nil)
	return c, err
}

// spent returns the clock's times by method, and the part of the thread's time that they
// are.
func (g loadedGuest) spent(clock *guestClock) (by map[ccmap.Method]time.Duration, inside float64, err error) {
	if clock.lost {
		return nil, 0, errors.New("the clock has lost samples")
	}
	functions, err := wasm.Functions(g.binary)
	if err != nil {
		return nil, 0, err
	}
	by = make(map[ccmap.Method]time.Duration)
	var sum time.Duration
	for i, f := range functions[g.imported:] {
		by[identity(ccmap.Method{Name: f.Name, Signature: f.Signature})] = clock.spent[i]
		sum += clock.spent[i]
	}
	return by, 100 * float64(sum) / float64(sum+clock.outside), nil
}

// identity is the part of a method that no other method of the guest shares.
func identity(m ccmap.Method) ccmap.Method {
	return ccmap.Method{Name: m.Name, Signature: m.Signature}
}

// weighed returns an exact profile with times in place of instructions. A function's
// instructions weigh the same in every context, and together the time of the function.
func weighed(exact *ccmap.Snapshot, spent map[ccmap.Method]time.Duration) *ccmap.Snapshot {
	const scale = 1000 // weights are integers
	instructions := make(map[ccmap.Method]int64)
	of := make([]ccmap.Method, exact.Len()) // by node
	for n := range exact.Nodes() {
		if of[n.ID] = of[n.Parent]; n.Method != ccmap.NoMethod {
			of[n.ID] = identity(exact.Names().At(n.Method))
		}
		instructions[of[n.ID]] += n.Self.Time
	}
	timed := ccmap.New(ccmap.Options{Names: exact.Names()})
	placed := make([]ccmap.NodeID, exact.Len())
	for n := range exact.Nodes() {
		if n.ID == 0 {
			continue
		}
		placed[n.ID] = timed.Child(placed[n.Parent], n.Offset, n.Method)
		own := n.Self
		if own.Time > 0 {
			own.Time = int64(scale * float64(own.Time) * float64(spent[of[n.ID]]) / float64(instructions[of[n.ID]]))
		}
		timed.Add(placed[n.ID], own)
	}
	return timed.Snapshot()
}

// leaf reports whether a method has no safe point of its own, so that the sampler cannot
// see it.
func (g loadedGuest) leaf(m ccmap.Method) bool { return g.leaves[m.Name] }
