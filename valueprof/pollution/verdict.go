package pollution

import (
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Verdict says what a mix of targets means to who would optimize the call.
type Verdict uint8

// The verdicts, in the order of how many targets they stand for.
const (
	Unknown     Verdict = iota // too few observations to say
	LineUnknown                // several targets, but not whether of one call: its line is not known
	Monomorphic                // one target: may be called directly, or inlined
	Bimorphic                  // two methods of one name, as of two types: one test tells them apart
	Megamorphic                // more than two
	Mixed                      // methods of different names: a function value, or several calls on one line
)

var verdictNames = [...]string{"unknown", "line unknown", "monomorphic", "bimorphic", "megamorphic", "mixed"}

// String returns the verdict in words, as commands print it.
func (v Verdict) String() string { return verdictNames[v] }

// How many observations it takes to say anything.
const (
	// MinSamples is where a mix of samples begins to say something: with 30 of them,
	// a receiver of 10 % is missed in 0.9³⁰ = 4 % of the sites.
	MinSamples = 30
	// MinCalls is the same of caught calls. They come in bursts of calls in a row,
	// which may all be from one loop, so that a burst may say little more than one
	// call does: this is four of them.
	MinCalls = 4 * callsPerBurst

	// callsPerBurst is how many calls in a row package perf catches at most on a thread.
	callsPerBurst = 32
)

// confidence is how sure a statement has to be: wrong in one case of twenty.
const confidence = 0.95

// Unseen returns the largest share, 0 to 1, that a target may have of a mix and not
// be seen in n independent observations, with 95 % confidence: 0.095 for 30.
func Unseen(n int64) float64 {
	if n <= 0 {
		return 1
	}
	return 1 - math.Pow(1-confidence, 1/float64(n))
}

// judge gives verdicts on one kind of evidence at one site.
type judge struct {
	names  *ccmap.Names
	offset uint32 // of the site
	least  int64  // observations that it takes
	group  int64  // observations that depend on each other, at most
}

func (j judge) verdict(m Mix) Verdict {
	switch {
	case m.Total().Seen < j.least || len(m.Targets) == 0:
		return Unknown
	case m.isOne():
		return Monomorphic
	case j.offset == ccmap.NoOffset:
		return LineUnknown
	case !haveOneName(j.names, m.Targets):
		return Mixed
	case len(m.Targets) == 2 && m.Unnamed == 0:
		return Bimorphic
	}
	return Megamorphic
}

// inContext is the verdict on a context of a site: Unknown where it has fewer targets
// than the site, and may do so by chance.
func (j judge) inContext(context, site Mix) Verdict {
	v := j.verdict(context)
	if v < j.verdict(site) && j.chance(context, site) > 1-confidence {
		return Unknown
	}
	return v
}

// chance returns how likely it is that as many observations of the site as the
// context has are of the context's targets alone.
func (j judge) chance(context, site Mix) float64 {
	same := context.Unnamed
	for _, t := range context.Targets {
		same = addSaturated(same, site.find(t.Method).Seen)
	}
	share := float64(same) / float64(site.Total().Seen)
	return math.Pow(share, float64(context.Total().Seen)/float64(j.group))
}
