package view

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// stackFrame is a frame of a stack, outermost first, with the call that leads to it.
type stackFrame struct {
	name   string
	offset uint32
}

// stack is a stack with what was sampled exactly there.
type stack struct {
	frames []stackFrame
	self   int64
}

// stacksOf reads all stacks of a profile with their time, node by node.
func stacksOf(s *ccmap.Snapshot) (all []stack) {
	return stacksBy(s, func(c ccmap.Counters) int64 { return c.Time })
}

func stacksBy(s *ccmap.Snapshot, by func(ccmap.Counters) int64) (all []stack) {
	for n := range s.Nodes() {
		var frames []stackFrame
		for at := n; at.ID != 0; at = s.Node(at.Parent) {
			if !at.IsPosition() {
				frames = append(frames, stackFrame{s.Names().At(at.Method).Name, at.Offset})
			}
		}
		slices.Reverse(frames)
		all = append(all, stack{frames, by(n.Self)})
	}
	return all
}

// turned returns the stacks as a graph sees them: what is below the outermost occurrence of a path of names, or above
// it, from the callee to the callers, each with the call that it makes. Without a path they are whole.
func turned(all []stack, path []string, up bool) (seen []stack) {
	for _, s := range all {
		begin, end := 0, len(s.frames)
		if len(path) > 0 {
			begin = -1
			for at := range s.frames {
				if end = at + len(path); end <= len(s.frames) && slices.EqualFunc(s.frames[at:end], path, func(f stackFrame, name string) bool { return f.name == name }) {
					begin = at
					break
				}
			}
		}
		switch {
		case begin < 0 || s.self == 0:
			continue
		case !up && len(path) > 0:
			seen = append(seen, stack{s.frames[end:], s.self})
		case !up:
			seen = append(seen, s)
		default:
			seen = append(seen, stack{upwards(s.frames, begin, len(path) == 0), s.self})
		}
	}
	return seen
}

// upwards returns the callers of a frame, or all frames of a stack with its last.
func upwards(frames []stackFrame, begin int, whole bool) (up []stackFrame) {
	if whole {
		if begin = len(frames) - 1; begin < 0 {
			return nil
		}
		up = []stackFrame{{frames[begin].name, ccmap.NoOffset}}
	}
	for at := begin; at > 0; at-- {
		up = append(up, stackFrame{frames[at-1].name, frames[at].offset})
	}
	return up
}

// line is a frame of a graph, as it is expected or was found.
type line struct {
	Path              string
	Value, Self, Rest int64
	More              int
}

// bruteBelow lists the frames below a prefix that have 1/width of a whole or more.
func bruteBelow(stacks []stack, prefix []stackFrame, whole, width int64) []line {
	at := line{Path: fmt.Sprint(prefix)}
	below := map[stackFrame]int64{}
	for _, s := range stacks {
		if len(s.frames) < len(prefix) || !slices.Equal(s.frames[:len(prefix)], prefix) {
			continue
		}
		at.Value += s.self
		if len(s.frames) == len(prefix) {
			at.Self += s.self
		} else {
			below[s.frames[len(prefix)]] += s.self
		}
	}
	var kept []stackFrame
	for f, value := range below {
		if value*width >= whole {
			kept = append(kept, f)
		} else {
			at.Rest += value
			at.More++
		}
	}
	slices.SortFunc(kept, func(a, b stackFrame) int {
		return cmp.Or(cmp.Compare(below[b], below[a]), strings.Compare(a.name, b.name), cmp.Compare(a.offset, b.offset))
	})
	lines := []line{at}
	for _, f := range kept {
		lines = append(lines, bruteBelow(stacks, append(slices.Clip(prefix), f), whole, width)...)
	}
	return lines
}

// linesOf lists the frames of a graph that begins with a prefix.
func linesOf(t *rapid.T, v *Flame, prefix []stackFrame) (lines []line) {
	by := v.measure.of
	if !v.measure.calls {
		by = func(c ccmap.Counters) int64 { return c.Time }
	}
	paths := make([][]stackFrame, len(v.bars))
	for i, b := range v.bars {
		if paths[i] = prefix; i > 0 {
			if b.parent >= i || v.bars[b.parent].depth != b.depth-1 {
				t.Fatalf("frame %d at depth %d has the parent %d", i, b.depth, b.parent)
			}
			paths[i] = append(slices.Clip(paths[b.parent]), stackFrame{v.of.methods[b.method].Name, b.offset})
		}
		lines = append(lines, line{fmt.Sprint(paths[i]), by(b.total[0]), by(b.self[0]), by(b.rest[0]), b.more})
	}
	return lines
}

