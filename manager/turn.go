package manager

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/beat"
)

const (
	// tick is about the longest time between two turns (see package beat). The tuner's clock and
	// the figures of an idle target advance by it, so it is shorter than the time between two
	// drawings of them (see terminal.LiveEvery).
	tick = 400 * time.Millisecond

	// rest is the pause after a turn that samples have caused less than restless after
	// the last one. It spares a busy source from waking the manager (see
	// queue.Queue.Ready). A ring takes far longer to fill. Where samples are rarer, a pause
	// would be one more wake-up.
	rest     = time.Millisecond
	restless = 20 * time.Millisecond
)

// takeTurns takes turns until done is closed.
func (m *Manager) takeTurns(done <-chan struct{}) {
	idle := time.NewTimer(beat.Until(time.Now(), tick))
	defer idle.Stop()
	asked := m.asked
	var due <-chan time.Time // when a snapshot that was asked for is due
	var last time.Time       // when samples have caused a turn
	for {
		select {
		case <-done:
			return
		case p := <-m.profiles:
			m.takeProfile(p)
		case <-m.info.Sink.Queue.Ready():
			m.takeTurn()
			if time.Since(last) < restless {
				time.Sleep(rest)
			}
			last = time.Now()
		case <-idle.C:
			m.takeTurn()
			idle.Reset(beat.Until(time.Now(), tick))
		case <-asked:
			asked, due = nil, time.After(m.config.PublishEvery-time.Since(m.published))
		case a := <-m.convergence.answers:
			m.learn(a)
		case <-due:
			asked, due = m.asked, nil
			m.publish()
		}
	}
}

// turn counts the samples and calls that one turn has folded.
type turn struct {
	samples, known, repeated int
	caught                   int   // calls, which are not samples
	weight                   int64 // ns of the target's CPU time
}

// takeTurn folds the samples in the queue, tunes, and looks for hot methods.
func (m *Manager) takeTurn() {
	if bytes := m.maxBytes.Swap(0); bytes != 0 {
		m.config.Map.SetMaxBytes(bytes)
		m.stale = true
	}
	m.turn = turn{}
	m.drain()
	m.endTurn()
}

// endTurn tunes and publishes after the turn's samples were folded.
func (m *Manager) endTurn() {
	now := time.Now()
	m.keepTurn(now)
	m.tune(now)
	m.askConvergence(now)
	m.show(now)
	if m.hot.due(m.sampled) {
		m.publish()
		m.hot.look(m.latest.Load())
	}
}

// fold takes in a sample or a caught call. The manager does all other work once a
// turn. Only samples of CPU time enter the map.
func (m *Manager) fold(s *ccmap.Sample) {
	t := &m.turn
	if s.Hit {
		t.caught++
		m.values.count(s)
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

// keepTurn adds a turn's counts to the session's counts. The map's window decays
// with time, even without samples.
func (m *Manager) keepTurn(now time.Time) {
	t := m.turn
	meta := m.config.Map.Meta()
	m.stale = m.stale || t.samples+t.caught > 0 || meta.Window > 0
	m.config.Map.Advance(m.clock + int64(now.Sub(m.start)))
	m.sampled += t.weight
	m.convergence.samples += int64(t.samples)
	meta.Known += uint64(t.known)
	meta.Repeated += uint64(t.repeated)
}
