package perf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// event samples one thread on one CPU. Its periods are kept here because the
// kernel, asked for PERF_SAMPLE_PERIOD, would go on telling the first one after a
// change (hw.last_period of a cpu-clock event; Linux 6.18).
//
//	begin     draw a period p; the first period is a random part of it
//	first     its sample stands for p; from now on the period is p
//	redraw    after some samples another period is drawn, right after one of them
//
// So a thread that runs for half an interval on a CPU is sampled every other time,
// and not missed every time. A change of the interval is a beginning, too: on
// average, the first sample makes up for the discarded time. A redraw discards the
// CPU time since the sample before it, so the next sample stands for that time as
// well. The event's own count tells how much it is.
//
// The periods of the last few changes are kept for samples that wait in a ring
// meanwhile.
type event struct {
	fd      int        // -1 where the CPU was offline
	counted int64      // the event's count at the last sample that was weighed, ns
	now     periods    // since the last of before ended
	before  [4]periods // oldest first
}

// periods say what samples stand for.
type periods struct {
	each  time.Duration
	first time.Duration // what the first sample stands for, and the period after it; 0 once it was seen
	cut   time.Duration // the period before, which was discarded in its course; 0 once it is accounted for
	from  int64         // the event's count when they began, ns; of use with cut
	left  int           // samples until another period is drawn
	until int64         // when they were changed, CLOCK_MONOTONIC, ns
}

// weigh returns what the next sample stands for. counted is the event's count at
// the sample before it.
func (p *periods) weigh(counted int64) time.Duration {
	weight := p.each
	switch {
	case p.first != 0:
		weight = p.first
	case p.cut != 0:
		weight += p.discarded(counted)
	}
	p.first, p.cut = 0, 0
	p.left--
	return weight
}

// discarded returns the CPU time that these periods have cut off. The samples of
// whole periods before may be missing: those in the kernel, where it is not sampled.
func (p *periods) discarded(counted int64) time.Duration {
	return time.Duration(max(p.from-counted, 0)) % p.cut
}

// beginning returns the periods of an event that begins with an interval.
func beginning(interval time.Duration) periods { return drawn(interval).begun(rand.Float64()) }

// begun turns the periods that follow a sample into those of a beginning. part is
// uniform between 0 and 1.
func (p periods) begun(part float64) periods {
	p.first = p.each
	p.each = max(time.Duration(float64(p.each)*part), leastInterval)
	return p
}

// after notes that the periods cut off one of those before, when the event had
// counted so much.
func (p periods) after(before periods, count int64) periods {
	p.cut, p.from = before.each, count
	return p
}

// newEvent opens an event in the form that the kernel agreed to. fd is -1 on an
// error. Samples from before it are those of an event that it replaces.
func newEvent(form eventForm, interval time.Duration, tid uint32, cpu int) (event, error) {
	e := event{now: periods{each: interval}}
	e.follow(beginning(interval), monotonic())
	var err error
	e.fd, err = openEvent(form.attr(e.now.each), int(tid), cpu)
	return e, err
}

// weigh returns the CPU time that a sample stands for, which was taken at t when the
// event had counted so much, and the periods that the event needs now: none where
// each is 0. Other periods come from draw.
func (e *event) weigh(t, count int64, draw func() periods) (weight time.Duration, next periods) {
	p := &e.now
	for i := range e.before {
		if t < e.before[i].until {
			p = &e.before[i]
			break
		}
	}
	first := p.first
	weight = p.weigh(e.counted)
	e.counted = count
	switch {
	case p != &e.now:
		return weight, periods{}
	case first != 0:
		return weight, periods{each: first, left: p.left}
	case p.left <= 0 && t-e.before[len(e.before)-1].until > int64(leastDraw):
		return weight, draw()
	}
	return weight, periods{}
}

// follow notes that other periods began at a time.
func (e *event) follow(p periods, at int64) {
	copy(e.before[:], e.before[1:])
	e.now.until = at
	e.before[len(e.before)-1], e.now = e.now, p
}

// sendTo makes a ring receive the event's samples. Done a second time, it takes
// long; see threads.replace.
func (e *event) sendTo(r *ring) error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd); err != nil {
		return fmt.Errorf("send samples to the ring of CPU %d: %w", r.cpu, err)
	}
	return nil
}

// begin restarts the event with the periods of a beginning.
func (e *event) begin(p periods) error {
	if err := setPeriod(e.fd, p.each); err != nil {
		return err
	}
	e.follow(p, monotonic())
	return nil
}

// goOn restarts the event with other periods after a sample.
func (e *event) goOn(p periods) error {
	if err := setPeriod(e.fd, p.each); err != nil {
		return err
	}
	at := monotonic()
	count, _, err := readCount(e.fd)
	if err == nil {
		p = p.after(e.now, int64(count))
	}
	e.follow(p, at)
	return err
}

// eventForm is what the kernel agreed to.
type eventForm struct {
	userOnly bool
	noLost   bool   // the kernel does not count lost samples by event (before Linux 6.0)
	dump     uint32 // bytes of stack in a sample
}

// Bytes of stack in a sample: at first and, where stacks turn out to be deeper,
// the most that a record has room for.
const (
	firstDump   = 4 << 10
	longestDump = 65528
)

func (f eventForm) attr(period time.Duration) *unix.PerfEventAttr {
	a := samplingAttr(period, f.dump, f.userOnly)
	if f.noLost {
		a.Read_format = 0
	}
	return a
}

// Periods are drawn anew every redrawAfter samples, but not more often than every
// leastDraw, so that sampling does not run in lockstep with periodic work of the
// target or of other threads.
//
// A period is some 5 to 30 % longer or shorter than the interval. The wider the
// spread, the fewer periods stay in step with any given work, and the variance of a
// share is at most about 1/(2 × spread) times the binomial. Those next to the
// interval are left out because work repeats in round times, as intervals do.
const (
	leastSpread = 0.05
	mostSpread  = 0.30
	redrawAfter = 16
	leastDraw   = 100 * time.Millisecond
)

// drawn returns periods that follow a sample.
func drawn(interval time.Duration) periods {
	return periods{each: period(interval, rand.Float64()), left: redrawAfter}
}

// period returns the period for a number that is uniform between 0 and 1.
func period(interval time.Duration, number float64) time.Duration {
	spread := 2*number - 1
	spread = math.Copysign(leastSpread+(mostSpread-leastSpread)*math.Abs(spread), spread)
	return max(time.Duration(float64(interval)*(1+spread)), leastInterval)
}
