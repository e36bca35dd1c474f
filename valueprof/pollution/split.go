package pollution

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Split is what is known of a site, divided by its callers.
type Split struct {
	Depth    int       // callers that contexts are told apart by, at most
	Contexts []Context // all, the heaviest first, then by callers
	Entropy  float64   // what remains of it: the mean over the contexts, by weight
	// Verdict is Monomorphic if contexts that are have nine tenths of the weight,
	// Bimorphic if they have together with those that are bimorphic, else Unknown.
	Verdict Verdict
}

// Context is a part of what a site has called.
type Context struct {
	// Callers are the chain above the site, innermost first, each at its call. There
	// are fewer than the depth of the split where more would tell nothing: there is
	// one target only, too few observations are in any longer chain, or the stack
	// ends there.
	Callers []ccmap.Frame
	// Rest says that these are the calls from there that are in no other context of
	// the split: of callers that are not known, or too rare.
	Rest bool
	Mix
	// Verdict on the context: Unknown if it is a rest, or may be as it is by chance.
	Verdict Verdict
}

// covered is the part of a site's weight for which a split has to settle matters.
const covered = 0.9

// Splits divides the evidence by one caller, by two, and so on up to depth. It
// returns none where there is nothing to divide. Caught calls have
// [ccmap.MaxPointCallers] callers at most.
func (e Evidence) Splits(depth int) []Split {
	if e.contexts == nil || len(e.Targets) == 0 || e.isOne() {
		return nil
	}
	t := e.contexts(depth)
	splits := make([]Split, max(depth, 0))
	for i := range splits {
		splits[i] = e.newSplit(i+1, t.contexts(nil, i+1, e.judge.least))
	}
	return splits
}

func (e Evidence) newSplit(depth int, contexts []Context) Split {
	s := Split{Depth: depth, Contexts: contexts}
	total := float64(e.Total().Weight)
	for i := range contexts {
		c := &contexts[i]
		if !c.Rest {
			c.Verdict = e.judge.inContext(c.Mix, e.Mix)
		}
		if c.Total().Weight > 0 {
			s.Entropy += float64(c.Total().Weight) / total * c.Entropy()
		}
	}
	slices.SortFunc(contexts, compareContexts)
	s.Verdict = s.verdict(total)
	return s
}

func compareContexts(a, b Context) int {
	return cmp.Or(
		cmp.Compare(b.Total().Weight, a.Total().Weight),
		slices.CompareFunc(a.Callers, b.Callers, func(x, y ccmap.Frame) int {
			return cmp.Or(cmp.Compare(x.Method, y.Method), cmp.Compare(x.Offset, y.Offset))
		}),
	)
}

func (s Split) verdict(total float64) Verdict {
	for _, v := range []Verdict{Monomorphic, Bimorphic} {
		if w := s.weight(v); w > 0 && w >= covered*total {
			return v
		}
	}
	return Unknown
}

// weight returns that of the contexts that are known to be as good as v says, or
// better: Monomorphic or Bimorphic.
func (s Split) weight(v Verdict) float64 {
	weight := 0.0
	for _, c := range s.Contexts {
		if c.Verdict >= Monomorphic && c.Verdict <= v {
			weight += float64(c.Total().Weight)
		}
	}
	return weight
}

// Least returns the split of least depth that makes a site monomorphic or else, if
// that is better than it is, bimorphic; and whether there is one.
func (e Evidence) Least(splits []Split) (Split, bool) {
	for v := Monomorphic; v < min(e.Verdict, Megamorphic); v++ {
		for _, s := range splits {
			if s.Verdict == v {
				return s, true
			}
		}
	}
	return Split{}, false
}
