package ccmap_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawStacks draws a few stacks that share frames, some with a method that no table holds yet.
func drawStacks(t *rapid.T, methods uint32) [][]ccmap.Frame {
	frame := rapid.Custom(func(t *rapid.T) ccmap.Frame {
		return ccmap.Frame{
			Method: ccmap.MethodID(rapid.Uint32Range(0, methods).Draw(t, "method")),
			Offset: rapid.SampledFrom([]uint32{1, 2, ccmap.NoOffset}).Draw(t, "offset"),
		}
	})
	shared := rapid.SliceOfN(frame, 0, 20).Draw(t, "shared")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []ccmap.Frame {
		inner := rapid.SliceOfN(frame, 1, 20).Draw(t, "inner")
		return append(inner, shared...)
	}), 1, 4).Draw(t, "stacks")
}

// drawSample draws a sample of one of the stacks, mostly a whole one. Anything may be wrong with
// it.
func drawSample(t *rapid.T, stacks [][]ccmap.Frame) ccmap.Sample {
	frames := rapid.SampledFrom(stacks).Draw(t, "stack")
	s := ccmap.Sample{
		Frames:    frames,
		Thread:    rapid.Uint64Range(0, 2).Draw(t, "thread"),
		Goroutine: rapid.Uint64Range(0, 1).Draw(t, "goroutine"),
		Time:      rapid.Int64Range(0, 5e9).Draw(t, "time"),
		Weight:    rapid.Int64Range(0, 1000).Draw(t, "weight"),
		Top:       rapid.SampledFrom([]ccmap.Repetition{ccmap.TopUnknown, ccmap.TopNew, ccmap.TopRepeated}).Draw(t, "top"),
		Fresh:     rapid.Int32Range(ccmap.FreshUnknown, int32(len(frames))).Draw(t, "fresh"),
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		s.Truncated = true
	case 1:
		s.Frames = frames[:rapid.IntRange(1, len(frames)).Draw(t, "walked")]
		s.Depth = uint32(len(frames) - len(s.Frames) + 1)
	}
	return s
}

// TestKnownStacksAreInvisible compares a map with one that forgets its known stacks before each sample and
// counts it at once: all that they say, and their ids of nodes, are the same, through prunes, snapshots,
// moves of the clock, counts that are added and new names.
func TestKnownStacksAreInvisible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		intern := func(m ccmap.Method) { names.Intern(m) }
		for _, name := range []string{"A", "B"} {
			intern(ccmap.Method{Name: name})
		}
		intern(ccmap.LabelsMethod([]ccmap.Label{{Key: "k", Value: "v"}}))
		stacks := drawStacks(t, uint32(names.Len()))
		m := ccmap.New(ccmap.Options{Names: names, Window: time.Second})
		plain := ccmap.New(ccmap.Options{Names: names, Window: time.Second})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "step") {
			case 0:
				nodes := rapid.IntRange(0, m.Len()).Draw(t, "nodes")
				m.PruneTo(nodes)
				plain.PruneTo(nodes)
			case 1:
				mustSayTheSame(t, m, plain)
			case 2:
				intern(ccmap.Method{Name: "new"})
			case 3:
				now := rapid.Int64Range(0, 5e9).Draw(t, "now")
				m.Advance(now)
				plain.Advance(now)
			case 4:
				n := ccmap.NodeID(rapid.IntRange(0, m.Len()-1).Draw(t, "node"))
				m.AddRecent(n, ccmap.Counters{Samples: 3})
				plain.AddRecent(n, ccmap.Counters{Samples: 3})
			case 5:
				window := time.Duration(rapid.Int64Range(0, 2).Draw(t, "window")) * time.Second
				m.SetWindow(window)
				plain.SetWindow(window)
			default:
				s := drawSample(t, stacks)
				m.Fold(&s)
				plain.ForgetStacks()
				plain.Fold(&s)
				plain.CountDue()
			}
		}
		mustBeValid(t, m)
		mustSayTheSame(t, m, plain)
	})
}

