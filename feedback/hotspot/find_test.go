package hotspot

import (
	"fmt"
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
		"too small a share":        {work, 51, "", 0},
		"the other type comes elsewhere": {append(work, "W.main+1;W.circles+30;W.other+5;Sq.area"), 1,
			"W.circles: +W.call at W.circles+14", 0},
		"every caller sees both": {[]string{work[2], work[3], "W.main+1;W.circles+14;W.call+2;Ci.area", "W.main+1;W.circles+14;W.call+2;Sq.area"}, 1, "", 0},
		"a class made at run time": {append([]string{
			"W.main+1;W$$Lambda.run+14;W.call+2;Ci.area", "W.main+1;W$$Lambda.run+14;W.call+2;Ci.area"}, work[2:]...), 1, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hints, left := Find(sampled(t, test.stacks...).Snapshot(), FindOptions{LeastShare: test.least, Depth: 1})
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
