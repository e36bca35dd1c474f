package manager

import (
	"math"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// phases tells the phases of a program apart. Two halves of a whole run overlap even
// if the program has changed, because each half has samples of the whole run. So
// phases compares each chunk of the latest samples with the samples before, back to the
// beginning of the phase. If they differ by more than chance explains, the program
// drifts, and a new phase begins with that chunk.
//
// Package compare draws its noise floor at random. Here chance is computed. An edge
// with probability q has a share of n samples that scatters like the share of heads of
// a coin, by √(q(1−q)/n).
type phases struct {
	start edgeTimes // when the present phase began
	last  edgeTimes // when the last chunk ended

	drift     bool    // the last chunk differs from the samples before it
	common    float64 // overlap of the last chunk with the samples before it, by edges, percent; 0: unknown
	chance    float64 // the overlap to expect if they differ by chance only, percent; 0: unknown
	converged float64 // overlap to expect of two halves of the phase, percent; 0: unknown
}

const (
	// driftChunk is the least number of samples in a chunk: ten seconds of a core at
	// 100 Hz.
	driftChunk = 1000
	// driftTime is the least time of a chunk. A program works in bursts and collects
	// garbage in bursts. These bursts are not phases.
	driftTime = 10 * time.Second
	// driftPoints is the least difference beyond chance, in points, that is worth
	// calling a drift.
	driftPoints = 2
	// driftSigmas is how certain the difference must be, in standard deviations.
	// Programs repeat their work in bursts, which scatter more than coins.
	driftSigmas = 4
)

// look takes in a snapshot if it has at least a chunk of new samples.
func (p *phases) look(s *ccmap.Snapshot) {
	if s.Total().Samples-p.last.samples < driftChunk {
		return
	}
	now, independent := edgeTimesOf(s), s.Meta().Independence()
	p.compare(now, independent)
	if p.drift {
		p.start = p.last
	}
	p.last = now
	half := float64(now.samples-p.start.samples) * independent / 2
	noise, _ := p.noise(now, half, half)
	p.converged = 100 * (1 - noise)
}

// compare finds out whether the samples since the last look differ from the phase
// before.
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

// overlap returns the share of edges that the latest chunk has in common with the
// phase before, 0 to 1.
func (p *phases) overlap(now edgeTimes) float64 {
	common := 0.0
	before, lately := float64(max(p.last.sum-p.start.sum, 1)), float64(max(now.sum-p.last.sum, 1))
	for e, total := range now.of {
		then := p.last.of[e]
		common += min(float64(then-p.start.of[e])/before, float64(total-then)/lately)
	}
	return common
}

// noise compares two parts of the phase, with a and b independent samples. It returns
// the mean share of edges, 0 to 1, that they do not have in common by chance alone, and
// the standard deviation of this share.
func (p *phases) noise(now edgeTimes, a, b float64) (mean, sigma float64) {
	all, sum := float64(max(now.time-p.start.time, 1)), float64(max(now.sum-p.start.sum, 1))
	scatter := (1/a + 1/b) * (all / sum) * (all / sum)
	variance := 0.0
	for e, total := range now.of {
		ns := float64(total - p.start.of[e])
		q := ns / all // over 1 in a recursion
		v := q * math.Abs(1-q) * scatter
		// The mean of |x|, for a normal x, is √(2/π) of its deviation. An edge cannot
		// differ by more than its whole time.
		mean += min(math.Sqrt(2/math.Pi*v)/2, ns/sum)
		variance += (1 - 2/math.Pi) * v / 4
	}
	return mean, math.Sqrt(variance)
}

// edge is a call site and its callee. If the caller is NoMethod, the edge stands for
// the callee as a method.
type edge struct {
	caller, callee ccmap.MethodID
	offset         uint32
}

// edgeTimes is the sampled time of each edge at one moment. Pruning does not change
// it.
type edgeTimes struct {
	of      map[edge]int64 // ns; a sample counts once for each of its edges
	sum     int64          // ns, over edges
	time    int64          // ns, over samples
	samples int64
}

func edgeTimesOf(s *ccmap.Snapshot) edgeTimes {
	t := edgeTimes{of: make(map[edge]int64), samples: s.Total().Samples, time: s.Total().Time}
	for e := range s.Edges() {
		if e.Callee() == ccmap.PrunedID {
			continue // the map has counted this at other edges
		}
		ns := e.Total().Time
		t.of[edge{e.Caller(), e.Callee(), e.Offset()}] = ns
		t.sum += ns
	}
	return t
}
