package perf

import (
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// event samples one thread on one CPU. Its periods are kept here because the
// kernel, asked for PERF_SAMPLE_PERIOD, would go on telling the first one after a
// change (hw.last_period of a cpu-clock event; Linux 6.18).
//
// The first period is a random part of the interval, and the first sample stands
// for the whole interval: so a thread that runs for half an interval on a CPU is
// sampled every other time, and not missed every time. Of 1,000 threads that ran
// for 4 ms each at 10 ms, 16 % of the time was sampled before. A change of the
// interval is a beginning, too: what it cuts off is made up for, on average.
//
// The periods of the last few changes are kept for samples that wait in a ring
// meanwhile.
type event struct {
	fd     int        // -1 where the CPU was offline
	now    periods    // since the last of before ended
	before [4]periods // oldest first
}

// periods say what samples stand for.
type periods struct {
	each  time.Duration
	first time.Duration // what the first sample stands for; 0 after it
	until int64         // when they were changed, CLOCK_MONOTONIC, ns
}

// weigh returns what the next sample stands for, and whether it is the first.
func (p *periods) weigh() (weight time.Duration, first bool) {
	if p.first == 0 {
		return p.each, false
	}
	weight, p.first = p.first, 0
	return weight, true
}

// leastFirst is the least part of the interval that a first period takes, if
// that is not under leastInterval. It bounds how often a thread is sampled while
// the drainer, stopped perhaps, does not see the first sample: until then that
// period goes on.
const leastFirst = 0.1

// beginning returns the periods of an event that begins with an interval.
func beginning(interval time.Duration) periods {
	part := time.Duration(float64(interval) * max(rand.Float64(), leastFirst))
	return periods{each: min(max(part, leastInterval), interval), first: interval}
}

// newEvent opens an event in the form that the kernel agreed to. fd is -1 on an
// error. Samples from before it are those of an event that it replaces.
func newEvent(form eventForm, interval time.Duration, tid uint32, cpu int) (event, error) {
	e := event{now: periods{each: interval}}
	e.follow(beginning(interval))
	var err error
	e.fd, err = openEvent(form.attr(e.now.each), int(tid), cpu)
	return e, err
}

// weigh returns the CPU time that a sample taken at t stands for, and whether
// the event needs another period.
func (e *event) weigh(t int64) (weight time.Duration, redraw bool) {
	for i := range e.before {
		if p := &e.before[i]; t < p.until {
			weight, _ = p.weigh()
			return weight, false
		}
	}
	weight, first := e.now.weigh()
	return weight, first || t-e.before[len(e.before)-1].until > int64(redrawAfter)
}

// follow notes that other periods begin now.
func (e *event) follow(p periods) {
	copy(e.before[:], e.before[1:])
	e.now.until = monotonic()
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

// change changes the periods, which restarts the event.
func (e *event) change(p periods) error {
	if err := setPeriod(e.fd, p.each); err != nil {
		return err
	}
	e.follow(p)
	return nil
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

// Periods are spread around the interval by up to this fraction, so that
// sampling does not run in lockstep with periodic work of the target or of
// other threads, and drawn anew every so often.
const (
	jitter      = 0.03
	redrawAfter = time.Second
)

func jittered(interval time.Duration) periods {
	return periods{each: time.Duration(float64(interval) * (1 + jitter*(2*rand.Float64()-1)))}
}
