package tuning

import (
	"fmt"
	"strconv"
	"time"
)

// Observation reports the time since the last observation. A negative count or time,
// or a part larger than its whole, stands for the nearest sensible value.
type Observation struct {
	At time.Duration // wall time since the start of the session; never goes back

	Samples  int // taken at the present interval
	Known    int // samples with a verdict on the top activation
	Repeated int // known samples that found the activation of the thread's last sample

	TargetCPU  time.Duration // CPU time of the target; 0: not measured
	DaemonCPU  time.Duration // CPU time of the daemon; 0: not measured
	SampleCost time.Duration // measured CPU time of one sample in the target; 0: as before

	// Fixed is the part of the target's CPU time that sampling costs lately beside
	// the samples, at context switches and for caught calls. A longer interval does not lower it.
	Fixed float64

	Settled float64 // how settled the profile is by now, percent; 0: not known
	Drift   bool    // lately the program has done something else than before
}

// Decision is a change of the interval. The caller applies it, logs it and
// keeps it with the profile. A decision that leaves the interval as it is says why a
// longer one would not help.
type Decision struct {
	Interval time.Duration // CPU time between two samples of one thread
	Reason   string        // for people, with the figures; one line
}

// Tuner tunes the interval of one session. It has no lock: its methods must not run at
// the same time.
//
// The interval is the largest that a rule wants. A rule may read the interval in force
// and the wants of the others, but changes its own state only.
type Tuner struct {
	config   Config
	interval time.Duration

	repetitions repetitions
	slowdown    slowdown
	budget      budget
}

// New returns a tuner that starts at c.Initial.
func New(c Config) (*Tuner, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	return &Tuner{
		config:      c,
		interval:    c.Initial,
		repetitions: newRepetitions(c),
		budget:      newBudget(c),
	}, nil
}

// Interval returns the present interval.
func (t *Tuner) Interval() time.Duration { return t.interval }

// Verdicts returns the number of samples with a known verdict that the rule of repetitions
// has, and the number that it needs for a decision if their rate stays the same. Both are
// 0 while repetitions are at rest, and if they do not decide.
func (t *Tuner) Verdicts() (known, needed int) {
	if t.config.Off {
		return 0, 0
	}
	return t.repetitions.progress(t.config)
}

// Held returns the budget that makes the interval longer than the other rules want it, and
// the interval that they want. It is [NoBudget] while they have what they want.
func (t *Tuner) Held() (by Budget, wanted time.Duration) {
	wanted = t.config.clamp(round(t.slowed(t.repetitions.want)))
	if t.interval <= wanted || !worth(t.interval, wanted) {
		return NoBudget, t.interval
	}
	return t.budget.by, wanted
}

