package export

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// rapid's T is no testing.TB; these are the helpers for it.
func mustEncode(t *rapid.T, f Format, s *ccmap.Snapshot) string {
	var b strings.Builder
	if err := Write(&b, f, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func mustDecode(t *rapid.T, want Format, data string) *ccmap.Snapshot {
	m, f, err := Read(strings.NewReader(data), ReadOptions{})
	if err != nil {
		t.Fatalf("%v in\n%q", err, data)
	}
	if f != want {
		t.Fatalf("format %v, want %v", f, want)
	}
	return m.Snapshot()
}

func TestXMLAndJSONRestoreAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawPruned(t, buildLocated).Snapshot()
		for _, f := range []Format{XML, JSON} {
			if diff := diffContent(s, mustDecode(t, f, mustEncode(t, f, s))); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", f, diff)
			}
		}
	})
}

func TestXMLToJSONToXMLIsIdentical(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := mustEncode(t, XML, drawPruned(t, buildLocated).Snapshot())
		json := mustEncode(t, JSON, mustDecode(t, XML, first))
		second := mustEncode(t, XML, mustDecode(t, JSON, json))
		if first != second {
			t.Fatal(cmp.Diff(first, second))
		}
	})
}

// The window, written as a profile of its own, has no window.
func TestRecentIsWrittenAsAProfile(t *testing.T) {
	t.Parallel()
	recent, _ := pruned().Snapshot().Recent()
	for _, f := range []Format{XML, JSON, Pprof} {
		got := decode(t, encode(t, f, recent))
		if got.Total() != recent.Total() || got.Meta().Window != 0 {
			t.Errorf("%v: total %v, want %v; window %v", f, got.Total(), recent.Total(), got.Meta().Window)
		}
	}
}

// Equal maps give equal bytes, in whatever order they were filled.
func TestOrderOfInsertionDoesNotShow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		methods := drawMethods(t)
		lines := drawLines(t, len(methods))
		points := drawPoints(t, len(methods))
		first := buildLocated(methods, lines)
		addPoints(first, methods, points)
		one := first.Snapshot()
		for _, m := range methods {
			one.Names().Intern(m)
		}
		for i, m := range methods { // the first description of a method counts, and a body that comes later
			id, _ := one.Names().Lookup(m.Name, m.Signature)
			methods[i] = one.Names().At(id)
		}
		other := buildLocated(methods, rapid.Permutation(lines).Draw(t, "order"))
		other.Names().Intern(ccmap.Method{Name: "in no node"})
		addPoints(other, methods, rapid.Permutation(points).Draw(t, "order of points"))
		for _, f := range Formats() {
			if diff := cmp.Diff(mustEncode(t, f, one), mustEncode(t, f, other.Snapshot())); diff != "" {
				t.Fatalf("%v:\n%s", f, diff)
			}
		}
	})
}

// Methods of one name stand in the order of their signatures.
func TestOverloadsAreOrdered(t *testing.T) {
	t.Parallel()
	methods := []ccmap.Method{{Name: "f", Signature: "(I)V"}, {Name: "f", Signature: "(J)V"}, {Name: "f"}}
	lines := make([]line, len(methods))
	for i := range lines {
		lines[i] = line{[]ccmap.Frame{{Method: ccmap.MethodID(i), Offset: 1}}, ccmap.Counters{Samples: 1, Time: 1}}
	}
	one := build(methods, lines).Snapshot()
	slices.Reverse(lines)
	other := build(methods, lines).Snapshot()
	for _, f := range Formats() {
		if diff := cmp.Diff(encode(t, f, one), encode(t, f, other)); diff != "" {
			t.Errorf("%v:\n%s", f, diff)
		}
	}
}