// TestFlameIsABruteForceCut: frames, their order and all sums are those of a cut of all stacks, down and up, of the
// whole, of a method and of a path, at once and below any frame; and each id finds its frame.
func TestFlameIsABruteForceCut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		p := New("p", profiletest.Fold(profiletest.Samples(t, names), names))
		up, width := rapid.Bool().Draw(t, "up"), rapid.UintRange(1, 40).Draw(t, "width")
		o := FlameOptions{Invert: up, Width: width, Frames: mostFrames}
		var path []string
		for range rapid.IntRange(0, 2).Draw(t, "elements") {
			path = append(path, string(profiletest.Methods[rapid.IntRange(0, len(profiletest.Methods)-1).Draw(t, "name")]))
		}
		if len(path) > 0 {
			o.Focus = mustFocus(t, p, path)
		}
		stacks := turned(stacksOf(p.Snapshot), path, up)
		v := mustFlame(t, p, o)
		if diff := gocmp.Diff(bruteBelow(stacks, nil, wholeOf(stacks), int64(width)), linesOf(t, v, nil)); diff != "" {
			t.Fatalf("the cut is not that of all stacks (-want +got):\n%s", diff)
		}
		o.Width = 1 << 20
		all := mustFlame(t, p, o)
		i := rapid.IntRange(0, len(all.bars)-1).Draw(t, "frame")
		var prefix []stackFrame
		for at := i; at > 0; at = all.bars[at].parent {
			prefix = append(prefix, stackFrame{all.of.methods[all.bars[at].method].Name, all.bars[at].offset})
		}
		slices.Reverse(prefix)
		o.Root, o.Width = all.bars[i].id(), width
		below := mustFlame(t, p, o)
		if diff := gocmp.Diff(bruteBelow(stacks, prefix, all.bars[i].total[0].Time, int64(width)), linesOf(t, below, prefix)); diff != "" {
			t.Fatalf("below %v (-want +got):\n%s", prefix, diff)
		}
		if below.bars[0].path != all.bars[i].path || below.bars[0].step != all.bars[i].step {
			t.Fatalf("the id %s finds another frame", o.Root)
		}
	})
}

