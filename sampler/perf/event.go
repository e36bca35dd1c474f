package perf

import (
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// event samples one thread on one CPU. Its periods are kept here because the
// kernel, asked for PERF_SAMPLE_PERIOD, goes on telling the first one after a
// change (hw.last_period of a cpu-clock event; Linux 6.18).
//
// The first period is a random part of the interval, and the first sample stands
// for the whole interval: so a thread that runs for half an interval on a CPU is
// sampled every other time, and not missed every time. Of 1,000 threads that ran
// for 4 ms each at 10 ms, 16 % of the time was sampled before.
type event struct {
	fd      int           // -1 where the CPU was offline
	period  time.Duration // since changed
	before  time.Duration // until changed
	changed int64         // CLOCK_MONOTONIC, ns
	first   time.Duration // what the first sample stands for; 0 after it
}

// leastFirst is the least part of the interval that a first period takes. It
// bounds how often a thread is sampled while the drainer, stopped perhaps, does
// not see the first sample: until then that period goes on.
const leastFirst = 0.1

// newEvent opens an event in the form that the kernel agreed to. fd is -1 on an
// error.
func newEvent(form eventForm, interval time.Duration, tid uint32, cpu int) (event, error) {
	period := time.Duration(float64(interval) * max(rand.Float64(), leastFirst))
	fd, err := openEvent(form.attr(period), int(tid), cpu)
	return event{fd: fd, period: period, before: period, changed: monotonic(), first: interval}, err
}

// weigh returns the CPU time that a sample taken at t stands for, and whether
// the event needs another period.
func (e *event) weigh(t int64) (weight time.Duration, redraw bool) {
	switch {
	case e.first > 0:
		weight, e.first = e.first, 0
		return weight, true
	case t < e.changed:
		return e.before, false
	}
	return e.period, t-e.changed > int64(redrawAfter)
}

// sendTo makes a ring receive the event's samples from now on.
func (e *event) sendTo(r *ring) error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd); err != nil {
		return fmt.Errorf("send samples to the ring of CPU %d: %w", r.cpu, err)
	}
	return nil
}

// setPeriod changes the period, which restarts it.
func (e *event) setPeriod(period time.Duration) error {
	if err := setPeriod(e.fd, period); err != nil {
		return err
	}
	e.period, e.before, e.changed, e.first = period, e.period, monotonic(), 0
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

func jittered(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (1 + jitter*(2*rand.Float64()-1)))
}
