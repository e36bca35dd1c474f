package manager

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// convergence judges snapshots in a goroutine of its own: has the map converged, and
// does the program drift? With a million nodes an answer takes some tenths of a
// second, and the manager does not wait for it.
//
//	questions, answers  between the manager and the goroutine, one at a time, so
//	                    neither waits for the other
//	all other fields    owned by the manager's goroutine
type convergence struct {
	questions chan question // capacity 1; closed at the end
	answers   chan answer   // capacity 1; closed by the goroutine at its end

	busy     bool      // a question is not answered yet
	samples  int64     // folded
	judged   int64     // samples in the last overlap of halves
	floorsAt int64     // samples that make the next overlap of halves due
	chunkAt  int64     // samples that make the next look for a drift due,
	chunkDue time.Time // but not before this time
	earliest time.Time // of the next question

	answer answer // the last answer
}

// question asks for a judgement of a snapshot.
type question struct {
	*ccmap.Snapshot
	floors bool // how far has it converged?
	chunk  bool // does the program drift?
}

// answer is the judgement of a snapshot.
type answer struct {
	converged   ccmap.Settled // zero if unknown or not asked for
	blind       ccmap.Blind
	independent float64 // effective sample size
	took        time.Duration

	// The present phase and its last chunk. Percentages are of edges; 0: unknown (see
	// phases).
	drift                 bool
	phaseSamples          int64
	phase, common, chance float64
}

const (
	// firstFloors is the least number of samples whose halves say anything.
	firstFloors = 200
	// floorsGrowth is the factor between the samples of two overlaps. The distance to
	// 100 % falls with the square root of the samples, by 9 % a step.
	floorsGrowth = 1.2
	// steadySamples is the number of samples that a phase needs before the tuner hears
	// that it has converged. With fewer, edges with a share of 0.03 % are likely to be
	// missing (rule of three).
	steadySamples = 10_000
	// judgeShare bounds the cost: judging takes at most one part in judgeShare of the
	// time.
	judgeShare = 50
)

func newConvergence() *convergence {
	return &convergence{
		questions: make(chan question, 1),
		answers:   make(chan answer, 1),
		floorsAt:  firstFloors,
		chunkAt:   driftChunk,
	}
}

// work is the goroutine. It answers questions until their channel is closed.
func (c *convergence) work() {
	defer close(c.answers)
	var p phases
	for q := range c.questions {
		start := time.Now()
		a := answer{blind: q.Blind(), independent: q.Meta().Independence() * float64(q.Total().Samples)}
		if q.floors && !a.blind.Misleads() {
			a.converged = overlapOfHalves(q.Snapshot)
		}
		if q.chunk {
			p.look(q.Snapshot)
		}
		a.drift, a.common, a.chance = p.drift, p.common, p.chance
		a.phase, a.phaseSamples = p.converged, p.last.samples-p.start.samples
		a.took = time.Since(start)
		c.answers <- a
	}
}

// overlapOfHalves returns the overlap of two halves of a profile. It returns zero for
// a profile that is too small to halve.
func overlapOfHalves(s *ccmap.Snapshot) ccmap.Settled {
	f, err := compare.Floors(s, compare.Options{})
	if err != nil {
		return ccmap.Settled{}
	}
	return ccmap.Settled{Methods: f.Methods, Edges: f.Edges, Contexts: f.Contexts, Samples: f.Samples}
}

// due returns the question that is due, and reports whether there is one.
func (c *convergence) due(now time.Time) (q question, ok bool) {
	if c.busy || now.Before(c.earliest) {
		return question{}, false
	}
	q.floors = c.samples >= c.floorsAt
	q.chunk = c.samples >= c.chunkAt && !now.Before(c.chunkDue)
	return q, q.floors || q.chunk
}

// ask asks a question. The last one must be answered.
func (c *convergence) ask(q question) {
	c.busy = true
	if q.floors {
		c.judged = c.samples
		c.floorsAt = int64(floorsGrowth * float64(c.samples))
	}
	if q.chunk {
		c.chunkAt = c.samples + driftChunk
		c.chunkDue = time.Now().Add(driftTime)
	}
	c.questions <- q
}

// takeAnswer takes in an answer.
func (c *convergence) takeAnswer(a answer) {
	c.busy = false
	c.earliest = time.Now().Add(judgeShare * a.took)
	if !a.blind.Misleads() {
		a.converged = cmp.Or(a.converged, c.answer.converged)
	}
	c.answer = a
}

// percent returns how far the profile has converged: the contexts of the whole run or
// the edges of the present phase, whichever is less. It returns 0 for a short phase.
func (c *convergence) percent() float64 {
	if c.answer.phaseSamples < steadySamples {
		return 0
	}
	return min(c.answer.converged.Contexts, c.answer.phase)
}

// askConvergence asks the question that is due. Once a goal is reached, it asks
// nothing, so that the answer stays.
func (m *Manager) askConvergence(now time.Time) {
	q, ok := m.convergence.due(now)
	if !ok || m.reached {
		return
	}
	m.publish()
	q.Snapshot = m.latest.Load()
	if q.chunk {
		m.values.cut()
	}
	m.convergence.ask(q)
}

// learn keeps an answer in the metadata, and stops the session if the goal is reached.
func (m *Manager) learn(a answer) {
	m.logAnswer(a)
	m.values.assign(m.driftBegins(a))
	m.convergence.takeAnswer(a)
	m.stale = true
	s := m.convergence.answer.converged
	m.config.Map.Meta().Settled = s
	if g := m.config.Until; !a.drift && g.reached(s, a.independent) {
		m.reached = true
		m.stop(reachedError{g, s})
	}
}

// driftBegins reports whether an answer is the first to say that the program drifts.
func (m *Manager) driftBegins(a answer) bool { return a.drift && !m.convergence.answer.drift }

// logAnswer logs the news in an answer.
func (m *Manager) logAnswer(a answer) {
	at := time.Since(m.start)
	if s := a.converged; s.Samples > 0 {
		m.config.Logger.Info("settled", "samples", s.Samples,
			"methods", oneDigit(s.Methods), "edges", oneDigit(s.Edges), "contexts", oneDigit(s.Contexts), "at", at, "took", a.took)
	}
	if m.driftBegins(a) {
		m.config.Logger.Info("drift", "samples", m.convergence.samples, "common", oneDigit(a.common), "chance", oneDigit(a.chance), "at", at)
	}
}

// oneDigit rounds a percentage: chance leaves only one digit after the point.
func oneDigit(percent float64) float64 { return math.Round(10*percent) / 10 }

// judgeFinally judges the whole map, unless the session has reached its goal, looks
// for a drift, and ends the goroutine.
func (m *Manager) judgeFinally() {
	if m.convergence.busy {
		m.learn(<-m.convergence.answers)
	}
	floors := m.convergence.samples > m.convergence.judged && !m.reached
	m.values.cut()
	m.convergence.ask(question{m.config.Map.Snapshot(), floors, true})
	m.learn(<-m.convergence.answers)
	close(m.convergence.questions)
	<-m.convergence.answers // closed
}

// reachedError is the cause of the ending of a session that has reached its goal.
type reachedError struct {
	goal      Goal
	converged ccmap.Settled
}

func (e reachedError) Error() string {
	return fmt.Sprintf("%v are settled to %.1f %% (%v %% wanted)", e.goal.Of, e.goal.Of.Settled(e.converged), e.goal.Percent)
}