func TestPprofRestoresContextsAndCounters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawPruned(t, build).Snapshot()
		want, got := contentOf(s), contentOf(mustDecode(t, Pprof, mustEncode(t, Pprof, s)))
		all := func(c ccmap.Counters) ccmap.Counters { return c }
		if diff := cmp.Diff(want.counted(all), got.counted(all)); diff != "" {
			t.Fatalf("counters (-want +got):\n%s", diff)
		}
		for position, line := range got.Lines {
			if want.Lines[position] != line {
				t.Fatalf("%s is on line %d, want %d", position, line, want.Lines[position])
			}
		}
		if diff := cmp.Diff(inlinedOnStacks(s), got.Inlined, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("inlined calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want.Recent, got.Recent); diff != "" {
			t.Fatalf("recent (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want.Meta, got.Meta, cmpopts.EquateEmpty()); diff != "" || want.Exact != got.Exact {
			t.Fatalf("meta (-want +got), exact %t %t:\n%s", want.Exact, got.Exact, diff)
		}
		if diff := cmp.Diff(pointsOf(s, Pprof), got.Points); diff != "" {
			t.Fatalf("points (-want +got):\n%s", diff)
		}
		onTop := methodsOnTop(s)
		for key, m := range got.Methods {
			if m.Receiver == "" && !onTop[key] {
				m.Receiver = want.Methods[key].Receiver
			}
			if diff := cmp.Diff(want.Methods[key], m); diff != "" {
				t.Fatalf("method (-want +got):\n%s", diff)
			}
		}
	})
}

// inlinedOnStacks are the inlined calls that a pprof profile has: those on a stack that
// was counted.
func inlinedOnStacks(s *ccmap.Snapshot) map[string]bool {
	c := content{Inlined: make(map[string]bool)}
	for n := range s.Nodes() {
		for !n.Self.IsZero() && n.ID != root {
			above := s.Node(n.Parent)
			c.addCall(s, above.Method, n.Offset, n.Method)
			above.Self = n.Self // it stands on the stack, too
			n = above
		}
	}
	return c.Inlined
}

// methodsOnTop are those whose receivers a pprof profile has: of samples, and
// those that points have reached.
func methodsOnTop(s *ccmap.Snapshot) map[[2]string]bool {
	onTop := make(map[[2]string]bool)
	add := func(id ccmap.MethodID) {
		m := s.Names().At(id)
		onTop[[2]string{m.Name, m.Signature}] = true
	}
	for n := range s.Nodes() {
		if !n.Self.IsZero() && n.IsPosition() {
			add(s.Node(n.Parent).Method)
		} else if !n.Self.IsZero() {
			add(n.Method)
		}
	}
	for _, p := range s.Points() {
		for _, v := range p.Values {
			if p.Origin == ccmap.OriginBurst && p.Kind == ccmap.PointCall {
				add(ccmap.MethodID(v.Value))
			}
		}
	}
	return onTop
}

func TestFoldedRestoresContextsAndTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawTimes(t).Snapshot()
		folded := mustEncode(t, Folded, s)
		if folded == "" {
			return // no stack was sampled
		}
		checkLines(t, folded)
		time := func(c ccmap.Counters) ccmap.Counters { return ccmap.Counters{Time: c.Time} }
		want := contentOf(s).counted(time)
		got := contentOf(mustDecode(t, Folded, folded)).counted(func(c ccmap.Counters) ccmap.Counters { return c })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, folded)
		}
		if want, got := sampled(s), strings.Count(folded, "\n"); want != got {
			t.Fatalf("%d lines for %d stacks", got, want)
		}
	})
}

// The patterns with which other tools read a line, and the one by which
// flamegraph.pl would take the end of a stack for the first of two counts.
var (
	speedscopeLine = regexp.MustCompile(`^(.*) (\d+)$`)
	flamegraphLine = regexp.MustCompile(`^(.*)\s+?(\d+(?:\.\d*)?)$`)
)

func checkLines(t *rapid.T, folded string) {
	for line := range strings.Lines(folded) {
		line = strings.TrimSuffix(line, "\n")
		stack := speedscopeLine.FindStringSubmatch(line)
		if stack == nil || !flamegraphLine.MatchString(line) || flamegraphLine.MatchString(stack[1]) {
			t.Fatalf("other tools misread %q", line)
		}
	}
}

