package taker

import (
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// meter counts the context switches of the target that events on its threads make
// dearer. An engine without such events has no costs of switches, and then nothing is
// read.
//
//	switches, seen      owned by the engine's goroutine
//	atSwitch, atWatch   ns so far, read by Stats
type meter struct {
	switches *process.Switches
	seen     uint64 // switches that are metered

	atSwitch, atWatch atomic.Int64
}

// meterSwitches meters the switches if a reading is due.
func (t *Taker) meterSwitches(now time.Time) {
	if t.meter.switches.Due(now) {
		t.readSwitches()
	}
}

// readSwitches meters the switches since the last reading. All of them count as switches
// of watched threads if there is a watch now.
func (t *Taker) readSwitches() {
	m := &t.meter
	if t.Costs.Switch == 0 && t.Costs.Watch == 0 {
		return
	}
	m.switches.Read()
	n := int64(m.switches.Total - m.seen)
	m.seen = m.switches.Total
	m.atSwitch.Add(n * int64(t.Costs.Switch))
	m.atWatch.Add(n * int64(t.Costs.Watch) * int64(t.Judge.Watching()))
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
