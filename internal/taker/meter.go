package taker

import (
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// meter counts the context switches of the target that events on its threads make
// dearer. Where no event can do so, nothing is read.
//
//	atSwitch, atWatch   ns so far, read by Stats
//	all others          owned by the engine's goroutine
type meter struct {
	switches *process.Switches
	seen     uint64    // switches that are metered
	read     time.Time // when they were read last

	watching int           // watches that were set when last looked
	looked   time.Time     // then
	watched  time.Duration // time of all watches since the last reading

	atSwitch, atWatch atomic.Int64
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
	if t.Costs.Switch == 0 && (t.Costs.Watch == 0 || t.counts.watches.Load() == 0) {
		return
	}
	t.meter.switches.Read()
	t.meter.charge(t.Costs, now, t.meter.switches.Total)
}

// look notes how many watches are set from now on.
func (m *meter) look(now time.Time, watching int) {
	m.watched += time.Duration(m.watching) * now.Sub(m.looked)
	m.looked, m.watching = now, watching
}

// charge adds the cost of the switches since the last reading. Each met the watches that
// were set on average over that time.
func (m *meter) charge(c perfevent.Costs, now time.Time, switches uint64) {
	n := switches - m.seen
	m.look(now, m.watching)
	if elapsed := now.Sub(m.read); elapsed > 0 {
		m.atWatch.Add(int64(float64(n) * float64(c.Watch) * float64(m.watched) / float64(elapsed)))
	}
	m.atSwitch.Add(int64(n) * int64(c.Switch))
	m.seen, m.read, m.watched = switches, now, 0
}

// overhead returns the cost of sampling so far. Without the target's clock it is not
// known.
func (t *Taker) overhead(clock time.Duration) sampler.Overhead {
	if t.Costs.Sample == 0 {
		return sampler.Overhead{}
	}
	return sampler.Overhead{
		Samples:    time.Duration(t.counts.samples.Load()) * t.Costs.Sample,
		Interrupts: time.Duration(t.Interrupts.Load()) * t.Costs.Interrupt,
		Switches:   time.Duration(t.meter.atSwitch.Load()),
		Watches:    time.Duration(t.meter.atWatch.Load()),
		Of:         clock,
	}
}
