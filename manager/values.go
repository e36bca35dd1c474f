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
	Capacity  int              // methods told apart at one call; 0: 7 of samples, 15 of caught calls
	MaxPoints int              // profile points held, of samples and of caught calls each; 0: 65,536. The rarest make room
	Dump      io.Writer        // gets a line for every event in the life of a table, in one Write; nil: none
}

// Methods told apart at one call. A call that was caught names the dynamic type,
// wrappers included, of which there are more than methods on sampled stacks.
const (
	sampledTargets = 7
	caughtTargets  = 15
)

// values learns which methods the target's calls reach.
//
//	sampled   the calls on the stack of every sample, in any context: counts samples
//	caught    the calls that breakpoints have caught, each in any context and in
//	          that of its callers: counts calls
//
// The manager's goroutine owns all of it.
type values struct {
	sampled, caught *valueprof.Profile
	sources         valueprof.Sources // both, as whoever reads them has them
	contexts        contexts
	code            codeMethods

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
	v := &values{contexts: newContexts(points), code: codeMethods{names: names}}
	profile := func(origin ccmap.Origin, targets int) *valueprof.Profile {
		return valueprof.NewProfile(valueprof.Options{
			Capacity: cmp.Or(o.Capacity, targets), Hash: o.Hash, Policy: o.Policy, MaxPoints: points,
			Warm: 1, // what a sample or a breakpoint finds is warm
			Log:  log.With("of", origin.String()),
			Dump: newValueDump(o.Dump, origin, names),
			Name: v.siteName,
		})
	}
	v.sampled = profile(ccmap.OriginSampled, sampledTargets)
	v.caught = profile(ccmap.OriginBurst, caughtTargets)
	v.sources.Set(valueprof.Sampled, v.sampled)
	v.sources.Set(valueprof.Instrumented, v.caught)
	return v
}

// off reports whether nothing is to be learned.
func (v *values) off() bool { return v.sampled == nil }

// sample takes in the calls on a sampled stack or, where it was walked in part, on
// that part. A sample that finds the activations of the last one again counts
// again, as it does in the map.
func (v *values) sample(s *ccmap.Sample) {
	if v.off() {
		return
	}
	v.news = true
	v.code.update()
	for i := 1; i < len(s.Frames); i++ {
		at, callee := s.Frames[i], s.Frames[i-1].Method
		if at.Offset != ccmap.NoOffset && v.code.has(at.Method) && v.code.has(callee) {
			v.sampled.Call(valueprof.Site{Method: uint32(at.Method), Offset: at.Offset}, uint64(callee))
		}
	}
}

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

// renew begins to learn anew: the program does something else than before.
func (v *values) renew() {
	if v.off() {
		return
	}
	v.news = true
	v.sampled.Renew()
	v.caught.Renew()
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
