package pollution_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// mapOf returns a map of stacks, outermost frame first: "main+3;f+7;T.Do 30" are 30
// samples of main calling f at offset 3, and f T.Do at 7.
func mapOf(t rapid.TB, stacks ...string) *ccmap.Map {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	for _, line := range stacks {
		stack, count, _ := strings.Cut(line, " ")
		samples, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			t.Fatalf("stack %q: %v", line, err)
		}
		node, site := m.Root(), ccmap.NoOffset
		for _, f := range framesOf(t, m.Names(), stack) {
			node = m.Child(node, site, f.Method)
			site = f.Offset
		}
		m.Add(node, ccmap.Counters{Samples: samples, Time: 10 * samples})
	}
	return m
}

// framesOf returns the frames of a stack in their order. Methods are named Do.
func framesOf(t rapid.TB, names *ccmap.Names, stack string) (frames []ccmap.Frame) {
	t.Helper()
	for part := range strings.SplitSeq(stack, ";") {
		name, at, found := strings.Cut(part, "+")
		f := ccmap.Frame{Method: names.Intern(methodOf(name)), Offset: ccmap.NoOffset}
		if found {
			offset, err := strconv.ParseUint(at, 10, 32)
			if err != nil {
				t.Fatalf("frame %q: %v", part, err)
			}
			f.Offset = uint32(offset)
		}
		frames = append(frames, f)
	}
	return frames
}

// methodOf returns the method of a name, with its receiver if it is named Do. A name that
// begins with "j." is of a Java method.
func methodOf(name string) ccmap.Method {
	if class, isJava := strings.CutPrefix(name, "j."); isJava {
		class, _, _ = strings.Cut(class, ".")
		return ccmap.Method{Name: name, Signature: "(I)I", Receiver: "j." + class, Coordinate: ccmap.CoordinateBytecode}
	}
	typ, isMethod := strings.CutSuffix(strings.TrimSuffix(name, "-fm"), ".Do")
	if !isMethod {
		typ = ""
	}
	return ccmap.Method{Name: name, Receiver: typ}
}

// addCalls adds caught calls in the form of stacks. Only three callers of the innermost
// site are known. Each call counts in any context, and in its own.
func addCalls(t rapid.TB, m *ccmap.Map, stacks ...string) {
	t.Helper()
	for _, line := range stacks {
		stack, count, _ := strings.Cut(line, " ")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			t.Fatalf("calls %q: %v", line, err)
		}
		frames := framesOf(t, m.Names(), stack)
		last := len(frames) - 1
		p := ccmap.Point{
			Origin: ccmap.OriginBurst, Method: frames[last-1].Method, Offset: frames[last-1].Offset,
			Count: n, Nulls: ccmap.NullsUnknown,
			Values: []ccmap.PointValue{{Value: uint64(frames[last].Method), Count: n}},
		}
		m.AddPoint(p)
		p.Callers = []ccmap.Frame{}
		for i := last - 2; i >= 0 && len(p.Callers) < ccmap.MaxPointCallers; i-- {
			p.Callers = append(p.Callers, frames[i])
		}
		m.AddPoint(p)
	}
}

// siteOf returns the only call site of a method.
func siteOf(t rapid.TB, m *ccmap.Map, caller string) pollution.Site {
	t.Helper()
	id, ok := m.Names().Lookup(caller, methodOf(caller).Signature)
	if !ok {
		t.Fatalf("no method %s", caller)
	}
	sites := pollution.New(m.Snapshot(), pollution.Options{}).Sites(func(m ccmap.MethodID) bool { return m == id })
	if len(sites) != 1 {
		t.Fatalf("%s has %d call sites, want 1", caller, len(sites))
	}
	return sites[0]
}

// mixText prints a mix as "A 30 B 10", by what was seen.
func mixText(names *ccmap.Names, m pollution.Mix) string {
	var parts []string
	for _, t := range m.Targets {
		parts = append(parts, names.At(t.Method).Name, strconv.FormatInt(t.Seen, 10))
	}
	if m.Unnamed > 0 {
		parts = append(parts, "? "+strconv.FormatInt(m.Unnamed, 10))
	}
	return strings.Join(parts, " ")
}

