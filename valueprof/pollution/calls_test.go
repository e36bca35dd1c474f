package pollution_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// TestCalls: caught calls are kept apart from samples, and have three callers.
func TestCalls(t *testing.T) {
	t.Parallel()
	m := mapOf(t, "main+1;draw+2;Circle.Area 60", "main+2;draw+2;Square.Area 20")
	addCalls(t, m,
		"main+1;page+2;all+3;one+4;draw+2;Circle.Area 1000",
		"main+1;page+9;all+3;one+4;draw+2;Square.Area 3000",
	)
	site := siteOf(t, m, "draw")
	if got := mixText(m.Names(), site.Samples.Mix); got != "Circle.Area 60 Square.Area 20" {
		t.Errorf("sampled: %s", got)
	}
	if got := mixText(m.Names(), site.Calls.Mix); got != "Square.Area 3000 Circle.Area 1000" {
		t.Errorf("caught: %s", got)
	}
	if !site.CallsDecide() || !site.MaybeDynamic() || site.Calls.Verdict != pollution.Bimorphic {
		t.Errorf("calls decide: %t, dynamic: %t, %v", site.CallsDecide(), site.MaybeDynamic(), site.Calls.Verdict)
	}
	splits := site.Calls.Splits(5)
	s, ok := site.Calls.Least(splits)
	if !ok || s.Depth != 3 {
		t.Fatalf("settled: %t, by %d callers, want 3", ok, s.Depth)
	}
	want := []string{
		"one+4←all+3←page+9: monomorphic: Square.Area 3000",
		"one+4←all+3←page+2: monomorphic: Circle.Area 1000",
	}
	if diff := cmp.Diff(want, splitText(m.Names(), s)); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
	if got := splits[0].Contexts; len(got) != 1 || got[0].Total().Seen != 4000 {
		t.Errorf("by the one caller there is: %+v", got)
	}
}

// TestShortContexts: contexts have fewer callers if the stack ends there.
func TestShortContexts(t *testing.T) {
	t.Parallel()
	m := mapOf(t)
	addCalls(t, m, "f+1;A.Do 600", "main+1;f+1;B.Do 700", "x+1;main+1;f+1;C.Do 800")
	site := siteOf(t, m, "f")
	splits := site.Calls.Splits(2)
	for i, want := range [][]string{
		{"main+1: bimorphic: C.Do 800 B.Do 700", "…: unknown: A.Do 600"},
		{"main+1←x+1: monomorphic: C.Do 800", "main+1←…: unknown: B.Do 700", "…: unknown: A.Do 600"},
	} {
		if diff := cmp.Diff(want, splitText(m.Names(), splits[i])); diff != "" {
			t.Errorf("contexts of depth %d (-want +got):\n%s", i+1, diff)
		}
	}
}

// point returns a point of the call that f makes at offset 1.
func point(m *ccmap.Map, t rapid.TB, p ccmap.Point, values map[string]int64) ccmap.Point {
	p.Origin, p.Method, p.Offset = ccmap.OriginBurst, framesOf(t, m.Names(), "f")[0].Method, 1
	for name, n := range values {
		p.Values = append(p.Values, ccmap.PointValue{Value: uint64(framesOf(t, m.Names(), name)[0].Method), Count: n})
	}
	return p
}

// TestUnnamed: calls that a table had no room for, or has forgotten, have more
// receivers. Contexts may still know them.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	m := mapOf(t)
	m.AddPoint(point(m, t, ccmap.Point{Aged: 300, Other: 200}, map[string]int64{"A.Do": 500}))
	site := siteOf(t, m, "f")
	if got := mixText(m.Names(), site.Calls.Mix); got != "A.Do 500 ? 500" || site.Calls.Verdict != pollution.Megamorphic {
		t.Errorf("%s is %v", got, site.Calls.Verdict)
	}
	callers := framesOf(t, m.Names(), "main+3")
	m.AddPoint(point(m, t, ccmap.Point{Callers: callers, Other: 10}, map[string]int64{"A.Do": 600, "B.Do": 290}))
	site = siteOf(t, m, "f")
	if got := mixText(m.Names(), site.Calls.Mix); got != "A.Do 600 B.Do 290 ? 110" {
		t.Errorf("with a context: %s", got)
	}
	want := []string{"main+3: megamorphic: A.Do 600 B.Do 290 ? 10", "…: unknown: ? 100"}
	if diff := cmp.Diff(want, splitText(m.Names(), site.Calls.Splits(1)[0])); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
}

