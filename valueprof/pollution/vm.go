package pollution

import (
	"cmp"
	"slices"
	"sync"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Counted is what the profile that a VM keeps of its own code ([ccmap.OriginVM]) says of a
// call site. Its receivers are in [Site.Calls].
type Counted struct {
	// Frozen says that the VM no longer counts here: it has compiled the method. The counts
	// then tell which receivers came, and hardly how often each comes now.
	Frozen bool
	// Nulls is how many receivers were null, [ccmap.NullsUnknown] or [ccmap.NullsSeen].
	Nulls    int64
	Compiled Compiled
}

// Compiled is what HotSpot's second compiler makes of a call with such counts, if it
// compiles the method by itself. It is a rule of thumb: the compiler knows more, such as the
// class hierarchy and the types that flow in from a caller.
type Compiled uint8

// What becomes of a call, from the fastest to the slowest.
const (
	CompiledUnknown Compiled = iota // too few calls
	InlinedOne                      // one receiver: inlined
	InlinedMajor                    // one receiver has nine tenths: inlined after a test
	InlinedTwo                      // two receivers: both inlined, after a test
	VirtualCall                     // more: a call through a table, which is not inlined
)

var compiledNames = [...]string{"unknown", "inlined", "inlined after a test", "both inlined", "virtual call"}

// String returns a few words for people, for example "virtual call".
func (c Compiled) String() string { return compiledNames[c] }

// major is the share of a receiver that HotSpot inlines whatever other receivers there are:
// the default of -XX:TypeProfileMajorReceiverPercent (opto/c2_globals.hpp, JDK 17 to 25).
const major = 0.9

// compiled applies the rule of Compile::call_generator (opto/doCall.cpp, JDK 17 to 25).
func compiled(m Mix) Compiled {
	total := m.Total().Seen
	switch {
	case total < MinCalls || len(m.Targets) == 0:
		return CompiledUnknown
	case m.isOne():
		return InlinedOne
	case float64(m.Targets[0].Seen) >= major*float64(total):
		return InlinedMajor
	case len(m.Targets) == 2 && m.Unnamed == 0:
		return InlinedTwo
	}
	return VirtualCall
}

// ofVM returns what a point of the VM says of a call site.
func (a *Analysis) ofVM(p *ccmap.Point) (Evidence, *Counted) {
	t := newTally()
	t.addPoint(p)
	m := t.mix()
	j := judge{a.s.Names(), p.Offset, MinCalls, 1}
	return newEvidence(m, j, nil), &Counted{Frozen: p.Frozen, Nulls: p.Nulls, Compiled: compiled(m)}
}

// vmCounts has the points of a VM.
type vmCounts struct {
	calls   map[position]*ccmap.Point
	entries map[ccmap.MethodID]int64           // how often each method was called
	callers func() map[ccmap.MethodID][]caller // the calls of each method, the most frequent first
}

// caller is a call of a method, as the caller's own profile counts it.
type caller struct {
	at     ccmap.Frame
	calls  int64
	frozen bool
}

func newVMCounts(points []ccmap.Point) vmCounts {
	v := vmCounts{calls: make(map[position]*ccmap.Point), entries: make(map[ccmap.MethodID]int64)}
	for i := range points {
		switch p := &points[i]; {
		case p.Origin != ccmap.OriginVM || p.Callers != nil:
		case p.Kind == ccmap.PointCall:
			v.calls[position{p.Method, p.Offset}] = p
		case p.Kind == ccmap.PointBlock && p.Offset == 0:
			v.entries[p.Method] = p.Count
		}
	}
	v.callers = sync.OnceValue(v.index)
	return v
}

// index finds the callers of all methods.
func (v vmCounts) index() map[ccmap.MethodID][]caller {
	all := make(map[ccmap.MethodID][]caller)
	for at, p := range v.calls {
		for _, to := range p.Values {
			callee := ccmap.MethodID(to.Value)
			all[callee] = append(all[callee], caller{ccmap.Frame{Method: at.method, Offset: at.offset}, to.Count, p.Frozen})
		}
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b caller) int {
			return cmp.Or(cmp.Compare(b.calls, a.calls), compareFrames(a.at, b.at))
		})
	}
	return all
}

func compareFrames(a, b ccmap.Frame) int {
	return cmp.Or(cmp.Compare(a.Method, b.Method), cmp.Compare(a.Offset, b.Offset))
}
