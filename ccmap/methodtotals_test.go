package ccmap_test

import "github.com/ccmapd/ccmapd/ccmap"

// position is a line of a method, or a call site.
type position struct {
	method ccmap.MethodID
	offset uint32
}

// methodTotals are what pprof calls cum and flat, lines and the totals of call
// sites, counted stack by stack.
type methodTotals struct {
	cumulative, self map[ccmap.MethodID]ccmap.Counters
	lines, sites     map[position]ccmap.Counters
	sitesOnce        map[position]ccmap.Counters
	edgesOnce        map[call]ccmap.Counters
}

// call is a call site and a method that it calls.
type call struct {
	position
	callee ccmap.MethodID
}

func newMethodTotals() methodTotals {
	return methodTotals{
		cumulative: map[ccmap.MethodID]ccmap.Counters{},
		self:       map[ccmap.MethodID]ccmap.Counters{},
		lines:      map[position]ccmap.Counters{},
		sites:      map[position]ccmap.Counters{},
		sitesOnce:  map[position]ccmap.Counters{},
		edgesOnce:  map[call]ccmap.Counters{},
	}
}

// update counts a stack, innermost first.
func (x methodTotals) update(stack []ccmap.Frame, weight int64) {
	c := ccmap.Counters{Samples: 1, Time: weight}
	in := map[ccmap.MethodID]bool{}
	passed, called := map[position]bool{}, map[call]bool{}
	for j, f := range stack {
		if !in[f.Method] {
			in[f.Method] = true
			x.cumulative[f.Method] = x.cumulative[f.Method].Add(c)
		}
		if at := (position{f.Method, f.Offset}); j > 0 {
			x.sites[at] = x.sites[at].Add(c)
			if !passed[at] {
				passed[at] = true
				x.sitesOnce[at] = x.sitesOnce[at].Add(c)
			}
			if edge := (call{at, stack[j-1].Method}); !called[edge] {
				called[edge] = true
				x.edgesOnce[edge] = x.edgesOnce[edge].Add(c)
			}
		} else {
			x.lines[at] = x.lines[at].Add(c)
			x.self[f.Method] = x.self[f.Method].Add(c)
		}
	}
}

// mustMatch compares the views of methods with the totals, but for activations.
func (x methodTotals) mustMatch(t errorer, s *ccmap.Snapshot) {
	t.Helper()
	lines, sites := 0, 0
	for m := range s.Methods() {
		if m.Method().Name == ccmap.PrunedName {
			continue
		}
		if got, want := withoutActivations(m.Cumulative()), x.cumulative[m.ID()]; got != want {
			t.Fatalf("Cumulative of %s: %+v, want %+v", m.Method().Name, got, want)
		}
		if got, want := withoutActivations(m.Self()), x.self[m.ID()]; got != want {
			t.Fatalf("Self of %s: %+v, want %+v", m.Method().Name, got, want)
		}
		for offset, got := range m.Lines() {
			if want := x.lines[position{m.ID(), offset}]; got != want {
				t.Fatalf("Lines of %s at %d: %+v, want %+v", m.Method().Name, offset, got, want)
			}
			lines++
		}
		for site := range m.CallSites() {
			want, calls := x.sites[position{m.ID(), site.Offset()}]
			if got := withoutActivations(site.Total()); got != want {
				t.Fatalf("CallSites of %s at %d: %+v, want %+v", m.Method().Name, site.Offset(), got, want)
			}
			if calls {
				sites++
			}
			mustCountOnce(t, s, site.Cumulative(), x.sitesOnce[position{m.ID(), site.Offset()}], site.Total(), m.Cumulative())
			for callee := range site.Callees() {
				if s.Names().At(callee.Callee()).Name == ccmap.PrunedName {
					continue
				}
				once := x.edgesOnce[call{position{m.ID(), site.Offset()}, callee.Callee()}]
				mustCountOnce(t, s, callee.Cumulative(), once, callee.Total(), m.Cumulative())
			}
		}
	}
	if lines != len(x.lines) || sites != len(x.sites) {
		t.Fatalf("%d of %d lines and %d of %d call sites are shown", lines, len(x.lines), sites, len(x.sites))
	}
}

// mustCountOnce checks what counts a sample once: exactly or, where some were pruned,
// between that and what counts it for every occurrence, but no more than its method.
func mustCountOnce(t errorer, s *ccmap.Snapshot, got, once, total, method ccmap.Counters) {
	t.Helper()
	most := once
	if s.Pruned() {
		most = ccmap.Counters{Samples: min(total.Samples, method.Samples), Time: min(total.Time, method.Time)}
	}
	if got.Samples < once.Samples || got.Samples > most.Samples || got.Time < once.Time || got.Time > most.Time || got.Activations != total.Activations {
		t.Fatalf("a sample counts once: %+v, want %+v to %+v, and activations of %+v", got, once, most, total)
	}
}

type errorer interface {
	fataler
	Fatalf(string, ...any)
}

func withoutActivations(c ccmap.Counters) ccmap.Counters {
	c.Activations = 0
	return c
}