// TestForgottenTypeIsNoneLess: a site that has forgotten all types but one is not
// monomorphic.
func TestForgottenTypeIsNoneLess(t *testing.T) {
	t.Parallel()
	m := mapOf(t)
	m.AddPoint(point(m, t, ccmap.Point{}, map[string]int64{"A.Do": 900, "B.Do": 900}))
	m.AddPoint(point(m, t, ccmap.Point{Callers: framesOf(t, m.Names(), "main+3"), Aged: 1}, map[string]int64{"A.Do": 899}))
	for _, c := range siteOf(t, m, "f").Calls.Splits(1)[0].Contexts {
		if c.Verdict == pollution.Monomorphic {
			t.Errorf("%s is monomorphic", mixText(m.Names(), c.Mix))
		}
	}
}

// TestFewCalls: one burst is too little for a verdict.
func TestFewCalls(t *testing.T) {
	t.Parallel()
	m := mapOf(t, "main+1;f+1;A.Do 100")
	addCalls(t, m, "main+1;f+1;A.Do 64")
	site := siteOf(t, m, "f")
	if site.Calls.Verdict != pollution.Unknown || site.CallsDecide() {
		t.Errorf("64 calls are %v, and decide: %t", site.Calls.Verdict, site.CallsDecide())
	}
	addCalls(t, m, "main+1;f+1;B.Do 1")
	if site = siteOf(t, m, "f"); site.Decisive().Verdict != pollution.Unknown {
		t.Errorf("two types, of which samples have one: %v", site.Decisive().Verdict)
	}
}

// TestBurstsByChance: the calls of a burst may come from one loop, so a context of a few
// bursts with one type says little.
func TestBurstsByChance(t *testing.T) {
	t.Parallel()
	for calls, want := range map[string]pollution.Verdict{"200": pollution.Unknown, "2000": pollution.Monomorphic} {
		m := mapOf(t)
		addCalls(t, m, "x+1;f+1;A.Do 7500", "x+1;f+1;B.Do 500", "y+1;f+1;A.Do "+calls)
		contexts := siteOf(t, m, "f").Calls.Splits(1)[0].Contexts
		if y := contexts[1]; y.Verdict != want {
			t.Errorf("%d calls of one type are %v, want %v", y.Total().Seen, y.Verdict, want)
		}
	}
}

// TestOtherPoints: only points of caught calls are evidence. The map itself counts the
// samples.
func TestOtherPoints(t *testing.T) {
	t.Parallel()
	m := mapOf(t, "main+1;f+1;A.Do 100")
	p := point(m, t, ccmap.Point{Kind: ccmap.PointBranch}, nil)
	p.Count = 500
	m.AddPoint(p)
	p = point(m, t, ccmap.Point{}, map[string]int64{"B.Do": 500})
	p.Origin = ccmap.OriginSampled
	m.AddPoint(p)
	site := siteOf(t, m, "f")
	if got := site.Calls.Total().Seen; got != 0 {
		t.Errorf("%d calls caught", got)
	}
	if got := mixText(m.Names(), site.Samples.Mix); got != "A.Do 100" {
		t.Errorf("sampled: %s", got)
	}
}

