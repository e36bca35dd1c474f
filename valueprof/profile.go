package valueprof

import (
	"cmp"
	"io"
	"iter"
	"log/slog"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Options say how a [Profile] counts. The zero value is useful.
type Options struct {
	Capacity int // values of a table, MinCapacity to MaxCapacity; 0: 7
	Hash     Hash
	Policy   Policy
	// Every is the number of adds that a table takes between two looks of the janitor,
	// ≥ 1; 0: 1,000. With fewer adds, new values get a slot sooner.
	Every int

	// MaxPoints bounds the points; 0: 65,536. At the limit the profile forgets the half
	// of its points that has the fewest calls.
	MaxPoints int
	// MaxValues bounds the values that all points keep beside their tables;
	// 0: 4 · MaxPoints. Beyond the limit, calls of further values count as others.
	MaxValues int

	Log  *slog.Logger      // logs the work of the janitor at level Debug; nil: discards
	Dump io.Writer         // receives a line for every event in the life of a table; nil: none
	Name func(Site) string // renders sites in the dump; nil: Site.String
}

const (
	defaultCapacity  = 7
	defaultEvery     = 1000
	defaultMaxPoints = 65536
	valuesPerPoint   = 4
)

func (o Options) complete() Options {
	o.Capacity = min(cmp.Or(max(o.Capacity, 0), defaultCapacity), MaxCapacity)
	o.Hash = o.Hash.Resolve()
	o.Every = cmp.Or(max(o.Every, 0), defaultEvery)
	o.MaxPoints = cmp.Or(max(o.MaxPoints, 0), defaultMaxPoints)
	o.MaxValues = cmp.Or(max(o.MaxValues, 0), valuesPerPoint*o.MaxPoints)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Profile holds the profile points of call sites (HotSpot's MethodData): the calls of
// each site, and the values that they reached. One goroutine owns a Profile and calls
// all its methods. A known value at a known site takes 6 to 9 ns, a fifth of the time
// of a map of maps.
//
//	Call ──▶ index ──▶ point: two values inline ──▶ table of the frequent values
//	                     └──▶ overflow: counts that the table has no slot for
//
// The point keeps the values that have no slot, and the counts that the janitor takes
// from the table, beside its table. So shares are exact as long as MaxValues has room.
// The table makes frequent values cheap to count. It does not change the counts.
//
// A point takes 64 bytes, and about 350 more from the third value on.
type Profile struct {
	opts    Options
	index   siteIndex
	points  []*point // by first call
	values  int      // in the overflow of all points
	janitor janitor
	dump    *dump

	evicted int   // see Stats
	lost    int64 // see Stats
}

// NewProfile returns an empty profile.
func NewProfile(o Options) *Profile {
	o = o.complete()
	return &Profile{
		opts:    o,
		index:   newSiteIndex(),
		janitor: newJanitor(o),
		dump:    newDump(o.Dump, o.Name),
	}
}

// Call counts one call at s that reached the given value.
func (p *Profile) Call(s Site, value uint64) {
	if pt := p.index.find(s); pt == nil || !pt.hit(value) {
		p.miss(pt, s, value)
	}
	if p.janitor.untilLook--; p.janitor.untilLook <= 0 {
		p.look()
	}
}

// miss counts a value that Call did not find at once. Pt is nil if the site has no
// point yet.
func (p *Profile) miss(pt *point, s Site, v uint64) {
	if pt == nil {
		pt = p.newPoint(s)
	}
	if pt.table == nil {
		if pt.hit(v) || pt.inline.place(v) {
			return
		}
		p.dump.created(pt.spill(New(p.opts.Capacity, p.opts.Hash)))
	}
	p.addToTable(pt.table, v)
}

func (p *Profile) newPoint(s Site) *point {
	if len(p.points) >= p.opts.MaxPoints {
		p.makeRoom()
	}
	pt := &point{Site: s}
	p.points = append(p.points, pt)
	p.index.insert(pt)
	return pt
}

// addToTable counts a value that the table did not find at once.
func (p *Profile) addToTable(t *pointTable, v uint64) {
	held, other := len(t.held()), t.Other()
	t.Miss(v)
	switch {
	case len(t.held()) > held:
		p.dump.added(t, v)
	case t.Other() > other:
		p.overflow(t, v, 1)
		p.janitor.missed(t)
	}
}

// overflow counts n calls that are not in a table, by value while there is room.
func (p *Profile) overflow(t *pointTable, v uint64, n int64) {
	if t.addOverflow(v, n, p.values < p.opts.MaxValues) {
		p.values++
	}
}

// makeRoom forgets the half of the points that has the fewest calls, and among equals
// the points in a context before the points in any. The next makeRoom comes after as
// many new points, so it costs each of them little.
func (p *Profile) makeRoom() {
	rarest := slices.SortedFunc(slices.Values(p.points), fewerCalls)
	for _, pt := range rarest[:(len(rarest)+1)/2] {
		p.evicted++
		if pt.Context == 0 {
			p.lost += pt.calls()
		}
		if t := pt.table; t != nil {
			p.dump.freed(t)
			p.values -= len(t.overflow)
		}
		*pt = point{}
	}
	p.points = slices.DeleteFunc(p.points, func(pt *point) bool { return pt.calls() == 0 })
	p.janitor.due = slices.DeleteFunc(p.janitor.due, func(t *pointTable) bool { return t.point.table != t })
	p.index.empty()
	for _, pt := range p.points {
		p.index.insert(pt)
	}
}

func fewerCalls(a, b *point) int {
	return cmp.Or(
		cmp.Compare(a.calls(), b.calls()),
		cmp.Compare(min(b.Context, 1), min(a.Context, 1)),
		cmp.Compare(a.Method, b.Method), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Context, b.Context),
	)
}

// Clear forgets all counts. Stats of the past stay.
func (p *Profile) Clear() {
	for _, pt := range p.points {
		if pt.table != nil {
			p.dump.freed(pt.table)
		}
	}
	p.points, p.values, p.janitor.due = nil, 0, nil
	p.index.empty()
}

// Points returns all points in the order of their first calls. callers names the contexts
// of sites: it returns nil for any context, and the points share its frames.
func (p *Profile) Points(callers func(context uint32) []ccmap.Frame) []ccmap.Point {
	points := make([]ccmap.Point, len(p.points))
	for i, pt := range p.points {
		points[i] = pt.profilePoint()
		points[i].Callers = callers(pt.Context)
	}
	return points
}

// Sites returns the sites of all points. The loop must not add to the profile.
func (p *Profile) Sites() iter.Seq[Site] {
	return func(yield func(Site) bool) {
		for _, pt := range p.points {
			if !yield(pt.Site) {
				return
			}
		}
	}
}

// Stats says how much a profile holds, and counts its work.
type Stats struct {
	Points int // held
	Tables int // points that have a table
	Values int // that points keep beside their tables
	Bytes  int // of memory

	Evicted int   // points that made room for others, see Options.MaxPoints
	Lost    int64 // calls of evicted points in any context

	Looks, Decays, Resets int // of the janitor: its looks, and the tables that it decayed and reset
}

// Stats takes time in proportion to the number of points.
func (p *Profile) Stats() Stats {
	s := Stats{
		Points: len(p.points), Values: p.values,
		Bytes:   (len(p.index.slots) + cap(p.points)) * pointerBytes,
		Evicted: p.evicted, Lost: p.lost,
		Looks: p.janitor.looks, Decays: p.janitor.decays, Resets: p.janitor.resets,
	}
	for _, pt := range p.points {
		s.Bytes += pointBytes
		if pt.table != nil {
			s.Tables++
			s.Bytes += pt.table.bytes()
		}
	}
	return s
}
