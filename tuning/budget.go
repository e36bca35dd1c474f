package tuning

import (
	"math"
	"time"
)

// budget is the rule that keeps the cost of sampling within the budgets of the target
// and of the daemon. It wants the shortest interval that it can afford.
//
// While another rule wants a longer interval, the want of the budget follows the load.
// While the budget decides the interval, the want rises at once when a budget is
// exceeded. It falls only after backOff readings in a row that could afford a shorter
// interval, and each fall doubles backOff.
type budget struct {
	want       time.Duration
	by         Budget // the budget that wants so much
	meter      meter
	load       load          // as last metered, for the present interval
	exceeded   int           // readings in a row over the daemon's budget
	affordable int           // readings in a row that could afford a shorter interval
	floor      time.Duration // the longest of these shorter intervals
	backOff    int           // readings
	told       bool          // the fixed costs exceed the budget, and a decision has said so
}

const (
	// headroom is the part of a budget that a change aims at, so that noise
	// does not exceed the budget at once.
	headroom = 0.8
	// leastForSamples is the part of the budget of the target that the samples always
	// have, however much context switches and caught calls cost. A longer interval would find
	// less, and they would cost the same.
	leastForSamples = 0.25
	// daemonReadings is the number of readings in a row over the daemon's budget that
	// raise the interval. Reading symbols at the start or writing a dump exceeds the
	// budget once, and a longer interval would not help.
	daemonReadings = 2
	// firstBackOff is the number of readings, each of a second or more, before the
	// first fall.
	firstBackOff = 10
)

// Budget names a budget.
type Budget uint8

const (
	NoBudget       Budget = iota
	TargetOverhead        // Config.MaxOverhead
	DaemonCPU             // Config.MaxDaemonCPU
)

// budgetChange is the result of a reading.
type budgetChange uint8

const (
	budgetKept    budgetChange = iota
	budgetRaised               // a budget is exceeded
	budgetLowered              // the load has been lower for a while
)

func newBudget(c Config) budget {
	b := budget{by: TargetOverhead, backOff: firstBackOff}
	b.load = load{cost: c.SampleCost, samples: part(c.SampleCost, c.Initial)}
	b.want = min(b.load.floor(c.Initial, c), c.Initial)
	return b
}

func (b *budget) add(o Observation) { b.meter.add(o) }

func (b *budget) full() bool { return b.meter.full() }

// restart starts a new reading after a change of the interval.
func (b *budget) restart(from, to time.Duration) {
	b.load = b.load.at(from, to)
	b.meter.restart()
}

// read reads the meter at an interval, and updates the want. Others is the longest
// interval that another rule wants.
func (b *budget) read(interval, others time.Duration, c Config) budgetChange {
	b.load = b.meter.read(interval, b.load)
	by := b.load.tightest(c)
	floor := min(b.load.floor(interval, c), maxFactor*interval)
	if ratio(b.load.daemon, c.MaxDaemonCPU) > 1 {
		b.exceeded++
	} else {
		b.exceeded = 0
	}
	switch {
	case b.overheadExceeded(c) || b.exceeded >= daemonReadings:
		b.want, b.by = floor, by
		b.exceeded, b.affordable, b.floor = 0, 0, 0
		return budgetRaised
	case b.want <= others:
		b.want, b.by = min(floor, interval), by
		b.affordable, b.floor = 0, 0
		return budgetKept
	}
	return b.lower(floor)
}

// overheadExceeded reports whether the target pays too much, and a longer interval helps.
func (b *budget) overheadExceeded(c Config) bool {
	return ratio(b.load.overhead(), c.MaxOverhead) > 1 && ratio(b.load.samples, b.load.forSamples(c)) > 1/headroom
}

// hopeless reports, once, that the fixed costs exceed the budget on their own.
func (b *budget) hopeless(c Config) bool {
	exceeded := ratio(b.load.fixed, c.MaxOverhead) > 1
	told := b.told
	b.told = exceeded
	return exceeded && !told
}

func (b *budget) hopelessReason(c Config) string {
	return "overhead " + percent(b.load.overhead()) + " of the target's CPU > " + plainPercent(c.MaxOverhead) +
		", and " + percent(b.load.fixed) + " for context switches and caught calls: a longer interval does not help"
}

// lower takes in the shortest affordable interval, and lowers the want once it has
// been affordable for long enough.
func (b *budget) lower(floor time.Duration) budgetChange {
	if float64(floor) > headroom*float64(b.want) {
		b.affordable, b.floor = 0, 0
		return budgetKept
	}
	b.affordable, b.floor = b.affordable+1, max(b.floor, floor)
	if b.affordable < b.backOff {
		return budgetKept
	}
	b.want = b.floor
	b.affordable, b.floor = 0, 0
	b.backOff *= 2
	return budgetLowered
}

