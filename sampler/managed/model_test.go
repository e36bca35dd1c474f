package managed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// modelMethods is the number of methods that a model's threads call.
const modelMethods = 4

func modelMethod(n int) ccmap.MethodID { return ccmap.FirstID + ccmap.MethodID(n%modelMethods) }

// activation is one call in a model.
type activation struct {
	frame ccmap.Frame
	mark  managed.Mark
	seen  bool // by a sample
}

// modelThread is a thread that knows its stack.
type modelThread struct {
	*managed.Thread
	calls []*activation // outermost first
}

// Walk implements managed.Walker.
func (t *modelThread) Walk(visit func(managed.Frame) bool) {
	for i := len(t.calls) - 1; i >= 0; i-- {
		a := t.calls[i]
		if !visit(managed.Frame{Method: a.frame.Method, Offset: a.frame.Offset, Mark: &a.mark}) {
			return
		}
	}
}

func (t *modelThread) call(method ccmap.MethodID) {
	t.calls = append(t.calls, &activation{frame: ccmap.Frame{Method: method}})
}

func (t *modelThread) ret() {
	if n := len(t.calls); n > 0 {
		t.calls = t.calls[:n-1]
	}
}

// step moves the innermost activation on.
func (t *modelThread) step() {
	if n := len(t.calls); n > 0 {
		a := t.calls[n-1]
		a.frame.Offset = (a.frame.Offset + 1) % 3
	}
}

func (t *modelThread) frames() []ccmap.Frame {
	var frames []ccmap.Frame
	for i := len(t.calls) - 1; i >= 0; i-- {
		frames = append(frames, t.calls[i].frame)
	}
	return frames
}

// context is the path of the innermost call.
func (t *modelThread) context() string {
	path, site := "", ccmap.NoOffset
	for _, a := range t.calls {
		path += element(site, a.frame.Method)
		site = a.frame.Offset
	}
	return path
}

func element(site uint32, method ccmap.MethodID) string {
	return fmt.Sprintf("/%d:%d", int32(site), method)
}

// contextsOf returns samples and activations by context, with positions of their methods.
func contextsOf(m *ccmap.Map) map[string]ccmap.Counters {
	s := m.Snapshot()
	paths := make([]string, s.Len())
	all := make(map[string]ccmap.Counters)
	for n := range s.Nodes() {
		switch {
		case n.ID == 0:
			continue
		case n.Method == ccmap.NoMethod:
			paths[n.ID] = paths[n.Parent]
		default:
			paths[n.ID] = paths[n.Parent] + element(n.Offset, n.Method)
		}
		all[paths[n.ID]] = all[paths[n.ID]].Add(n.Self)
	}
	return all
}

// model is a VM that counts its calls, a profiler that samples it into one map, and
// another map of the whole stacks that the model knows.
type model struct {
	profiler *managed.Profiler
	sampled  *ccmap.Map
	whole    *ccmap.Map
	limit    int // frames of a sample
	deepest  int // greatest depth of a stack
	threads  []*modelThread
	calls    map[string]int64 // true ones, by context
	seen     int64            // activations
	taken    map[uint64][]taken
}

// taken is the model's record of a sample, for its delivery.
type taken struct {
	frames []ccmap.Frame
	fresh  int
}

func newModel(o queue.Options, burst managed.Burst) *model {
	names := ccmap.NewNames()
	for i := range modelMethods {
		names.Intern(ccmap.Method{Name: fmt.Sprint("m", i)})
	}
	sink := sampler.Sink{Queue: queue.New(o), Names: names}
	return &model{
		profiler: managed.New(managed.Options{Sink: sink, Interval: -1, Burst: burst}),
		sampled:  ccmap.New(ccmap.Options{Names: names}),
		whole:    ccmap.New(ccmap.Options{Names: names}),
		limit:    min(sink.Queue.MaxFrames(), 2048),
		deepest:  200,
		calls:    make(map[string]int64),
		taken:    make(map[uint64][]taken),
	}
}

