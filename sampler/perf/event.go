package perf

import (
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// event samples one thread on one CPU. Its periods are kept here because the
// kernel, asked for PERF_SAMPLE_PERIOD, goes on telling the first one after a
// change (hw.last_period of a cpu-clock event; Linux 6.18).
type event struct {
	fd      int           // -1 where the CPU was offline
	period  time.Duration // since changed
	before  time.Duration // until changed
	changed int64         // CLOCK_MONOTONIC, ns
}

// at returns the period that a sample ended which was taken at a time.
func (e *event) at(t int64) time.Duration {
	if t < e.changed {
		return e.before
	}
	return e.period
}

// setPeriod changes the period, which restarts it.
func (e *event) setPeriod(period time.Duration) error {
	if err := setPeriod(e.fd, period); err != nil {
		return err
	}
	e.period, e.before, e.changed = period, e.period, monotonic()
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
	firstDump   = 16 << 10
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
