package valueprof

import (
	"cmp"
	"io"
	"log/slog"
)

// Options say how a [Profile] records. The zero value is useful.
type Options struct {
	Capacity int // values of a table, MinCapacity to MaxCapacity; 7
	Hash     Hash
	Policy   Policy
	Every    int // adds to a table between two looks of the janitor, see JanitorOptions

	// Warm is how many executions a method takes before its points are recorded,
	// the last of them included, ≥ 1; 8. Those before count as cold.
	Warm int
	// MaxPoints bounds the points, and the methods, that are held; 65,536. When as
	// many are, the methods with the fewest calls are forgotten, until half is free.
	MaxPoints int

	Log  *slog.Logger      // of the janitor, see JanitorOptions
	Dump io.Writer         // gets a line for every event in the life of a table; nil: none
	Name func(Site) string // renders sites in the dump; nil: as Site.String does
}

const (
	defaultCapacity  = 7
	defaultWarm      = 8
	defaultMaxPoints = 65536
)

func (o Options) complete() Options {
	o.Capacity = min(cmp.Or(max(o.Capacity, 0), defaultCapacity), MaxCapacity)
	o.Hash = o.Hash.Resolve()
	o.Warm = cmp.Or(max(o.Warm, 0), defaultWarm)
	o.MaxPoints = cmp.Or(max(o.MaxPoints, 0), defaultMaxPoints)
	o.Every = cmp.Or(max(o.Every, 0), defaultEvery)
	return o
}

// Profile records the profile points of methods (HotSpot's MethodData): what is
// called, passed and taken at which of their positions, how often, and with which
// values. The points of a method are created when it becomes warm, each when it
// is first executed.
//
// One goroutine owns a Profile and calls all its methods; it is the janitor too.
// A known value at a known site takes 6 to 9 ns, a fifth of a map of maps.
//
// A point takes 64 bytes, 24 to 48 where it is listed, and 250 more from the third
// value on: 1 KB for a method with six call sites, of which one has many receivers.
//
// A point lies in an [Info] of its method. What is recorded goes to the recent
// one, whose points the index finds; what is read is the best one. The index is
// emptied when recent changes.
type Profile struct {
	opts      Options
	index     index
	untilLook int // executions until the janitor looks
	methods   map[uint32]*method
	janitor   *Janitor
	looked    Looked // all looks together
	dump      *dump
	pool      pool

	cold, dropped, superseded uint64 // see Stats
	evicted                   int    // likewise
}

// NewProfile returns an empty profile.
func NewProfile(o Options) *Profile {
	o = o.complete()
	p := &Profile{
		opts:    o,
		index:   newIndex(),
		methods: make(map[uint32]*method),
		janitor: NewJanitor(JanitorOptions{Policy: o.Policy, Every: o.Every, Log: o.Log}),
		dump:    newDump(o.Dump, o.Name),
		pool:    pool{capacity: o.Capacity, hash: o.Hash},
	}
	p.untilLook = p.lookEvery()
	return p
}

// Call counts one call at s that reached, or had a receiver of, the given value.
func (p *Profile) Call(s Site, value uint64) { p.add(key{s, KindCall}, value) }

// Branch counts one execution of a condition.
func (p *Profile) Branch(s Site, taken bool) {
	var v uint64
	if taken {
		v = 1
	}
	p.add(key{s, KindBranch}, v)
}

// Switch counts one execution of a choice that went to the given case.
func (p *Profile) Switch(s Site, choice uint64) { p.add(key{s, KindSwitch}, choice) }

// Null counts one call at s whose receiver was null.
func (p *Profile) Null(s Site) {
	if pt := p.point(key{s, KindCall}, 1); pt != nil {
		pt.nulls++
	}
	p.tick()
}

// Block counts n executions of straight code: in all of a site, under 1<<63. With
// an n of 0 it says that there is such code.
func (p *Profile) Block(s Site, n uint64) {
	if pt := p.point(key{s, KindBlock}, n); pt != nil {
		pt.inline[0].Count += n
	}
	p.tick()
}

func (p *Profile) add(k key, v uint64) {
	if pt := p.index.find(k); pt == nil || !pt.hit(v) {
		p.miss(pt, k, v)
	}
	p.tick()
}

// miss counts a value that was not found at once. pt is nil if not even its
// point was.
func (p *Profile) miss(pt *point, k key, v uint64) {
	if pt == nil {
		if pt = p.newPoint(k, 1); pt == nil || pt.hit(v) {
			return
		}
	}
	if pt.table == nil {
		if pt.place(v) {
			return
		}
		p.spill(pt)
	}
	p.addToTable(pt.table, v)
}

// addToTable counts a value that the table has not found at once.
func (p *Profile) addToTable(t *tended, v uint64) {
	held, other := len(t.table.held()), t.table.Other()
	t.table.Miss(v)
	switch {
	case len(t.table.held()) > held:
		p.dump.added(t, v)
	case t.table.Other() > other:
		t.body.missed(t)
	}
}

// spill gives a point a table.
func (p *Profile) spill(pt *point) {
	t := p.pool.table()
	t.body = p.methods[pt.Method].body
	pt.spill(t)
	p.dump.created(t)
}

// point returns the point of k, or nil if there is none: then n executions are
// counted as cold or dropped.
func (p *Profile) point(k key, n uint64) *point {
	if pt := p.index.find(k); pt != nil {
		return pt
	}
	return p.newPoint(k, n)
}

// tick lets the janitor look now and then: often enough for every table to be
// seen soon after it is due, and so that looking costs every execution little.
func (p *Profile) tick() {
	p.untilLook--
	if p.untilLook <= 0 {
		p.look()
	}
}

func (p *Profile) look() {
	did := p.janitor.Look()
	p.looked.add(did)
	p.untilLook = max(p.lookEvery(), did.Tables)
}

func (p *Profile) lookEvery() int { return max(p.opts.Every/4, 1) }
