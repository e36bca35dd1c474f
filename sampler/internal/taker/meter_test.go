package taker

import (
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestMeterCharges: a switch pays for the watches that are set while it happens, on average
// between two readings. A breakpoint costs the switches of its thread.
func TestMeterCharges(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var m meter
	m.look(began, 0, true)
	costs := perfevent.Costs{Switch: 3, Watch: 8}
	switches := new(process.Switches)
	m.charge(costs, began, switches, 0)
	for _, c := range []struct {
		look, watching int // when, and then
		read           int
		switches, most uint64
		catching       int      // ms, so far
		want           [3]int64 // atSwitch, atWatch, atCall so far
	}{
		{100, 0, 1000, 100, 70, 0, [3]int64{300, 0, 0}},
		{1250, 1, 1500, 200, 50, 0, [3]int64{600, 400, 0}},        // half of the time
		{2000, 0, 2500, 300, 50, 250, [3]int64{900, 800, 100}},    // it was still set for half of the time, and a breakpoint for a quarter
		{2500, 2, 3500, 400, 90, 250, [3]int64{1200, 2400, 100}},  // two, all of the time
		{3500, 0, 3500, 500, 90, 300, [3]int64{1200, 2400, 100}},  // no time has passed
		{4500, 0, 4500, 600, 50, 2300, [3]int64{1800, 2400, 920}}, // two breakpoints
	} {
		m.look(at(c.look), c.watching, true)
		switches.Total, switches.Most = c.switches, c.most
		m.charge(costs, at(c.read), switches, time.Duration(c.catching)*time.Millisecond)
		if got := [3]int64{m.atSwitch.Load(), m.atWatch.Load(), m.atCall.Load()}; got != c.want {
			t.Errorf("at %d ms: %d, want %d", c.read, got, c.want)
		}
		if got := m.total.Load(); got != c.switches {
			t.Errorf("at %d ms: %d switches, want %d", c.read, got, c.switches)
		}
	}
}

// TestPrice: a price is of a tenth of a second of CPU time or more, with all switches since the
// last one. A burst of calls counts on average.
func TestPrice(t *testing.T) {
	t.Parallel()
	var m meter
	const ms = time.Millisecond
	for i, c := range []struct {
		of, switches, calls time.Duration
		fresh               bool
		want                Price
	}{
		{40 * ms, 1 * ms, 0, false, Price{}},
		{80 * ms, 2 * ms, 0, false, Price{}},
		{200 * ms, 20 * ms, 0, true, Price{Lately: 0.1, SoFar: 0.1, Throughout: 0.15, Little: true}},
		{250 * ms, 30 * ms, 20 * ms, false, Price{Lately: 0.1, SoFar: 0.1, Throughout: 0.15, Little: true}},
		{400 * ms, 30 * ms, 20 * ms, true, Price{Lately: 0.1, SoFar: 0.125, Calls: 0.05, Throughout: 0.1, Little: true}},
		{1000 * ms, 180 * ms, 21 * ms, true, Price{Lately: 0.271, SoFar: 0.201, Calls: 0.021, Throughout: 1. / 60}},
	} {
		m.priced = false
		m.reckon(sampler.Overhead{Of: c.of, Switches: c.switches, Calls: c.calls}, 10, ms)
		if m.priced != c.fresh || m.price.Little != c.want.Little || apart(m.price, c.want) > 1e-9 {
			t.Errorf("reading %d: %+v, fresh %t, want %+v", i, m.price, m.priced, c.want)
		}
	}
}

func apart(a, b Price) float64 {
	return math.Abs(a.Lately-b.Lately) + math.Abs(a.SoFar-b.SoFar) + math.Abs(a.Calls-b.Calls) + math.Abs(a.Throughout-b.Throughout)
}

// TestHitBudget: caught calls take half of the overhead at most, and no more than was asked
// for.
func TestHitBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cost           time.Duration
		most, hits, is float64
	}{
		{10 * time.Microsecond, 0.01, 250, 250},
		{10 * time.Microsecond, 0.01, 10000, 500},
		{10 * time.Microsecond, 0.001, 250, 50},
		{10 * time.Microsecond, 0, 10000, 10000}, // no limit
		{10 * time.Microsecond, -1, 10000, 10000},
		{0, 0.01, 10000, 10000}, // the costs are not known
		{10 * time.Microsecond, 0.01, -1, 0},
	} {
		tk := &Taker{Log: slog.New(slog.DiscardHandler), Costs: perfevent.Costs{Call: c.cost}}
		if got := tk.hitBudget(sampler.ProcessOptions{HitBudget: c.hits, MaxOverhead: c.most}); math.Abs(got-c.is) > 1e-6 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestOverheadAddsUp: each figure of a session has its cost.
func TestOverheadAddsUp(t *testing.T) {
	t.Parallel()
	tk := &Taker{Costs: perfevent.Costs{Sample: 1, Arm: 100, Trap: 1000, Call: 10000}}
	c := &tk.counts
	c.samples.Store(2)
	c.places.Store(4)
	c.traps.Store(5)
	c.caught.Caught.Store(1)
	c.caught.Strays.Store(2)
	c.caught.Set.Store(3)
	tk.meter.atSwitch.Store(1e6)
	tk.meter.atWatch.Store(1e7)
	tk.meter.atCall.Store(1e8)
	o := tk.overhead(1e10)
	if want := (sampler.Overhead{Samples: 2, Verdicts: 5400, Switches: 1e6, Watches: 1e7, Calls: 1e8 + 60000, Of: 1e10}); o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
	if o.Total() != o.Sampling()+o.Fixed() || o.Total() != 111065402 {
		t.Errorf("%d, of it %d by samples", o.Total(), o.Sampling())
	}
	if got, want := o.String(), "overhead 1.1 % of the target: 0.0 samples, 0.0 thread switches, 0.1 verdicts, 1.0 caught calls"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
