package manager

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/tuning"
)

// turn counts what one turn has folded.
type turn struct {
	samples, known, repeated int
	hits                     int   // calls caught; not among samples
	weight                   int64 // ns of the target's CPU time
}

// takeTurn folds what is queued and does what follows from it.
func (m *Manager) takeTurn() {
	m.turn = turn{}
	m.config.Queue.Drain(m.fold)
	m.keepTurn()
	m.tune()
	m.askSettled()
	m.show()
	if m.hot.due(m.sampled) {
		m.publish()
		m.hot.look(m.latest.Load())
	}
}

// fold is called for every sample and every call that was caught; all else is done
// once a turn. The map has samples of CPU time only.
func (m *Manager) fold(s *ccmap.Sample) {
	t := &m.turn
	if s.Hit {
		t.hits++
		m.values.hit(s)
		return
	}
	m.config.Map.Fold(s)
	t.samples++
	t.weight += s.Weight
	if s.Early || s.Top == ccmap.TopUnknown {
		return
	}
	t.known++
	if s.Top == ccmap.TopRepeated {
		t.repeated++
	}
}

// keepTurn adds a turn's counts to the session's. The map's window decays with
// time, whether there are samples or not.
func (m *Manager) keepTurn() {
	t := m.turn
	meta := m.config.Map.Meta()
	m.stale = m.stale || t.samples+t.hits > 0 || meta.Window > 0
	m.config.Map.Advance(m.clock + int64(time.Since(m.start)))
	m.sampled += t.weight
	m.settling.samples += int64(t.samples)
	meta.Known += uint64(t.known)
	meta.Repeated += uint64(t.repeated)
}

// tune tells the tuner what the turn has brought, and sets the interval that it
// wants. A source that cannot change its interval keeps the old one.
func (m *Manager) tune() {
	if m.config.Tuner == nil {
		return
	}
	cpu := m.daemonCPU()
	at := time.Since(m.start)
	d, changed := m.config.Tuner.Observe(tuning.Observation{
		At:        at,
		Samples:   m.turn.samples,
		Known:     m.turn.known,
		Repeated:  m.turn.repeated,
		TargetCPU: time.Duration(m.turn.weight),
		DaemonCPU: cpu - m.cpu,
		Settled:   m.settling.percent(),
		Drift:     m.settling.answer.drift,
	})
	m.cpu = cpu
	if !changed {
		return
	}
	if err := m.config.Source.SetInterval(d.Interval); err != nil {
		m.config.Logger.Warn("keep interval", "instead of", d.Interval, "reason", d.Reason, "error", err)
		return
	}
	m.keepInterval(at, d.Reason)
}

// keepInterval logs a setting of the interval and keeps it in the metadata: the
// one in force, in case the source has clamped what was asked for.
func (m *Manager) keepInterval(at time.Duration, reason string) {
	is := m.config.Source.Stats().Interval
	meta := m.config.Map.Meta()
	meta.Interval = append(meta.Interval, ccmap.IntervalChange{At: at, Interval: is, Reason: reason})
	m.config.Logger.Info("set interval", "to", is, "at", at, "reason", reason)
}

// daemonCPU returns the CPU time that this process has used, 0 where the target's
// is part of that.
func (m *Manager) daemonCPU() time.Duration {
	if m.config.Embedded {
		return 0
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

// monotonic returns CLOCK_MONOTONIC in ns, the clock of samples.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is there since Linux 2.6 (clock_gettime(2))
	}
	return t.Nano()
}
