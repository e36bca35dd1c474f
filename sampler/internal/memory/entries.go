package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/goproc"
)

// mostEntries leaves one of the four debug registers of an x86 CPU to others.
const mostEntries = 3

// entries counts the calls of functions that answer requests, by hardware breakpoints. A breakpoint stops the thread
// at each call. Where that would take more of a core than [defaultBudget], the breakpoints are on between some ticks
// alone, which come at random, and the calls of all the time are estimated by those. A server that is stopped at each
// request answers fewer, by a fifth where a hypervisor makes that dear, but its threads still switch about as often for
// each: so the calls of all the time are to those that were counted as its switches are. Without perf events nothing is counted.
//
//	points       atomic: any goroutine reads them
//	all others   Open, then the goroutine of Run
type entries struct {
	all      []entry
	why      error // why some are not counted
	price    chan perfevent.Costs
	costs    perfevent.Costs
	switches *process.Switches
	pid      int

	begin, last int64 // of ticks, CLOCK_MONOTONIC, ns
	looked      int64 // the last look at goroutines
	on          int64 // time that the breakpoints were on, ns
	readAt      int64 // the last reading of switches
	onSwitches  uint64
	costly      bool  // to read them at each tick
	began       int64 // when they were set first; 0: they were not
	paused      bool
	due         float64 // ticks for which they may be on
	points      atomic.Pointer[[]ccmap.Point]
	version     atomic.Uint64
}

// entry is one of the functions.
type entry struct {
	pc      uint64 // an instruction that each call executes once
	method  ccmap.MethodID
	counter *perfevent.Counter
	windows windows
}

// find finds the functions in the program, and returns where they begin. It looks at each function of the program, for
// each name.
func (e *entries) find(ctx context.Context, o sampler.ProcessOptions, p *goproc.Process) map[uint64]bool {
	e.pid = o.PID
	at := make(map[uint64]bool)
	for _, name := range slices.Concat(o.Under, query.Answering()) {
		pc, method, err := p.Once(ctx, name, o.Sink.Names)
		if err == nil {
			at[p.Entry(pc)] = true
		}
		switch {
		case errors.Is(err, gosym.ErrNoFunction):
		case err != nil:
			e.why = err
		case len(e.all) == mostEntries:
			e.why = fmt.Errorf("%s is one more than the %d functions that debug registers can be had for", name, mostEntries)
		default:
			e.all = append(e.all, entry{pc: pc, method: method})
		}
	}
	if len(e.all) == 0 {
		return at
	}
	e.price, e.switches = make(chan perfevent.Costs, 1), process.NewSwitches(o.PID)
	price := e.price
	e.costs = perfevent.UsualThreadCosts()
	go func() {
		costs, _ := perfevent.ThreadCosts() // the usual ones, where they cannot be measured
		price <- costs
	}()
	return at
}

// priceTime is how long the breakpoints wait for their price. Where other programs want the CPUs, it takes seconds to
// measure, in which no request would be counted: so the usual price stands until then.
const priceTime = time.Second

// entriesEvery is how often counts are read, at least. It takes a call of the kernel for each thread.
const entriesEvery = 200 * time.Millisecond

// tick takes in what was counted since the last tick, and decides whether the breakpoints are on until the next. Goroutines
// were looked at last at the time looked.
func (e *entries) tick(now, looked int64, last bool) {
	elapsed := now - e.last
	switch {
	case e.last == 0:
		e.begin, elapsed = cmp.Or(e.begin, looked), 0
	case elapsed < int64(entriesEvery) && !last:
		return
	}
	e.last, e.looked = now, looked
	if priced := e.priced(now); e.began == 0 {
		switch {
		case last && e.why == nil && e.price != nil:
			e.why = errShort
		case priced:
			e.set(now)
		}
		return
	}
	worth := float64(elapsed)
	if !e.paused {
		e.on += elapsed
		before := e.switches.Total
		e.readSwitches(now)
		e.onSwitches += e.switches.Total - before
		if !e.costly {
			worth = float64(e.switches.Total - before)
		}
	}
	e.count(worth)
	e.due += e.share() // so the windows are as far apart as they can be
	pause := e.due < 1
	if !pause {
		e.due--
	}
	if pause == e.paused {
		return
	}
	for i := range e.all {
		var err error
		if c := e.all[i].counter; pause {
			err = c.Pause()
		} else {
			err = c.Resume()
		}
		if err != nil {
			e.fail(err)
			return
		}
	}
	if e.paused = pause; !pause {
		e.readSwitches(now)
	}
}