// Observe takes in an observation. It returns true with a decision if the interval
// must change, or cannot help. A full window of repetitions is judged last, and the budget first: it
// does not wait for the window.
func (t *Tuner) Observe(o Observation) (Decision, bool) {
	o = o.sane()
	t.repetitions.add(o)
	t.slowdown.add(o)
	t.budget.add(o)
	if t.budget.full() {
		if d, ok := t.readBudget(); ok {
			return d, true
		}
	}
	if o.Drift && t.slowdown.stop(t.base()) {
		if d, ok := t.change(t.base(), driftReason); ok {
			return d, true
		}
	}
	if t.config.Off || !t.repetitions.full(t.config) {
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
	if !(o.Fixed >= 0) {
		o.Fixed = 0
	}
	if !(o.Settled >= 0) { // a NaN, too
		o.Settled = 0
	}
	return o
}

// readBudget lets the budget read its meter, and tells the other rules the load.
func (t *Tuner) readBudget() (Decision, bool) {
	switch t.budget.read(t.interval, max(t.repetitions.want, t.slowdown.want), t.config) {
	case budgetRaised:
		if d, ok := t.change(t.budget.want, t.budget.raisedReason(t.config)); ok {
			return d, true
		}
	case budgetLowered:
		to := t.wanted()
		if d, ok := t.change(to, t.budget.load.at(t.interval, to).affordableReason()); ok {
			return d, true
		}
	}
	if t.budget.hopeless(t.config) {
		return Decision{t.interval, t.budget.hopelessReason(t.config)}, true
	}
	cores := t.budget.load.cores
	t.repetitions.checkLoad(cores)
	if before := t.slowdown.cores; t.slowdown.burst(cores) && t.slowdown.stop(t.base()) {
		return t.change(t.base(), loadReason(before, cores))
	}
	return Decision{}, false
}

// look lets repetitions judge a full window. If they leave the interval alone, it may
// be slowed down. The first step does not wait for enough verdicts if the profile is known
// not to be settled.
func (t *Tuner) look() (Decision, bool) {
	cores := t.repetitions.window.cores(t.interval)
	switch s := t.repetitions.look(t.interval, t.config); s.outcome {
	case woken:
		return Decision{}, false
	case moved:
		if d, ok := t.change(s.want, s.reason(t.config)); ok {
			return d, true
		}
	}
	if t.slowdown.look(t.interval, t.base(), cores, t.config) {
		return t.change(t.slowdown.want, t.slowdown.reason(t.config))
	}
	if reason := t.repetitions.shortenEarlyReason(t.slowdown.settled, t.config); t.slowdown.unsettled(t.config) && t.repetitions.shortenEarly(t.interval, t.config) {
		return t.change(t.repetitions.want, reason)
	}
	return Decision{}, false
}

// base returns the interval that the rules want without a slowdown.
func (t *Tuner) base() time.Duration { return max(t.repetitions.want, t.budget.want) }

// wanted returns the largest interval that a rule wants, within the clamps.
func (t *Tuner) wanted() time.Duration {
	return t.config.clamp(round(t.slowed(t.base())))
}

// slowed returns the interval that the slowdown makes of another.
func (t *Tuner) slowed(base time.Duration) time.Duration {
	return max(base, min(t.slowdown.want, maxSlow*base))
}

// change sets the interval after a rule has changed the interval that it wants. If the
// new interval is worth a change, the rules start new evidence for it.
func (t *Tuner) change(want time.Duration, reason string) (Decision, bool) {
	from, to := t.interval, t.wanted()
	if !worth(from, to) {
		return Decision{}, false
	}
	t.interval = to
	t.repetitions.restart()
	t.budget.restart(from, to)
	reason += fmt.Sprintf(arrow+"%v → %v", from, to) + t.limit(want, to)
	return Decision{to, reason}, true
}

// limit says for people why the interval is not the one that a rule wants.
func (t *Tuner) limit(want, got time.Duration) string {
	switch {
	case got < want && got == t.config.Max:
		return ", the longest allowed"
	case got > want && got == t.config.Min:
		return ", the shortest allowed"
	case got > round(want) && got == round(t.budget.want):
		return ", the shortest within the budget"
	}
	return ""
}

// minStep is the least factor of a change. The step from a threshold to the middle
// between the default thresholds is 7 %.
const minStep = 1.02

// worth reports whether two intervals differ enough for a change.
func worth(a, b time.Duration) bool { return float64(max(a, b)) >= minStep*float64(min(a, b)) }

// loadJump is the factor between two loads, in cores, that shows that the program does
// something else.
const loadJump = 4

const driftReason = "drift: the program does something else than before"

// loadReason takes loads in cores.
func loadReason(before, now float64) string {
	return fmt.Sprintf("load %.2f → %.2f cores", before, now)
}

// percent formats a measured part with one decimal, for example "87.4 %".
func percent(p float64) string { return strconv.FormatFloat(100*p, 'f', 1, 64) + " %" }

// plainPercent formats a configured part as it was given, for example "15 %".
func plainPercent(p float64) string { return strconv.FormatFloat(100*p, 'g', 4, 64) + " %" }

// round rounds an interval to three significant digits: the fourth is noise.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