// What a query counts is what anybody finds by counting in the lines.
func TestQueriesEqualBruteForceOverFolded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawTimes(t).Snapshot()
		if s.Names().Len() == 0 {
			return
		}
		id := rapid.Custom(func(t *rapid.T) ccmap.MethodID {
			return ccmap.MethodID(rapid.IntRange(0, s.Names().Len()-1).Draw(t, "id"))
		})
		query := rapid.SliceOfN(id, 1, 3).Draw(t, "query")
		var path []ccmap.PathElem
		var names []string
		for _, m := range query {
			path = append(path, ccmap.PathElem{Method: m, Site: ccmap.AnyOffset})
			names = append(names, foldedName(s.Names().At(m)))
		}
		if got, want := s.Ref(path).Time, bruteForce(mustEncode(t, Folded, s), names); got != want {
			t.Fatalf("%q: query %d ns, folded %d ns", names, got, want)
		}
	})
}

// bruteForce sums the counts of the lines in which the path occurs, as often as
// it does.
func bruteForce(folded string, path []string) (sum int64) {
	for line := range strings.Lines(folded) {
		match := speedscopeLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		count, _ := strconv.ParseInt(match[2], 10, 64)
		frames := strings.Split(match[1], ";")
		for i := range frames {
			frames[i] = frames[i][:strings.LastIndex(frames[i], "+")]
		}
		for i := 0; i+len(path) <= len(frames); i++ {
			if slices.Equal(frames[i:i+len(path)], path) {
				sum += count
			}
		}
	}
	return sum
}

// sampled is the number of nodes with samples or time.
func sampled(s *ccmap.Snapshot) int {
	count := 0
	for n := range s.Nodes() {
		if n.Self.Samples > 0 || n.Self.Time > 0 {
			count++
		}
	}
	return count
}

func TestEscapeIsReversible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkEscape(t, drawText(t, "text"))
	})
}

func FuzzEscape(f *testing.F) {
	for _, s := range nasty {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkEscape(t, s) })
}

func checkEscape(t interface{ Fatalf(string, ...any) }, s string) {
	for _, plain := range []func(rune) bool{inDocument, inFolded} {
		escaped := escape(s, plain)
		back, err := unescape(escaped)
		if err != nil || back != s {
			t.Fatalf("%q became %q and %q, %v", s, escaped, back, err)
		}
		for _, r := range strings.ReplaceAll(escaped, `\`, "") {
			if !plain(r) {
				t.Fatalf("%q escaped as %q holds %q", s, escaped, r)
			}
		}
	}
}

func TestUnescapeRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{`\`, `\y`, `\x`, `\x1`, `\xg0`, `a\\\`} {
		if got, err := unescape(s); err == nil {
			t.Errorf("unescape(%q) = %q", s, got)
		}
	}
}

// Deep maps cost no more a node than shallow ones in the linear formats.
func TestDocumentsAreLinear(t *testing.T) {
	t.Parallel()
	for _, f := range []Format{XML, JSON} {
		size := func(depth int) int { return len(encode(t, f, chain(depth).Snapshot())) }
		small, large := size(1000), size(8000)
		if large > 9*small {
			t.Errorf("%v: %d bytes for 1000 frames, %d for 8000", f, small, large)
		}
	}
}

// chain is a recursion, with an activation at each depth.
func chain(depth int) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	id := m.Names().Intern(ccmap.Method{Name: "main.recurse"})
	n := m.Root()
	for range depth {
		n = m.Child(n, 3, id)
		m.Add(n, ccmap.Counters{Samples: 1, Time: 1, Activations: 1})
	}
	return m
}

func TestDeepRecursion(t *testing.T) {
	t.Parallel()
	s := chain(3000).Snapshot()
	for _, f := range Formats() {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			got := decode(t, encode(t, f, s))
			if got.Len() != s.Len() || got.Total().Time != s.Total().Time {
				t.Error(fmt.Sprint(got.Len(), got.Total()))
			}
		})
	}
}
