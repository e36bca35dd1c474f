package wasm

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/symbols"
)

// In mode 2 a guest is compiled with what an earlier run knows. Functions that 30 samples have met, and whose code is
// the same, go without
//
//   - the polls at entries and exits that have found next to nothing: together at most mostUnfound of the samples.
//     Polls elsewhere find that time in the second run;
//   - reports of indirect calls that nearly always reach one target.
//
// All others are instrumented as ever: functions that nothing is known of, that have changed, whose cached profile was
// wrong ten times, and cold ones. A cold function costs nothing, and would be missed when it becomes hot.

// Bounds of what is taken for known.
const (
	// mostUnfound is the share of the samples at the polls that are left out.
	mostUnfound = 0.01
	// fewestSamples is the number of samples of a profile that tell what polls find.
	fewestSamples = 1000
	// monomorphic is the least share of the target of a site that is not reported, and fewestCaught the least number of
	// calls, or samples, that say so.
	monomorphic  = 0.9
	fewestCaught = 30
)

// place is a position in a function of the original.
type place struct{ function, offset uint32 }

// light is what a guest's functions go without.
type light struct {
	uses     []CachedUse
	use      map[uint32]int   // of uses, by function
	found    map[place]int64  // samples, by position
	entries  map[uint32]int64 // samples that polls at entries have found, in the callers, by function
	methods  map[uint32]ccmap.MethodProfile
	known    map[place]bool // indirect calls
	room     int64          // samples that polls left out may still have found
	imported int            // functions
}

// CachedUse says what has become of the cached profile of a function ([Options].Light).
type CachedUse struct {
	Method ccmap.Method
	Reason string // why it is not used; "": it is

	// What the function goes without: the poll at its entry, the polls at its exits, and reports of
	// so many indirect calls.
	Entry, Exits bool
	Calls        int
}

// CachedUses returns what has become of the cached profiles of the functions of all guests so far. There is nothing
// without [Options].Light, and for a cached profile of too few samples.
func (p *Profiler) CachedUses() []CachedUse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.uses)
}

// note notes what has become of cached profiles.
func (p *Profiler) note(uses []CachedUse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uses = append(p.uses, uses...)
}

// readLight returns nil if nothing is known of a module. A malformed module is for others to refuse.
func readLight(c *managed.Cached, binary []byte) *light {
	if c == nil || c.Profile() == nil || c.Profile().Total().Samples < fewestSamples {
		return nil
	}
	table, err := symbols.Read(binary, debuginfo.NewBudget(len(binary)))
	if err != nil {
		return nil
	}
	bodies, err := rewrite.Hashes(binary, table.Name)
	if err != nil {
		return nil
	}
	return newLight(c, table, bodies)
}

func newLight(c *managed.Cached, table *symbols.Table, bodies []uint64) *light {
	s, imported := c.Profile(), table.Len()-len(bodies)
	l := &light{
		use:   make(map[uint32]int),
		found: make(map[place]int64), entries: make(map[uint32]int64), methods: make(map[uint32]ccmap.MethodProfile),
		known: make(map[place]bool), room: int64(mostUnfound * float64(s.Total().Samples)), imported: imported,
	}
	functions := functionsByName(table)
	byMethod := make(map[ccmap.MethodID]uint32)
	for m := range s.Methods() {
		of := m.Method()
		function, there := functions[nameOf(of)]
		if !there || int(function) < imported {
			continue
		}
		byMethod[m.ID()] = function
		of.Body = bodies[int(function)-imported]
		if why := unusable(c, m, of.Body); why != "" {
			l.uses = append(l.uses, CachedUse{Method: of, Reason: why})
			continue
		}
		l.use[function] = len(l.uses)
		l.uses = append(l.uses, CachedUse{Method: of})
		l.methods[function] = m
		for offset, self := range m.Lines() {
			l.found[place{function, offset}] += self.Samples
		}
	}
	l.noteEntries(s, byMethod)
	l.noteCalls(s, byMethod)
	return l
}

