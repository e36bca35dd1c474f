package query

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

func randomPath(t *rapid.T) Path {
	path := make(Path, rapid.IntRange(1, 4).Draw(t, "elements"))
	for i := range path {
		path[i].Name = string(profiletest.Methods[rapid.IntRange(0, len(profiletest.Methods)-1).Draw(t, "name")])
		if i < len(path)-1 && rapid.Bool().Draw(t, "with line") {
			path[i].Line = profiletest.StartLine + rapid.Int32Range(0, 2).Draw(t, "line")
		}
	}
	return path
}

// textFrame is a frame as folded stacks have it.
type textFrame struct {
	name string
	line int32
}

// foldedStacks parses folded stacks without the help of package export:
// "A+1;B+2 6" is A calling B at offset 1, for 6 ns.
func foldedStacks(t *rapid.T, s *ccmap.Snapshot) (stacks [][]textFrame, ns []int64) {
	var text bytes.Buffer
	if err := export.Write(&text, export.Folded, s); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		frames, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		var stack []textFrame
		for frame := range strings.SplitSeq(frames, ";") {
			name, offset, _ := strings.Cut(frame, "+")
			n, err := strconv.Atoi(offset)
			if err != nil {
				t.Fatalf("folded line %q: %v", line, err)
			}
			stack = append(stack, textFrame{name, profiletest.StartLine + int32(n)})
		}
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			t.Fatalf("folded line %q: %v", line, err)
		}
		stacks, ns = append(stacks, stack), append(ns, n)
	}
	return stacks, ns
}

// occursAt reports whether the path is on the stack, outermost first, from its
// frame i on.
func occursAt(path Path, stack []textFrame, i int) bool {
	if i+len(path) > len(stack) {
		return false
	}
	for j, elem := range path {
		if stack[i+j].name != elem.Name || elem.Line != 0 && stack[i+j].line != elem.Line {
			return false
		}
	}
	return true
}

// TestQueryAgainstFoldedStacks: a query counts what a search through the
// exported stacks counts, for every occurrence and for every stack.
func TestQueryAgainstFoldedStacks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		p := profiletest.Fold(profiletest.Samples(t, names), names)
		path := randomPath(t)
		stacks, ns := foldedStacks(t, p)
		var total, distinct int64
		for i, stack := range stacks {
			occurrences := int64(0)
			for begin := range stack {
				if occursAt(path, stack, begin) {
					occurrences++
				}
			}
			total += occurrences * ns[i]
			distinct += min(occurrences, 1) * ns[i]
		}
		r := mustCount(t, p, path)
		if r.Total.Time != total || r.Total.Samples*profiletest.SampleNS != total {
			t.Errorf("%s: %+v, want %d ns in %d samples", path, r.Total, total, total/profiletest.SampleNS)
		}
		if r.Distinct.Time != distinct || r.Distinct.Samples*profiletest.SampleNS != distinct {
			t.Errorf("%s, each sample once: %+v, want %d ns in %d samples", path, r.Distinct, distinct, distinct/profiletest.SampleNS)
		}
	})
}

func mustCount(t *rapid.T, s *ccmap.Snapshot, path Path) Result {
	q, err := New(s, path, Named)
	if err != nil {
		t.Fatal(err)
	}
	return q.Count()
}

// TestQueryActivations: an activation counts for the paths that end at it.
func TestQueryActivations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		samples := profiletest.Samples(t, names)
		path := randomPath(t)
		var want int64
		for _, s := range samples {
			stack := outermostFirst(s.Frames)
			for fresh := range int(s.Fresh) {
				if begin := len(stack) - fresh - len(path); begin >= 0 && occursAt(path, stack, begin) {
					want++
				}
			}
		}
		if got := mustCount(t, profiletest.Fold(samples, names), path).Total.Activations; got != want {
			t.Errorf("%v: %d activations, want %d", path, got, want)
		}
	})
}

func outermostFirst(frames []ccmap.Frame) []textFrame {
	stack := make([]textFrame, len(frames))
	for i, f := range frames {
		name := f.Method - ccmap.FirstID
		stack[len(frames)-1-i] = textFrame{profiletest.Methods[name : name+1], profiletest.StartLine + int32(f.Offset)}
	}
	return stack
}