// splitText prints the contexts of a split, one a line: "caller+1 ← …: verdict: mix".
func splitText(names *ccmap.Names, s pollution.Split) []string {
	var lines []string
	for _, c := range s.Contexts {
		var chain []string
		for _, f := range c.Callers {
			chain = append(chain, names.At(f.Method).Name+"+"+strconv.Itoa(int(f.Offset)))
		}
		if c.Rest {
			chain = append(chain, "…")
		}
		lines = append(lines, strings.Join(chain, "←")+": "+c.Verdict.String()+": "+mixText(names, c.Mix))
	}
	return lines
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		callees string // each with its samples
		offset  string
		want    pollution.Verdict
	}{
		{"main.f 30", "+1", pollution.Monomorphic},
		{"main.f 29", "+1", pollution.Unknown},
		{"main.f 30", "", pollution.Monomorphic},
		{"main.(*A).Do 15 main.B.Do 15", "+1", pollution.Bimorphic},
		{"main.(*A).Do 15 main.B.Do 15", "", pollution.LineUnknown},
		{"main.(*A).Do 15 main.B.Do 14", "", pollution.Unknown},
		{"main.A.Do 30 x/y.B.Do 30 y.G[go.shape.int].Do 30", "+1", pollution.Megamorphic},
		{"main.A.Do 30 main.B.Do 30 main.f 30", "+1", pollution.Mixed},
		{"main.(*A).Do 20 [kernel] 9 runtime.mallocgc 9 main.B.Do 10", "+1", pollution.Bimorphic},
		{"main.(*A).Do 29 runtime.newobject 90", "+1", pollution.Unknown},
		{"main.(*A).Do 30 runtime.newobject 90", "+1", pollution.Monomorphic},
		{"runtime.newobject 20 [kernel] 20", "+1", pollution.Mixed},
		{"main.main.func1 20 main.main.func2 20", "+1", pollution.Mixed},
		{"main.a.func1 20 main.b.func1 20", "+1", pollution.Mixed},
		{"main.a.func1.1 20 main.b.func1.1 20", "+1", pollution.Mixed},
		{"main.a-range1 20 main.b-range1 20", "+1", pollution.Mixed},
		{"main.A.Do-fm 20 main.B.Do-fm 20", "+1", pollution.Bimorphic},
		{"main.A.func 20 main.B.func 20", "+1", pollution.Bimorphic},
		{"[kernel] 20 [other] 20", "+1", pollution.Mixed},
		{"a.G[b.X[int]].Do 20 a.G[b/c.Y].Do 20", "+1", pollution.Bimorphic},
	} {
		m := mapOf(t)
		fields := strings.Fields(test.callees)
		for i := 0; i < len(fields); i += 2 {
			addStack(t, m, "site"+test.offset+";"+fields[i]+" "+fields[i+1])
		}
		site := siteOf(t, m, "site")
		if site.Samples.Verdict != test.want || site.Decisive().Verdict != test.want {
			t.Errorf("%s at site%s: %v, decisive %v, want %v", test.callees, test.offset,
				site.Samples.Verdict, site.Decisive().Verdict, test.want)
		}
	}
}

func TestEntropy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		weights []int64
		unnamed int64
		want    float64
	}{
		{nil, 0, 0},
		{[]int64{7}, 0, 0},
		{[]int64{0}, 0, 0},
		{[]int64{5, 5}, 0, 1},
		{[]int64{75, 25}, 0, 0.8112781244591328},
		{[]int64{1, 1, 1, 1}, 0, 2},
		{[]int64{1, 1}, 2, 1.5},
		{[]int64{1 << 62, 1 << 62}, 0, 1},
		{[]int64{math.MaxInt64, math.MaxInt64, math.MaxInt64}, math.MaxInt64, 2},
	} {
		m := pollution.Mix{Unnamed: test.unnamed}
		for i, w := range test.weights {
			m.Targets = append(m.Targets, pollution.Target{Method: ccmap.MethodID(i), Amount: pollution.Amount{Weight: w, Seen: 1}})
		}
		if got := m.Entropy(); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("entropy of %v and %d unnamed = %v, want %v", test.weights, test.unnamed, got, test.want)
		}
	}
}

// TestUnseen: after 30 samples or more, an unseen target has less than a tenth of the
// mix.
func TestUnseen(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]float64{-1: 1, 0: 1, 1: 0.95, pollution.MinSamples: 0.09503} {
		if got := pollution.Unseen(n); math.Abs(got-want) > 1e-4 {
			t.Errorf("Unseen(%d) = %v, want %v", n, got, want)
		}
	}
}

