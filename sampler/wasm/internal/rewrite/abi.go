package rewrite

// HostModule is the module of the added imports. A module that imports from it already is
// refused.
const HostModule = "ccmapd"

// The names of the added imports.
const (
	SampleFunction = "sample" // func(reason, number i32); the number's highest bit has no meaning
	CallFunction   = "call"   // func(site, element, number i32), likewise
	PointFunction  = "point"  // func(site, value i32), only with Options.Points
)

// The names of the added globals. They are exported, because wazero lets a host set
// exported globals only.
const (
	MarkGlobal     = "ccmapd.mark"     // i32, initially 1
	CallsGlobal    = "ccmapd.calls"    // i32, only with Options.Calls
	DepthGlobal    = "ccmapd.depth"    // i32, only with Options.Marks
	VisitedGlobal  = "ccmapd.visited"  // i32, only with Options.Marks
	LimitGlobal    = "ccmapd.limit"    // i32, only with Options.Marks, initially AllNumbers
	AnnounceGlobal = "ccmapd.announce" // i64, initially all ones
	ExecutedGlobal = "ccmapd.executed" // i64, only with Options.Exact
	PointsGlobal   = "ccmapd.points"   // i32, only with Options.Points
)

// Reasons of a sample. An import k has two of its own.
const (
	ReasonEntry uint32 = 0 // a function was entered
	ReasonLoop  uint32 = 1 // a loop goes on, or a function ends
)

// BeforeImport is the reason that announces a call of imported function k. The host can
// see the stack that will be below a call back.
func BeforeImport(k uint32) uint32 { return 2 + 2*k }

// AfterImport is the reason of the safe point after a call of imported function k.
func AfterImport(k uint32) uint32 { return 3 + 2*k }

// Import returns the imported function of a reason, and the side of its call. It is false
// for entries and loops.
func Import(reason uint32) (k uint32, before, ok bool) {
	return (reason - 2) / 2, reason%2 == 0, reason >= 2
}

// Numbers of activations are below 1<<31, so with the limit AllNumbers all functions call
// the host. The bit polled of a number says that the function has already polled, and
// must not poll again.
const (
	AllNumbers = polled - 1
	polled     = 1 << 31
)

// hostGlobal is a global that may be added.
type hostGlobal uint32

const (
	globalMark hostGlobal = iota
	globalCalls
	globalDepth
	globalVisited
	globalLimit
	globalAnnounce
	globalExecuted
	globalPoints
)

type hostGlobalType struct {
	name      string
	valueType byte
	initial   int64
}

// hostGlobals are the globals that may be added, in the order of their indices.
var hostGlobals = [...]hostGlobalType{
	globalMark:     {MarkGlobal, typeI32, 1},
	globalCalls:    {CallsGlobal, typeI32, 0},
	globalDepth:    {DepthGlobal, typeI32, 0},
	globalVisited:  {VisitedGlobal, typeI32, 0},
	globalLimit:    {LimitGlobal, typeI32, AllNumbers},
	globalAnnounce: {AnnounceGlobal, typeI64, -1},
	globalExecuted: {ExecutedGlobal, typeI64, 0},
	globalPoints:   {PointsGlobal, typeI32, 0},
}

// added reports whether a rewriting adds the global.
func (g hostGlobal) added(o Options) bool {
	switch g {
	case globalCalls:
		return o.Calls
	case globalDepth, globalVisited, globalLimit:
		return o.Marks
	case globalExecuted:
		return o.Exact
	case globalPoints:
		return o.Points
	}
	return true
}

func isHostGlobal(name string) bool {
	for _, g := range hostGlobals {
		if g.name == name {
			return true
		}
	}
	return false
}
