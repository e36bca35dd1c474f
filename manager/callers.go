package manager

import (
	"iter"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

// callers is a calling context: frames at their calls, innermost first. Where the
// stack ends, or what is known of it, the method is NoMethod.
type callers [ccmap.MaxPointCallers]ccmap.Frame

// callersOf returns the context of the innermost of these frames. It ends at a
// pseudo method, as nobody knows what stands there.
func (c *codeMethods) callersOf(frames []ccmap.Frame) callers {
	var context callers
	for i := range context {
		if i == len(frames) || !c.has(frames[i].Method) {
			context[i].Method = ccmap.NoMethod
			break
		}
		context[i] = frames[i]
	}
	return context
}

// frames returns the context as a profile point has it.
func (c *callers) frames() []ccmap.Frame {
	for i, f := range c {
		if f.Method == ccmap.NoMethod {
			return c[:i:i]
		}
	}
	return c[:]
}

// anyContext is the number of no context in particular.
const anyContext = 0

// contexts numbers calling contexts from 1, for the sites of a profile. A quarter
// more than there can be points have a number. When all are taken, those that no
// point has are free again: a quarter at least. So a session of months names the
// contexts that matter in it now. Each takes some 100 bytes.
type contexts struct {
	ids   map[callers]uint32
	all   []*callers // by number − 1; nil: free. None ever changes, so profile points share them
	free  []uint32   // numbers
	limit int
}

func newContexts(points int) contexts {
	return contexts{ids: make(map[callers]uint32), limit: points + points/4 + 1}
}

// id returns the number of a context. inUse gives the sites of all points.
func (x *contexts) id(c callers, inUse func() iter.Seq[valueprof.Site]) uint32 {
	if id, known := x.ids[c]; known {
		return id
	}
	if len(x.ids) == x.limit {
		x.keep(inUse())
	}
	id, kept := x.newID(), c
	x.ids[c], x.all[id-1] = id, &kept
	return id
}

func (x *contexts) newID() uint32 {
	if last := len(x.free) - 1; last >= 0 {
		id := x.free[last]
		x.free = x.free[:last]
		return id
	}
	x.all = append(x.all, nil)
	return uint32(len(x.all))
}

// keep frees the numbers that none of the sites has.
func (x *contexts) keep(sites iter.Seq[valueprof.Site]) {
	used := make([]bool, len(x.all)+1)
	for s := range sites {
		used[s.Context] = true
	}
	for i, c := range x.all {
		if id := uint32(i + 1); c != nil && !used[id] {
			delete(x.ids, *c)
			x.all[i] = nil
			x.free = append(x.free, id)
		}
	}
}

// frames returns the callers of a context, nil for any context: the one without
// callers, where the stack ends, is another.
func (x *contexts) frames(id uint32) []ccmap.Frame {
	if id == anyContext {
		return nil
	}
	return x.all[id-1].frames()
}
