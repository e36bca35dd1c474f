package managed

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

// cells are the counters of one thread, by site. Sites that it has not come to yet take a
// pointer for each 64 of them.
//
// The thread's goroutine owns them. While the thread is parked, the marker may have them,
// under the lock of its seat.
type cells struct {
	pages  []*page
	merged uint32 // request that was answered last
}

const pageSites = 64

type page [pageSites]valueprof.Cell

// find returns the counters of a site, nil if there is no page for them yet.
func (c *cells) find(s Site) *valueprof.Cell {
	if page := uint(s / pageSites); page < uint(len(c.pages)) {
		if p := c.pages[page]; p != nil {
			return &p[s%pageSites]
		}
	}
	return nil
}

// add makes the page of a site, and returns the site's counters.
func (c *cells) add(s Site) *valueprof.Cell {
	i := int(s / pageSites)
	if i >= len(c.pages) {
		c.pages = append(c.pages, make([]*page, i+1-len(c.pages))...)
	}
	if c.pages[i] == nil {
		c.pages[i] = new(page)
	}
	return &c.pages[i][s%pageSites]
}

// point is the identity of a site.
type point struct {
	kind ccmap.PointKind
	at   ccmap.Frame
}

// sums are the points of a VM, in sums of all threads:
//
//	thread: cells ──merge, at a safe point──▶ sums ──counted──▶ points, for the manager
//
// A thread gives its counts away when it is asked, and goes on from 0. So no two goroutines
// write one counter, and nothing is lost.
//
//	asked, known  read by threads without the lock
//	all else      under mu
//
// A nil sums has no sites.
type sums struct {
	asked atomic.Uint32 // number of requests, modulo 2³²
	known atomic.Uint32 // sites, the zero Site included

	mu      sync.Mutex
	numbers map[point]Site
	all     []sum // by site
	values  int   // of all sums
	beyond  bool  // there was no room for a site
	version uint64

	list    []ccmap.Point // of the version listed
	listed  uint64
	notSoon time.Time // the list is not made again before
}

// sum is the sum of one site.
type sum struct {
	point
	values []ccmap.PointValue // by value
	other  int64
	nulls  int64
}

// The bounds of all sums, for code that a VM makes without end.
const (
	maxSites      = 1 << 18
	maxSiteValues = 256     // of a site; further ones count as others
	maxValues     = 1 << 20 // of all sites
)

// A list is made once a second at most, and takes a fiftieth of the time.
const (
	listEvery = time.Second
	listShare = 50
)

// newSums returns nil if no points but those of calls are wanted.
func newSums(wants Points) *sums {
	if wants&^Calls == 0 {
		return nil
	}
	s := &sums{numbers: make(map[point]Site), all: make([]sum, 1)}
	s.known.Store(1)
	return s
}

func (s *sums) site(p point) Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, known := s.numbers[p]; known {
		return n
	}
	if len(s.all) > maxSites {
		s.beyond = true
		return 0
	}
	n := Site(len(s.all))
	s.numbers[p] = n
	s.all = append(s.all, sum{point: p})
	s.known.Store(uint32(len(s.all)))
	return n
}

// has reports whether a site exists.
func (s *sums) has(n Site) bool { return s != nil && uint32(n) < s.known.Load() }

// ask asks all threads for their counts.
func (s *sums) ask() {
	if s != nil {
		s.asked.Add(1)
	}
}

// merge adds the counts of a thread that has not answered the last request.
func (s *sums) merge(c *cells) {
	if s == nil || c.merged == s.asked.Load() {
		return
	}
	c.merged = s.asked.Load()
	s.take(c)
}

// take adds the counts of a thread, which begins anew.
func (s *sums) take(c *cells) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range c.pages {
		if p != nil {
			s.takePage(Site(i)*pageSites, p)
		}
	}
}

func (s *sums) takePage(first Site, p *page) {
	for i := range p {
		if c := &p[i]; c.Count() > 0 {
			s.version++
			sum := &s.all[first+Site(i)]
			other, nulls := c.Take(func(v ccmap.PointValue) { s.add(sum, v) })
			sum.other, sum.nulls = sum.other+other, sum.nulls+nulls
		}
	}
}

// add adds a count to the sum of a site, by value while there is room.
func (s *sums) add(to *sum, v ccmap.PointValue) {
	i, known := slices.BinarySearchFunc(to.values, v.Value, func(k ccmap.PointValue, v uint64) int { return cmp.Compare(k.Value, v) })
	switch {
	case known:
		to.values[i].Count += v.Count
	case len(to.values) < maxSiteValues && s.values < maxValues:
		to.values = slices.Insert(to.values, i, v)
		s.values++
	default:
		to.other += v.Count
	}
}

// counted returns all points, and asks for newer counts. After the end it returns the last
// ones, else perhaps some of a second before.
func (s *sums) counted(ended bool) ([]ccmap.Point, uint64) {
	if s == nil {
		return nil, 0
	}
	s.ask()
	s.mu.Lock()
	defer s.mu.Unlock()
	start := time.Now()
	if s.listed != s.version && (ended || !start.Before(s.notSoon)) {
		s.list, s.listed = s.points(), s.version
		took := time.Since(start)
		s.notSoon = start.Add(max(listEvery, listShare*took))
	}
	return s.list, s.listed
}

func (s *sums) points() []ccmap.Point {
	list := make([]ccmap.Point, 0, len(s.all))
	for i := range s.all {
		if p := s.all[i].profilePoint(); p.Count > 0 {
			list = append(list, p)
		}
	}
	return list
}

// profilePoint returns the point of a sum.
func (s *sum) profilePoint() ccmap.Point {
	p := ccmap.Point{
		Origin: ccmap.OriginVM, Kind: s.kind, Method: s.at.Method, Offset: s.at.Offset, End: s.at.Offset,
		Count: s.other + s.nulls, Nulls: ccmap.NullsUnknown,
	}
	for _, v := range s.values {
		p.Count += v.Count
	}
	if s.kind == ccmap.PointBlock {
		return p
	}
	p.Values, p.Other = slices.Clone(s.values), s.other
	slices.SortFunc(p.Values, ccmap.PointValue.Compare)
	if s.kind == ccmap.PointType {
		p.Nulls = s.nulls
	}
	return p
}

// warning says that there were too many sites. It is empty if there were not.
func (s *sums) warning() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.beyond {
		return ""
	}
	return fmt.Sprintf("the program has more profile points than %d: the later ones are not counted", maxSites)
}
