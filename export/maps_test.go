package export

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// content is what a map says, for comparisons that do not go through any code
// of this package.
type content struct {
	Nodes   map[string]ccmap.Counters // by path
	Recent  map[string]ccmap.Counters // of the window, by path; nil without one
	Methods map[[2]string]ccmap.Method
	Lines   map[string]int32              // of positions that are not lines, see addLines
	Inlined map[string]bool               // calls, see addInlined
	Code    map[string]uint64             // addresses of instructions, see addAddresses
	Modules map[string]ccmap.Mapping      // of the methods' modules
	Edges   map[string]ccmap.PrunedEdge   // by the names in it, without the ids
	Pruned  map[string]ccmap.PrunedMethod // by name
	Points  map[string]ccmap.Point        // see pointsOf
	Meta    ccmap.Meta
	Exact   bool
}

func contentOf(s *ccmap.Snapshot) content {
	c := content{
		Nodes:   make(map[string]ccmap.Counters),
		Methods: make(map[[2]string]ccmap.Method),
		Lines:   make(map[string]int32),
		Inlined: make(map[string]bool),
		Code:    make(map[string]uint64),
		Modules: make(map[string]ccmap.Mapping),
		Edges:   make(map[string]ccmap.PrunedEdge),
		Pruned:  make(map[string]ccmap.PrunedMethod),
		Points:  pointsOf(s, XML),
		Meta:    s.Meta(),
		Exact:   s.ActivationsExact(),
	}
	window, windowed := s.Recent()
	if windowed {
		c.Recent = make(map[string]ccmap.Counters)
	}
	c.addPruned(s)
	c.addPointMethods(s)
	c.addLines(s)
	c.addInlined(s)
	paths := make([]string, s.Len())
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		paths[n.ID] = paths[n.Parent] + fmt.Sprintf("/%d", int32(n.Offset))
		if !n.IsPosition() {
			m := s.Names().At(n.Method)
			c.Methods[[2]string{m.Name, m.Signature}] = m
			paths[n.ID] += fmt.Sprintf(" %q %q", m.Name, m.Signature)
		}
		c.Nodes[paths[n.ID]] = n.Self
		if windowed && !window.Node(n.ID).Self.IsZero() {
			c.Recent[paths[n.ID]] = window.Node(n.ID).Self
		}
	}
	c.addAddresses(s.Names())
	return c
}

// addLines adds the lines of the positions in nodes, points' contexts and pruned edges.
func (c content) addLines(s *ccmap.Snapshot) {
	add := func(id ccmap.MethodID, offset uint32) {
		f := ccmap.Frame{Method: id, Offset: offset}
		if id == ccmap.NoMethod || s.Names().At(id).Coordinate == ccmap.CoordinateLine || s.Names().Line(f) == 0 {
			return
		}
		m := s.Names().At(id)
		c.Lines[fmt.Sprintf("%q %q %d", m.Name, m.Signature, offset)] = s.Names().Line(f)
	}
	for n := range s.Nodes() {
		add(s.Node(n.Parent).Method, n.Offset)
	}
	for _, p := range s.Points() {
		for _, f := range p.Callers {
			add(f.Method, f.Offset)
		}
	}
	for e := range s.PrunedEdges() {
		add(e.Caller, e.Offset)
	}
}

// addInlined adds the inlined calls among nodes and pruned edges.
func (c content) addInlined(s *ccmap.Snapshot) {
	for n := range s.Nodes() {
		c.addCall(s, s.Node(n.Parent).Method, n.Offset, n.Method)
	}
	for e := range s.PrunedEdges() {
		c.addCall(s, e.Caller, e.Offset, e.Callee)
	}
}

// addCall adds a call if it was inlined.
func (c content) addCall(s *ccmap.Snapshot, caller ccmap.MethodID, offset uint32, callee ccmap.MethodID) {
	if caller == ccmap.NoMethod || callee == ccmap.NoMethod || !s.Names().Inlined(ccmap.Frame{Method: caller, Offset: offset}, callee) {
		return
	}
	from, to := s.Names().At(caller), s.Names().At(callee)
	c.Inlined[fmt.Sprintf("%q %q %d %q %q", from.Name, from.Signature, offset, to.Name, to.Signature)] = true
}

