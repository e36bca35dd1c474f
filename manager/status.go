package manager

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Status is the state of a session. Counts are since its start. Nodes, Bytes and Pruned are the map's.
type Status struct {
	Elapsed         time.Duration // at the last turn
	Samples         uint64        // folded
	Caught          uint64        // calls that breakpoints have caught
	Sampled         time.Duration // CPU time of the target that the samples stand for
	Known, Repeated uint64        // samples with a verdict on their top activation, and repetitions
	Interval        time.Duration // CPU time between two samples of one thread
	Verdicts        int           // samples with a verdict that the tuner has for its next decision
	NeededVerdicts  int           // that it needs; 0: it waits for none
	Loss            ccmap.Loss    // at the time of the call
	Threads         int           // attached at the time of the call
	Nodes           int           // of the map
	Bytes           int64         // held by the map
	Pruned          ccmap.PruneStats
	Settled         ccmap.Settled // the last answer; zero if the profile misleads
	Blind           ccmap.Blind   // the last answer
	Drift           bool          // lately the program has done something else than before
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
	s.Loss.Queue += m.info.Sink.Queue.Stats().Dropped
	return s
}

// show updates the state that Status returns. It sets only the losses that the map
// has counted. Status adds the others.
func (m *Manager) show(now time.Time) {
	meta := m.config.Map.Meta()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.status
	s.Elapsed = now.Sub(m.start)
	s.Samples += uint64(m.turn.samples)
	s.Caught += uint64(m.turn.caught)
	s.Sampled = time.Duration(m.sampled)
	s.Known, s.Repeated = meta.Known-m.earlier.Known, meta.Repeated-m.earlier.Repeated
	if m.config.Tuner != nil {
		s.Verdicts, s.NeededVerdicts = m.config.Tuner.Verdicts()
	}
	s.Interval = meta.Interval[len(meta.Interval)-1].Interval
	s.Loss = ccmap.Loss{
		Corrupt:  meta.Loss.Corrupt - m.earlier.Loss.Corrupt - m.loss.Corrupt,
		Orphaned: meta.Loss.Orphaned - m.earlier.Loss.Orphaned - m.loss.Orphaned,
		Source:   uint64(m.admission.refused),
	}
	s.Nodes, s.Bytes = m.config.Map.Len(), m.config.Map.Bytes()
	s.Pruned, s.Settled, s.Blind = meta.Pruned, meta.Settled, m.convergence.answer.blind
	s.Drift = m.convergence.answer.drift
}