func (m *model) attach() *modelThread {
	t := &modelThread{Thread: m.profiler.Attach(managed.ThreadOptions{})}
	m.threads = append(m.threads, t)
	return t
}

func (m *model) call(t *modelThread, method ccmap.MethodID) {
	if len(t.calls) == m.deepest {
		return
	}
	t.call(method)
	m.calls[t.context()]++
}

// safepoint lets the thread reach a safe point, and notes the sample there.
func (m *model) safepoint(t *modelThread) {
	before := m.profiler.Stats().Counts
	t.Safepoint(t)
	after := m.profiler.Stats().Counts
	if after[sampler.Samples] == before[sampler.Samples] {
		return
	}
	s := ccmap.Sample{Frames: t.frames(), Thread: t.ID(), Truncated: after[sampler.Truncated] > before[sampler.Truncated]}
	if s.Truncated {
		s.Frames = s.Frames[:m.limit]
	}
	s.Fresh = int32(m.look(t, len(s.Frames)))
	m.whole.Fold(&s)
	m.taken[s.Thread] = append(m.taken[s.Thread], taken{s.Frames, int(s.Fresh)})
}

// look marks activations as seen, and returns the number of unseen ones among the
// innermost n.
func (m *model) look(t *modelThread, n int) int {
	for i := range n {
		a := t.calls[len(t.calls)-1-i]
		if a.seen {
			return i
		}
		a.seen = true
		m.seen++
	}
	return n
}

// drain folds the published samples, and compares each with the thread's stack at its
// time.
func (m *model) drain(t *rapid.T) {
	m.profiler.Sink().Queue.Drain(func(s *ccmap.Sample) {
		want := m.taken[s.Thread][0]
		m.taken[s.Thread] = m.taken[s.Thread][1:]
		if diff := cmp.Diff(want.frames[:len(s.Frames)], s.Frames); diff != "" {
			t.Fatalf("frames (-want +got):\n%s", diff)
		}
		if int(s.Fresh) != want.fresh {
			t.Fatalf("%d activations are fresh instead of %d", s.Fresh, want.fresh)
		}
		if top := s.Top == ccmap.TopNew; top != (want.fresh > 0) || s.Top == ccmap.TopUnknown {
			t.Fatalf("top is %d with %d fresh activations", s.Top, want.fresh)
		}
		whole := len(s.Frames) == len(want.frames)
		if depth := len(want.frames) - len(s.Frames) + 1; !whole && int(s.Depth) != depth || whole && s.Depth > 1 {
			t.Fatalf("depth is %d of %d frames of %d", s.Depth, len(s.Frames), len(want.frames))
		}
		m.sampled.Fold(s)
	})
}

// op is an event for one of the model's threads; n is a repetition count or a method.
type op struct {
	name      string
	thread, n int
}

// ops are the possible events, by name.
var ops = map[string]func(t *rapid.T, m *model, g *modelThread, n int){
	"call":   func(_ *rapid.T, m *model, g *modelThread, n int) { m.call(g, modelMethod(n)) },
	"return": func(_ *rapid.T, _ *model, g *modelThread, _ int) { g.ret() },
	"step":   func(_ *rapid.T, _ *model, g *modelThread, _ int) { g.step() },
	"recurse": func(_ *rapid.T, m *model, g *modelThread, n int) {
		for range n {
			m.call(g, 0)
		}
	},
	"unwind": func(_ *rapid.T, _ *model, g *modelThread, n int) {
		for range n {
			g.ret()
		}
	},
	"mark":      func(_ *rapid.T, m *model, _ *modelThread, _ int) { m.profiler.Mark(time.Millisecond) },
	"safepoint": func(_ *rapid.T, m *model, g *modelThread, _ int) { m.safepoint(g) },
	"sample": func(_ *rapid.T, m *model, _ *modelThread, _ int) {
		m.profiler.Mark(time.Millisecond)
		for _, g := range m.threads {
			m.safepoint(g)
		}
	},
	"reattach": func(_ *rapid.T, m *model, g *modelThread, _ int) { // in the middle of its calls
		g.Detach()
		g.Thread = m.profiler.Attach(managed.ThreadOptions{})
	},
	"park":   func(_ *rapid.T, _ *model, g *modelThread, _ int) { g.Park() },
	"unpark": func(_ *rapid.T, _ *model, g *modelThread, _ int) { g.Unpark() },
	"drain":  func(t *rapid.T, m *model, _ *modelThread, _ int) { m.drain(t) },
}

