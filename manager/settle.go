package manager

import (
	"cmp"
	"math"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// settling finds out how settled the map is, from snapshots, in a goroutine of
// its own: with a million nodes it takes some tenths of a second, for which
// nobody waits.
//
//	questions, answers  between the manager and the goroutine, one at a time, so
//	                    that neither waits for the other
//	all else            the manager's goroutine only
type settling struct {
	questions chan question // capacity 1; closed at the end
	answers   chan answer   // capacity 1; closed by the goroutine at its end

	busy     bool      // a question is not yet answered
	samples  int64     // folded
	judged   int64     // of them, in the last overlap of halves
	floorsAt int64     // samples from which the next one is due,
	chunkAt  int64     // and the next chunk,
	chunkDue time.Time // which is not before this
	earliest time.Time // of the next question

	answer answer // the last one
}

// question is a snapshot to be judged.
type question struct {
	*ccmap.Snapshot
	floors bool // how settled it is
	chunk  bool // whether the program drifts
}

// answer says how settled a snapshot is.
type answer struct {
	settled     ccmap.Settled // zero if not asked for, or unknown
	blind       ccmap.Blind
	independent float64 // samples that tell something of their own
	took        time.Duration

	// Of the present phase and the last chunk of it, percentages by edges, 0
	// where unknown (see phases).
	drift                 bool
	phaseSamples          int64
	phase, common, chance float64
}

const (
	// firstFloors is how many samples make halves that say anything, and
	// floorsGrowth by how much the samples grow from one overlap to the next:
	// what is missing to 100 % falls with their root, by 9 % a step.
	firstFloors  = 200
	floorsGrowth = 1.2
	// steadySamples is how many samples a phase needs to be called settled before
	// the tuner: with fewer, edges of 0.03 % are likely to be missing (rule of
	// three).
	steadySamples = 10_000
	// settleShare bounds the cost: one part in so many of the time.
	settleShare = 50
)

func newSettling() *settling {
	return &settling{
		questions: make(chan question, 1),
		answers:   make(chan answer, 1),
		floorsAt:  firstFloors,
		chunkAt:   driftChunk,
	}
}

// work answers questions until there are no more. It is the goroutine.
func (s *settling) work() {
	defer close(s.answers)
	var p phases
	for q := range s.questions {
		start := time.Now()
		a := answer{blind: q.Blind(), independent: independence(q.Meta()) * float64(q.Total().Samples)}
		if q.floors && !a.blind.Misleads() {
			a.settled = settled(q.Snapshot)
		}
		if q.chunk {
			p.look(q.Snapshot)
		}
		a.drift, a.common, a.chance = p.drift, p.common, p.chance
		a.phase, a.phaseSamples = p.settled, p.last.samples-p.start.samples
		a.took = time.Since(start)
		s.answers <- a
	}
}

// settled returns what two halves of a profile overlap.
func settled(s *ccmap.Snapshot) ccmap.Settled {
	f, err := compare.Floors(s, compare.Options{})
	if err != nil {
		return ccmap.Settled{} // there is nothing yet that could be
	}
	return ccmap.Settled{Methods: f.Methods, Edges: f.Edges, Contexts: f.Contexts, Samples: f.Samples}
}

// due returns what is to be asked, and whether there is anything.
func (s *settling) due() (q question, ok bool) {
	now := time.Now()
	if s.busy || now.Before(s.earliest) {
		return question{}, false
	}
	q.floors = s.samples >= s.floorsAt
	q.chunk = s.samples >= s.chunkAt && !now.Before(s.chunkDue)
	return q, q.floors || q.chunk
}

// ask asks. No question may be open.
func (s *settling) ask(q question) {
	s.busy = true
	if q.floors {
		s.judged = s.samples
		s.floorsAt = int64(floorsGrowth * float64(s.samples))
	}
	if q.chunk {
		s.chunkAt = s.samples + driftChunk
		s.chunkDue = time.Now().Add(driftTime)
	}
	s.questions <- q
}

// take takes in an answer.
func (s *settling) take(a answer) {
	s.busy = false
	s.earliest = time.Now().Add(settleShare * a.took)
	if !a.blind.Misleads() {
		a.settled = cmp.Or(a.settled, s.answer.settled)
	}
	s.answer = a
}

// percent returns how settled all that is known of the profile is, the contexts
// of the whole run and the edges of the present phase; 0 of a short one.
func (s *settling) percent() float64 {
	if s.answer.phaseSamples < steadySamples {
		return 0
	}
	return min(s.answer.settled.Contexts, s.answer.phase)
}

// askSettled asks how settled the map is, when that is due. Once a goal was
// reached, that stands.
func (m *Manager) askSettled() {
	q, ok := m.settling.due()
	if !ok || m.reached {
		return
	}
	m.publish()
	q.Snapshot = m.latest.Load()
	if q.chunk {
		m.values.cut()
	}
	m.settling.ask(q)
}

// learn keeps how settled the map is, and stops the session if that is enough.
func (m *Manager) learn(a answer) {
	m.logAnswer(a)
	m.values.file(m.driftBegins(a))
	m.settling.take(a)
	m.stale = true
	s := m.settling.answer.settled
	m.config.Map.Meta().Settled = s
	if g := m.config.Until; !a.drift && g.reached(s, a.independent) {
		m.reached = true
		m.stop(reachedError{g, s})
	}
}

// driftBegins reports whether an answer is the first to say that the program
// drifts.
func (m *Manager) driftBegins(a answer) bool { return a.drift && !m.settling.answer.drift }

// logAnswer says what is new.
func (m *Manager) logAnswer(a answer) {
	at := time.Since(m.start)
	if s := a.settled; s.Samples > 0 {
		m.config.Logger.Info("settled", "samples", s.Samples,
			"methods", oneDigit(s.Methods), "edges", oneDigit(s.Edges), "contexts", oneDigit(s.Contexts), "at", at, "took", a.took)
	}
	if m.driftBegins(a) {
		m.config.Logger.Info("drift", "samples", m.settling.samples, "common", oneDigit(a.common), "chance", oneDigit(a.chance), "at", at)
	}
}

// oneDigit rounds a percentage to what chance leaves certain of it.
func oneDigit(percent float64) float64 { return math.Round(10*percent) / 10 }

// settleFinally judges the whole map, unless what ended the session stands, and
// ends the goroutine.
func (m *Manager) settleFinally() {
	if m.settling.busy {
		m.learn(<-m.settling.answers)
	}
	floors := m.settling.samples > m.settling.judged && !m.reached
	m.values.cut()
	m.settling.ask(question{m.config.Map.Snapshot(), floors, true})
	m.learn(<-m.settling.answers)
	close(m.settling.questions)
	<-m.settling.answers // closed
}