// TestKnownStackIsTheLastOne folds a known stack and then a partial sample of the same thread. The
// known stack completes it, and its frames are not new. With other frames in the last stack the sample
// would be an orphan, and without marks its calls would count again.
func TestKnownStackIsTheLastOne(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	var stacks [2][]ccmap.Frame // outermost frames differ, so nothing of one is kept for the other
	for i := range stacks {
		for depth := range 12 {
			stacks[i] = append(stacks[i], ccmap.Frame{Method: names.Intern(ccmap.Method{Name: fmt.Sprint(i, depth)})})
		}
	}
	m := ccmap.New(ccmap.Options{Names: names})
	plain := ccmap.New(ccmap.Options{Names: names})
	leaf := names.Intern(ccmap.Method{Name: "leaf"})
	for _, partial := range []bool{false, true} {
		for range 3 { // the third time a stack is known
			for _, stack := range stacks {
				whole := ccmap.Sample{Frames: stack, Fresh: ccmap.FreshUnknown}
				const kept = 7 // frames of the last stack that a partial sample keeps, with the one it names
				part := ccmap.Sample{Frames: []ccmap.Frame{{Method: leaf}, stack[len(stack)-kept]}, Depth: kept, Fresh: ccmap.FreshUnknown}
				samples := []ccmap.Sample{whole, whole, part}
				if !partial {
					samples = samples[:2]
				}
				for _, s := range samples {
					m.Fold(&s)
					plain.ForgetStacks()
					plain.Fold(&s)
				}
			}
		}
	}
	if n, _ := m.KnownStacks(); n != len(stacks) {
		t.Fatalf("%d stacks are known, want %d", n, len(stacks))
	}
	if d := cmp.Diff(said(plain.Snapshot()), said(m.Snapshot())); d != "" {
		t.Errorf("(-walked +known):\n%s", d)
	}
	if loss := m.Snapshot().Meta().Loss; loss.Orphaned != 0 {
		t.Errorf("%d partial samples are orphans", loss.Orphaned)
	}
}

func mustSayTheSame(t *rapid.T, m, plain *ccmap.Map) {
	t.Helper()
	got, want := m.Snapshot(), plain.Snapshot()
	if d := cmp.Diff(said(want), said(got)); d != "" {
		t.Fatalf("(-walked +known):\n%s", d)
	}
	if recent, on := got.Recent(); on {
		recentWant, _ := want.Recent()
		if d := cmp.Diff(said(recentWant), said(recent)); d != "" {
			t.Fatalf("recent counts (-walked +known):\n%s", d)
		}
	}
	if got.ActivationsExact() != want.ActivationsExact() {
		t.Fatalf("ActivationsExact() = %t", got.ActivationsExact())
	}
}

// TestKnownStacksAreBounded folds many stacks of few nodes each: the slots stay within their part of the
// nodes' memory. A prune drops them.
func TestKnownStacksAreBounded(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	method := names.Intern(ccmap.Method{Name: "A"})
	m := ccmap.New(ccmap.Options{Names: names})
	frames := make([]ccmap.Frame, 20)
	for i := range frames {
		frames[i].Method = method
	}
	for i := range uint32(20_000) {
		frames[0].Offset, frames[12].Offset = i, i/10
		for goroutine := range uint64(2) {
			m.Fold(&ccmap.Sample{Frames: frames, Goroutine: goroutine})
		}
		n, bytes := m.KnownStacks()
		if most := max(m.Bytes()/8, 32<<10); n == 0 || bytes > most {
			t.Fatalf("%d known stacks in %d bytes, want at most %d", n, bytes, most)
		}
	}
	mustBeValid(t, m)
	m.PruneTo(m.Len() / 2)
	if n, bytes := m.KnownStacks(); n != 0 || bytes != 0 {
		t.Errorf("%d stacks are known after a prune, in %d bytes", n, bytes)
	}
}

