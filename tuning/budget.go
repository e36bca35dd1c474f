package tuning

import (
	"math"
	"time"
)

// meter adds up what sampling costs, over at least meterTime and meterSamples.
type meter struct {
	from, to time.Duration
	samples  int
	target   time.Duration
	daemon   time.Duration
	cost     time.Duration // of one sample, as last measured; 0: never
	strikes  int           // times in a row that the daemon was over its budget
}

const (
	meterTime    = time.Second
	meterSamples = 30
	// idleTime is how long a meter waits for its samples. A target that does
	// not give as many is idle: whatever was used meanwhile, a longer interval
	// would not save it.
	idleTime = 10 * time.Second
	// minTargetCPU is the least CPU time of the target that is believed as
	// measured: ten ticks of a kernel that counts at 100 Hz.
	minTargetCPU = 100 * time.Millisecond
	// headroom is the part of a budget that a change aims at, so that noise
	// does not exceed the budget at once.
	headroom = 0.8
	// maxStrikes is how often in a row the daemon has to be over its budget.
	// Reading symbols at the start or writing a dump is not the interval's doing.
	maxStrikes = 2
)

func (m *meter) add(o Observation) {
	m.to = max(m.to, o.At)
	m.samples += o.Samples
	m.target += o.TargetCPU
	m.daemon += o.DaemonCPU
	if o.SampleCost > 0 {
		m.cost = o.SampleCost
	}
}

// full reports whether the meter is to be read. A meter of an idle target
// starts again instead.
func (m *meter) full() bool {
	if m.to-m.from >= meterTime && m.samples >= meterSamples {
		return true
	}
	if m.to-m.from >= idleTime {
		m.restart()
	}
	return false
}

func (m *meter) restart() {
	*m = meter{from: m.to, to: m.to, cost: m.cost, strikes: m.strikes}
}

// load is what sampling at the present interval costs.
type load struct {
	cost     time.Duration // of one sample, to the target
	overhead float64       // part of the target's CPU time
	daemon   float64       // cores; 0 before the first reading
	cores    float64       // that the target keeps busy
}

// read returns the metered load and starts the meter again. The overhead comes
// from the target's CPU time where that has been measured well, and otherwise
// from the interval, which is CPU time too.
func (m *meter) read(interval time.Duration, before load) load {
	l := load{cost: before.cost}
	if m.cost > 0 {
		l.cost = m.cost
	}
	cpu := time.Duration(m.samples) * interval
	if m.target >= minTargetCPU {
		cpu = m.target
	}
	wall := m.to - m.from
	l.overhead = float64(m.samples) * part(l.cost, cpu)
	l.daemon = part(m.daemon, wall)
	l.cores = part(cpu, wall)
	m.restart()
	return l
}

// at returns what the load will be when the interval changes.
func (l load) at(from, to time.Duration) load {
	l.overhead *= part(from, to)
	l.daemon *= part(from, to)
	return l
}

// floor returns the shortest interval that keeps within the budgets.
func (l load) floor(interval time.Duration, c Config) time.Duration {
	excess := max(ratio(l.overhead, c.MaxOverhead), ratio(l.daemon, c.MaxDaemonCPU))
	return time.Duration(min(excess/headroom*float64(interval), math.MaxInt64/2))
}

// ratio returns how often a cost fills its budget, which is 0 times where there
// is none.
func ratio(cost, budget float64) float64 {
	if budget < 0 {
		return 0
	}
	return cost / budget
}

func part(a, b time.Duration) float64 { return float64(a) / float64(b) }

// checkBudget reads the meter and changes the interval if sampling has become
// too expensive, or what made it so has passed.
func (t *Tuner) checkBudget() (Decision, bool) {
	t.load = t.meter.read(t.interval, t.load)
	overhead := ratio(t.load.overhead, t.config.MaxOverhead) > 1
	if ratio(t.load.daemon, t.config.MaxDaemonCPU) > 1 {
		t.meter.strikes++
	} else {
		t.meter.strikes = 0
	}
	if overhead || t.meter.strikes >= maxStrikes {
		return t.save(overhead)
	}
	return t.giveBack()
}

// save lengthens the interval to keep within the budget.
func (t *Tuner) save(overhead bool) (Decision, bool) {
	floor := min(t.load.floor(t.interval, t.config), maxFactor*t.interval)
	got, limit := t.allowed(floor)
	if float64(got) < minStep*float64(t.interval) {
		return Decision{}, false
	}
	t.debt.incur(t.interval)
	t.meter.strikes = 0
	reason := budgetReason(t.load, overhead, t.config) + t.change(got) + limit
	return Decision{got, reason}, true
}

// giveBack returns to the interval before the budget was exceeded, once it has
// been clear for a while that it can be afforded again. It is for a tuner that
// gets no verdicts, and would otherwise keep the long interval for good.
func (t *Tuner) giveBack() (Decision, bool) {
	affordable := t.load.floor(t.interval, t.config) <= t.debt.interval
	if t.state == Settled || !t.debt.due(affordable) {
		return Decision{}, false
	}
	back := t.debt.interval
	t.debt.interval, t.pace.base = 0, 0
	reason := affordableReason(t.load.at(t.interval, back)) + t.change(back)
	return Decision{back, reason}, true
}

// debt is what the budget has taken from the interval.
type debt struct {
	interval time.Duration // to be given back; 0: none
	calm     int           // readings in a row that would have allowed it
	wait     int           // readings that are asked for; doubles with every debt
}

// minCalm is how many readings, each of a second or more, have to allow an
// interval before it is given back for the first time.
const minCalm = 10

// incur takes down the interval that the budget has found too short, unless it
// still owes an earlier one.
func (d *debt) incur(interval time.Duration) {
	d.calm = 0
	if d.interval == 0 {
		d.interval = interval
		d.wait = max(minCalm, 2*d.wait)
	}
}

// due takes in a reading and reports whether the interval is to be given back.
func (d *debt) due(affordable bool) bool {
	if d.interval == 0 || !affordable {
		d.calm = 0
		return false
	}
	d.calm++
	return d.calm >= d.wait
}
