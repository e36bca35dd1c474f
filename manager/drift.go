package manager

import (
	"math"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// edge is a call site and what it calls or, with NoMethod as its caller, a
// method.
type edge struct {
	caller, callee ccmap.MethodID
	offset         uint32
}

// edgeTimes is the time that the edges had been sampled at some moment. They are
// exact, whatever contexts were pruned.
type edgeTimes struct {
	of      map[edge]int64 // ns; a sample counts once for each of its edges
	sum     int64          // ns, over edges
	time    int64          // ns, over samples
	samples int64
}

func edgeTimesOf(s *ccmap.Snapshot) edgeTimes {
	t := edgeTimes{of: make(map[edge]int64), samples: s.Total().Samples, time: s.Total().Time}
	pruned := prunedMethod(s)
	for e := range s.Edges() {
		if e.Callee() == pruned {
			continue
		}
		ns := e.Total().Time
		t.of[edge{e.Caller(), e.Callee(), e.Offset()}] = ns
		t.sum += ns
	}
	return t
}

// prunedMethod returns the pseudo method [pruned], NoMethod where there is none.
// What hangs there has been counted before, at other edges.
func prunedMethod(s *ccmap.Snapshot) ccmap.MethodID {
	if id, ok := s.Names().Lookup(ccmap.PrunedName, ""); ok {
		return id
	}
	return ccmap.NoMethod
}

// phases tells the phases of a program from each other. Two halves of a whole
// run agree whatever has happened, since each of them saw all of it; so chunk
// after chunk of the latest samples is compared with those before it, as far
// back as the program did the same. Where they differ by more than chance
// explains, the program drifts, and the next phase begins with that chunk.
//
// Chance is not drawn as for the noise floor (package compare) but computed: the
// share of an edge in n samples scatters as that of a coin that falls on it with
// the edge's probability q, by √(q(1−q)/n).
type phases struct {
	start edgeTimes // when the present phase began
	last  edgeTimes // when the last chunk ended

	drift   bool    // the last chunk differs from those before it
	common  float64 // what it has in common with them by edges, percent; 0: unknown,
	chance  float64 // and what it would if nothing but chance told them apart
	settled float64 // what two halves of the phase have in common, percent; 0: unknown
}

const (
	// driftChunk is how many samples are compared with those before them, at
	// least: ten seconds of a core at 100 Hz.
	driftChunk = 1000
	// driftTime is the least time that they took: a program does its work in
	// bursts, and collects its garbage in others, which are no phases of it.
	driftTime = 10 * time.Second
	// driftPoints is the difference, in points beyond chance, that is worth
	// to be called drift, and driftSigmas how sure of it one has to be. Programs
	// repeat their work in bursts, which scatter more than coins.
	driftPoints = 2
	driftSigmas = 4
)

// look takes in a snapshot with at least a chunk of new samples, and passes over
// any other.
func (p *phases) look(s *ccmap.Snapshot) {
	if s.Total().Samples-p.last.samples < driftChunk {
		return
	}
	now, independent := edgeTimesOf(s), independence(s.Meta())
	p.compare(now, independent)
	if p.drift {
		p.start = p.last
	}
	p.last = now
	half := float64(now.samples-p.start.samples) * independent / 2
	noise, _ := p.noise(now, half, half)
	p.settled = 100 * (1 - noise)
}

// compare finds out whether what was sampled since the last look differs from
// the phase so far.
func (p *phases) compare(now edgeTimes, independent float64) {
	p.drift, p.common, p.chance = false, 0, 0
	before := float64(p.last.samples-p.start.samples) * independent
	lately := float64(now.samples-p.last.samples) * independent
	if before == 0 || now.sum == 0 {
		return
	}
	noise, sigma := p.noise(now, before, lately)
	p.common, p.chance = 100*p.overlap(now), 100*(1-noise)
	p.drift = p.common < p.chance-driftSigmas*100*sigma-driftPoints
}

// overlap returns the part of their edges that the phase so far and the latest
// chunk have in common.
func (p *phases) overlap(now edgeTimes) float64 {
	common := 0.0
	before, lately := float64(max(p.last.sum-p.start.sum, 1)), float64(max(now.sum-p.last.sum, 1))
	for e, total := range now.of {
		then := p.last.of[e]
		common += min(float64(then-p.start.of[e])/before, float64(total-then)/lately)
	}
	return common
}

// noise returns which part of their edges two parts of the phase, of a and b
// independent samples, are expected not to have in common if nothing but chance
// tells them apart, and the standard deviation of that.
func (p *phases) noise(now edgeTimes, a, b float64) (mean, sigma float64) {
	all, sum := float64(max(now.time-p.start.time, 1)), float64(max(now.sum-p.start.sum, 1))
	scatter := (1/a + 1/b) * (all / sum) * (all / sum)
	variance := 0.0
	for e, total := range now.of {
		ns := float64(total - p.start.of[e])
		q := ns / all // over 1 in a recursion
		v := q * math.Abs(1-q) * scatter
		// The mean of |x|, x normal, is √(2/π) of its deviation. Nothing differs
		// by more than all that is there.
		mean += min(math.Sqrt(2/math.Pi*v)/2, ns/sum)
		variance += (1 - 2/math.Pi) * v / 4
	}
	return mean, math.Sqrt(variance)
}

const (
	// fewKnown is how many verdicts say nothing yet about how often samples repeat.
	fewKnown = 30
	// mostRepeated leaves something to samples that all repeat.
	mostRepeated = 0.99
)

// independence returns which part of the samples tells something of its own. A
// run of samples that find the same activation is one witness: with a rate r of
// repetitions it is (1−r)/(1+r) of them (the design effect of runs of geometric
// length).
func independence(m ccmap.Meta) float64 {
	if m.Known < fewKnown {
		return 1
	}
	r := min(float64(m.Repeated)/float64(m.Known), mostRepeated)
	return (1 - r) / (1 + r)
}