// raisedReason says which budget is exceeded.
func (b *budget) raisedReason(c Config) string {
	if b.overheadExceeded(c) {
		return "overhead " + percent(b.load.overhead()) + " of the target's CPU > " + plainPercent(c.MaxOverhead)
	}
	return "daemon " + percent(b.load.daemon) + " of a core > " + plainPercent(c.MaxDaemonCPU)
}

// load is the cost of sampling at the present interval.
type load struct {
	cost    time.Duration // of one sample, to the target
	samples float64       // part of the target's CPU time that samples cost
	fixed   float64       // part of the target's CPU time that sampling costs at any interval
	daemon  float64       // cores; 0 before the first reading
	cores   float64       // that the target keeps busy
}

// overhead returns the part of the target's CPU time that sampling costs.
func (l load) overhead() float64 { return l.samples + l.fixed }

// forSamples returns the part of the target's CPU time that samples may cost: the budget
// with headroom, less the fixed costs. It is negative if there is no limit.
func (l load) forSamples(c Config) float64 {
	if c.MaxOverhead < 0 {
		return c.MaxOverhead
	}
	return max(headroom*c.MaxOverhead-l.fixed, leastForSamples*c.MaxOverhead)
}

// at returns the load to expect after a change of the interval.
func (l load) at(from, to time.Duration) load {
	l.samples *= part(from, to)
	l.daemon *= part(from, to)
	return l
}

// floor returns the shortest interval within the budgets.
func (l load) floor(interval time.Duration, c Config) time.Duration {
	target, daemon := l.excess(c)
	return time.Duration(min(max(target, daemon)*float64(interval), math.MaxInt64/2))
}

// excess returns the parts that the samples take of what the budgets leave to them.
func (l load) excess(c Config) (target, daemon float64) {
	return ratio(l.samples, l.forSamples(c)), ratio(l.daemon, headroom*c.MaxDaemonCPU)
}

// tightest returns the budget that wants the longer interval.
func (l load) tightest(c Config) Budget {
	if target, daemon := l.excess(c); daemon > target {
		return DaemonCPU
	}
	return TargetOverhead
}

// affordableReason explains a shorter interval with its load.
func (l load) affordableReason() string {
	return "overhead " + percent(l.overhead()) + " of the target's CPU and daemon " + percent(l.daemon) + " of a core affordable again"
}

// ratio returns the part of its budget that a cost takes. It returns 0 without a
// budget.
func ratio(cost, budget float64) float64 {
	if budget < 0 {
		return 0
	}
	return cost / budget
}

func part(a, b time.Duration) float64 { return float64(a) / float64(b) }

// meter adds up the cost of sampling, over at least meterTime and meterSamples.
type meter struct {
	from, to time.Duration
	samples  int
	target   time.Duration
	daemon   time.Duration
	cost     time.Duration // of one sample, as last measured; 0: never
	spent    time.Duration // on the samples whose cost was measured
	priced   int           // these samples
	fixed    float64       // Observation.Fixed, the last
}

const (
	meterTime    = time.Second
	meterSamples = 30
	// idleTime is the longest time that a meter waits for its samples. A target that
	// does not give them is idle. A longer interval would not reduce other costs.
	idleTime = 10 * time.Second
	// minTargetCPU is the least measured CPU time of the target that counts: ten ticks
	// of a kernel that counts at 100 Hz.
	minTargetCPU = 100 * time.Millisecond
)

func (m *meter) add(o Observation) {
	m.to = max(m.to, o.At)
	m.samples += o.Samples
	m.target += o.TargetCPU
	m.daemon += o.DaemonCPU
	if o.SampleCost > 0 {
		m.cost = o.SampleCost
		m.spent += time.Duration(o.Samples) * o.SampleCost
		m.priced += o.Samples
	}
	m.fixed = o.Fixed
}

// full reports whether a reading is due. The meter of an idle target starts again.
func (m *meter) full() bool {
	if m.to-m.from >= meterTime && m.samples >= meterSamples {
		return true
	}
	if m.to-m.from >= idleTime {
		m.restart()
	}
	return false
}

func (m *meter) restart() { *m = meter{from: m.to, to: m.to, cost: m.cost, fixed: m.fixed} }

// read returns the metered load and starts the meter again. The overhead refers to
// the target's measured CPU time if there is enough of it, and otherwise to the CPU
// time that the samples stand for.
func (m *meter) read(interval time.Duration, before load) load {
	l := load{cost: before.cost, fixed: m.fixed}
	switch {
	case m.priced > 0:
		l.cost = m.spent / time.Duration(m.priced)
	case m.cost > 0:
		l.cost = m.cost
	}
	cpu := time.Duration(m.samples) * interval
	if m.target >= minTargetCPU {
		cpu = m.target
	}
	wall := m.to - m.from
	l.samples = float64(m.samples) * part(l.cost, cpu)
	l.daemon = part(m.daemon, wall)
	l.cores = part(cpu, wall)
	m.restart()
	return l
}