// often lists the names of ops, repeated by their frequency.
var often = []string{
	"call", "call", "call", "call", "return", "return", "return", "step", "recurse", "unwind",
	"mark", "safepoint", "sample", "sample", "sample", "sample", "reattach", "park", "unpark", "unpark", "drain",
}

var drawOp = rapid.Custom(func(t *rapid.T) op {
	return op{
		name:   rapid.SampledFrom(often).Draw(t, "op"),
		thread: rapid.IntRange(0, 5).Draw(t, "thread"),
		n:      rapid.IntRange(0, 40).Draw(t, "n"),
	}
})

// run lets events happen to some threads, and folds the samples.
func (m *model) run(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "threads") {
		m.attach()
	}
	lengths := []int{20, 200, 1000}
	if testing.Short() {
		lengths = lengths[:2]
	}
	steps := rapid.SampledFrom(lengths).Draw(t, "steps")
	for _, o := range rapid.SliceOfN(drawOp, steps/2, steps).Draw(t, "ops") {
		ops[o.name](t, m, m.threads[o.thread%len(m.threads)], o.n)
	}
	m.finish(t)
}

// finish detaches all threads and folds the rest.
func (m *model) finish(t *rapid.T) {
	for _, g := range m.threads {
		g.Detach()
	}
	m.drain(t)
}

// check compares the sampled map with the map of whole stacks, and with all calls.
func (m *model) check(t *rapid.T) {
	if err := m.sampled.CheckValid(); err != nil {
		t.Fatal(err)
	}
	if loss := m.sampled.Meta().Loss; loss != (ccmap.Loss{}) {
		t.Fatalf("loss: %+v", loss)
	}
	got, want := contextsOf(m.sampled), contextsOf(m.whole)
	for _, of := range []map[string]ccmap.Counters{got, want} {
		for path, c := range of {
			c.Time = 0
			of[path] = c
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("contexts (-whole +sampled):\n%s", diff)
	}
	if total := m.sampled.Snapshot().Total().Activations; total != m.seen {
		t.Fatalf("%d activations sampled, %d seen", total, m.seen)
	}
}

// checkCalls checks that no context has more activations than it had calls.
func (m *model) checkCalls(t *rapid.T) {
	for path, c := range contextsOf(m.sampled) {
		if c.Activations > m.calls[path] {
			t.Fatalf("%s: %d activations of %d calls", path, c.Activations, m.calls[path])
		}
	}
}

// Partial samples fold to the same map as whole ones, for any events and any drops by
// full rings.
func TestPartialSamplesFoldAsWholeOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		burst := managed.Burst{Samples: rapid.IntRange(0, 3).Draw(t, "burst"), Stride: rapid.IntRange(0, 2).Draw(t, "stride")}
		words := rapid.SampledFrom([]int{256, 4096}).Draw(t, "words")
		m := newModel(queue.Options{RingWords: words}, burst)
		m.deepest = m.limit
		m.run(t)
		m.check(t)
		m.checkCalls(t)
	})
}

// Stacks that a ring cannot hold are cut. Activations that are cut off are not counted
// before a sample sees them.
func TestCutStacks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(queue.Options{RingWords: 32}, managed.Burst{})
		m.run(t)
		m.check(t)
	})
}
