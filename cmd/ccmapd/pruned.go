package main

import "github.com/ccmapd/ccmapd/ccmap"

// isPruned reports whether contexts are missing. Folded stacks say so by their
// frames alone.
func (p *profile) isPruned() bool { return p.Pruned() || !p.PrunedTotal().IsZero() }

// keepsTotals reports whether methods and edges are exact although contexts were
// pruned. Of formats, only XML and JSON keep what those had counted, which is
// seen from its sum: all of it was in some method. Weights of merge round a little.
func (p *profile) keepsTotals() bool {
	var known ccmap.Counters
	for m := range p.whole.PrunedMethods() {
		known = known.Add(m.Self)
	}
	const rounding = 0.99
	m := measureOf(p.whole)
	return float64(m.of(known)) >= rounding*float64(m.of(p.whole.PrunedTotal()))
}

// lostTotals says that even methods and edges are lower bounds, "" where they
// are exact.
func (p *profile) lostTotals() string {
	if !p.isPruned() || p.keepsTotals() {
		return ""
	}
	return "All figures are lower bounds: contexts were pruned, and what they had counted is\n" +
		"kept by method and edge in XML and JSON only."
}

// lowerBounds returns a note that figures of something are lower bounds, if the
// profile was pruned and not even more is.
func (p *profile) lowerBounds(what string) []string {
	if !p.isPruned() || p.lostTotals() != "" {
		return nil
	}
	return []string{what + " are lower bounds, as some were pruned; methods and edges are exact."}
}

// prunedCaveat says what is not in a profile that is compared, "" if all is.
func (p *profile) prunedCaveat() string {
	switch {
	case !p.isPruned():
		return ""
	case p.keepsTotals():
		return p.path + " was pruned: methods and edges are exact, contexts are the kept ones."
	}
	return p.path + " was pruned, and is of a format that lost totals of methods and edges: compare XML or JSON."
}
