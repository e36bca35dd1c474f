package manager

import (
	"cmp"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

// ValueOptions say how the manager learns which methods the target's calls reach.
// The zero value is useful.
type ValueOptions struct {
	Off       bool             // learn nothing
	Hash      valueprof.Hash   // index function of the value tables
	Policy    valueprof.Policy // of their janitor
	Capacity  int              // methods that the table of one call has; 0: 15
	MaxPoints int              // profile points, of the latest calls and of those before each; 0: 65,536. The rarest make room
	Dump      io.Writer        // gets a line for every event in the life of a table, in one Write; nil: none
}

// callTargets is how many methods the table of one call has.
const callTargets = 15

// values learns which methods the target's calls reach, from the calls that were
// caught: each counts in any context and in the context of its callers. The map itself
// counts the calls on sampled stacks, exactly.
//
// The manager's goroutine owns all of it.
type values struct {
	caught   *valueprof.Profile // calls since the last look for a drift; nil: nothing is learned
	filed    filed              // calls before
	contexts contexts
	code     codeMethods

	calls    uint64    // caught
	news     bool      // there is something that the map does not have
	earliest time.Time // when the map gets it
}

// newValues returns values without profiles if nothing is to be learned.
func newValues(o ValueOptions, names *ccmap.Names, log *slog.Logger) *values {
	if o.Off {
		return new(values)
	}
	const defaultPoints = 65536
	points := cmp.Or(max(o.MaxPoints, 0), defaultPoints)
	v := &values{contexts: newContexts(points), code: codeMethods{names: names}, filed: filed{limit: points}}
	v.caught = valueprof.NewProfile(valueprof.Options{
		Capacity: cmp.Or(o.Capacity, callTargets), Hash: o.Hash, Policy: o.Policy, MaxPoints: points,
		Log:  log,
		Dump: newValueDump(o.Dump, names),
		Name: v.siteName,
	})
	return v
}

// off reports whether nothing is to be learned.
func (v *values) off() bool { return v.caught == nil }

// hit takes in a call that a breakpoint has caught. One that reached code without a
// name counts: it is part of the mix.
func (v *values) hit(s *ccmap.Sample) {
	if v.off() {
		return
	}
	v.code.update()
	if len(s.Frames) < 2 || !v.code.has(s.Frames[1].Method) || s.Frames[1].Offset == ccmap.NoOffset {
		return
	}
	site := valueprof.Site{Method: uint32(s.Frames[1].Method), Offset: s.Frames[1].Offset}
	target := uint64(s.Frames[0].Method)
	v.news = true
	v.calls++
	v.caught.Call(site, target)
	site.Context = v.contexts.id(v.code.callersOf(s.Frames[2:]), v.caught.Sites)
	v.caught.Call(site, target)
}

// cut sets the calls so far apart, for a look whether the program drifts.
func (v *values) cut() {
	if v.off() {
		return
	}
	v.filed.chunk = ccmap.SumPoints(v.filed.chunk, v.latest())
	v.caught.Clear()
}

// file takes in the answer to a look: the calls that were cut belong to the present
// phase of the program, or begin a new one.
func (v *values) file(newPhase bool) {
	v.news = v.news || newPhase
	v.filed.file(newPhase)
}

// codeMethods tells methods of code from pseudo methods such as [kernel], which
// nobody has written a call of.
type codeMethods struct {
	names *ccmap.Names
	is    []bool // by MethodID
}

// update takes in the methods that are new in the names.
func (c *codeMethods) update() {
	for id := len(c.is); id < c.names.Len(); id++ {
		c.is = append(c.is, !strings.HasPrefix(c.names.At(ccmap.MethodID(id)).Name, "["))
	}
}

func (c *codeMethods) has(id ccmap.MethodID) bool { return int64(id) < int64(len(c.is)) && c.is[id] }
