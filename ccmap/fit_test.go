package ccmap_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// newBuild is a build: the bodies of its methods, and the calls of those whose calls are known.
type newBuild struct {
	bodies map[string]uint64
	calls  map[string][]string // by caller: "offset callee"
}

func (b newBuild) Method(name, _ string) (ccmap.Method, bool) {
	body, known := b.bodies[name]
	return ccmap.Method{Name: name, Body: body, StartLine: 100, Module: "new"}, known
}

func (b newBuild) MayCall(caller ccmap.Method, offset uint32, callee ccmap.Method) (may, known bool) {
	calls, known := b.calls[caller.Name]
	return slices.Contains(calls, fmt.Sprint(offset, " ", callee.Name)), known
}

// older is a profile of main → hot at line 1, and hot → leaf at line 2; hot was sampled itself at line
// 3, 4 times, leaf 5 times, and main → cold at line 4 once.
func older() *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	id := func(name string, body uint64) ccmap.MethodID {
		return m.Names().Intern(ccmap.Method{Name: name, Body: body, StartLine: 7, Module: "old", File: "x.go"})
	}
	count := func(n ccmap.NodeID, samples int64) { m.Add(n, ccmap.Counters{Samples: samples, Time: samples}) }
	main := m.Child(0, ccmap.NoOffset, id("main", 1))
	hot := m.Child(main, 1, id("hot", 2))
	count(m.Child(hot, 3, ccmap.NoMethod), 4)
	count(m.Child(hot, 2, id("leaf", 3)), 5)
	count(m.Child(main, 4, id("cold", 0)), 1)
	m.Names().SetAddress([]ccmap.Frame{{Method: id("hot", 2), Offset: 3}}, false, 99)
	return m
}

// paths are the counts by stack.
func paths(s *ccmap.Snapshot) map[string]int64 {
	all, path := make(map[string]int64), make([]string, s.Len())
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		path[n.ID] = path[n.Parent] + fmt.Sprintf("/%d", int32(n.Offset))
		if !n.IsPosition() {
			path[n.ID] += " " + s.Names().At(n.Method).Name
		}
		if n.Self.Samples > 0 {
			all[path[n.ID]] = n.Self.Samples
		}
	}
	return all
}

