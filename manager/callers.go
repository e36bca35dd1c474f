package manager

import "github.com/ccmapd/ccmapd/ccmap"

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

const (
	// anyContext is the number of no context in particular.
	anyContext = 0
	// maxContexts bounds the memory of contexts to some 5 MB.
	maxContexts = 1 << 16
)

// contexts numbers calling contexts from 1, densely. It forgets none.
type contexts struct {
	ids map[callers]uint32
	all []callers // by number − 1; none ever changes, so profile points share them
}

func newContexts() contexts { return contexts{ids: make(map[callers]uint32)} }

// id returns the number of a context, or anyContext if there is no room for it.
func (x *contexts) id(c callers) uint32 {
	id, known := x.ids[c]
	if known || len(x.all) == maxContexts {
		return id
	}
	x.all = append(x.all, c)
	id = uint32(len(x.all))
	x.ids[c] = id
	return id
}

// frames returns the callers of a context, nil for any context: the one without
// callers, where the stack ends, is another.
func (x *contexts) frames(id uint32) []ccmap.Frame {
	if id == anyContext {
		return nil
	}
	return x.all[id-1].frames()
}
