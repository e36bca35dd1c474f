package hotspot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

// sampled returns the map of a JVM with 100 samples of each stack: methods with the bytecode
// index of their call, outermost first.
func sampled(t *testing.T, stacks ...string) *ccmap.Map {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	for _, stack := range stacks {
		node, at := m.Root(), ccmap.NoOffset
		for part := range strings.SplitSeq(stack, ";") {
			name, offset, _ := strings.Cut(part, "+")
			node = m.Child(node, at, methodID(m, name))
			at = ccmap.NoOffset
			if offset != "" {
				if _, err := fmt.Sscan(offset, &at); err != nil {
					t.Fatal(err)
				}
			}
		}
		if at != ccmap.NoOffset { // a position of the innermost method
			node = m.Child(node, at, ccmap.NoMethod)
		}
		m.Add(node, ccmap.Counters{Samples: 100, Time: 1000})
	}
	return m
}

func methodID(m *ccmap.Map, name string) ccmap.MethodID {
	class, _, _ := strings.Cut(name, ".")
	return m.Names().Intern(ccmap.Method{Name: name, Signature: "()V", Receiver: class, Coordinate: ccmap.CoordinateBytecode})
}

func hintText(hints []Hint) string {
	var lines []string
	for _, h := range hints {
		lines = append(lines, fmt.Sprintf("%s: %s%s at %s+%d", h.Root.Short(), h.sign(), h.Callee.Short(), h.Caller.Short(), h.Bytecode))
	}
	return strings.Join(lines, "\n")
}

func TestFind(t *testing.T) {
	t.Parallel()
	work := []string{
		"W.main+1;W.circles+14;W.call+2;Ci.area", "W.main+1;W.circles+14;W.call+2;Ci.area",
		"W.main+9;W.squares+14;W.call+2;Sq.area", "W.main+9;W.squares+14;W.call+2;Ci.area",
	}
	for name, test := range map[string]struct {
		stacks []string
		least  float64
		want   string
		left   int
	}{
		"one caller sees one type": {work, 1, "W.circles: +W.call at W.circles+14\nW.circles: -Sq.area at W.call+2", 0},
		"too little to save":       {work, 51, "", 1},
		"the other type comes elsewhere": {append(work, "W.main+1;W.circles+30;W.other+5;Sq.area"), 1,
			"W.circles: +W.call at W.circles+14", 0},
		"every caller sees both": {[]string{work[2], work[3], "W.main+1;W.circles+14;W.call+2;Ci.area", "W.main+1;W.circles+14;W.call+2;Sq.area"}, 1, "", 0},
		"a class made at run time": {append([]string{
			"W.main+1;W$$Lambda.run+14;W.call+2;Ci.area", "W.main+1;W$$Lambda.run+14;W.call+2;Ci.area"}, work[2:]...), 1, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hints, left := Find(sampled(t, test.stacks...).Snapshot(), FindOptions{Least: test.least, Depth: 1})
			if diff := cmp.Diff(test.want, hintText(hints)); diff != "" || len(left) != test.left {
				t.Errorf("-want +got:\n%s\nleft out: %q", diff, left)
			}
			if err := check(hints); err != nil {
				t.Error(err)
			}
		})
	}
}

// A method with much bytecode is not forced anywhere.
func TestFindLarge(t *testing.T) {
	t.Parallel()
	m := sampled(t, "W.main+1;W.circles+14;W.call+2;Ci.area", "W.main+9;W.squares+14;W.call+2;Sq.area")
	m.AddPoint(ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointBranch, Method: methodID(m, "W.call"), Offset: largestCode, Count: 1, Nulls: ccmap.NullsUnknown})
	hints, left := Find(m.Snapshot(), FindOptions{Depth: 1})
	if len(hints) > 0 || len(left) == 0 || !strings.Contains(left[0], "large") {
		t.Errorf("%+v, %q", hints, left)
	}
}

