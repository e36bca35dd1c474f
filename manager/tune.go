package manager

import (
	"slices"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

// tune reports a turn to the tuner, and sets the interval that the tuner wants. A
// source may make the change later. One that cannot change its interval keeps the old one.
func (m *Manager) tune(now time.Time) {
	if m.config.Tuner == nil {
		return
	}
	at := now.Sub(m.start)
	source := m.config.Source.Stats()
	m.followTuner(at, source.Interval)
	m.held = m.lookHeld(source)
	m.overhead.follow(source)
	d, changed := m.config.Tuner.Observe(tuning.Observation{
		At:        at,
		Samples:   m.turn.samples,
		Known:     m.turn.known,
		Repeated:  m.turn.repeated,
		TargetCPU: time.Duration(m.turn.weight),
		DaemonCPU: m.spentCPU(now),

		SampleCost: m.overhead.sample,
		Fixed:      m.overhead.fixed,

		Settled: m.convergence.percent(),
		Drift:   m.convergence.answer.drift,
	})
	if !changed {
		return
	}
	if d.Interval == source.Interval {
		m.config.Logger.Info("keep interval", "at", at, "reason", d.Reason)
		return
	}
	if err := m.config.Source.(sampler.Tunable).SetInterval(d.Interval); err != nil {
		m.config.Logger.Warn("keep interval", "instead of", d.Interval, "reason", d.Reason, "error", err)
		return
	}
	m.later = d.Reason
	m.followTuner(at, m.config.Source.Stats().Interval)
}

// followTuner keeps a change of the interval with its reason when the source has made it, which
// may be at once.
func (m *Manager) followTuner(at, is time.Duration) {
	changes := m.config.Map.Meta().Interval
	if m.later != "" && is != changes[len(changes)-1].Interval {
		m.keepInterval(at, m.later)
		m.later = ""
	}
}

// overhead is the latest cost of sampling to the target, in the form that the tuner takes.
type overhead struct {
	sample time.Duration // of one sample, with verdicts; 0: not known
	fixed  float64       // part of the target's CPU time

	samples  uint64           // at the last change of sample
	sampled  sampler.Overhead // then
	switched sampler.Overhead // at the last change of fixed
}

// follow takes in the figures of the source. The source counts switches once in a second
// or so.
func (o *overhead) follow(s sampler.Stats) {
	now := s.Overhead
	if n := s.Counts[sampler.Samples]; n > o.samples && now.Of > 0 {
		o.sample = (now.Sampling() - o.sampled.Sampling()) / time.Duration(n-o.samples)
		o.samples, o.sampled = n, now
	}
	if cost := now.Fixed() - o.switched.Fixed(); cost > 0 && now.Of > o.switched.Of {
		o.fixed = float64(cost) / float64(now.Of-o.switched.Of)
		o.switched = now
	}
}

// mostChanges bounds the changes of the interval that the metadata keeps: a map may go on
// for months.
const mostChanges = 1000

// keepInterval logs the interval in force and keeps it in the metadata. The source
// may have clamped the interval that it was given. A session that begins with the last interval of
// the session before it changes nothing.
func (m *Manager) keepInterval(at time.Duration, reason string) {
	is := m.config.Source.Stats().Interval
	meta := m.config.Map.Meta()
	m.config.Logger.Info("set interval", "to", is, "at", at, "reason", reason)
	change := ccmap.IntervalChange{At: m.offset + at, Interval: is, Reason: reason}
	if n := len(meta.Interval); n > 0 {
		last := meta.Interval[n-1]
		if at == 0 && last.Interval == is {
			return
		}
		change.At = max(change.At, last.At) // the clock may have been set back
	}
	meta.Interval = append(meta.Interval, change)
	if len(meta.Interval) > mostChanges {
		meta.Interval = slices.Delete(meta.Interval, 1, 2)
	}
}

// measuredSamples is after how many samples the session's CPU time is asked for again: the call costs
// as much as a sample.
const measuredSamples = 100

// spentCPU returns the CPU time that the session has cost since it was asked for last, and 0 if that
// was a few samples and less than half a tick ago.
func (m *Manager) spentCPU(now time.Time) time.Duration {
	m.unmeasured += m.turn.samples
	if m.unmeasured < measuredSamples && now.Sub(m.measured) < tick/2 {
		return 0
	}
	cpu := m.daemonCPU()
	spent := cpu - m.cpu
	m.cpu, m.measured, m.unmeasured = cpu, now, 0
	return spent
}

// daemonCPU returns the CPU time that the session has cost. It returns 0 if the
// target runs in this process.
func (m *Manager) daemonCPU() time.Duration {
	switch {
	case m.info.Embedded:
		return 0
	case m.config.DaemonCPU != nil:
		return m.config.DaemonCPU()
	}
	return processCPU()
}

// processCPU returns the CPU time that this process has used, in user and
// kernel mode. Getrusage of the process itself does not fail (getrusage(2)).
func processCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