// TestSplits: one, two or three callers tell the four types of a site apart.
func TestSplits(t *testing.T) {
	t.Parallel()
	for depth, between := range []string{"", "relay+4;", "forward+5;pass+6;"} {
		m := mapOf(t,
			"main+1;post+1;"+between+"deliver+2;Letter.Send 60",
			"main+1;shop+2;"+between+"deliver+2;Parcel.Send 50",
			"main+1;bank+3;"+between+"deliver+2;Receipt.Send 40",
			"main+2;guard+3;"+between+"deliver+2;Alarm.Send 30",
		)
		e := siteOf(t, m, "deliver").Samples
		splits := e.Splits(4)
		if e.Verdict != pollution.Megamorphic || len(splits) != 4 {
			t.Fatalf("%v, %d splits", e.Verdict, len(splits))
		}
		least, ok := e.Least(splits)
		if !ok || least.Depth != depth+1 || least.Verdict != pollution.Monomorphic || least.Entropy != 0 {
			t.Errorf("behind %q: %+v, want it to be settled at depth %d", between, least, depth+1)
		}
		for _, s := range splits[:depth] {
			if s.Verdict != pollution.Unknown && s.Verdict != pollution.Megamorphic || math.Abs(s.Entropy-e.Entropy()) > 1e-9 {
				t.Errorf("behind %q: at depth %d %v, %v bits", between, s.Depth, s.Verdict, s.Entropy)
			}
		}
		if diff := cmp.Diff(splitText(m.Names(), splits[depth]), splitText(m.Names(), splits[3])); diff != "" {
			t.Errorf("what is settled is divided again (-depth %d +depth 4):\n%s", depth+1, diff)
		}
	}
}

// TestContexts shows the contexts of a split: some with a verdict, one without, and a
// rest that is too rare.
func TestContexts(t *testing.T) {
	t.Parallel()
	m := mapOf(t,
		"main+1;a+1;f+1;A.Do 40",
		"main+1;b+1;f+1;B.Do 40",
		"main+1;c+1;f+1;A.Do 30", "main+1;c+1;f+1;B.Do 30", "main+2;c+1;f+1;B.Do 35",
		"main+1;rare+1;f+1;C.Do 29",
		"f+1;C.Do 10",
	)
	site := siteOf(t, m, "f")
	splits := site.Samples.Splits(2)
	for i, want := range [][]string{
		{"c+1: bimorphic: B.Do 65 A.Do 30", "a+1: monomorphic: A.Do 40", "b+1: monomorphic: B.Do 40", "…: unknown: C.Do 39"},
		{"c+1←main+1: bimorphic: A.Do 30 B.Do 30", "a+1: monomorphic: A.Do 40", "b+1: monomorphic: B.Do 40",
			"…: unknown: C.Do 39", "c+1←main+2: monomorphic: B.Do 35"},
	} {
		if diff := cmp.Diff(want, splitText(m.Names(), splits[i])); diff != "" {
			t.Errorf("contexts of depth %d (-want +got):\n%s", i+1, diff)
		}
		if splits[i].Verdict != pollution.Unknown {
			t.Errorf("depth %d is %v although a seventh is not known", i+1, splits[i].Verdict)
		}
	}
	if _, ok := site.Samples.Least(splits); ok {
		t.Error("a split settles the site")
	}
}

// TestLeastIsBetter: a split with two receivers is better than a megamorphic site, but
// not than a bimorphic one.
func TestLeastIsBetter(t *testing.T) {
	t.Parallel()
	mega := mapOf(t, "x+1;f+1;A.Do 50", "x+1;f+1;B.Do 50", "y+1;f+1;C.Do 50", "y+1;f+1;D.Do 50")
	e := siteOf(t, mega, "f").Samples
	if s, ok := e.Least(e.Splits(3)); !ok || s.Verdict != pollution.Bimorphic || s.Depth != 1 {
		t.Errorf("megamorphic, and two types from each caller: %+v", s)
	}
	bi := mapOf(t, "x+1;f+1;A.Do 50", "x+1;f+1;B.Do 50", "y+1;f+1;A.Do 50", "y+1;f+1;B.Do 50")
	e = siteOf(t, bi, "f").Samples
	if s, ok := e.Least(e.Splits(3)); ok {
		t.Errorf("bimorphic from each caller as in all: %+v", s)
	}
}

// TestByChance: one sample in fifty of a site has another target. Most of its ten
// contexts have one target, as they would by chance.
func TestByChance(t *testing.T) {
	t.Parallel()
	m := mapOf(t, "c0+1;f+1;B.Do 6")
	for i := range 10 {
		addStack(t, m, "c"+strconv.Itoa(i)+"+1;f+1;A.Do 30")
	}
	e := siteOf(t, m, "f").Samples
	for _, c := range e.Splits(1)[0].Contexts {
		if c.Verdict == pollution.Monomorphic {
			t.Errorf("a context of %d samples is monomorphic", c.Total().Seen)
		}
	}
	addStack(t, m, "c1+1;f+1;A.Do 400")
	if s := siteOf(t, m, "f").Samples.Splits(1)[0]; s.Contexts[0].Verdict != pollution.Monomorphic {
		t.Errorf("a context of %d samples is %v", s.Contexts[0].Total().Seen, s.Contexts[0].Verdict)
	}
}

