package export

import "github.com/ccmapd/ccmapd/ccmap"

// loneHits are the calls that points of any context count beyond the contexts of
// their sites, which come behind them.
type loneHits struct {
	of  map[siteHit]int64
	all map[callSite]int64 // at most so many of a site together
}

type callSite struct {
	method ccmap.MethodID
	offset uint32
}

// siteHit is what can be hit at a call site.
type siteHit struct {
	callSite
	kind   hitKind
	target ccmap.MethodID
}

func siteOf(p *ccmap.Point) callSite { return callSite{p.Method, p.Offset} }

func newLoneHits(c *canonical) loneHits {
	l := loneHits{of: make(map[siteHit]int64), all: make(map[callSite]int64)}
	for i := range c.points {
		subtract(l.all, siteOf(&c.points[i]), &c.points[i], c.points[i].Count)
	}
	for p, h := range c.hits() {
		subtract(l.of, siteHit{siteOf(p), h.kind, h.target}, p, h.count)
	}
	return l
}

// subtract takes what a context counts from what any context does.
func subtract[K comparable](left map[K]int64, key K, p *ccmap.Point, count int64) {
	if p.Callers == nil {
		left[key] = count
	} else if left[key] > 0 {
		left[key] = max(left[key]-count, 0)
	}
}

// take returns how much of a hit in any context is in no other. Points age each at
// their own time, so that a context may know of more calls to a method than the
// point of any context: then others are no more than what is left of the site.
func (l loneHits) take(p *ccmap.Point, h hit) int64 {
	site := siteOf(p)
	n := min(l.of[siteHit{site, h.kind, h.target}], l.all[site])
	l.all[site] -= n
	return n
}
