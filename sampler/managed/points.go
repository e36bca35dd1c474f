package managed

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

// Points says what a VM's threads count at single positions of its code: a set, as in
// Branches | Types. The zero value is Calls.
type Points uint8

const (
	Calls    Points = 1 << iota // what calls reach, caught now and then: [Thread.Called]
	Branches                    // every branch, switch and block: [Thread.Branch], [Thread.Switch], [Thread.Block]
	Types                       // every check of a type: [Thread.Type]
	Values                      // every number of chosen variables: [Thread.Value]
)

// has reports whether points of a kind are in the set.
func (p Points) has(k ccmap.PointKind) bool {
	switch k {
	case ccmap.PointCall:
		return p == 0 || p&Calls != 0
	case ccmap.PointBranch, ccmap.PointSwitch, ccmap.PointBlock:
		return p&Branches != 0
	case ccmap.PointType:
		return p&Types != 0
	case ccmap.PointNumber:
		return p&Values != 0
	}
	return false
}

// Counts reports whether points of a kind are counted ([Options].Points, and of calls
// HitBudget). So a VM can leave out the code that counts others. Any goroutine may call it.
func (p *Profiler) Counts(k ccmap.PointKind) bool {
	return p.wants.has(k) && (k != ccmap.PointCall || p.hitBudget >= 0)
}

// Site is a profile point of one [Profiler], to count at. The zero Site is none: what is
// counted there is dropped.
type Site uint32

// Site returns the profile point of a kind at a position, the same one for the same
// position. It is for the VM's compiler: it takes a lock. It returns the zero Site for kinds
// that are not counted, and after 262,144 sites, with a warning in the profile. Any
// goroutine may call it.
func (p *Profiler) Site(k ccmap.PointKind, at ccmap.Frame) Site {
	if k == ccmap.PointCall || !p.wants.has(k) {
		return 0
	}
	return p.points.site(point{k, at})
}

// Branch counts a condition that was true or false.
func (t *Thread) Branch(s Site, taken bool) {
	v := uint64(ccmap.BranchUntaken)
	if taken {
		v = ccmap.BranchTaken
	}
	t.count(s, v)
}

// Switch counts a choice: the case whose code is at an offset of the method.
func (t *Thread) Switch(s Site, offset uint32) { t.count(s, uint64(offset)) }

// Block counts an execution of straight code.
func (t *Thread) Block(s Site) { t.count(s, 0) }

// Type counts a check of a type, such as a cast, and the type that it met: the id of a
// [ccmap.Method] that stands for the type, with its name as Name and Receiver. For a null
// it is [ccmap.NoMethod].
func (t *Thread) Type(s Site, typ ccmap.MethodID) {
	if typ != ccmap.NoMethod {
		t.count(s, uint64(typ))
	} else if c := t.cell(s); c != nil {
		c.Nulls++
	}
}

// Value counts a number of a variable.
func (t *Thread) Value(s Site, v int64) { t.count(s, uint64(v)) }

// count counts a value of a site. The frequent values take two calls and a comparison or
// two (BenchmarkPoint).
func (t *Thread) count(s Site, v uint64) {
	c := t.cells.find(s)
	if c == nil {
		if c = t.newCell(s); c == nil {
			return
		}
	}
	if !c.Hit(v) {
		c.Miss(v)
	}
}

// cell returns the thread's counters of a site, nil if there is no such site.
func (t *Thread) cell(s Site) *valueprof.Cell {
	if c := t.cells.find(s); c != nil {
		return c
	}
	return t.newCell(s)
}

func (t *Thread) newCell(s Site) *valueprof.Cell {
	if s == 0 || !t.profiler.points.has(s) {
		return nil
	}
	return t.cells.add(s)
}

// Merge gives the points that the thread has counted to the profile, if someone waits for
// them. A safe point with a mark, Park and Detach do so by themselves: it is for a VM
// without them.
func (t *Thread) Merge() { t.profiler.points.merge(t.cells) }

// mergeParked merges the points of a thread that is parked: Unpark waits meanwhile.
func (p *Profiler) mergeParked(s *seat) {
	if p.points == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked.Load() {
		p.points.merge(s.cells)
	}
}

// Counted implements [sampler.Counting]: the points that threads have counted so far, and
// given away at a safe point a moment ago.
func (p *Profiler) Counted() (points []ccmap.Point, version uint64) {
	return p.points.counted(p.ended.Load())
}
