package tuning

import "time"

// Observation is what happened since the last one. Counts and times that are
// negative, and parts larger than their whole, are taken as the nearest
// sensible value.
type Observation struct {
	At time.Duration // wall time since the start of the session; never goes back

	Samples  int // taken at the present interval
	Known    int // of Samples: the top activation's verdict is known
	Repeated int // of Known: the top activation is that of the thread's last sample

	TargetCPU  time.Duration // CPU time the target used; 0: not measured
	DaemonCPU  time.Duration // CPU time the daemon used; 0: not measured
	SampleCost time.Duration // CPU time that one sample costs the target, measured; 0: as before

	Settled float64 // percent to which the profile is settled by now; 0: not known
	Drift   bool    // the program has lately done something else than before
}

// Decision is a change of the interval. The caller applies it, logs it and
// keeps it with the profile.
type Decision struct {
	Interval time.Duration // CPU time between two samples of one thread
	Reason   string        // for people, with the figures; one line
}

// State says what the tuner is doing.
type State uint8

const (
	Looking State = iota // for the right interval, every window
	Settled              // on one; looks less often
)

// String returns "looking" or "settled".
func (s State) String() string {
	if s == Settled {
		return "settled"
	}
	return "looking"
}

// Tuner tunes the interval of one session. It has no lock: one goroutine at a
// time may call its methods.
type Tuner struct {
	config   Config
	interval time.Duration
	state    State
	stretch  int // length of the present window in configured ones, 1 to maxStretch

	window window // evidence on repetitions
	search search // for the right interval, since the tuner last woke
	meter  meter  // of the load since a second or so
	load   load   // as last metered, for the present interval
	debt   debt   // of the budget to an interval that it cut short
	pace   pace   // of a profile that is settled

	profile float64 // percent to which it is settled, and
	drift   bool    // whether the program drifts, as last observed

	settledAt   rate    // the rate with which the tuner settled,
	settledWith verdict // what that meant,
	settledLoad float64 // and the target's load, in cores; 0: not metered since
}

// maxStretch is the longest window in configured ones. It bounds how long a
// settled tuner takes to notice that the program has changed.
const maxStretch = 8

// New returns a tuner that starts at c.Initial.
func New(c Config) (*Tuner, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	t := &Tuner{config: c, interval: c.Initial, stretch: 1}
	t.load = load{cost: c.SampleCost, overhead: part(c.SampleCost, c.Initial)}
	return t, nil
}

// Interval returns the present interval: the initial one or that of the last
// decision.
func (t *Tuner) Interval() time.Duration { return t.interval }

// State returns what the tuner is doing.
func (t *Tuner) State() State { return t.state }

// Missing returns how many more samples with a known verdict the next step takes,
// as far as repetitions decide it and their rate stays as it is. It is 0 while the
// tuner is settled, and if repetitions are not to decide.
func (t *Tuner) Missing() int {
	if t.state == Settled || t.config.Off {
		return 0
	}
	return t.window.missing(t.config)
}

// Observe takes in an observation and returns true with a decision if the
// interval is to change. The budget comes first: a change that it demands is
// not delayed by a window that is still open. Nor is the return from a pace that
// the program has left behind.
func (t *Tuner) Observe(o Observation) (Decision, bool) {
	o = o.sane()
	t.window.add(o)
	t.meter.add(o)
	t.profile, t.drift = o.Settled, o.Drift
	if t.meter.full() {
		if d, ok := t.checkBudget(); ok {
			return d, true
		}
		t.checkLoad()
		if d, ok := t.checkBurst(); ok {
			return d, true
		}
	}
	if t.drift {
		if d, ok := t.hurry(driftReason); ok {
			return d, true
		}
	}
	if t.config.Off || !t.window.full(t.config.Window, t.stretch) {
		return Decision{}, false
	}
	return t.look()
}