// TestKnownStacksRemoveNoContext folds the same stacks again and again into a map whose nodes take nearly
// all of its budget: stacks become known in the rest, and no context is removed for them.
func TestKnownStacksRemoveNoContext(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	var samples []ccmap.Sample
	for i := range uint32(20_000) {
		frames := make([]ccmap.Frame, 20)
		for j := range frames {
			frames[j] = ccmap.Frame{Method: names.Intern(ccmap.Method{Name: "A"}), Offset: ccmap.NoOffset}
		}
		frames[0].Offset, frames[12].Offset = i, i/10
		samples = append(samples, ccmap.Sample{Frames: frames, Goroutine: uint64(i % 2)})
	}
	plain := ccmap.New(ccmap.Options{Names: names})
	for i := range samples {
		plain.Fold(&samples[i])
	}
	for _, percent := range []int64{101, 105, 150} {
		m := ccmap.New(ccmap.Options{Names: names, MaxBytes: plain.Bytes() * percent / 100})
		for range 4 {
			m.FoldBatch(samples)
		}
		if pruned := m.Snapshot().Meta().Pruned; pruned.Times != 0 {
			t.Errorf("with %d %% of the memory that it needs, the map was pruned: %+v", percent, pruned)
		}
		if n, _ := m.KnownStacks(); percent == 150 && n == 0 {
			t.Error("no stack is known")
		}
	}
}

// TestFoldBatchIsFold folds stacks, known and new, one by one and in a batch, into maps that are pruned again and
// again. A prune gives other ids to nodes that the batch has found already.
func TestFoldBatchIsFold(t *testing.T) {
	t.Parallel()
	g := newCallGraph(200)
	samples := g.stacks(10_000, 5, 30)
	for i := range samples {
		if i%2 == 0 {
			samples[i].Frames = samples[i%50].Frames
		}
	}
	o := ccmap.Options{Names: g.names, Seed: 1, MaxBytes: 300 << 10}
	one, batch := ccmap.New(o), ccmap.New(o)
	for i := range samples {
		one.Fold(&samples[i])
	}
	batch.FoldBatch(samples)
	want, got := one.Snapshot(), batch.Snapshot()
	if d := cmp.Diff(said(want), said(got)); d != "" {
		t.Errorf("(-one by one +batch):\n%s", d)
	}
	if times := got.Meta().Pruned.Times; times < 5 {
		t.Errorf("the map was pruned %d times", times)
	}
	if err := batch.CheckValid(); err != nil {
		t.Error(err)
	}
}

// TestStackIDs checks that stacks which differ in one frame, in the order of two, or in their depth
// have different ids, for even and odd depths, and that the same stack has the same one.
func TestStackIDs(t *testing.T) {
	t.Parallel()
	checkStackIDs(t)
}

func checkStackIDs(t *testing.T) {
	t.Helper()
	id := ccmap.StackIDs(1)
	ids := map[[2]uint64]string{}
	add := func(what string, frames []ccmap.Frame) {
		t.Helper()
		this := id(frames)
		if other, found := ids[this]; found {
			t.Fatalf("%s of depth %d has the id of %s", what, len(frames), other)
		}
		if ids[this] = what; id(frames) != this {
			t.Fatal("a stack has two ids")
		}
	}
	for depth := 1; depth <= ccmap.MaxKnownDepth; depth = depth + 1 + depth/4 {
		frames := make([]ccmap.Frame, depth)
		add("zeros", frames)
		for i := range frames {
			frames[i] = ccmap.Frame{Method: ccmap.MethodID(i + 1), Offset: uint32(depth)}
		}
		add("a stack", frames)
		for i := range frames {
			frames[i].Offset++
			add("another offset", frames)
			frames[i].Offset--
			frames[i].Method |= 1 << 31
			add("another method", frames)
			frames[i].Method &^= 1 << 31
			if j := (i + 1) % depth; j > i {
				frames[i], frames[j] = frames[j], frames[i]
				add("another order", frames)
				frames[i], frames[j] = frames[j], frames[i]
			}
		}
	}
	full := make([]ccmap.Frame, ccmap.MaxKnownDepth)
	add("full depth", full)
}
