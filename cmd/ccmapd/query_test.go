package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// Random stacks of few methods, so that paths recur and recurse. Every method
// begins on line startLine.
const (
	startLine   = 10
	sampleNS    = 3 // time of a sample
	randomNames = "ABCD"
)

// randomSamples draws samples whose activations are all known.
func randomSamples(t *rapid.T, names *ccmap.Names) []ccmap.Sample {
	for _, name := range randomNames {
		names.Intern(ccmap.Method{Name: string(name), File: "f.go", StartLine: startLine})
	}
	samples := make([]ccmap.Sample, rapid.IntRange(0, 30).Draw(t, "samples"))
	for i := range samples {
		frames := make([]ccmap.Frame, rapid.IntRange(1, 8).Draw(t, "depth"))
		for j := range frames {
			frames[j].Method = ccmap.FirstID + ccmap.MethodID(rapid.IntRange(0, len(randomNames)-1).Draw(t, "method"))
			frames[j].Offset = rapid.Uint32Range(0, 2).Draw(t, "offset")
		}
		fresh := rapid.IntRange(0, len(frames)).Draw(t, "fresh")
		samples[i] = ccmap.Sample{Frames: frames, Weight: sampleNS, Fresh: int32(fresh), Thread: uint64(i)}
	}
	return samples
}

func randomPath(t *rapid.T) []pathElem {
	path := make([]pathElem, rapid.IntRange(1, 4).Draw(t, "elements"))
	for i := range path {
		path[i].name = string(randomNames[rapid.IntRange(0, len(randomNames)-1).Draw(t, "name")])
		if i < len(path)-1 && rapid.Bool().Draw(t, "with line") {
			path[i].line = startLine + rapid.Int32Range(0, 2).Draw(t, "line")
		}
	}
	return path
}

func foldAll(samples []ccmap.Sample, names *ccmap.Names) *profile {
	m := ccmap.New(ccmap.Options{Names: names})
	m.FoldBatch(samples)
	return newProfile("random", m.Snapshot())
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
			stack = append(stack, textFrame{name, startLine + int32(n)})
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
func occursAt(path []pathElem, stack []textFrame, i int) bool {
	if i+len(path) > len(stack) {
		return false
	}
	for j, elem := range path {
		if stack[i+j].name != elem.name || elem.line != 0 && stack[i+j].line != elem.line {
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
		p := foldAll(randomSamples(t, names), names)
		path := randomPath(t)
		stacks, ns := foldedStacks(t, p.Snapshot)
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
		r := mustQuery(t, p, path)
		if r.total.Time != total || r.total.Samples*sampleNS != total {
			t.Errorf("%s: %+v, want %d ns in %d samples", r, r.total, total, total/sampleNS)
		}
		if r.distinct.Time != distinct || r.distinct.Samples*sampleNS != distinct {
			t.Errorf("%s, each sample once: %+v, want %d ns in %d samples", r, r.distinct, distinct, distinct/sampleNS)
		}
	})
}

func mustQuery(t *rapid.T, p *profile, path []pathElem) queryResult {
	q, err := newQuery(p, path, false)
	if err != nil {
		t.Fatal(err)
	}
	return q.run()
}

// TestQueryActivations: an activation counts for the paths that end at it.
func TestQueryActivations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		samples := randomSamples(t, names)
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
		if got := mustQuery(t, foldAll(samples, names), path).total.Activations; got != want {
			t.Errorf("%v: %d activations, want %d", path, got, want)
		}
	})
}

func outermostFirst(frames []ccmap.Frame) []textFrame {
	stack := make([]textFrame, len(frames))
	for i, f := range frames {
		name := f.Method - ccmap.FirstID
		stack[len(frames)-1-i] = textFrame{randomNames[name : name+1], startLine + int32(f.Offset)}
	}
	return stack
}

// TestQueryAgainstRef: the command and the package count the same.
func TestQueryAgainstRef(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		p := foldAll(randomSamples(t, names), names)
		path := randomPath(t)
		ref := make([]ccmap.PathElem, len(path))
		for i, elem := range path {
			id, _ := names.Lookup(elem.name, "")
			ref[i] = ccmap.PathElem{Method: id, Site: ccmap.AnyOffset}
			if elem.line != 0 {
				ref[i].Site = uint32(elem.line - startLine)
			}
		}
		if got, want := mustQuery(t, p, path).total, p.Ref(ref); got != want {
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
		p := foldAll(randomSamples(t, names), names)
		path := randomPath(t)
		r := mustQuery(t, p, path)
		var above ccmap.Counters
		below := r.self
		for n, c := range r.callers {
			above = above.Add(c)
			if n.method == ccmap.NoMethod {
				continue
			}
			longer := append([]pathElem{{name: p.Names().At(n.method).Name, line: startLine + int32(n.call.Offset)}}, path...)
			if got := mustQuery(t, p, longer).total; got != c {
				t.Errorf("%v: %+v, want %+v as in the callers of %s", longer, got, c, r)
			}
		}
		for n, c := range r.callees {
			below = below.Add(ccmap.Counters{Samples: c.Samples, Time: c.Time})
			longer := append(append([]pathElem{}, path...), pathElem{name: p.Names().At(n.method).Name})
			longer[len(path)-1].line = startLine + int32(n.call.Offset)
			if got := mustQuery(t, p, longer).total; got != c {
				t.Errorf("%v: %+v, want %+v as in the callees of %s", longer, got, c, r)
			}
		}
		if above != r.total {
			t.Errorf("%s: callers add up to %+v, want %+v", r, above, r.total)
		}
		if below.Samples != r.total.Samples || below.Time != r.total.Time {
			t.Errorf("%s: callees and self add up to %+v, want %+v", r, below, r.total)
		}
	})
}

// TestContextsAddUp: the contexts of a method are its cumulative samples, split,
// at any depth.
func TestContextsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		p := foldAll(randomSamples(t, names), names)
		depth := rapid.UintRange(0, 9).Draw(t, "depth")
		for m := range p.Methods() {
			set := make(methodSet, names.Len())
			set[m.ID()] = true
			var total ccmap.Counters
			seen := make(map[string]bool)
			for _, r := range contextRows(p, set, depth, sortTime) {
				total = total.Add(r.total)
				key := fmt.Sprint(r.callers)
				if seen[key] || depth > 0 && uint(len(r.callers)) > depth {
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