func (o Observation) sane() Observation {
	o.Samples = max(o.Samples, 0)
	o.Known = min(max(o.Known, 0), o.Samples)
	o.Repeated = min(max(o.Repeated, 0), o.Known)
	o.TargetCPU = max(o.TargetCPU, 0)
	o.DaemonCPU = max(o.DaemonCPU, 0)
	if !(o.Settled >= 0) { // a NaN, too
		o.Settled = 0
	}
	return o
}

// look judges the window that has just become full. A settled tuner that meets
// a new rate first wakes to gather evidence that is not mixed with older. Few
// repetitions are no reason to shorten an interval that was lengthened because
// the profile is settled.
func (t *Tuner) look() (Decision, bool) {
	r, cores := t.window.rate, t.window.cores(t.interval)
	switch v := t.window.judge(t.config); {
	case v == unknown:
	case v == inside, v == under && t.pace.base != 0:
		t.settle(r, v)
	case t.state == Settled && r.differs(t.settledAt):
		t.wake()
		return Decision{}, false
	default:
		if d, ok := t.move(r, v); ok {
			return d, true
		}
	}
	return t.slow(cores)
}

// move changes the interval as a rate outside the thresholds asks for. Where no
// better interval can be had, it settles for the present one.
func (t *Tuner) move(r rate, v verdict) (Decision, bool) {
	want := t.search.next(t.interval, r, v, t.config.middle())
	got, limit := t.allowed(want)
	if !t.worth(got) || t.search.exhausted() {
		t.settle(r, v)
		return Decision{}, false
	}
	t.search.made()
	t.debt.interval, t.pace.base = 0, 0 // repetitions have decided anew
	reason := repetitionReason(r, v, t.config) + t.change(got) + limit
	return Decision{got, reason}, true
}

// worth reports whether an interval differs enough from the present one. A
// tuner that has settled at a limit asks for a factor of two, lest it follow
// the noise of the budget; otherwise 2 % will do, as even the step from a
// threshold to the middle between the default thresholds is 7 %.
func (t *Tuner) worth(d time.Duration) bool {
	factor := float64(max(d, t.interval)) / float64(min(d, t.interval))
	if t.state == Settled && t.settledWith != inside {
		return factor >= 2
	}
	return factor >= minStep
}

const minStep = 1.02

// allowed returns the interval nearest to the wanted one that clamps and budget
// permit, and for people which of them it met.
func (t *Tuner) allowed(want time.Duration) (got time.Duration, limit string) {
	if floor := t.load.floor(t.interval, t.config); want < t.interval && want < floor {
		want, limit = min(floor, t.interval), ", the shortest within the budget"
	}
	got = t.config.clamp(round(want))
	switch {
	case got < want && got == t.config.Max:
		limit = ", the longest allowed"
	case got > want && got == t.config.Min:
		limit = ", the shortest allowed"
	}
	return got, limit
}

// change sets the interval, starts new evidence for it, and returns its part of
// the reason.
func (t *Tuner) change(to time.Duration) string {
	from := t.interval
	t.interval = to
	t.load = t.load.at(from, to)
	t.meter.restart()
	t.window.restart()
	t.stretch = 1
	t.state = Looking
	return intervalReason(from, to)
}

// settle makes the tuner look half as often as before.
func (t *Tuner) settle(r rate, v verdict) {
	if t.state == Looking {
		t.settledLoad = 0
	}
	t.state = Settled
	t.settledAt, t.settledWith = r, v
	t.stretch = min(2*t.stretch, maxStretch)
	if v == inside {
		t.search = search{}
	}
}

// wake makes a settled tuner look at every window again, with new evidence.
func (t *Tuner) wake() {
	t.state = Looking
	t.stretch = 1
	t.window.restart()
	t.search = search{}
}

// checkLoad wakes a settled tuner when the target's load has jumped.
func (t *Tuner) checkLoad() {
	switch now := t.load.cores; {
	case t.state != Settled:
	case t.settledLoad == 0:
		t.settledLoad = now
	case now > loadJump*t.settledLoad || now < t.settledLoad/loadJump:
		t.wake()
	}
}

// loadJump is the factor between two loads, in cores, beyond which the program
// is taken to be doing something else.
const loadJump = 4
