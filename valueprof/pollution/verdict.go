package pollution

import (
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Verdict says how well an optimizer can treat a mix of targets.
type Verdict uint8

// The verdicts, by increasing number of targets.
const (
	Unknown     Verdict = iota // too few observations
	LineUnknown                // several targets; the line is unknown, so they may be of several calls
	Monomorphic                // one target: may be called directly, or inlined
	Bimorphic                  // two methods of one name, as of two types: one test tells them apart
	Megamorphic                // more than two
	Mixed                      // methods of different names: a function value, or several calls on one line
)

var verdictNames = [...]string{"unknown", "line unknown", "monomorphic", "bimorphic", "megamorphic", "mixed"}

// String returns the verdict in words, as commands print it.
func (v Verdict) String() string { return verdictNames[v] }

// The numbers of observations that verdicts need.
const (
	// MinSamples is the least number of samples for a verdict: 30 samples miss a receiver
	// with a share of 10 % at 0.9³⁰ = 4 % of the sites.
	MinSamples = 30
	// MinCalls is the least number of caught calls for a verdict: four bursts. The calls
	// of a burst may all come from one loop, so a burst may say little more than one
	// call.
	MinCalls = 4 * callsPerBurst

	// callsPerBurst is the largest number of calls in a row that package indirect catches
	// on a thread; a test of the command holds the two equal.
	callsPerBurst = 32
)

// confidence is the certainty of a statement: wrong in one case of twenty.
const confidence = 0.95

// Unseen returns the largest share, 0 to 1, of a target that n independent observations
// can miss, with 95 % confidence: 0.095 for 30.
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
	least  int64  // observations for a verdict
	group  int64  // largest number of observations that depend on each other
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

// inContext returns the verdict on a context of a site. It is Unknown if the context
// may be better than the site by chance.
func (j judge) inContext(context, site Mix) Verdict {
	v := j.verdict(context)
	if v < j.verdict(site) && j.chance(context, site) > 1-confidence {
		return Unknown
	}
	return v
}

// chance returns the probability that the context has only its own targets by chance:
// that so many observations of the site all have one of these targets.
func (j judge) chance(context, site Mix) float64 {
	same := context.Unnamed
	for _, t := range context.Targets {
		same = addSaturated(same, site.find(t.Method).Seen)
	}
	share := float64(same) / float64(site.Total().Seen)
	return math.Pow(share, float64(context.Total().Seen)/float64(j.group))
}