// readSwitches reads the switches of the target's threads. Where it has so many that this is costly, the time tells how
// many calls were not counted.
func (e *entries) readSwitches(now int64) {
	if !e.costly && e.switches.Threads() > mostRead {
		e.costly = true
		for i := range e.all {
			e.all[i].windows.restart() // they were worth switches
		}
	}
	if !e.costly || e.switches.Due(time.Now()) {
		e.switches.Read()
		e.readAt = now
	}
}

// beyond returns how many times as many calls there were as were counted.
func (e *entries) beyond() float64 {
	all := float64(e.looked - e.begin)
	if e.costly || e.onSwitches < fewSwitches {
		return all / float64(e.on)
	}
	return float64(e.switches.Total) / float64(e.onSwitches) * all / float64(e.readAt-e.began)
}

const (
	fewSwitches = 100 // tell less than the time
	mostRead    = 64  // threads whose switches are read at each tick: half a millisecond of [entriesEvery]
)

// errShort says why nothing was counted where nothing failed.
var errShort = errors.New("the session ended before breakpoints were set")

// priced reports whether it is known what the breakpoints cost, or was asked for long enough.
func (e *entries) priced(now int64) bool {
	select {
	case e.costs = <-e.price:
		return true
	default:
		return e.price != nil && now-e.begin >= int64(priceTime)
	}
}

// set sets the breakpoints.
func (e *entries) set(now int64) {
	for i := range e.all {
		at := &e.all[i]
		var err error
		if at.counter, err = perfevent.OpenCounter(func() ([]uint32, error) { return process.Threads(e.pid) }, at.pc); err != nil {
			e.fail(err)
			return
		}
	}
	e.began, e.due = now, rand.Float64()
	e.readSwitches(now)
}

// count makes the points. Calls that were counted are those of [ccmap.Point.Other], and those of the time without
// breakpoints are estimated in Aged. A window that was open since the last count was worth so many switches, or so much
// time.
func (e *entries) count(worth float64) {
	if e.on == 0 {
		return
	}
	points := make([]ccmap.Point, len(e.all))
	for i := range e.all {
		at := &e.all[i]
		n, err := at.counter.Count()
		if err != nil {
			e.fail(err)
			return
		}
		if !e.paused {
			at.windows.add(float64(n), worth)
		}
		all := int64(float64(n) * e.beyond())
		points[i] = ccmap.Point{
			Origin: ccmap.OriginBurst, Kind: ccmap.PointCall, Method: at.method, Offset: ccmap.NoOffset, End: ccmap.NoOffset,
			Count: all, Other: int64(n), Aged: all - int64(n), Nulls: ccmap.NullsUnknown,
		}
	}
	e.points.Store(&points)
	e.version.Add(1)
}

// share returns the part of the time in which the breakpoints may be on.
func (e *entries) share() float64 {
	if e.on == 0 {
		return 1
	}
	calls := 0.0
	points, _ := e.counted()
	for _, p := range points {
		calls += float64(p.Other)
	}
	perSecond := calls / time.Duration(e.on).Seconds() * e.costs.Call.Seconds()
	if since := time.Duration(e.last - e.began).Seconds(); since > 0 {
		perSecond += float64(e.switches.Total) / since * e.costs.Watch.Seconds() * float64(len(e.all))
	}
	if perSecond <= defaultBudget {
		return 1
	}
	return defaultBudget / perSecond
}

// fail ends counting. What was counted so far would be too few of all requests, so it is dropped.
func (e *entries) fail(err error) {
	e.why = err
	e.close()
	e.points.Store(nil)
	e.version.Add(1)
}

// close takes the breakpoints away.
func (e *entries) close() {
	for i := range e.all {
		if c := e.all[i].counter; c != nil {
			c.Close()
		}
	}
	e.all, e.price, e.began = nil, nil, 0
}

// counted returns the points, and their version.
func (e *entries) counted() ([]ccmap.Point, uint64) {
	version := e.version.Load()
	if points := e.points.Load(); points != nil {
		return *points, version
	}
	return nil, version
}

// comments says why requests are not counted, or how far those that were counted tell the others.
func (e *entries) comments(names *ccmap.Names) (all []string) {
	if e.why != nil {
		return []string{ccmap.CommentRequests + "not counted: " + e.why.Error()}
	}
	for i := range e.all {
		at := &e.all[i]
		if n := at.windows.independent(float64(e.on) / float64(max(e.looked-e.begin, 1))); n > 0 {
			all = append(all, fmt.Sprintf("%s%s: counted like %d independent ones", ccmap.CommentRequests, names.At(at.method).Name, n))
		}
	}
	return all
}
