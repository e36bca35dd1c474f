package ccmap_test

import (
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestCallSiteRef checks the totals of calls in one context: serve+1 calls list
// only, and within it lookup has six of its nine samples.
func TestCallSiteRef(t *testing.T) {
	t.Parallel()
	s := server().Snapshot()
	for e := range s.Edges() {
		if s.Names().At(e.Callee()).Name != "list" {
			continue
		}
		for site := range e.Ref().CallSites() {
			if site.Offset() != 5 || site.Total().Samples != 6 {
				t.Errorf("list+%d has %d samples", site.Offset(), site.Total().Samples)
			}
			for lookup := range site.Callees() {
				if got := lookup.Total().Samples; got != 6 {
					t.Errorf("lookup has %d samples there", got)
				}
			}
		}
	}
	serve, _ := s.Names().Lookup("serve", "")
	p, _ := s.Method(serve)
	for site := range p.CallSites() {
		if site.Caller() != serve {
			t.Errorf("caller of serve+%d is %d", site.Offset(), site.Caller())
		}
	}
}

// TestContextsShareNoPath looks at contexts only after the walks that gave them:
// siblings have paths of their own, however long these are.
func TestContextsShareNoPath(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	var id [7]ccmap.MethodID
	for i := range id {
		id[i] = m.Names().Intern(ccmap.Method{Name: string(rune('A' + i))})
	}
	for _, outermost := range id[5:] {
		var frames []ccmap.Frame
		for _, method := range append(id[:5:5], outermost) {
			frames = append(frames, ccmap.Frame{Method: method, Offset: 1})
		}
		m.Fold(&ccmap.Sample{Frames: frames})
	}
	callee, _ := m.Snapshot().Method(id[0])
	level := []ccmap.CalleeRef{first(t, callee.Callers()).Ref()}
	for range 4 {
		var longer []ccmap.CalleeRef
		for _, ref := range level {
			longer = slices.AppendSeq(longer, ref.Callers())
		}
		level = longer
	}
	var got []ccmap.MethodID
	for _, ref := range level {
		got = append(got, ref.Path()[len(ref.Path())-1].Method)
	}
	if !slices.Equal(got, id[5:]) {
		t.Errorf("outermost callers are %v, want %v", got, id[5:])
	}
}

// TestViewsStop breaks every walk after its first element.
func TestViewsStop(t *testing.T) {
	t.Parallel()
	s := server().Snapshot()
	detail, _ := s.Names().Lookup("detail", "")
	p, _ := s.Method(detail)
	edge := first(t, s.Edges())
	site := first(t, p.CallSites())
	first(t, s.Nodes())
	first(t, s.Methods())
	first(t, p.Callers())
	first(t, site.Callees())
	for range p.Lines() {
		break
	}
	ref := first(t, edge.Ref().CallSites())
	first(t, ref.Callees())
	hash, _ := s.Names().Lookup("hash", "")
	callee, _ := s.Method(hash)
	first(t, first(t, callee.Callers()).Contexts())
}

func first[V any](t *testing.T, walk iter.Seq[V]) (v V) {
	t.Helper()
	for v := range walk {
		return v
	}
	t.Error("the walk is empty")
	return v
}

// TestViewsOfNothing asks for methods and paths that were never sampled.
func TestViewsOfNothing(t *testing.T) {
	t.Parallel()
	m, a, _, c := abc()
	s := m.Snapshot()
	for _, id := range []ccmap.MethodID{a, 99, ccmap.NoMethod} {
		p, ok := s.Method(id)
		if ok || !p.Total().IsZero() {
			t.Errorf("method %d was sampled: %+v", id, p.Total())
		}
		for range p.CallSites() {
			t.Errorf("method %d has call sites", id)
		}
		for range p.Lines() {
			t.Errorf("method %d has lines", id)
		}
		if got := s.Ref([]ccmap.PathElem{{Method: id}}); !got.IsZero() {
			t.Errorf("Ref of method %d is %+v", id, got)
		}
	}
	m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: a, Offset: 1}}})
	s = m.Snapshot()
	for _, path := range [][]ccmap.PathElem{nil, {{Method: c}}, {{Method: ccmap.NoMethod, Site: ccmap.AnyOffset}, {Method: a}}, {{Method: a, Site: 1}, {Method: ccmap.NoMethod}}} {
		if got := s.Ref(path); !got.IsZero() {
			t.Errorf("Ref(%v) = %+v", path, got)
		}
	}
}

// TestSaturation checks that sums over contexts that contain each other stay at
// the largest count.
func TestSaturation(t *testing.T) {
	t.Parallel()
	m, a, _, _ := abc()
	outer := m.Child(m.Root(), 0, a)
	inner := m.Child(outer, 1, a)
	m.Add(inner, ccmap.Counters{Samples: math.MaxInt64, Time: math.MaxInt64, Activations: 1})
	m.Add(outer, ccmap.Counters{Samples: 5})
	mustBeValid(t, m)
	s := m.Snapshot()
	p, _ := s.Method(a)
	want := ccmap.Counters{Samples: math.MaxInt64, Time: math.MaxInt64, Activations: 1}
	if p.Total() != want || p.Cumulative() != want || s.Inclusive(outer).Samples != math.MaxInt64 {
		t.Errorf("Total() = %+v, Cumulative() = %+v, Inclusive = %+v", p.Total(), p.Cumulative(), s.Inclusive(outer))
	}
}

func TestChildOfUnknownNodePanics(t *testing.T) {
	t.Parallel()
	m, a, _, _ := abc()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	m.Child(7, 0, a)
}

// position is a line of a method, or a call site.
type position struct {
	method ccmap.MethodID
	offset uint32
}

// methodTotals are cum and flat, as in pprof, lines and the totals of call sites,
// counted stack by stack.
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

// mustMatch compares the views of methods with the totals, without activations.
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

// mustCountOnce checks a total that counts a sample once. Without pruning it is
// exact. With pruning it lies between that and the total that counts every
// occurrence, and is at most the total of its method.
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

// TestInclusive compares the sums of runs with those added up node by node, over
// several chunks, where inner nodes count too and counts have overflowed.
func TestInclusive(t *testing.T) {
	t.Parallel()
	g := newCallGraph(100)
	m := ccmap.New(ccmap.Options{Names: g.names})
	mustMatchPlainSums(t, m.Snapshot())
	m.FoldBatch(g.stacks(500, 1, 30))
	mustMatchPlainSums(t, m.Snapshot())
	for n := 1; n < m.Len(); n += 7 {
		m.Add(ccmap.NodeID(n), ccmap.Counters{Time: int64(n)})
		m.Add(ccmap.NodeID(n), ccmap.Counters{Samples: 1 << 32 * int64(n%2)})
	}
	mustMatchPlainSums(t, m.Snapshot())
}

func mustMatchPlainSums(t *testing.T, s *ccmap.Snapshot) {
	t.Helper()
	want := make([]ccmap.Counters, s.Len())
	for n := range s.Nodes() {
		want[n.ID] = n.Self
	}
	for id := ccmap.NodeID(s.Len() - 1); id > 0; id-- {
		up := &want[s.Node(id).Parent]
		up.Samples += want[id].Samples
		up.Time += want[id].Time
	}
	for id, w := range want {
		if got := s.Inclusive(ccmap.NodeID(id)); got != w {
			t.Fatalf("node %d of %d has %+v, want %+v", id, s.Len(), got, w)
		}
	}
}