// TestReceivers: only methods of the same type become one receiver.
func TestReceivers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name            string
		sampled, caught string // at one site each
		want            []string
	}{
		{"same", "A.Do", "A.Do", []string{"A.Do=A.Do"}},
		{"value in an interface", "m.A.Do", "m.(*A).Do", []string{"m.A.Do=m.(*A).Do"}},
		{"generic", "m.(*S[go.shape.int]).Do", "m.(*S[int]).Do", []string{"m.(*S[go.shape.int]).Do=m.(*S[int]).Do"}},
		{"promoted", "m.(*Base).Do", "m.(*Prom).Do", []string{"m.(*Base).Do=", "=m.(*Prom).Do"}},
		{"rare", "A.Do B.Do", "A.Do", []string{"A.Do=A.Do", "B.Do="}},
		{"short", "A.Do", "B.Do A.Do", []string{"A.Do=A.Do", "=B.Do"}},
		{"another call on the line", "A.Do fmt.Println", "A.Do", []string{"A.Do=A.Do"}},
		{"method values", "m.(*P).Do m.B.Do", "m.B.Do-fm m.(*P).Do-fm", []string{"m.(*P).Do=m.(*P).Do-fm", "m.B.Do=m.B.Do-fm"}},
		{"function values", "f.func1 g.func2", "f.func1 h.func3", []string{"f.func1=f.func1", "g.func2=", "=h.func3"}},
		{"a deferred call", "sync.Put", "f.deferwrap1", []string{"sync.Put=", "=f.deferwrap1"}},
		{"of the runtime", "runtime.newobject f.func1", "f.func1", []string{"f.func1=f.func1"}},
		{"the runtime's, as a value", "runtime.gcStart f.func1", "runtime.gcStart", []string{"runtime.gcStart=runtime.gcStart", "f.func1="}},
		{"a value and a pointer", "m.A.Do", "m.A.Do m.(*A).Do", []string{"m.A.Do=m.A.Do", "=m.(*A).Do"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := mapOf(t)
			for i, name := range strings.Fields(test.sampled) {
				addStack(t, m, "f+1;"+name+[]string{" 50", " 40"}[i])
			}
			for i, name := range strings.Fields(test.caught) {
				addCalls(t, m, "main+1;f+1;"+name+[]string{" 500", " 400"}[i])
			}
			site := siteOf(t, m, "f")
			var got []string
			for _, r := range site.Receivers() {
				text := "="
				if r.InSamples() {
					text = m.Names().At(r.Sampled.Method).Name + text
				}
				if r.InCalls() {
					text += m.Names().At(r.Caught.Method).Name
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("receivers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWrappersAreNoReceivers: a sampled wrapper does not count. The method that it calls
// counts.
func TestWrappersAreNoReceivers(t *testing.T) {
	t.Parallel()
	m := mapOf(t)
	for _, method := range []ccmap.Method{
		{Name: "p.(*Van).Go", Receiver: "*p.Van", File: "<autogenerated>", StartLine: 1},
		{Name: "p.(*Base).Go", File: "base.go", StartLine: 7},
		{Name: "p.(*Set[int]).Go", File: "set.go", StartLine: 9},
		{Name: "p.(*Set[go.shape.int]).Go", File: "set.go", StartLine: 9},
		{Name: "p.(*Map[int]).Go", File: "map.go", StartLine: 9},
	} {
		m.Names().Intern(method)
	}
	for _, callee := range []string{"(*Van)", "(*Base)", "(*Set[int])", "(*Set[go.shape.int])", "(*Map[int])"} {
		addStack(t, m, "main+1;f+1;p."+callee+".Go 40")
	}
	const want = "p.(*Base).Go 40 p.(*Set[go.shape.int]).Go 40 p.(*Map[int]).Go 40"
	if got := mixText(m.Names(), siteOf(t, m, "f").Samples.Mix); got != want {
		t.Errorf("receivers are %s", got)
	}
	addCalls(t, m, "main+1;f+1;p.(*Van).Go 200")
	if got := mixText(m.Names(), siteOf(t, m, "f").Samples.Mix); got != want {
		t.Errorf("of calls that were caught, receivers are %s", got)
	}
}

// siteWith returns a site with callees that were sampled, and callees that were caught.
func siteWith(t *testing.T, sampled, caught []string) pollution.Site {
	t.Helper()
	m := mapOf(t)
	for _, callee := range sampled {
		addStack(t, m, "main+1;f+1;"+callee)
	}
	for _, callee := range caught {
		addCalls(t, m, "main+1;f+1;"+callee)
	}
	return siteOf(t, m, "f")
}

// TestDecisive: caught calls decide unless the samples know more.
func TestDecisive(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		sampled  []string
		caught   []string
		want     pollution.Verdict
		byCalls  bool
		receiver int // of the decisive evidence
	}{
		{"samples alone", []string{"A.Do 40"}, nil, pollution.Monomorphic, false, 1},
		{"calls alone", nil, []string{"A.Do 400"}, pollution.Monomorphic, true, 1},
		{"few of both", []string{"A.Do 4"}, []string{"A.Do 4"}, pollution.Unknown, false, 1},
		{"agreed", []string{"A.Do 40"}, []string{"A.Do 400"}, pollution.Monomorphic, true, 1},
		{"few calls", []string{"A.Do 40", "B.Do 40"}, []string{"A.Do 40"}, pollution.Bimorphic, false, 2},
		{"rare in calls, long in time", []string{"A.Do 40", "B.Do 40"}, []string{"A.Do 400"}, pollution.Bimorphic, false, 2},
		{"wrappers of one method", []string{"Base.Do 40"}, []string{"(*P).Do 200", "(*Q).Do 200"}, pollution.Bimorphic, true, 2},
		{"a wrapper of several", []string{"A.Do 40", "B.Do 40"}, []string{"(*P).Do 400"}, pollution.Monomorphic, true, 1},
		{"several calls on a line", []string{"A.Do 40", "B.Do 40", "g 90"}, []string{"A.Do 200", "B.Do 200"}, pollution.Bimorphic, true, 2},
		{"function values", []string{"f.func1 40", "f.func2 40"}, []string{"f.func1 200", "f.func2 200"}, pollution.Mixed, true, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			site := siteWith(t, test.sampled, test.caught)
			e := site.Decisive()
			if e.Verdict != test.want || site.CallsDecide() != test.byCalls || len(e.Targets) != test.receiver {
				t.Errorf("%v of %d receivers, by calls: %t", e.Verdict, len(e.Targets), site.CallsDecide())
			}
		})
	}
}

// TestAgree: two kinds of evidence agree only with the same receivers and the same
// verdict.
func TestAgree(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name            string
		sampled, caught []string
		want            bool
	}{
		{"same", []string{"A.Do 40", "B.Do 40"}, []string{"A.Do 400", "B.Do 400"}, true},
		{"wrappers", []string{"p.A.Do 40", "p.B.Do 40"}, []string{"p.(*A).Do 400", "p.(*B).Do 400"}, true},
		{"other types", []string{"A.Do 40", "B.Do 40"}, []string{"A.Do 400", "C.Do 400"}, false},
		{"more caught", []string{"A.Do 40", "B.Do 40"}, []string{"A.Do 400", "B.Do 400", "C.Do 400"}, false},
		{"more sampled", []string{"A.Do 40", "B.Do 40"}, []string{"A.Do 400"}, false},
		{"method values", []string{"A.Do 40", "B.Do 40"}, []string{"A.Do-fm 400", "B.Do-fm 400"}, true},
		{"few", []string{"A.Do 4", "B.Do 4"}, []string{"A.Do 4", "B.Do 4"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := siteWith(t, test.sampled, test.caught).Agree(); got != test.want {
				t.Errorf("agree: %t", got)
			}
		})
	}
}