// A method whose code was thrown away often has no hints.
func TestFindThrown(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{MostDecompiles - 1, MostDecompiles} {
		m := sampled(t, "W.main+1;W.circles+14;W.call+2;Ci.area", "W.main+9;W.squares+14;W.call+2;Sq.area")
		m.AddPoint(ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointThrown, Method: methodID(m, "W.circles"), Count: n, Nulls: ccmap.NullsUnknown})
		hints, left := Find(m.Snapshot(), FindOptions{Depth: 1})
		has := slices.ContainsFunc(hints, func(h Hint) bool { return h.Root.Short() == "W.circles" && h.ThrownBefore == n })
		says := slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, "thrown away its code 10 times") })
		if has != (n < MostDecompiles) || says == has {
			t.Errorf("thrown away %d times: %+v, left out %q", n, hints, left)
		}
	}
}

// vmPoint adds a count of the VM: "W.run+5 W.note 80 other 3" is a call with its targets, "W.run 5000"
// how often a method was invoked.
func vmPoint(t *testing.T, m *ccmap.Map, text string) {
	t.Helper()
	words := strings.Fields(text)
	name, offset, isCall := strings.Cut(words[0], "+")
	p := ccmap.Point{Origin: ccmap.OriginVM, Kind: ccmap.PointBlock, Method: methodID(m, name), Frozen: true, Nulls: ccmap.NullsUnknown}
	number := func(text string) (n int64) {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if !isCall {
		p.Count = number(words[1])
		m.AddPoint(p)
		return
	}
	p.Kind, p.Offset = ccmap.PointCall, uint32(number(offset))
	for ; len(words) > 2; words = words[2:] {
		if words[1] == "other" {
			p.Other = number(words[2])
			continue
		}
		p.Values = append(p.Values, ccmap.PointValue{Value: uint64(methodID(m, words[1])), Count: number(words[2])})
	}
	m.AddPoint(p)
}

// A short method with a virtual call is kept out of a hot method in which it is cold.
func TestFindCold(t *testing.T) {
	t.Parallel()
	virtual := "W.note+2 A.of 1000 B.of 900 other 800"
	for name, test := range map[string]struct {
		points []string
		stacks []string
		want   string
	}{
		"cold":              {[]string{virtual, "W.run 5000", "W.run+7 W.note 50", "W.run+9 W.note 20"}, nil, "W.run: -W.note at W.run+7"},
		"called often":      {[]string{virtual, "W.run 5000", "W.run+7 W.note 1000", "W.run+9 W.note 250"}, nil, ""},
		"takes time":        {[]string{virtual, "W.run 5000", "W.run+7 W.note 50"}, []string{"W.run+7;W.note+2;A.of"}, ""},
		"two receivers":     {[]string{"W.note+2 A.of 1000 B.of 900", "W.run 5000", "W.run+7 W.note 50"}, nil, ""},
		"not C2's":          {[]string{virtual, "W.run+7 W.note 50"}, nil, ""},
		"large by itself":   {[]string{virtual, "W.note+35 A.x 1", "W.run 5000", "W.run+7 W.note 50"}, nil, ""},
		"of several callee": {[]string{virtual, "W.run 5000", "W.run+7 W.note 50 X.note 60"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := sampled(t, append([]string{"W.run+1;W.loop", "W.run+1;W.loop", "W.run+1;W.loop", "W.main+1"}, test.stacks...)...)
			for _, p := range test.points {
				vmPoint(t, m, p)
			}
			hints, _ := Find(m.Snapshot(), FindOptions{Depth: 1})
			if got := hintText(hints); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if few, _ := Find(m.Snapshot(), FindOptions{Least: 2, Depth: 1}); len(few) > 0 {
				t.Errorf("too little to save: %+v", few)
			}
		})
	}
}

// In a recursion a hint would hold for each level, so there is none. It was one for a method without a name, and apply
// refused the whole file.
func TestFindRecursive(t *testing.T) {
	t.Parallel()
	m := sampled(t,
		"W.main+1;P.fire+4;P.invoke+7;P.fire+4;P.invoke+7;A.read", "W.main+1;P.fire+4;P.invoke+7;P.fire+4;P.invoke+7;A.read",
		"W.main+9;P.fire+4;P.invoke+7;B.read", "W.main+9;P.fire+4;P.invoke+7;B.read")
	for depth := 1; depth <= 4; depth++ {
		hints, left := Find(m.Snapshot(), FindOptions{Depth: depth})
		if err := check(hints); err != nil {
			t.Errorf("depth %d: %v in %+v", depth, err, hints)
		}
		for _, h := range hints {
			if h.Root == h.Caller && h.Action == Inline && h.Root == h.Callee {
				t.Errorf("depth %d: %s is to be inlined into itself; left out %q", depth, h.Root, left)
			}
		}
	}
}

// A call whose VM counts others than one receiver, which nobody has seen, may have one receiver only.
func TestFindOneReceiver(t *testing.T) {
	t.Parallel()
	m := sampled(t, "W.main+1;W.circles+14;W.call+2;Ci.area", "W.main+9;W.squares+14;W.call+2;Ci.area")
	vmPoint(t, m, "W.call+2 Ci.area 9000 other 3000")
	vmPoint(t, m, "W.circles+14 W.call 6000")
	vmPoint(t, m, "W.squares+14 W.call 6000")
	vmPoint(t, m, "W.call 12000")
	if hints, left := Find(m.Snapshot(), FindOptions{Depth: 3}); len(hints)+len(left) > 0 {
		t.Errorf("%+v, left out %q", hints, left)
	}
}

// Receivers are those of counts and of samples, and the VM may have more.
func TestFindCountsReceivers(t *testing.T) {
	t.Parallel()
	work := []string{"W.main+1;W.circles+14;W.call+2;Ci.area", "W.main+9;W.squares+14;W.call+2;Sq.area", "W.main+20;W.others+14;W.call+2;Tr.area"}
	for others, want := range map[string]string{"": "3 receivers, from", " other 500": "3 receivers or more, from"} {
		m := sampled(t, work...)
		vmPoint(t, m, "W.call+2 Ci.area 1000 Sq.area 1000"+others)
		hints, left := Find(m.Snapshot(), FindOptions{Depth: 1})
		if len(hints) == 0 || !strings.Contains(hints[0].Reason, want) {
			t.Errorf("%q: %+v, left out %q", others, hints, left)
		}
	}
}

// The hint that can save most comes first, and those that can save little are one line. What is called by the
// methods that are inlined stays.
func TestFindRanks(t *testing.T) {
	t.Parallel()
	stacks := []string{
		"W.main+9;W.squares+14;W.call+2;Sq.area+3", "W.main+9;W.squares+14;W.call+2;Sq.area+4",
		"W.main+1;W.circles+14;W.call+2;Ci.area", "W.main+1;W.circles+14;W.call+1",
	}
	for range 16 { // most of the time of circles is further down
		stacks = append(stacks, "W.main+1;W.circles+14;W.call+2;Ci.area+7;W.sqrt")
	}
	stacks = append(stacks, stacks[0]) // squares has more that can be saved
	m := sampled(t, stacks...)
	hints, left := Find(m.Snapshot(), FindOptions{Least: 10, Depth: 1})
	want := []string{"1 more contexts can save less than 10 % each, and 9.5 % together at most"}
	if len(hints) == 0 || hints[0].Root.Short() != "W.squares" || cmp.Diff(want, left) != "" {
		t.Errorf("%+v, left out %q", hints, left)
	}
	if all, _ := Find(m.Snapshot(), FindOptions{Depth: 1}); len(all) < 4 || all[0].Root.Short() != "W.squares" || all[0].Saves < all[len(all)-1].Saves {
		t.Errorf("%+v", all)
	}
}

// The caller that decides is found as far up as it takes.
func TestFindDeep(t *testing.T) {
	t.Parallel()
	var stacks []string
	for _, way := range []string{"W.aes+1|Aes", "W.des+2|Des", "W.rc2+3|Rc2"} {
		root, cipher, _ := strings.Cut(way, "|")
		stacks = append(stacks, fmt.Sprintf("W.main+1;%s;B.update+4;B.process+5;C.block+6;C.encrypt+7;%s.block", root, cipher))
	}
	hints, left := Find(sampled(t, stacks...).Snapshot(), FindOptions{Depth: 8})
	if len(Roots(hints)) != 3 {
		t.Errorf("%+v, left out %q", hints, left)
	}
}