func TestFit(t *testing.T) {
	t.Parallel()
	same := map[string]uint64{"main": 1, "hot": 2, "leaf": 3, "cold": 4}
	with := func(name string, body uint64) map[string]uint64 {
		changed := map[string]uint64{name: body}
		for other, b := range same {
			if other != name {
				changed[other] = b
			}
		}
		return changed
	}
	all := map[string]int64{"/-1 main/1 hot/3": 4, "/-1 main/1 hot/2 leaf": 5, "/-1 main/4 cold": 1}
	for name, c := range map[string]struct {
		build newBuild
		want  map[string]int64
		stale map[string]int64
	}{
		"the same":            {newBuild{bodies: same}, all, nil},
		"nothing known":       {newBuild{}, all, nil},
		"body unknown":        {newBuild{bodies: with("hot", 0)}, all, nil},
		"once unknown":        {newBuild{bodies: with("cold", 5)}, all, nil},
		"a leaf":              {newBuild{bodies: with("leaf", 9)}, map[string]int64{"/-1 main/1 hot/3": 4, "/-1 main/4 cold": 1}, map[string]int64{"leaf": 5}},
		"within":              {newBuild{bodies: with("hot", 9)}, map[string]int64{"/-1 main/4 cold": 1}, map[string]int64{"hot": 9}},
		"the outermost":       {newBuild{bodies: with("main", 9)}, nil, map[string]int64{"main": 10}},
		"mixed":               {newBuild{bodies: with("leaf", ccmap.MixedBodies)}, map[string]int64{"/-1 main/1 hot/3": 4, "/-1 main/4 cold": 1}, map[string]int64{"leaf": 5}},
		"within, calls known": {newBuild{with("hot", 9), map[string][]string{"hot": {"2 leaf"}}}, map[string]int64{"/-1 main/1 hot": 4, "/-1 main/1 hot/2 leaf": 5, "/-1 main/4 cold": 1}, nil},
		"a call less":         {newBuild{with("main", 9), map[string][]string{"main": {"1 hot"}}}, map[string]int64{"/-1 main/1 hot/3": 4, "/-1 main/1 hot/2 leaf": 5}, map[string]int64{"main: calls": 1}},
		"calls moved":         {newBuild{with("main", 9), map[string][]string{"main": {"2 hot", "4 cold"}}}, map[string]int64{"/-1 main/4 cold": 1}, map[string]int64{"main: calls": 9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, stale := ccmap.Fit(older().Snapshot(), c.build)
			mustBeValid(t, m)
			if diff := cmp.Diff(c.want, paths(m.Snapshot())); diff != "" && len(c.want)+len(paths(m.Snapshot())) > 0 {
				t.Errorf("contexts (-want +got):\n%s", diff)
			}
			var got map[string]int64
			for _, s := range stale {
				name := s.Method.Name
				if s.Calls {
					name += ": calls"
				}
				if got == nil {
					got = make(map[string]int64)
				}
				got[name] = s.Total.Samples
			}
			if diff := cmp.Diff(c.stale, got); diff != "" {
				t.Errorf("stale (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFitDescribes: what stays is described as the build has it, so that it merges with the build's own
// profiles, and an instruction of the older file is nowhere.
func TestFitDescribes(t *testing.T) {
	t.Parallel()
	bodies := map[string]uint64{"main": 9, "hot": 2}
	m, _ := ccmap.Fit(older().Snapshot(), newBuild{bodies, map[string][]string{"main": {"1 hot", "4 cold"}}})
	for name, want := range map[string]ccmap.Method{
		"main": {Name: "main", Body: 9, StartLine: 100, Module: "new"},
		"hot":  {Name: "hot", Body: 2, StartLine: 100, Module: "new"},
		"leaf": {Name: "leaf", Body: 3, StartLine: 7, Module: "old", File: "x.go"},
	} {
		id, _ := m.Names().Lookup(name, "")
		if got := m.Names().At(id); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if a := m.Names().Addresses(); len(a) > 0 {
		t.Errorf("addresses %v of another file", a)
	}
}

// TestFitInlined: a method that was inlined into one that has changed is part of its code.
func TestFitInlined(t *testing.T) {
	t.Parallel()
	m := older()
	id := func(name string) ccmap.MethodID { id, _ := m.Names().Lookup(name, ""); return id }
	m.Names().SetInlined(ccmap.Frame{Method: id("main"), Offset: 1}, id("hot"))
	bodies := map[string]uint64{"main": 9, "hot": 2}
	calls := map[string][]string{"main": {"1 hot", "4 cold"}}
	if _, stale := ccmap.Fit(m.Snapshot(), newBuild{bodies, calls}); len(stale) != 1 || stale[0].Method.Name != "hot" || stale[0].Total.Samples != 9 {
		t.Errorf("%+v, want hot", stale)
	}
	calls["hot"] = []string{"2 leaf"}
	fitted, stale := ccmap.Fit(m.Snapshot(), newBuild{bodies, calls})
	if len(stale) > 0 || fitted.Snapshot().Total() != m.Snapshot().Total() {
		t.Errorf("%+v, want nothing: all calls are still done", stale)
	}
}

// drawBuild returns a build of the methods of a map, which gets bodies.
func drawBuild(t *rapid.T, names *ccmap.Names) newBuild {
	b := newBuild{make(map[string]uint64), make(map[string][]string)}
	body := rapid.SampledFrom([]uint64{0, 1, 1, 2, ccmap.MixedBodies})
	for id := range ccmap.MethodID(names.Len()) {
		m := names.At(id)
		if m.Name[0] == '[' {
			continue
		}
		names.SetBody(id, body.Draw(t, "older body"))
		if rapid.Bool().Draw(t, "known") {
			b.bodies[m.Name] = body.Draw(t, "body")
		}
		if rapid.Bool().Draw(t, "calls known") {
			call := rapid.Custom(func(t *rapid.T) string {
				return fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "offset"), " ", rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "callee"))
			})
			b.calls[m.Name] = rapid.SliceOf(call).Draw(t, "calls")
		}
	}
	return b
}

// differs reports whether a method has another body in the build.
func (b newBuild) differs(m ccmap.Method) bool {
	now := b.bodies[m.Name]
	return now != 0 && m.Body != 0 && (now != m.Body || now == ccmap.MixedBodies)
}

// TestFitKeepsTotals: what stays and what is stale add up to the older profile; no stale method is used,
// but for calls that it still does; and a profile that fits stays as it is.
func TestFitKeepsTotals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawDecoded(t)
		m.PruneTo(rapid.IntRange(m.Len()/2, m.Len()).Draw(t, "left"))
		b := drawBuild(t, m.Names())
		older := m.Snapshot()
		fitted, stale := ccmap.Fit(older, b)
		mustBeValid(t, fitted)
		sum := fitted.Snapshot().Total()
		for _, s := range stale {
			if !b.differs(s.Method) {
				t.Fatalf("%+v is stale, in the build %#x", s.Method, b.bodies[s.Method.Name])
			}
			sum = sum.Add(s.Total)
		}
		if sum != older.Total() {
			t.Fatalf("%+v, and before %+v", sum, older.Total())
		}
		checkFits(t, older, fitted.Snapshot(), b)
		again, stale := ccmap.Fit(fitted.Snapshot(), newBuild{})
		if diff := cmp.Diff(exactTotals(fitted.Snapshot()), exactTotals(again.Snapshot())); diff != "" || len(stale) > 0 {
			t.Fatalf("a profile that fits (-before +after), %d stale:\n%s", len(stale), diff)
		}
	})
}

// checkFits fails where the profile uses what the build no longer has.
func checkFits(t *rapid.T, older, s *ccmap.Snapshot, b newBuild) {
	changed := func(name string) bool {
		id, known := older.Names().Lookup(name, "")
		return known && b.differs(older.Names().At(id))
	}
	check := func(caller ccmap.MethodID, offset uint32, callee ccmap.MethodID) {
		var from, to ccmap.Method
		if caller != ccmap.NoMethod {
			from = s.Names().At(caller)
		}
		if callee != ccmap.NoMethod {
			to = s.Names().At(callee)
		}
		if _, known := b.calls[to.Name]; changed(to.Name) && !known {
			t.Fatalf("%s is used, which has changed", to.Name)
		}
		may, known := b.MayCall(from, offset, to)
		if changed(from.Name) && (!known || !may && to.Name != ccmap.PrunedName) {
			t.Fatalf("%s calls %q at %d, which it no longer does", from.Name, to.Name, offset)
		}
	}
	for n := range s.Nodes() {
		if n.ID != 0 {
			check(s.Node(n.Parent).Method, n.Offset, n.Method)
		}
	}
	for e := range s.PrunedEdges() {
		check(e.Caller, e.Offset, e.Callee)
	}
}

// TestFitPoints: points of calls stay while all their targets can still be reached, others go with their
// method, and with a context that is cut.
func TestFitPoints(t *testing.T) {
	t.Parallel()
	m := older()
	id := func(name string) ccmap.MethodID { id, _ := m.Names().Lookup(name, ""); return id }
	point := func(kind ccmap.PointKind, offset uint32, callers []ccmap.Frame, target string) {
		p := ccmap.Point{Kind: kind, Method: id("hot"), Offset: offset, End: offset, Callers: callers, Count: 1, Nulls: ccmap.NullsUnknown}
		if target != "" {
			p.Values = []ccmap.PointValue{{Value: uint64(id(target)), Count: 1}}
		}
		m.AddPoint(p)
	}
	point(ccmap.PointCall, 2, nil, "leaf")
	point(ccmap.PointCall, 2, []ccmap.Frame{{Method: id("main"), Offset: 1}}, "leaf")
	point(ccmap.PointCall, 5, nil, "cold")
	point(ccmap.PointBlock, 6, nil, "")
	for name, c := range map[string]struct {
		build newBuild
		want  int
	}{
		"the same":           {newBuild{bodies: map[string]uint64{"hot": 2, "main": 1}}, 4},
		"changed":            {newBuild{bodies: map[string]uint64{"hot": 9}}, 0},
		"with a call":        {newBuild{map[string]uint64{"hot": 9}, map[string][]string{"hot": {"2 leaf"}}}, 2},
		"the caller changed": {newBuild{bodies: map[string]uint64{"main": 9}}, 3},
	} {
		fitted, _ := ccmap.Fit(m.Snapshot(), c.build)
		mustBeValid(t, fitted)
		if got := len(fitted.Snapshot().Points()); got != c.want {
			t.Errorf("%s: %d points, want %d", name, got, c.want)
		}
	}
}
