package pollution

import (
	"cmp"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Mix counts the targets of a call site, or of one context of the site.
type Mix struct {
	Targets []Target // the heaviest first, then by method
	// Unnamed counts calls of unknown targets: a value table had no room for them, or
	// has forgotten them.
	Unnamed int64
}

// Target is a method that was called.
type Target struct {
	Method ccmap.MethodID
	Amount
}

// Amount is an amount of observations.
type Amount struct {
	Weight int64 // the base of shares: ns of CPU time, samples if there is no time, or calls
	Seen   int64 // number of observations: samples or calls
}

// Plus returns the sum. An overflow stays at the largest number.
func (a Amount) Plus(o Amount) Amount {
	return Amount{addSaturated(a.Weight, o.Weight), addSaturated(a.Seen, o.Seen)}
}

// minus subtracts a part of a.
func (a Amount) minus(o Amount) Amount {
	return Amount{max(a.Weight-o.Weight, 0), max(a.Seen-o.Seen, 0)}
}

// addSaturated adds two counts ≥ 0.
func addSaturated(a, b int64) int64 { return min(a, math.MaxInt64-b) + b }

// Total returns the sum over all targets, with the unnamed ones.
func (m Mix) Total() Amount {
	total := Amount{m.Unnamed, m.Unnamed}
	for _, t := range m.Targets {
		total = total.Plus(t.Amount)
	}
	return total
}

// find returns the amount of a method, 0 if the mix does not have it.
func (m Mix) find(method ccmap.MethodID) Amount {
	for _, t := range m.Targets {
		if t.Method == method {
			return t.Amount
		}
	}
	return Amount{}
}

// Entropy returns the uncertainty of the target in bits, by weight: 0 for one target,
// 1 for two that are equally likely. Unnamed targets count as one target. With unnamed
// targets the result is a lower bound.
func (m Mix) Entropy() float64 {
	total := float64(m.Unnamed) // the sum may exceed an int64
	for _, t := range m.Targets {
		total += float64(t.Weight)
	}
	bits := surprise(float64(m.Unnamed) / total)
	for _, t := range m.Targets {
		bits += surprise(float64(t.Weight) / total)
	}
	return bits
}

// surprise returns −p·log₂ p. It returns 0 for 0 and for NaN, which is 0 of 0.
func surprise(p float64) float64 {
	if !(p > 0) {
		return 0
	}
	return -p * math.Log2(p)
}

// isOne reports whether the mix has exactly one target.
func (m Mix) isOne() bool { return len(m.Targets) == 1 && m.Unnamed == 0 }

// tally adds up a mix.
type tally struct {
	targets map[ccmap.MethodID]Amount
	unnamed int64
}

func newTally() tally { return tally{targets: make(map[ccmap.MethodID]Amount)} }

// add adds to a target. A target without observations, as in a window, does not count.
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

// isOne reports whether the tally has exactly one target.
func (t *tally) isOne() bool { return len(t.targets) == 1 && t.unnamed == 0 }

// without returns the tally minus its parts.
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

// mix returns the tally as a mix.
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
