package taker

import (
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// meter counts the context switches of the target that events on its threads make
// dearer. Where no event has done so, nothing is read.
//
//	atSwitch, atWatch, atCall   ns so far, read by Stats
//	total                       read by Switches
//	all others                  owned by the engine's goroutine
type meter struct {
	switches *process.Switches
	seen     uint64    // switches that are metered
	read     time.Time // when they were read last

	watching int           // watches that were set when last looked
	looked   time.Time     // then
	watched  time.Duration // time of all watches since the last reading
	catching time.Duration // time of all breakpoints until the last reading

	timing    bool          // the timers are on since last looked
	timed     time.Duration // that they were on since the last reading
	on, since atomic.Int64  // time that they were on, and all time, until the last reading, ns

	price    Price
	priced   bool             // the price is new
	before   sampler.Overhead // when the price was reckoned
	unpriced uint64           // switches since then

	atSwitch, atWatch, atCall atomic.Int64
	total                     atomic.Uint64 // switches so far
}

// Switches returns how often threads of the target were put on a CPU so far, where their events make that
// dearer. Any goroutine may call it.
func (t *Taker) Switches() uint64 { return t.meter.total.Load() }

// meterSwitches meters the switches if a reading is due.
func (t *Taker) meterSwitches(now time.Time) {
	t.meter.look(now, t.Judge.Watching(), !t.paused)
	if t.meter.switches.Due(now) {
		t.readSwitches(now)
	}
}

// readSwitches meters the switches since the last reading.
func (t *Taker) readSwitches(now time.Time) {
	catching := time.Duration(t.counts.caught.SetTime.Load())
	if t.Costs.Switch == 0 && t.meter.watched == 0 && t.meter.watching == 0 && catching == t.meter.catching && !t.meter.read.IsZero() {
		return
	}
	t.meter.switches.Read()
	before := t.meter.seen
	t.meter.charge(t.Costs, now, t.meter.switches, catching)
	t.reckon(t.meter.seen - before)
}

// Price is the cost of sampling as parts of the target's CPU time. Calls are caught in bursts,
// so their price is the average since the start.
type Price struct {
	Lately     float64 // over the last second or so
	SoFar      float64 // since the start
	Calls      float64 // of caught calls
	Throughout float64 // of all else, lately and at most, as if there were no pauses
	Little     bool    // all so far is no more than littleSpent
}

// littleSpent is CPU time that a session may cost its target before a bound of the part matters. A young
// profile needs its samples most, and a target that has a tenth of a CPU gives few.
const littleSpent = 200 * time.Millisecond

// leastPriced is the least CPU time of the target that has a price: one sample is less than
// a two-thousandth of it.
const leastPriced = 100 * time.Millisecond

// Price returns the price of sampling at an interval, and whether it is newer than at the last
// call.
func (t *Taker) Price(interval time.Duration) (p Price, fresh bool) {
	p, fresh = t.meter.price, t.meter.priced
	t.meter.priced = false
	if n := t.counts.samples.Load(); n > 0 {
		p.Throughout += float64(t.meter.before.Sampling()) / float64(n) / float64(interval)
	}
	return p, fresh
}

// PriceSoon makes the next price due in a tenth of a second.
func (t *Taker) PriceSoon() { t.meter.switches.Soon() }

// reckon prices the time since the last price, if there is enough of it. There were so many
// switches since the last reading.
func (t *Taker) reckon(switches uint64) {
	t.meter.reckon(t.overhead(t.Clock()), switches, t.Costs.Switch+time.Duration(t.counts.watches.Load())*t.Costs.Watch)
}

func (m *meter) reckon(o sampler.Overhead, switches uint64, atSwitch time.Duration) {
	m.unpriced += switches
	used := float64(o.Of - m.before.Of)
	if used < float64(leastPriced) {
		return
	}
	calls := float64(o.Calls) / float64(o.Of)
	m.price = Price{
		Lately:     float64(o.Total()-o.Calls-(m.before.Total()-m.before.Calls))/used + calls,
		SoFar:      float64(o.Total()) / float64(o.Of),
		Calls:      calls,
		Throughout: float64(m.unpriced) * float64(atSwitch) / used,
		Little:     o.Total() <= littleSpent,
	}
	m.before, m.unpriced, m.priced = o, 0, true
}

// Clock returns the CPU time of the target since the start, 0 if it is not known.
func (t *Taker) Clock() time.Duration {
	now, ok := t.ledger.Read()
	if !ok || t.Replaced {
		return 0
	}
	return t.ledger.Balance(now).Clock
}

// look notes how many watches are set from now on, and whether the timers are on.
func (m *meter) look(now time.Time, watching int, timing bool) {
	passed := now.Sub(m.looked)
	m.watched += time.Duration(m.watching) * passed
	if m.timing {
		m.timed += passed
	}
	m.looked, m.watching, m.timing = now, watching, timing
}

// charge adds the cost of the switches since the last reading. Each met the watches that
// were set on average over that time. A breakpoint was met by the switches of its thread: by
// as many as the thread has that switches most, because no more is known.
func (m *meter) charge(c perfevent.Costs, now time.Time, switches *process.Switches, catching time.Duration) {
	m.total.Store(switches.Total)
	n := switches.Total - m.seen
	elapsed := float64(now.Sub(m.read))
	if elapsed <= 0 {
		return
	}
	m.look(now, m.watching, m.timing)
	m.atWatch.Add(int64(float64(n) * float64(c.Watch) * float64(m.watched) / elapsed))
	m.atSwitch.Add(int64(float64(n) * float64(c.Switch) * float64(m.timed) / elapsed))
	m.atCall.Add(int64(float64(switches.Most) * float64(c.Watch) * float64(catching-m.catching) / elapsed))
	if !m.read.IsZero() {
		m.on.Add(int64(m.timed))
		m.since.Add(int64(now.Sub(m.read)))
	}
	m.seen, m.read, m.watched, m.timed, m.catching = switches.Total, now, 0, 0, catching
}

// overhead returns the cost of sampling so far. Without the target's clock it is not
// known.
func (t *Taker) overhead(clock time.Duration) sampler.Overhead {
	if t.Costs.Sample == 0 {
		return sampler.Overhead{}
	}
	c := &t.counts
	calls := c.caught.Caught.Load() + c.caught.Strays.Load() + c.caught.Set.Load()
	return sampler.Overhead{
		Samples:  time.Duration(t.counts.samples.Load()) * t.Costs.Sample,
		Switches: time.Duration(t.meter.atSwitch.Load()),
		Watches:  time.Duration(t.meter.atWatch.Load()),
		Verdicts: time.Duration(c.places.Load())*t.Costs.Arm + time.Duration(c.traps.Load())*t.Costs.Trap,
		Calls:    time.Duration(calls)*t.Costs.Call + time.Duration(t.meter.atCall.Load()),
		Of:       clock,
		Sampled:  t.meter.sampled(),
	}
}

// sampled returns the part of the time with the timers on, 0 for all of it.
func (m *meter) sampled() float64 {
	on, all := m.on.Load(), m.since.Load()
	if on == all {
		return 0
	}
	return float64(on) / float64(all)
}

// callShare is the part of the overhead that caught calls may cost.
const callShare = 0.5

// hitBudget returns how many calls may be caught in a second.
func (t *Taker) hitBudget(o sampler.ProcessOptions) float64 {
	asked := max(o.HitBudget, 0)
	if o.MaxOverhead <= 0 || t.Costs.Call == 0 {
		return asked
	}
	most := callShare * o.MaxOverhead / t.Costs.Call.Seconds()
	if asked > most {
		t.Log.Info("fewer calls are caught: else they would take more than half of --max-overhead",
			"asked", asked, "a second", most, "cost of a call", t.Costs.Call)
	}
	return min(asked, most)
}