// addAddresses adds the addresses and mappings of the methods that are there.
func (c content) addAddresses(names *ccmap.Names) {
	for _, m := range c.Methods {
		if mapping := names.Mapping(m.Module); mapping != (ccmap.Mapping{}) {
			c.Modules[m.Module] = mapping
		}
	}
addresses:
	for _, a := range names.Addresses() {
		key := fmt.Sprintf("call %t", a.Call)
		for _, f := range a.Frames {
			m := names.At(f.Method)
			if _, has := c.Methods[[2]string{m.Name, m.Signature}]; !has {
				continue addresses
			}
			key += fmt.Sprintf(", %q %q %d", m.Name, m.Signature, int32(f.Offset))
		}
		c.Code[key] = a.Offset
	}
}

func (c content) addPruned(s *ccmap.Snapshot) {
	name := func(id ccmap.MethodID) string {
		if id == ccmap.NoMethod {
			return "none"
		}
		m := s.Names().At(id)
		c.Methods[[2]string{m.Name, m.Signature}] = m
		return fmt.Sprintf("%q %q", m.Name, m.Signature)
	}
	for e := range s.PrunedEdges() {
		key := fmt.Sprintf("%s %d %s", name(e.Caller), int32(e.Offset), name(e.Callee))
		e.Caller, e.Callee = 0, 0
		c.Edges[key] = e
	}
	for p := range s.PrunedMethods() {
		key := name(p.Method)
		p.Method = 0
		c.Pruned[key] = p
	}
}

// addPointMethods adds the methods that points name.
func (c content) addPointMethods(s *ccmap.Snapshot) {
	for _, p := range s.Points() {
		for id := range pointMethods(&p) {
			m := s.Names().At(id)
			c.Methods[[2]string{m.Name, m.Signature}] = m
		}
	}
}

// counted keeps the counters that are not zero, after f.
func (c content) counted(f func(ccmap.Counters) ccmap.Counters) map[string]ccmap.Counters {
	nodes := make(map[string]ccmap.Counters)
	for path, counters := range c.Nodes {
		if counters = f(counters); !counters.IsZero() {
			nodes[path] = counters
		}
	}
	return nodes
}

func diffContent(want, got *ccmap.Snapshot) string {
	return cmp.Diff(contentOf(want), contentOf(got), cmpopts.EquateEmpty())
}

