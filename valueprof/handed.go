package valueprof

import (
	"iter"
	"slices"
	"sync"
)

// Handed is a [Body] whose points many goroutines write, while the janitor tends
// it from a goroutine of its own:
//
//	writers ── Local ──▶ Shared ──▶ Table of the janitor ──▶ readers
//	            no locks    Collect        under mu
//
// Writers count in parts of their own, which they hand over when the janitor
// asks; it adds them up in one table a point, and judges that. The janitor and
// readers exclude each other by mu. Writers never take it once they have joined.
type Handed struct {
	mu     sync.Mutex
	points []handedPoint // one a site, in the order given
}

type handedPoint struct {
	site   Site
	shared *Shared
	table  *Table
	seen   sight
}

// NewHanded returns a body with a call point for each site. Capacity and hash are
// those of its tables.
func NewHanded(capacity int, hash Hash, sites ...Site) *Handed {
	h := &Handed{points: make([]handedPoint, len(sites))}
	for i, s := range sites {
		h.points[i] = handedPoint{site: s, shared: NewShared(capacity, hash), table: New(capacity, hash)}
	}
	return h
}

// Join returns the part of one further writer of a point, by its place in the
// list of sites. The caller has a reference to the [Info] while it joins, and
// tells the Info how many adds it made ([Info.Added]): now and then, and once it
// has parked or released its part. Otherwise the last of them may wait for others.
func (h *Handed) Join(point int) *Local { return h.points[point].shared.Join() }

// Tend implements [Body]. A look that finds counts, or writers who may have some,
// is not the last: more may come unasked. With neither, writers will tell.
func (h *Handed) Tend(j *Janitor) (again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.points {
		p := &h.points[i]
		before := p.table.Total()
		silent := p.shared.Collect(p.table)
		j.judge(p.table, &p.seen)
		if silent > 0 || p.table.Total() > before {
			again = true
		}
	}
	return again
}

// Evidence implements [Body].
func (h *Handed) Evidence() Evidence {
	h.mu.Lock()
	defer h.mu.Unlock()
	var e Evidence
	for i := range h.points {
		t := h.points[i].table
		e.Calls += t.Total()
		e.Matched += t.Matched()
		e.Other += t.Other()
	}
	return e
}

// Free implements [Body]. Writers that go on count for nobody.
func (h *Handed) Free() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = nil
}

// Points implements [PointSource], with what was handed over until the janitor's last
// look. Any goroutine with a reference to the Info.
func (h *Handed) Points() iter.Seq[PointView] {
	return func(yield func(PointView) bool) { slices.Values(h.views())(yield) }
}

func (h *Handed) views() []PointView {
	h.mu.Lock()
	defer h.mu.Unlock()
	views := make([]PointView, len(h.points))
	for i := range h.points {
		t := h.points[i].table
		views[i] = PointView{
			Site: h.points[i].site, Kind: KindCall,
			Count: t.Total(), Values: t.AppendValues(nil), Other: t.Other(), Aged: t.Aged(),
			Nulls: NullsUnknown,
		}
	}
	return views
}
