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
//	all others                  owned by the engine's goroutine
type meter struct {
	switches *process.Switches
	seen     uint64    // switches that are metered
	read     time.Time // when they were read last

	watching int           // watches that were set when last looked
	looked   time.Time     // then
	watched  time.Duration // time of all watches since the last reading
	catching time.Duration // time of all breakpoints until the last reading

	atSwitch, atWatch, atCall atomic.Int64
}

// meterSwitches meters the switches if a reading is due.
func (t *Taker) meterSwitches(now time.Time) {
	t.meter.look(now, t.Judge.Watching())
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
	t.meter.charge(t.Costs, now, t.meter.switches, catching)
}

// look notes how many watches are set from now on.
func (m *meter) look(now time.Time, watching int) {
	m.watched += time.Duration(m.watching) * now.Sub(m.looked)
	m.looked, m.watching = now, watching
}

// charge adds the cost of the switches since the last reading. Each met the watches that
// were set on average over that time. A breakpoint was met by the switches of its thread: by
// as many as the thread has that switches most, because no more is known.
func (m *meter) charge(c perfevent.Costs, now time.Time, switches *process.Switches, catching time.Duration) {
	n := switches.Total - m.seen
	m.look(now, m.watching)
	if elapsed := float64(now.Sub(m.read)); elapsed > 0 {
		m.atWatch.Add(int64(float64(n) * float64(c.Watch) * float64(m.watched) / elapsed))
		m.atCall.Add(int64(float64(switches.Most) * float64(c.Watch) * float64(catching-m.catching) / elapsed))
	}
	m.atSwitch.Add(int64(n) * int64(c.Switch))
	m.seen, m.read, m.watched, m.catching = switches.Total, now, 0, catching
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
		Samples:    time.Duration(t.counts.samples.Load()) * t.Costs.Sample,
		Interrupts: time.Duration(t.Interrupts.Load()) * t.Costs.Interrupt,
		Switches:   time.Duration(t.meter.atSwitch.Load()),
		Watches:    time.Duration(t.meter.atWatch.Load()),
		Verdicts:   time.Duration(c.places.Load())*t.Costs.Arm + time.Duration(c.traps.Load())*t.Costs.Trap,
		Calls:      time.Duration(calls)*t.Costs.Call + time.Duration(t.meter.atCall.Load()),
		Of:         clock,
	}
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
