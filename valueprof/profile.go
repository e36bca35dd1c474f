package valueprof

import (
	"cmp"
	"io"
	"iter"
	"log/slog"
	"slices"
	"unsafe"
)

// Options say how a [Profile] counts. The zero value is useful.
type Options struct {
	Capacity int // values of a table, MinCapacity to MaxCapacity; 7
	Hash     Hash
	Policy   Policy
	// Every is how many adds a table takes between two looks of the janitor, ≥ 1;
	// 1,000. With fewer, new values get a slot sooner.
	Every int

	// MaxPoints bounds the points that are held; 65,536. When as many are, those with
	// the fewest calls are forgotten, until half is free.
	MaxPoints int
	// MaxValues bounds the values that points keep beside their tables, in all;
	// 4 · MaxPoints. Beyond it calls of further values are counted as others.
	MaxValues int

	Log  *slog.Logger      // is told at level Debug of the work of the janitor; nil: discards
	Dump io.Writer         // gets a line for every event in the life of a table; nil: none
	Name func(Site) string // renders sites in the dump; nil: as Site.String does
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

// Profile holds the profile points of call sites (HotSpot's MethodData): how often
// each was called, and the values that it reached. One goroutine owns a Profile and
// calls all its methods. A known value at a known site takes 6 to 9 ns, a fifth of a
// map of maps.
//
//	Call ──▶ index ──▶ point: two values inline ──▶ table of the frequent ones
//	                     └──▶ kept: all that the table has no slot for any more
//
// A value that has no slot, and the counts that the janitor takes from a table, are
// kept by the point beside its table, so that shares are exact as long as MaxValues
// has room. The table makes the frequent values cheap; it decides nothing.
//
// A point takes 64 bytes, and some 350 more from the third value on.
type Profile struct {
	opts    Options
	index   index
	points  []*point // by first call
	values  int      // that are kept beside tables
	janitor janitor
	dump    *dump
	pool    pool

	evicted int    // see Stats
	lost    uint64 // likewise
}

// NewProfile returns an empty profile.
func NewProfile(o Options) *Profile {
	o = o.complete()
	return &Profile{
		opts:    o,
		index:   newIndex(),
		janitor: newJanitor(o),
		dump:    newDump(o.Dump, o.Name),
		pool:    pool{capacity: o.Capacity, hash: o.Hash},
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

// miss counts a value that was not found at once. Pt is nil if not even its point
// was.
func (p *Profile) miss(pt *point, s Site, v uint64) {
	if pt == nil {
		pt = p.newPoint(s)
	}
	if pt.table == nil {
		if pt.hit(v) || pt.place(v) {
			return
		}
		t := p.pool.table()
		pt.spill(t)
		p.dump.created(t)
	}
	p.addToTable(pt.table, v)
}

func (p *Profile) newPoint(s Site) *point {
	if len(p.points) >= p.opts.MaxPoints {
		p.makeRoom()
	}
	pt := p.pool.point()
	pt.Site = s
	p.points = append(p.points, pt)
	p.index.insert(pt)
	return pt
}

// addToTable counts a value that the table has not found at once.
func (p *Profile) addToTable(t *tended, v uint64) {
	held, other := len(t.table.held()), t.table.Other()
	t.table.Miss(v)
	switch {
	case len(t.table.held()) > held:
		p.dump.added(t, v)
	case t.table.Other() > other:
		p.keep(t, v, 1)
		p.janitor.missed(t)
	}
}

// keep counts n calls that are not in a table, by their value while there is room.
func (p *Profile) keep(t *tended, v, n uint64) {
	if t.keep(v, n, p.values < p.opts.MaxValues) {
		p.values++
	}
}

// makeRoom forgets the points with the fewest calls, half of them, in a context before
// those in any. As many points must be new before it is called again, so it costs each
// of these little.
func (p *Profile) makeRoom() {
	rarest := slices.SortedFunc(slices.Values(p.points), fewerCalls)
	for _, pt := range rarest[:(len(rarest)+1)/2] {
		p.evicted++
		if pt.Context == 0 {
			p.lost += pt.calls()
		}
		p.free(pt)
	}
	p.points = slices.DeleteFunc(p.points, func(pt *point) bool { return pt.calls() == 0 })
	p.janitor.forget()
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

// Clear forgets all that was counted. Stats of the past stay.
func (p *Profile) Clear() {
	for _, pt := range p.points {
		p.free(pt)
	}
	clear(p.points)
	p.points = p.points[:0]
	p.janitor.forget()
	p.index.empty()
}

// free gives back the memory of a point, which then has no calls.
func (p *Profile) free(pt *point) {
	p.dump.freed(pt)
	if pt.table != nil {
		p.values -= len(pt.table.kept)
	}
	p.pool.free(pt)
}

// Points goes through all points, by their first call. The Values of a view are good
// until the next one. The profile must not be added to meanwhile.
func (p *Profile) Points() iter.Seq[PointView] {
	return func(yield func(PointView) bool) {
		var v PointView
		for _, pt := range p.points {
			pt.view(&v)
			if !yield(v) {
				return
			}
		}
	}
}

// Sites goes through the sites of all points. The profile must not be added to
// meanwhile.
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
	Tables int // of them, those with a table
	Values int // that points keep beside their tables
	Bytes  int // of all that, and of the memory that waits to be used again

	Evicted int    // points that made room for others, see Options.MaxPoints
	Lost    uint64 // calls in any context that were counted there

	Looks, Decays, Resets int // by the janitor: looks, tables, tables
}

// Stats takes time in proportion to the points held.
func (p *Profile) Stats() Stats {
	s := Stats{
		Points: len(p.points), Values: p.values,
		Bytes:   len(p.index.slots)*pointerBytes + cap(p.points)*pointerBytes + p.pool.bytes(),
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

// The memory of the parts of a profile.
const (
	pointBytes   = (int(unsafe.Sizeof(point{})) + 15) &^ 15 // as Go allocates it
	tendedBytes  = int(unsafe.Sizeof(tended{}))             // without its table
	pointerBytes = int(unsafe.Sizeof((*point)(nil)))
)

func (t *tended) bytes() int {
	return tendedBytes + t.table.Bytes() + cap(t.kept)*int(slotBytes)
}

// pool makes points and their tables and takes them back, to be used again.
type pool struct {
	capacity int
	hash     Hash
	points   []*point
	tables   []*tended
}

func (p *pool) point() *point {
	if n := len(p.points); n > 0 {
		pt := p.points[n-1]
		p.points = p.points[:n-1]
		return pt
	}
	return new(point)
}

func (p *pool) table() *tended {
	if n := len(p.tables); n > 0 {
		t := p.tables[n-1]
		p.tables = p.tables[:n-1]
		return t
	}
	return &tended{table: New(p.capacity, p.hash)}
}

// free takes a point and its table.
func (p *pool) free(pt *point) {
	if t := pt.table; t != nil {
		t.table.clear()
		*t = tended{table: t.table}
		p.tables = append(p.tables, t)
	}
	*pt = point{}
	p.points = append(p.points, pt)
}

// bytes is the memory of parts that wait to be used again.
func (p *pool) bytes() int {
	n := pointerBytes*(cap(p.points)+cap(p.tables)) + pointBytes*len(p.points)
	for _, t := range p.tables {
		n += t.bytes()
	}
	return n
}
