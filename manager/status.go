package manager

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Status is what a session has come to. All counts are since its start.
type Status struct {
	Elapsed         time.Duration // at the last turn
	Samples         uint64        // folded
	Caught          uint64        // calls that breakpoints have caught
	Sampled         time.Duration // CPU time of the target that they stand for
	Known, Repeated uint64        // samples with a verdict on their top activation, and repetitions
	Interval        time.Duration // CPU time between two samples of one thread
	MissingVerdicts int           // samples with a verdict that the tuner waits for; 0: none
	Loss            ccmap.Loss    // at the time of the call
	Threads         int           // attached at the time of the call
	Nodes           int           // of the map
	Bytes           int64         // held by the map
	Pruned          ccmap.PruneStats
	Settled         ccmap.Settled // as last found out; zero of a profile that misleads
	Blind           ccmap.Blind   // as last found out
	Drift           bool          // the program has lately done something else than before
}

// Status returns the state at the end of the last turn. Any goroutine may call
// it at any time.
func (m *Manager) Status() Status {
	m.mu.Lock()
	s := m.status
	m.mu.Unlock()
	source := m.config.Source.Stats()
	s.Threads = source.Threads
	s.Loss = s.Loss.Add(source.Loss)
	s.Loss.Queue += m.config.Queue.Stats().Dropped
	return s
}

// show makes the state visible to Status. Of the losses it keeps those that
// only the map knows; Status adds the others.
func (m *Manager) show() {
	meta := m.config.Map.Meta()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.status
	s.Elapsed = time.Since(m.start)
	s.Samples += uint64(m.turn.samples)
	s.Caught += uint64(m.turn.hits)
	s.Sampled = time.Duration(m.sampled)
	s.Known, s.Repeated = meta.Known, meta.Repeated
	if m.config.Tuner != nil {
		s.MissingVerdicts = m.config.Tuner.Missing()
	}
	s.Interval = meta.Interval[len(meta.Interval)-1].Interval
	s.Loss = ccmap.Loss{
		Corrupt:  meta.Loss.Corrupt - m.loss.Corrupt,
		Orphaned: meta.Loss.Orphaned - m.loss.Orphaned,
	}
	s.Nodes, s.Bytes = m.config.Map.Len(), m.config.Map.Bytes()
	s.Pruned, s.Settled, s.Blind = meta.Pruned, meta.Settled, m.settling.answer.blind
	s.Drift = m.settling.answer.drift
}
