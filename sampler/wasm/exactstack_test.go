package wasm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// tree is a call with the calls that it makes.
type tree struct {
	method ccmap.MethodID
	parts  []part // instructions and calls
}

type part struct {
	instructions int64
	site         uint32
	callee       *tree // nil in the last part
}

const treeMethods = 4

// drawTree draws a call with all calls below it. A long chain of depth calls is likely.
func drawTree(t *rapid.T, depth int) *tree {
	r := &tree{method: ccmap.FirstID + ccmap.MethodID(rapid.IntRange(0, treeMethods-1).Draw(t, "method"))}
	calls := 0
	if depth > 0 {
		calls = rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3}).Draw(t, "calls")
	}
	for range calls {
		r.parts = append(r.parts, part{
			int64(rapid.IntRange(0, 5).Draw(t, "instructions")),
			uint32(rapid.IntRange(0, 2).Draw(t, "site")),
			drawTree(t, depth-1),
		})
		depth /= 2
	}
	r.parts = append(r.parts, part{instructions: int64(rapid.IntRange(0, 5).Draw(t, "rest"))})
	return r
}

func method(m ccmap.MethodID) activation { return activation{frame: ccmap.Frame{Method: m}} }

// run makes the calls of a tree on a stack, under the caller's site.
func (r *tree) run(c *callStack, site uint32, push func(*ccmap.Sample)) {
	c.enter(method(r.method), site, push)
	for _, p := range r.parts {
		c.spend(p.instructions)
		if p.callee != nil {
			p.callee.run(c, p.site, push)
		}
	}
	c.leave(push)
}

// count adds a tree to a map directly.
func (r *tree) count(m *ccmap.Map, parent ccmap.NodeID, site uint32) {
	n := m.Child(parent, site, r.method)
	c := ccmap.Counters{Activations: 1}
	for _, p := range r.parts {
		c.Time += p.instructions
		if p.callee != nil {
			p.callee.count(m, n, p.site)
		}
	}
	m.Add(n, c)
}

func newTreeMap() *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	for _, name := range []string{"a", "b", "c", "d"} {
		m.Names().Intern(ccmap.Method{Name: name})
	}
	return m
}

// contexts returns time and activations of every context of a map.
func contexts(m *ccmap.Map) map[string]ccmap.Counters {
	s := m.Snapshot()
	paths := make([]string, s.Len())
	all := make(map[string]ccmap.Counters)
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		paths[n.ID] = paths[n.Parent] + "/" + string(rune('0'+n.Method)) + string(rune('0'+n.Offset%10))
		c := n.Self
		c.Samples = 0
		all[paths[n.ID]] = c
	}
	return all
}

// The samples of a stack fold to exactly its calls, at any depth.
func TestCallStackIsExact(t *testing.T) {
	ofOneGoroutine(t)
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c callStack
		got, want := newTreeMap(), newTreeMap()
		for range rapid.IntRange(1, 3).Draw(t, "trees") {
			r := drawTree(t, 3*mostUnseen)
			r.run(&c, ccmap.NoOffset, got.Fold)
			r.count(want, want.Root(), ccmap.NoOffset)
		}
		if diff := cmp.Diff(contexts(want), contexts(got)); diff != "" {
			t.Fatalf("contexts (-want +got):\n%s", diff)
		}
		if loss := got.Meta().Loss; loss != (ccmap.Loss{}) || !got.ActivationsExact() {
			t.Fatalf("lost %+v; exact: %v", loss, got.ActivationsExact())
		}
	})
}

// A stack that is flushed in the middle has reported all instructions so far. Later ones
// are counted once.
func TestCallStackFlush(t *testing.T) {
	t.Parallel()
	var c callStack
	m := newTreeMap()
	for i := range 3 {
		c.enter(method(ccmap.FirstID+ccmap.MethodID(i)), 7, m.Fold)
		c.spend(10)
	}
	c.flush(m.Fold)
	c.spend(5)
	c.leave(m.Fold)
	c.flush(m.Fold)
	want := ccmap.Counters{Samples: 6, Time: 35, Activations: 3}
	if got := m.Snapshot().Total(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The cost of a call does not depend on the depth of the stack.
func TestCallStackWalksEachCallOnce(t *testing.T) {
	t.Parallel()
	const depth, calls = 10_000, 1_000
	var c callStack
	frames := 0
	push := func(s *ccmap.Sample) { frames += len(s.Frames) }
	for range depth {
		c.enter(method(0), 1, push)
	}
	for range calls {
		c.enter(method(1), 2, push)
		c.leave(push)
	}
	c.leaveTo(0, push)
	if most := 3 * (depth + calls); frames > most {
		t.Errorf("%d frames pushed for %d calls, want at most %d", frames, depth+calls, most)
	}
}

func TestCallStackAllocatesNothing(t *testing.T) {
	var c callStack
	push := func(*ccmap.Sample) {}
	if n := testing.AllocsPerRun(100, func() {
		c.enter(method(0), 1, push)
		c.enter(method(1), 2, push)
		c.leaveTo(0, push)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