// unusable returns why the cached profile of a function is not used.
func unusable(c *managed.Cached, m ccmap.MethodProfile, body uint64) string {
	now := m.Method()
	switch {
	case m.Cumulative().Samples < fewestCaught:
		return "too few samples have met it"
	case now.Body != body:
		return "its code is another one now"
	case c.Level(now) == 0:
		return "it was wrong ten times"
	}
	return ""
}

// functionsByName are the functions of a module that have a name of their own.
func functionsByName(table *symbols.Table) map[[2]string]uint32 {
	functions, several := make(map[[2]string]uint32), make(map[[2]string]bool)
	for i := range table.Len() {
		f := table.Function(i)
		key := [2]string{f.Name, f.Signature}
		if _, there := functions[key]; there {
			several[key] = true
		}
		functions[key] = uint32(i)
	}
	for key := range several {
		delete(functions, key)
	}
	return functions
}

func nameOf(m ccmap.Method) [2]string { return [2]string{m.Name, m.Signature} }

// noteEntries finds what polls at entries have found: samples of the callers at their calls.
func (l *light) noteEntries(s *ccmap.Snapshot, functions map[ccmap.MethodID]uint32) {
	at := make(map[ccmap.Frame]int64)
	for m := range s.Methods() {
		for offset, self := range m.Lines() {
			at[ccmap.Frame{Method: m.ID(), Offset: offset}] = self.Samples
		}
	}
	for e := range s.Edges() {
		if callee, there := functions[e.Callee()]; there {
			l.entries[callee] += at[ccmap.Frame{Method: e.Caller(), Offset: e.Offset()}]
		}
	}
}

// noteCalls finds the indirect calls that nearly always reach one target, both by caught calls and by samples: samples
// alone are left to notice another one.
func (l *light) noteCalls(s *ccmap.Snapshot, functions map[ccmap.MethodID]uint32) {
	for _, q := range ccmap.SumPhases(s.Points()) {
		function, there := functions[q.Method]
		if !there || q.Kind != ccmap.PointCall || q.Callers != nil || len(q.Values) == 0 || q.Count < fewestCaught {
			continue
		}
		m, used := l.methods[function]
		if target := q.Values[0]; used && float64(target.Count) >= monomorphic*float64(q.Count) && mostlyReaches(m, q.Offset, ccmap.MethodID(target.Value)) {
			l.known[place{function, q.Offset}] = true
			l.uses[l.use[function]].Calls++
		}
	}
}

// mostlyReaches reports whether the samples below a call site say that it nearly always reaches a target.
func mostlyReaches(m ccmap.MethodProfile, offset uint32, target ccmap.MethodID) bool {
	var all, reached int64
	for site := range m.CallSites() {
		if site.Offset() != offset {
			continue
		}
		for callee := range site.Callees() {
			n := callee.Total().Samples
			all += n
			if callee.Callee() == target {
				reached += n
			}
		}
	}
	return all >= fewestCaught && float64(reached) >= monomorphic*float64(all)
}

// quiet decides which polls each defined function goes without: those that have found least, as many as there is room
// for. Exits are the positions of the functions' exits.
func (l *light) quiet(exits [][]uint32) []rewrite.Quiet {
	all := make([]rewrite.Quiet, len(exits))
	type polls struct {
		found int64
		off   *bool
	}
	var candidates []polls
	for i, of := range exits {
		function := uint32(l.imported + i)
		if _, used := l.methods[function]; !used || of == nil {
			continue
		}
		var atExits int64
		for _, offset := range of {
			atExits += l.found[place{function, offset}]
		}
		candidates = append(candidates, polls{l.entries[function], &all[i].Entry}, polls{atExits, &all[i].Exit})
	}
	slices.SortStableFunc(candidates, func(a, b polls) int { return cmp.Compare(a.found, b.found) })
	for _, p := range candidates {
		if l.room -= p.found; l.room < 0 {
			break
		}
		*p.off = true
	}
	for function, i := range l.use {
		q := all[int(function)-l.imported]
		l.uses[i].Entry, l.uses[i].Exits = q.Entry, q.Exit
	}
	return all
}

func (l *light) isKnown(function, offset uint32) bool { return l.known[place{function, offset}] }
