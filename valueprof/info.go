package valueprof

import "sync/atomic"

// Body is what an [Info] holds: the profile points of one body of a method, and
// the tables of their values. Its owner adds to it; the janitor tends and frees.
// Where several goroutines do so, the Body makes it safe.
type Body interface {
	// Tend looks at the tables that were added to. It reports whether some had
	// too few adds for a verdict and should be looked at again. Janitor only.
	Tend(*Janitor) (again bool)
	// Evidence says how much the body knows. Called by whoever asks for the
	// best Info of the method.
	Evidence() Evidence
	// Free returns the memory. Janitor only, once, when no reference is left.
	Free()
}

// Evidence says how much a profile knows of its method.
type Evidence struct {
	Calls   uint64 // executions that were recorded
	Matched uint64 // of values that have a slot, as many as the janitor has left
	Other   uint64 // of values that have none, likewise
}

const (
	// enoughCalls is how many say about how good a profile is: the share of
	// other is known within two points, one standard deviation, at a tenth.
	enoughCalls = 256
	// shareNoise is the difference of two shares of other that is none.
	shareNoise = 0.01
)

// Better reports whether a profile with evidence e should replace one with
// evidence old, which was recorded earlier: it has seen enough calls, or as many
// as old, and no larger share of them has a value that is not in the profile.
// Of two that are as good, the later is the better.
func (e Evidence) Better(old Evidence) bool {
	return e.enough(old) && e.share() <= old.share()+shareNoise
}

// enough reports whether e has seen enough calls to be held against old.
func (e Evidence) enough(old Evidence) bool {
	return e.Calls > 0 && e.Calls >= min(enoughCalls, old.Calls)
}

func (e Evidence) share() float64 { return float64(e.Other) / float64(max(e.Matched+e.Other, 1)) }

// Info is persistent profile info: what one body of a method recorded. It
// outlives the body as long as someone refers to it.
//
// refs counts the references: one is implicit and belongs to the body, others
// are those of best and recent in a [History] and of readers ([Accessed]). From
// zero it never rises again, so that who has got a reference can be sure of the
// Info. Everyone may retain and release.
//
// next belongs to who adds the Info to the janitor's list until it is there, and
// to the janitor from then on. nextActive belongs to who sets active, until the
// Info is on the janitor's list of active ones, and to the janitor while it
// takes that list apart. An Info is never used again after it was freed, so a
// list cannot take one for another.
type Info struct {
	refs       atomic.Int32
	active     atomic.Bool // on the list of active ones
	janitor    *Janitor
	next       *Info
	nextActive *Info
	body       Body
}

// NewInfo returns an Info with one reference, that of the body, and tells the
// janitor of it. Any goroutine.
func NewInfo(j *Janitor, b Body) *Info {
	i := &Info{janitor: j, body: b}
	i.refs.Store(1)
	j.add(i)
	return i
}

// Body returns what the Info holds. The caller needs a reference while using it.
func (i *Info) Body() Body { return i.body }

// TryRetain takes a reference, unless none is left. Any goroutine.
func (i *Info) TryRetain() bool {
	for {
		n := i.refs.Load()
		if n <= 0 {
			return false
		}
		if i.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back. When it was the last one, the janitor frees the
// Info at its next look. Any goroutine. It panics when there is none to give back.
func (i *Info) Release() {
	switch n := i.refs.Add(-1); {
	case n < 0:
		panic("valueprof: info released more often than retained")
	case n == 0:
		i.janitor.died()
	}
}

// letGo gives a reference back if there is an Info.
func (i *Info) letGo() {
	if i != nil {
		i.Release()
	}
}

// Added tells the janitor of n adds to the tables of i, which may want a look
// now. Any goroutine with a reference; call it every hundred adds or so.
func (i *Info) Added(n int) {
	i.touch()
	i.janitor.added(n)
}

// touch makes i one of the active. Cheap if it is already.
func (i *Info) touch() {
	if !i.active.Load() && i.active.CompareAndSwap(false, true) {
		i.janitor.activate(i)
	}
}
