package manager

import (
	"fmt"
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Granularity says which counters of a map are meant.
type Granularity uint8

const (
	Edges    Granularity = iota // call sites with what they call
	Methods                     // the coarsest
	Contexts                    // the finest: all sub-paths of all stacks
)

var granularities = [...]string{Edges: "edges", Methods: "methods", Contexts: "contexts"}

// String returns "edges", "methods" or "contexts".
func (g Granularity) String() string {
	if int(g) < len(granularities) {
		return granularities[g]
	}
	return fmt.Sprintf("Granularity(%d)", uint8(g))
}

// Settled returns how settled a profile is at this granularity, in percent.
func (g Granularity) Settled(s ccmap.Settled) float64 {
	return [...]float64{Edges: s.Edges, Methods: s.Methods, Contexts: s.Contexts}[g]
}

// Goal is how settled a map has to be for its session to stop: what two halves
// of its samples overlap. The zero value is no goal.
type Goal struct {
	Of      Granularity
	Percent float64 // 0 to 100, neither included
}

// String returns the goal for people, for example "95 % of edges".
func (g Goal) String() string { return fmt.Sprintf("%v %% of %v", g.Percent, g.Of) }

const (
	// goalSamples is how many samples it takes at least, whatever they say: a
	// program may begin with seconds of one thing.
	goalSamples = 1000
	// unseen, divided by the part of the samples that an unseen event has, is
	// how many samples make it unlikely (5 %) to be unseen: the rule of three.
	unseen = 3
)

// check returns what is wrong with a goal.
func (g Goal) check() error {
	if g == (Goal{}) {
		return nil
	}
	if !(g.Percent > 0 && g.Percent < 100) || int(g.Of) >= len(granularities) {
		return fmt.Errorf("configure manager: goal %v is not over 0 and under 100 percent", g)
	}
	return nil
}

// reached reports whether a profile is settled as wanted, on the evidence of
// enough samples. Of these, independent is how many tell something of their own.
func (g Goal) reached(s ccmap.Settled, independent float64) bool {
	rest := 1 - g.Percent/100
	enough := s.Samples >= goalSamples && independent >= math.Ceil(unseen/rest)
	return g.Percent > 0 && enough && g.Of.Settled(s) >= g.Percent
}

// reachedError is why a session stops that has reached its goal.
type reachedError struct {
	goal    Goal
	settled ccmap.Settled
}

func (e reachedError) Error() string {
	return fmt.Sprintf("%v are settled to %.1f %% (%v %% wanted)", e.goal.Of, e.goal.Of.Settled(e.settled), e.goal.Percent)
}
