package pollution

import (
	"cmp"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Mix is what one call site, or one context of it, has called.
type Mix struct {
	Targets []Target // the heaviest first, then by method
	// Unnamed counts calls of other targets, of which is not known which: a value
	// table had no room for them, or has forgotten them since.
	Unnamed int64
}

// Target is a method that was called.
type Target struct {
	Method ccmap.MethodID
	Amount
}

// Amount is how much of something was observed.
type Amount struct {
	Weight int64 // what shares are of: ns of CPU time, or samples where there is no time; or calls
	Seen   int64 // how often it was observed: samples, or calls
}

// Plus returns the sum. What would overflow stays at the largest number.
func (a Amount) Plus(o Amount) Amount {
	return Amount{addSaturated(a.Weight, o.Weight), addSaturated(a.Seen, o.Seen)}
}

// minus subtracts what is part of a.
func (a Amount) minus(o Amount) Amount {
	return Amount{max(a.Weight-o.Weight, 0), max(a.Seen-o.Seen, 0)}
}

// addSaturated adds two counts that are not negative.
func addSaturated(a, b int64) int64 { return min(a, math.MaxInt64-b) + b }

// Total returns the sum over all targets, unnamed ones among them.
func (m Mix) Total() Amount {
	total := Amount{m.Unnamed, m.Unnamed}
	for _, t := range m.Targets {
		total = total.Plus(t.Amount)
	}
	return total
}

// find returns what a method has of the mix: nothing, if it is not in it.
func (m Mix) find(method ccmap.MethodID) Amount {
	for _, t := range m.Targets {
		if t.Method == method {
			return t.Amount
		}
	}
	return Amount{}
}

// Entropy returns the uncertainty of the target in bits, by weight: 0 where there
// is one, 1 for two that are equally likely. Unnamed targets are taken for one, so
// that it is a lower bound where there are any.
func (m Mix) Entropy() float64 {
	total := float64(m.Unnamed) // of numbers that no int64 may hold the sum of
	for _, t := range m.Targets {
		total += float64(t.Weight)
	}
	bits := surprise(float64(m.Unnamed) / total)
	for _, t := range m.Targets {
		bits += surprise(float64(t.Weight) / total)
	}
	return bits
}

// surprise returns −p·log₂ p, which of nothing is 0, also of 0 out of 0.
func surprise(p float64) float64 {
	if !(p > 0) {
		return 0
	}
	return -p * math.Log2(p)
}

// isOne is that of a tally.
func (m Mix) isOne() bool { return len(m.Targets) == 1 && m.Unnamed == 0 }

// tally adds up a mix.
type tally struct {
	targets map[ccmap.MethodID]Amount
	unnamed int64
}

func newTally() tally { return tally{targets: make(map[ccmap.MethodID]Amount)} }

// add adds to a target. One that has nothing, as in a window, is none.
func (t *tally) add(method ccmap.MethodID, a Amount) {
	if a != (Amount{}) {
		t.targets[method] = t.targets[method].Plus(a)
	}
}

func (t *tally) total() Amount {
	total := Amount{t.unnamed, t.unnamed}
	for _, a := range t.targets {
		total = total.Plus(a)
	}
	return total
}

// isOne reports whether nothing but one target was seen.
func (t *tally) isOne() bool { return len(t.targets) == 1 && t.unnamed == 0 }

// without returns what is left when parts are taken out.
func (t *tally) without(parts []*tree) tally {
	rest := newTally()
	rest.unnamed = t.unnamed
	for method, a := range t.targets {
		for _, p := range parts {
			a = a.minus(p.targets[method])
		}
		rest.add(method, a)
	}
	for _, p := range parts {
		rest.unnamed = max(rest.unnamed-p.unnamed, 0)
	}
	return rest
}

// mix returns what was added up.
func (t *tally) mix() Mix {
	m := Mix{Unnamed: t.unnamed}
	for method, a := range t.targets {
		m.Targets = append(m.Targets, Target{method, a})
	}
	slices.SortFunc(m.Targets, func(a, b Target) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Seen, a.Seen), cmp.Compare(a.Method, b.Method))
	})
	return m
}