// nasty are strings that one format or another has no place for.
var nasty = []string{
	"main.main", "main.F[struct { X int; Y int }]", "a;b c\\x3b 5", "\x00\x1f\x7f\r\n\t", "\xff\xfe\xc3", "\ufffe\uffff\ufffd",
	"<&>\"'", "+3", "name+3", "name+?", " lead and trail ", "ccmapd version 1", "#ccmapd {}", "日本語\u2028", `back\\slash\`, `C:\dir`, `\:sig`, "é\u0301", "-1",
}

// drawCommit draws when the source of a program was committed, to the second.
func drawCommit(t *rapid.T) time.Time {
	return rapid.SampledFrom([]time.Time{{}, time.Unix(1, 0).UTC(), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}).Draw(t, "commit")
}

func drawText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.SampledFrom(nasty), rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
	).Draw(t, label)
}

func drawMethods(t *rapid.T) []ccmap.Method {
	call := rapid.Custom(func(t *rapid.T) ccmap.Method {
		return ccmap.Method{Name: ccmap.KernelName, Signature: "c" + drawText(t, "system call")}
	})
	code := rapid.Custom(func(t *rapid.T) ccmap.Method {
		return ccmap.Method{
			Name:      "f" + drawText(t, "name"),
			Signature: rapid.SampledFrom([]string{"", "", "(I)V", "\\:;+1"}).Draw(t, "signature"),
			Receiver:  drawText(t, "receiver"),
			File:      drawText(t, "file"),
			StartLine: rapid.SampledFrom([]int32{0, 1, 17, math.MaxInt32}).Draw(t, "line"),
			Module:    rapid.SampledFrom([]string{"", "/lib/x.so", "[vdso]", "abc/def/ghi"}).Draw(t, "module"),

			Coordinate: rapid.SampledFrom([]ccmap.Coordinate{ccmap.CoordinateLine, ccmap.CoordinateBytecode, ccmap.CoordinateMachine}).Draw(t, "coordinate"),
			Body:       rapid.SampledFrom([]uint64{0, 0, 1, 0xfedcba9876543210, ccmap.MixedBodies}).Draw(t, "body"),
		}
	})
	return rapid.SliceOfN(rapid.OneOf(code, code, code, call), 1, 6).Draw(t, "methods")
}

func drawMeta(t *rapid.T) ccmap.Meta {
	duration := rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })
	texts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawText(t, "text") }), 0, 3)
	change := rapid.Custom(func(t *rapid.T) ccmap.IntervalChange {
		return ccmap.IntervalChange{At: duration.Draw(t, "at"), Interval: duration.Draw(t, "interval"), Reason: drawText(t, "reason")}
	})
	return ccmap.Meta{
		Target: ccmap.Target{
			PID:         rapid.Int().Draw(t, "pid"),
			Executable:  drawText(t, "executable"),
			CommandLine: texts.Draw(t, "command line"),
			BuildID:     drawText(t, "build id"),
			Commit:      drawCommit(t),
			Runtime:     drawText(t, "runtime"),
		},
		Engine:   drawText(t, "engine"),
		Unit:     drawUnit(t),
		Start:    rapid.SampledFrom([]time.Time{{}, time.Unix(1, 2).UTC(), time.Date(9999, 1, 2, 3, 4, 5, 6, time.UTC)}).Draw(t, "start"),
		Duration: duration.Draw(t, "duration"),
		Ended:    drawText(t, "ended"),
		Interval: rapid.SliceOfN(change, 0, 3).Draw(t, "changes"),
		Loss:     drawLoss(t),
		Settled:  ccmap.Settled{Methods: 99.5, Edges: rapid.Float64Range(0, 100).Draw(t, "settled"), Samples: rapid.Int64().Draw(t, "settled by")},
		Known:    rapid.Uint64().Draw(t, "known"),
		Repeated: rapid.Uint64().Draw(t, "repeated"),
		Comments: texts.Draw(t, "comments"),
		Elided:   drawElided(t),
	}
}

func drawElided(t *rapid.T) ccmap.Elided {
	e := ccmap.Elided{Samples: rapid.Uint64().Draw(t, "samples with elided frames"), Most: rapid.Uint64().Draw(t, "most elided")}
	e.Least, e.Uncounted = rapid.Uint64Max(e.Most).Draw(t, "least elided"), rapid.Uint64Max(e.Samples).Draw(t, "not counted")
	return e
}

func drawUnit(t *rapid.T) ccmap.Unit {
	kinds := []string{"cpu", "samples", "activations", "recent_samples", "samples_weight", "inuse_space", "höhe <&\\>"}
	return ccmap.NewUnit(rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.SampledFrom([]string{"bytes", "count", "seconds", ccmap.Nanoseconds}).Draw(t, "unit"))
}

func drawLoss(t *rapid.T) ccmap.Loss {
	clock := rapid.Int64Min(0).Draw(t, "clock")
	return ccmap.Loss{
		Source: rapid.Uint64().Draw(t, "lost"), Queue: 1, Throttled: 2, Corrupt: 3, Orphaned: math.MaxUint64,
		Clock: time.Duration(clock), ClockTick: time.Duration(clock % 2), Unaccounted: time.Duration(rapid.Int64Range(max(-clock, math.MinInt64/mostTimesClock)*mostTimesClock, clock).Draw(t, "unaccounted")),
	}
}

// line is one addition to a map: a stack, outermost frame first, of indices of
// methods.
type line struct {
	Stack []ccmap.Frame
	Count ccmap.Counters
}

func drawLines(t *rapid.T, methods int) []line {
	frame := rapid.Custom(func(t *rapid.T) ccmap.Frame {
		return ccmap.Frame{
			Method: ccmap.MethodID(rapid.IntRange(0, methods-1).Draw(t, "method")),
			Offset: rapid.SampledFrom([]uint32{0, 1, 2, 77, ccmap.NoOffset, ccmap.NoOffset - 1, 1 << 31, 1<<31 - 1}).Draw(t, "offset"),
		}
	})
	count := rapid.Int64Range(0, 1<<40)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) line {
		return line{
			Stack: rapid.SliceOfN(frame, 1, 8).Draw(t, "stack"),
			Count: ccmap.Counters{Samples: count.Draw(t, "samples"), Time: count.Draw(t, "time"), Activations: count.Draw(t, "activations")},
		}
	}), 0, 12).Draw(t, "lines")
}

// build makes a map of lines, added in their order. Positions that are none of lines
// are on line 20 for the most part.
func build(methods []ccmap.Method, lines []line) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	for _, l := range lines {
		setLines(m.Names(), methods, l)
		setInlined(m.Names(), methods, l)
		addStack(m, methods, l)
	}
	return m
}

// buildLocated makes one whose instructions have addresses.
func buildLocated(methods []ccmap.Method, lines []line) *ccmap.Map {
	m := build(methods, lines)
	for _, l := range lines {
		setAddresses(m.Names(), methods, l)
	}
	return m
}

func setLines(names *ccmap.Names, methods []ccmap.Method, l line) {
	for _, f := range l.Stack {
		if f.Offset != 2 {
			names.SetLine(ccmap.Frame{Method: names.Intern(methods[f.Method]), Offset: f.Offset}, 20+int32(f.Offset)%2)
		}
	}
}

// setInlined says that calls at even offsets were inlined, and at unknown ones not: those
// within a module, as one location of pprof has one.
func setInlined(names *ccmap.Names, methods []ccmap.Method, l line) {
	for i, f := range l.Stack[1:] {
		caller := ccmap.Frame{Method: names.Intern(methods[l.Stack[i].Method]), Offset: l.Stack[i].Offset}
		callee := names.Intern(methods[f.Method])
		if caller.Offset%2 == 0 && names.At(caller.Method).Module == names.At(callee).Module {
			names.SetInlined(caller, callee)
		}
	}
}

// setAddresses says where the code of modules stands, and of each instruction on the stack,
// with the frames that it was inlined into, an address that comes of them.
func setAddresses(names *ccmap.Names, methods []ccmap.Method, l line) {
	var frames []ccmap.Frame // the innermost first
	for i, f := range l.Stack {
		f.Method = names.Intern(methods[f.Method])
		if m := names.At(f.Method); m.Module != "" {
			names.SetMapping(m.Module, mappingOf(m.Module))
		}
		if i == 0 || !names.Inlined(frames[0], f.Method) {
			frames = nil
		}
		frames = slices.Concat([]ccmap.Frame{f}, frames)
		call := i+1 < len(l.Stack)
		if call && names.Inlined(f, names.Intern(methods[l.Stack[i+1].Method])) {
			continue
		}
		offset := uint64(0x1000)
		for _, f := range frames {
			offset = (31*offset + uint64(f.Offset) + uint64(len(names.At(f.Method).Name))) % 0x100000
		}
		names.SetAddress(frames, call, offset)
	}
}

// mappingOf is apart for each length of a module's name.
func mappingOf(module string) ccmap.Mapping {
	start := uint64(0x550000000000) + uint64(len(module))<<24
	return ccmap.Mapping{File: module, Start: start, Limit: start + 0x100000, Offset: 0x1000}
}

func addStack(m *ccmap.Map, methods []ccmap.Method, l line) {
	n, call := m.Root(), ccmap.NoOffset
	for _, f := range l.Stack {
		n, call = m.Child(n, call, m.Names().Intern(methods[f.Method])), f.Offset
	}
	if call != ccmap.NoOffset {
		n = m.Child(n, call, ccmap.NoMethod)
	}
	m.Add(n, l.Count)
}

func drawMap(t *rapid.T, build func([]ccmap.Method, []line) *ccmap.Map) *ccmap.Map {
	methods := drawMethods(t)
	m := build(methods, drawLines(t, len(methods)))
	addPoints(m, methods, drawPoints(t, len(methods)))
	*m.Meta() = drawMeta(t)
	m.SetExact(rapid.Bool().Draw(t, "exact"))
	if rapid.Bool().Draw(t, "windowed") {
		m.SetWindow(time.Duration(rapid.Int64Range(int64(time.Millisecond), math.MaxInt64).Draw(t, "window")))
		for n := range m.Snapshot().Nodes() {
			m.AddRecent(n.ID, drawCounters(t))
		}
	}
	return m
}

// drawTimes returns a map of CPU time.
func drawTimes(t *rapid.T) *ccmap.Map {
	m := drawMap(t, build)
	m.Meta().Unit = ccmap.CPUTime
	return m
}

func drawCounters(t *rapid.T) ccmap.Counters {
	count := rapid.Int64Range(0, 1<<40)
	return ccmap.Counters{Samples: count.Draw(t, "samples"), Time: count.Draw(t, "time"), Activations: count.Draw(t, "activations")}
}

// drawPruned returns a map of which some may have been pruned.
func drawPruned(t *rapid.T, build func([]ccmap.Method, []line) *ccmap.Map) *ccmap.Map {
	m := drawMap(t, build)
	if rapid.Bool().Draw(t, "pruned") {
		m.Prune(0)
	}
	id := rapid.Custom(func(t *rapid.T) ccmap.MethodID {
		return ccmap.MethodID(rapid.IntRange(0, m.Names().Len()-1).Draw(t, "method"))
	})
	for range rapid.IntRange(0, 3).Draw(t, "pruned edges") {
		if m.Names().Len() == 0 {
			break
		}
		e := ccmap.PrunedEdge{Caller: id.Draw(t, "caller"), Offset: uint32(rapid.IntRange(0, 3).Draw(t, "offset")), Callee: id.Draw(t, "callee")}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			e.Caller, e.Offset = ccmap.NoMethod, ccmap.NoOffset
		case 1:
			e.Callee = ccmap.NoMethod
		}
		e.Total, e.Recent = drawCounters(t), drawCounters(t)
		m.AddPruned(e)
		m.AddPrunedMethod(ccmap.PrunedMethod{
			Method: id.Draw(t, "method"), Self: drawCounters(t), Cumulative: drawCounters(t),
			RecentSelf: drawCounters(t), RecentCumulative: drawCounters(t),
		})
	}
	return m
}

// small is the map of the golden files.
func small() *ccmap.Map {
	methods := []ccmap.Method{
		{Name: "main.main", File: "/src/main.go", StartLine: 10, Module: "go-build-id"},
		{Name: "main.(*Tree).Walk", Receiver: "*main.Tree", File: "/src/tree.go", StartLine: 40, Module: "go-build-id"},
		{Name: "main.Sum[struct { X int; Y int }]", File: "/src/sum.go", StartLine: 7, Module: "go-build-id"},
		{Name: "String.charAt", Signature: "(I)C"},
		{Name: ccmap.KernelName},
		{Name: "memcpy", Module: "/lib/libc.so.6"},
		{Name: ccmap.TruncatedName},
		{Name: ccmap.ElidedName},
	}
	at := func(method ccmap.MethodID, offset uint32) ccmap.Frame {
		return ccmap.Frame{Method: method, Offset: offset}
	}
	none := ccmap.NoOffset
	m := build(methods, []line{
		{[]ccmap.Frame{at(0, 3), at(1, 5), at(1, 5), at(2, 2)}, ccmap.Counters{Samples: 4, Time: 40e6}},
		{[]ccmap.Frame{at(0, 3), at(1, 5), at(1, 6)}, ccmap.Counters{Samples: 1, Time: 10e6}},
		{[]ccmap.Frame{at(0, 3), at(1, 5), at(1, none)}, ccmap.Counters{Activations: 3}},
		{[]ccmap.Frame{at(0, 9), at(4, none)}, ccmap.Counters{Samples: 2, Time: 20e6, Activations: 2}},
		{[]ccmap.Frame{at(0, 9), at(5, none)}, ccmap.Counters{Samples: 1, Time: 5e6}},
		{[]ccmap.Frame{at(6, none), at(3, 12)}, ccmap.Counters{Samples: 1, Time: 10e6}},
		{[]ccmap.Frame{at(6, none), at(3, none)}, ccmap.Counters{Activations: 1}},
		{[]ccmap.Frame{at(6, none), at(2, 1<<32-3)}, ccmap.Counters{Samples: 1, Time: 10e6}},
	})
	*m.Meta() = ccmap.Meta{
		Target:   ccmap.Target{PID: 4711, Executable: "/usr/bin/demo", CommandLine: []string{"demo", "-d", "10s", "a <b>\n"}, BuildID: "go-build-id", Runtime: "go1.26.8"},
		Engine:   "perf",
		Start:    time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC),
		Duration: 10 * time.Second,
		Ended:    "target exited with code 0",
		Interval: []ccmap.IntervalChange{{Interval: 10 * time.Millisecond, Reason: "initial"}, {At: time.Second, Interval: 20 * time.Millisecond, Reason: "repetitions 87.4 % over 15 %"}},
		Loss:     ccmap.Loss{Source: 7, Throttled: 1},
		Known:    9,
		Repeated: 4,
		Comments: []string{"first", "control \x01 and \xff"},
	}
	return m
}

// pruned is the map of the other golden files: small(), with a window, and as
// after a prune.
func pruned() *ccmap.Map {
	m := small()
	m.SetWindow(15 * time.Minute)
	for n := range m.Snapshot().Nodes() {
		m.AddRecent(n.ID, ccmap.Counters{Samples: n.Self.Samples / 2, Time: n.Self.Time / 2})
	}
	name := func(name string) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: name}) }
	walk, removed, none := name("main.(*Tree).Walk"), name("main.removed"), ccmap.NoMethod
	m.Add(m.Child(m.Child(m.Root(), ccmap.NoOffset, name("main.main")), ccmap.NoOffset, name(ccmap.PrunedName)), ccmap.Counters{Samples: 3, Time: 30e6})
	for _, e := range []ccmap.PrunedEdge{
		{Caller: none, Offset: ccmap.NoOffset, Callee: removed, Total: ccmap.Counters{Samples: 3, Time: 30e6, Activations: 2}},
		{Caller: removed, Offset: 1<<32 - 4, Callee: walk, Total: ccmap.Counters{Samples: 2, Time: 20e6}, Recent: ccmap.Counters{Samples: 1, Time: 7e6}},
		{Caller: walk, Offset: 6, Callee: none, Total: ccmap.Counters{Samples: 2, Time: 20e6}},
	} {
		m.AddPruned(e)
	}
	m.AddPrunedMethod(ccmap.PrunedMethod{Method: removed, Self: ccmap.Counters{Samples: 1, Time: 10e6}, Cumulative: ccmap.Counters{Samples: 3, Time: 30e6}})
	m.AddPrunedMethod(ccmap.PrunedMethod{
		Method: walk, Self: ccmap.Counters{Samples: 2, Time: 20e6}, Cumulative: ccmap.Counters{Samples: 2, Time: 20e6},
		RecentSelf: ccmap.Counters{Samples: 1, Time: 7e6}, RecentCumulative: ccmap.Counters{Samples: 1, Time: 7e6},
	})
	loss := &m.Meta().Loss
	loss.Clock, loss.ClockTick, loss.Unaccounted = 100*time.Millisecond, 4*time.Millisecond, -2*time.Millisecond
	m.Meta().Pruned = ccmap.PruneStats{Times: 1, Nodes: 4}
	m.Meta().Settled = ccmap.Settled{Methods: 99.25, Edges: 97, Contexts: 91.5, Samples: 4321}
	return m
}

func encode(t testing.TB, f Format, s *ccmap.Snapshot) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, f, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func decode(t testing.TB, data string) *ccmap.Snapshot {
	t.Helper()
	m, _, err := Read(strings.NewReader(data), ReadOptions{})
	if err != nil {
		t.Fatalf("%v in\n%.2000q", err, data)
	}
	return m.Snapshot()
}

// The types of values that every profile has.
var (
	samplesType     = typeOf(ccmap.CounterSamples, ccmap.CPUTime)
	timeType        = typeOf(ccmap.CounterTime, ccmap.CPUTime)
	activationsType = typeOf(ccmap.CounterActivations, ccmap.CPUTime)
)

// labels is a map with labels of all kinds.
func labels() *ccmap.Map {
	m := ccmap.New(ccmap.Options{Seed: 1, Window: time.Second})
	names := m.Names()
	frame := func(name string, offset uint32) ccmap.Frame {
		return ccmap.Frame{Method: names.Intern(ccmap.Method{Name: name, Receiver: "*main.T"}), Offset: offset}
	}
	for i, set := range [][]ccmap.Label{
		{{Key: "route", Value: "/api"}, {Key: "method", Value: "GET"}},
		{{Key: "route", Value: "/"}},
		{{Key: "receiver", Value: "label:x"}, {Key: "label:hit", Value: "a b=\x1b"}, {Key: "labels", Value: ""}, {Key: "", Value: "\xff;"}},
		{},
		nil,
	} {
		for n := range uint32(3) {
			s := ccmap.Sample{Thread: uint64(i), Weight: int64(i+1) * 1e6, Fresh: ccmap.FreshUnknown, Truncated: n == 2}
			s.Frames = []ccmap.Frame{frame("main.work", n), frame("main.main", 4)}
			if set != nil {
				s.Frames = append(s.Frames, ccmap.Frame{Method: names.Intern(ccmap.LabelsMethod(set)), Offset: ccmap.NoOffset})
			}
			m.Fold(&s)
		}
	}
	return m
}
