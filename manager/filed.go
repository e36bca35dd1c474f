package manager

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// filed are the caught calls of the run, as profile points, by phase of the program:
//
//	calls ──▶ Profile ──cut──▶ chunk ──file──▶ all
//
// A drift is found by a look at the latest chunk of samples, and the new phase begins
// with that chunk (see phases). So the calls of a chunk are cut when the look is asked
// for, and wait for its answer. A phase that ends loses none of its counts.
//
// The number of points is bounded. When there are too many, the earlier phases become
// one, which the profile says; if that does not help, the points with the fewest calls go.
type filed struct {
	limit int           // of all
	all   []ccmap.Point // in order, each once
	chunk []ccmap.Point // cut, and not in all yet; their phase is open
	phase uint32        // the present one

	joined uint32 // phases from the first on that became one; 0: none

	evicted int    // points that made room for others
	lost    uint64 // calls in any context that were counted there
}

// file adds the chunk to the present phase, or to a new one.
func (f *filed) file(newPhase bool) {
	if newPhase {
		f.phase++
	}
	f.all = ccmap.SumPoints(f.all, f.inPhase(f.chunk))
	f.chunk = nil
	f.makeRoom()
}

// inPhase makes points count for the present phase.
func (f *filed) inPhase(points []ccmap.Point) []ccmap.Point {
	for i := range points {
		points[i].Phase = f.phase
	}
	return points
}

// points returns all points, among them the latest, which are of the present phase as
// far as is known.
func (f *filed) points(latest []ccmap.Point) []ccmap.Point {
	return ccmap.SumPoints(f.all, f.inPhase(f.chunk), f.inPhase(latest))
}

func (f *filed) makeRoom() {
	if len(f.all) <= f.limit {
		return
	}
	for i := range f.all {
		if p := &f.all[i]; p.Phase != 0 && p.Phase != f.phase {
			p.Phase, f.joined = 0, f.phase
		}
	}
	f.all = ccmap.SumPoints(f.all)
	if len(f.all) <= f.limit {
		return
	}
	slices.SortFunc(f.all, fewerCalls)
	rarest := f.all[:len(f.all)-f.limit/2]
	f.evicted += len(rarest)
	for _, p := range rarest {
		if p.Callers == nil {
			f.lost += uint64(p.Count)
		}
	}
	f.all = ccmap.SumPoints(f.all[len(rarest):])
}

// warning says which phases are not apart; it is empty if all are.
func (f *filed) warning() string {
	if f.joined == 0 {
		return ""
	}
	return fmt.Sprintf("caught calls of the phases 1 to %d of the program became one, phase 1: there were too many for the profile", f.joined)
}

// fewerCalls puts rare points first, and those in a context before those in any.
func fewerCalls(a, b ccmap.Point) int {
	inAny := func(p ccmap.Point) int {
		if p.Callers == nil {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(inAny(a), inAny(b)), a.Compare(b))
}

// bytes is the memory of the points. Their callers are shared with others.
func (f *filed) bytes() int {
	n := 0
	for _, list := range [][]ccmap.Point{f.all, f.chunk} {
		for i := range list {
			n += int(unsafe.Sizeof(list[i])) + cap(list[i].Values)*int(unsafe.Sizeof(ccmap.PointValue{}))
		}
	}
	return n
}