// TestRecursion: every occurrence of a call counts, even if the method calls itself.
func TestRecursion(t *testing.T) {
	t.Parallel()
	m := mapOf(t, "main+1;walk+1;walk+1;walk+1;Leaf.Size 40")
	site := siteOf(t, m, "walk")
	if got := mixText(m.Names(), site.Samples.Mix); got != "walk 80 Leaf.Size 40" {
		t.Errorf("targets are %s", got)
	}
	got := splitText(m.Names(), site.Samples.Splits(1)[0])
	want := []string{"walk+1: mixed: walk 40 Leaf.Size 40", "main+1: monomorphic: walk 40"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
}

// TestTruncated: the caller of a truncated stack is unknown.
func TestTruncated(t *testing.T) {
	t.Parallel()
	m := mapOf(t, ccmap.TruncatedName+";f+1;A.Do 50", "main+1;f+1;B.Do 50")
	got := splitText(m.Names(), siteOf(t, m, "f").Samples.Splits(1)[0])
	want := []string{"…: unknown: A.Do 50", "main+1: monomorphic: B.Do 50"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
}

// TestNothing: an empty profile has no sites, and an unseen site has no splits.
func TestNothing(t *testing.T) {
	t.Parallel()
	a := pollution.New(mapOf(t).Snapshot(), pollution.Options{})
	if sites := a.Sites(nil); len(sites) != 0 {
		t.Errorf("an empty profile has %d sites", len(sites))
	}
	calls := a.Calls(0, 0)
	if calls.Verdict != pollution.Unknown || calls.Splits(3) != nil || calls.Entropy() != 0 {
		t.Errorf("calls of no site: %+v", calls)
	}
	if s := siteOf(t, mapOf(t, "main+1;A.Do 40"), "main"); s.Samples.Splits(3) != nil || s.MaybeDynamic() {
		t.Errorf("one target is divided, or more: %+v", s)
	}
}

// TestUncounted: a profile without a number of samples has enough samples.
func TestUncounted(t *testing.T) {
	t.Parallel()
	m := mapOf(t)
	f := framesOf(t, m.Names(), "main+1;A.Do")
	m.Add(m.Child(m.Child(m.Root(), ccmap.NoOffset, f[0].Method), 1, f[1].Method), ccmap.Counters{Time: 1e6})
	if v := siteOf(t, m, "main").Samples.Verdict; v != pollution.Monomorphic {
		t.Errorf("verdict on a millisecond in one callee: %v", v)
	}
}

// TestNoWeight: samples without time give no verdict on a split.
func TestNoWeight(t *testing.T) {
	t.Parallel()
	s := mapOf(t, "x+1;f+1;A.Do 50", "y+1;f+1;B.Do 50").Snapshot()
	none := func(ccmap.Counters) int64 { return 0 }
	for _, site := range pollution.New(s, pollution.Options{Weight: none}).Sites(nil) {
		splits := site.Samples.Splits(2)
		if _, ok := site.Samples.Least(splits); ok || site.Samples.Entropy() != 0 {
			t.Errorf("%v bits, settled: %t", site.Samples.Entropy(), ok)
		}
	}
}

// TestRecent: a window shows only recent callees.
func TestRecent(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{Window: time.Second})
	for i, callee := range []string{"A.Do", "runtime.gcStart"} {
		frames := framesOf(t, m.Names(), callee+"+1;main+1")
		for range 40 {
			m.Fold(&ccmap.Sample{Frames: frames, Weight: 10, Time: int64(i) * int64(time.Hour), Fresh: ccmap.FreshUnknown})
		}
	}
	recent, _ := m.Snapshot().Recent()
	sites := pollution.New(recent, pollution.Options{}).Sites(nil)
	if len(sites) != 1 || mixText(m.Names(), sites[0].Samples.Mix) != "runtime.gcStart 40" {
		t.Errorf("recent: %+v", sites)
	}
}

// addStack adds a stack in the form of mapOf.
func addStack(t rapid.TB, m *ccmap.Map, line string) {
	t.Helper()
	if err := m.Merge(mapOf(t, line).Snapshot()); err != nil {
		t.Fatal(err)
	}
}

// TestSystemCalls: an instruction that makes several system calls is not a call of methods.
func TestSystemCalls(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	caller := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "Syscall6"}))
	for _, call := range []string{"", "read", "write"} {
		kernel := m.Names().Intern(ccmap.Method{Name: ccmap.KernelName, Signature: call})
		m.Add(m.Child(caller, 1, kernel), ccmap.Counters{Samples: 50, Time: 500})
	}
	for _, site := range pollution.New(m.Snapshot(), pollution.Options{}).Sites(nil) {
		if site.MaybeDynamic() || site.Samples.Verdict != pollution.Mixed {
			t.Errorf("system calls are %v, and may be dynamic: %v", site.Samples.Verdict, site.MaybeDynamic())
		}
	}
}