// TestQueryAgainstRef: a query and the view of a snapshot count the same.
func TestQueryAgainstRef(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		p := profiletest.Fold(profiletest.Samples(t, names), names)
		path := randomPath(t)
		ref := make([]ccmap.PathElem, len(path))
		for i, elem := range path {
			id, _ := names.Lookup(elem.Name, "")
			ref[i] = ccmap.PathElem{Method: id, Site: ccmap.AnyOffset}
			if elem.Line != 0 {
				ref[i].Site = uint32(elem.Line - profiletest.StartLine)
			}
		}
		if got, want := mustCount(t, p, path).Total, p.Ref(ref); got != want {
			t.Errorf("%v: %+v, want %+v", path, got, want)
		}
	})
}

// TestQueryNeighbours: callers add up to the total, callees and self too; and
// each neighbour is itself a path with that count.
func TestQueryNeighbours(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		p := profiletest.Fold(profiletest.Samples(t, names), names)
		path := randomPath(t)
		r := mustCount(t, p, path)
		var above ccmap.Counters
		below := r.Self
		for _, n := range r.Callers {
			above = above.Add(n.Total)
			if n.Method == ccmap.NoMethod {
				continue
			}
			longer := append(Path{{Name: p.Names().At(n.Method).Name, Line: profiletest.StartLine + int32(n.Call.Offset)}}, path...)
			if got := mustCount(t, p, longer).Total; got != n.Total {
				t.Errorf("%v: %+v, want %+v as in the callers of %s", longer, got, n.Total, path)
			}
		}
		for _, n := range r.Callees {
			below = below.Add(ccmap.Counters{Samples: n.Total.Samples, Time: n.Total.Time})
			longer := append(append(Path{}, path...), Elem{Name: p.Names().At(n.Method).Name})
			longer[len(path)-1].Line = profiletest.StartLine + int32(n.Call.Offset)
			if got := mustCount(t, p, longer).Total; got != n.Total {
				t.Errorf("%v: %+v, want %+v as in the callees of %s", longer, got, n.Total, path)
			}
		}
		if above != r.Total {
			t.Errorf("%s: callers add up to %+v, want %+v", path, above, r.Total)
		}
		if below.Samples != r.Total.Samples || below.Time != r.Total.Time {
			t.Errorf("%s: callees and self add up to %+v, want %+v", path, below, r.Total)
		}
	})
}

// TestContextsAddUp: the contexts of a method are its cumulative samples, split,
// at any depth.
func TestContextsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		p := profiletest.Fold(profiletest.Samples(t, names), names)
		depth := rapid.UintRange(0, 9).Draw(t, "depth")
		for m := range p.Methods() {
			set := make(Methods, names.Len())
			set[m.ID()] = true
			var total ccmap.Counters
			seen := make(map[string]bool)
			for _, r := range Contexts(p, set, depth).Contexts {
				total = total.Add(r.Total)
				key := fmt.Sprint(r.Callers)
				if seen[key] || depth > 0 && uint(len(r.Callers)) > depth {
					t.Errorf("context %s of %s twice, or deeper than %d", key, m.Method().Name, depth)
				}
				seen[key] = true
			}
			if want := m.Cumulative(); total.Samples != want.Samples || total.Time != want.Time {
				t.Errorf("contexts of %s add up to %+v, want %+v", m.Method().Name, total, want)
			}
		}
	})
}

// A call in bytecode is selected by its line, with all calls on it, or by its offset.
func TestQueryByPosition(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	fib := m.Names().Intern(ccmap.Method{Name: "fib", File: "fib.c", StartLine: 3, Coordinate: ccmap.CoordinateBytecode})
	callee := m.Names().Intern(ccmap.Method{Name: "$7", Coordinate: ccmap.CoordinateBytecode})
	call := func(offset uint32, samples int64) {
		caller := m.Child(m.Root(), ccmap.NoOffset, fib)
		m.Add(m.Child(caller, offset, callee), ccmap.Counters{Samples: samples})
	}
	call(60, 1)
	call(70, 2)
	call(80, 4)
	m.Names().SetLine(ccmap.Frame{Method: fib, Offset: 60}, 5)
	m.Names().SetLine(ccmap.Frame{Method: fib, Offset: 70}, 5)
	s := m.Snapshot()
	for path, want := range map[string]int64{
		"fib > $7": 7, "fib:5 > $7": 3, "fib:+0x3c > $7": 1, "fib:+70 > $7": 2, "fib:+0x50 > $7": 4, "fib:6 > $7": 0,
	} {
		parsed, err := ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		q, err := New(s, parsed, Named)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Count().Total.Samples; got != want {
			t.Errorf("%s: %d samples, want %d", path, got, want)
		}
	}
}