// TestFlameByActivations: a frame is as wide as the calls of it and of all below it, and what it has for itself are its
// own calls: down and up, of the whole and of a method, whatever is cut.
func TestFlameByActivations(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		p := New("p", profiletest.Fold(profiletest.Samples(t, names), names))
		o := FlameOptions{By: compare.ByActivations, Invert: rapid.Bool().Draw(t, "up"), Width: rapid.UintRange(1, 40).Draw(t, "width"), Frames: mostFrames}
		var path []string
		if rapid.Bool().Draw(t, "focus") {
			path = []string{string(profiletest.Methods[rapid.IntRange(0, len(profiletest.Methods)-1).Draw(t, "name")])}
			o.Focus = mustFocus(t, p, path)
		}
		stacks := turned(stacksBy(p.Snapshot, func(c ccmap.Counters) int64 { return c.Activations }), path, o.Invert)
		v, err := NewFlame(p, o)
		if p.Total().Activations == 0 && p.Total().Samples > 0 {
			if err == nil {
				t.Fatal("there is a graph by activations, of which the profile knows none")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		got, want := linesOf(t, v, nil), bruteBelow(stacks, nil, wholeOf(stacks), int64(o.Width))
		for _, lines := range [][]line{got, want} {
			for i := range lines {
				lines[i].More = 0 // of the graph's, some have samples and no calls
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("the cut is not that of all calls (-want +got):\n%s", diff)
		}
		if len(path) == 0 && !o.Invert {
			if of := v.measure.of(v.bars[0].total[0]); of != p.Total().Activations {
				t.Fatalf("%d calls of %d", of, p.Total().Activations)
			}
		}
	})
}

func wholeOf(stacks []stack) (sum int64) {
	for _, s := range stacks {
		sum += s.self
	}
	return sum
}

func mustFocus(t rapid.TB, p *Profile, path []string) *query.Query {
	t.Helper()
	parsed, err := query.ParsePath(strings.Join(path, " > "))
	if err != nil {
		t.Fatal(err)
	}
	q, err := query.New(p.Snapshot, parsed, query.Named)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func mustFlame(t rapid.TB, p *Profile, o FlameOptions) *Flame {
	t.Helper()
	v, err := NewFlame(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFlameIDsAreStable: the same stacks have the same ids in a profile whose methods and nodes have other numbers.
func TestFlameIDsAreStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names, others := ccmap.NewNames(), ccmap.NewNames()
		samples := profiletest.Samples(t, names)
		for _, name := range "ZDCBA" {
			others.Intern(ccmap.Method{Name: string(name), File: "f.go", StartLine: profiletest.StartLine})
		}
		turned := slices.Clone(samples)
		slices.Reverse(turned)
		for i := range turned {
			turned[i].Frames = slices.Clone(turned[i].Frames)
			for j, f := range turned[i].Frames {
				turned[i].Frames[j].Method = others.Intern(names.At(f.Method))
			}
		}
		o := FlameOptions{Width: 1 << 20, Invert: rapid.Bool().Draw(t, "up")}
		a, b := mustFlame(t, New("a", profiletest.Fold(samples, names)), o), mustFlame(t, New("b", profiletest.Fold(turned, others)), o)
		if diff := gocmp.Diff(list(a.bars, bar.id), list(b.bars, bar.id)); diff != "" {
			t.Fatalf("ids differ (-a +b):\n%s", diff)
		}
		seen := map[string]bool{}
		for _, b := range a.bars {
			if seen[b.id()] {
				t.Fatalf("two frames have the id %s", b.id())
			}
			seen[b.id()] = true
		}
	})
}

// TestFlameIsBounded: of too many frames the narrow ones are summed up, and that is said.
func TestFlameIsBounded(t *testing.T) {
	t.Parallel()
	p := New("p", profiletest.Thicket(1).Snapshot())
	v := mustFlame(t, p, FlameOptions{Width: 1 << 20, Frames: 50})
	if !v.cut || len(v.bars) > 50 || len(v.bars) < 5 || v.Width >= 1<<20 {
		t.Errorf("%d frames of 1/%d or more", len(v.bars), v.Width)
	}
	same := mustFlame(t, p, FlameOptions{Width: uint(v.Width)})
	if same.cut || len(same.bars) != len(v.bars) {
		t.Errorf("by 1/%d there are %d frames and %d", v.Width, len(v.bars), len(same.bars))
	}
	var text strings.Builder
	if err := v.Text(&text, TextOptions{}); err != nil || !strings.Contains(text.String(), fmt.Sprintf("There are too many frames: those under 1/%d of the whole are summed up.\n", v.Width)) {
		t.Errorf("%v, the text does not say so:\n%s", err, text.String())
	}
	if one := mustFlame(t, p, FlameOptions{Frames: 1}); len(one.bars) != 1 || one.bars[0].rest[0].Time != p.Total().Time {
		t.Errorf("with one frame, there are %d", len(one.bars))
	}
}

// TestFlameOfNothing: an empty profile has a root, and an id must be one of a frame.
func TestFlameOfNothing(t *testing.T) {
	t.Parallel()
	p := New("p", ccmap.New(ccmap.Options{}).Snapshot())
	for _, up := range []bool{false, true} {
		if v := mustFlame(t, p, FlameOptions{Invert: up}); len(v.bars) != 1 || v.title(0) != wholeTitle {
			t.Errorf("an empty profile has %d frames", len(v.bars))
		}
		for root, code := range map[string]Code{"2f4d07c1e5a0b9d3": CodeNoTarget, "1": CodeUsage, "x": CodeUsage, "-000000000000001": CodeUsage} {
			if _, err := NewFlame(p, FlameOptions{Root: root, Invert: up}); err == nil || ErrorOf(err).Code != code {
				t.Errorf("root %s: %v, want the code %s", root, err, code)
			}
		}
	}
}

// millionNodes returns a profile of a million nodes, and its methods.
func millionNodes() (p *Profile, methods []ccmap.MethodID) {
	m := ccmap.New(ccmap.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		methods = append(methods, m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("example.com/service/part%d.(*Type).Method%d", i/50, i)}))
	}
	nodes := []ccmap.NodeID{m.Root()}
	for len(nodes) < 1_000_000 {
		// A stack leaves another one somewhere, and goes on for a while.
		at := nodes[rng.IntN(len(nodes))]
		if rng.IntN(2) == 0 {
			at = nodes[rng.IntN(min(len(nodes), 1000))]
		}
		for range 1 + rng.IntN(20) {
			at = m.Child(at, uint32(rng.IntN(4)), methods[rng.IntN(len(methods))])
			nodes = append(nodes, at)
		}
		m.Add(at, ccmap.Counters{Samples: 1, Time: 1 + int64(1e9/float64(len(nodes)))})
	}
	return New("p", m.Snapshot()), methods
}

// BenchmarkFlame lays out a profile of a million nodes.
func BenchmarkFlame(b *testing.B) {
	p, methods := millionNodes()
	whole := mustFlame(b, p, FlameOptions{Width: 1 << 20, Frames: mostFrames})
	hot := whole.bars[len(whole.bars)/2]
	for _, shape := range []struct {
		name string
		o    FlameOptions
	}{
		{"show=whole/width=1024", FlameOptions{Width: 1024}},
		{"show=whole/width=8192", FlameOptions{Width: 8192}},
		{"show=below/width=1024", FlameOptions{Width: 1024, Root: hot.id()}},
		{"show=callers/width=1024", FlameOptions{Width: 1024, Invert: true}},
		{"show=callees/width=1024", FlameOptions{Width: 1024, Focus: mustFocus(b, p, []string{p.Names().At(methods[7]).Name})}},
	} {
		b.Run(shape.name, func(b *testing.B) {
			for b.Loop() {
				v := mustFlame(b, p, shape.o)
				b.ReportMetric(float64(len(v.bars)), "frames")
			}
		})
	}
}
