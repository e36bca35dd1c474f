package managed_test

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// newManual returns a profiler without a marker, with rings of words words.
func newManual(words int, burst managed.Burst) *managed.Profiler {
	sink := sampler.Sink{Queue: queue.New(queue.Options{RingWords: words})}
	return managed.New(managed.Options{Sink: sink, Interval: -1, Burst: burst})
}

// attachDeep attaches a thread with a number of calls on its stack.
func attachDeep(p *managed.Profiler, calls int) *modelThread {
	t := &modelThread{Thread: p.Attach(managed.ThreadOptions{})}
	for range calls {
		t.call(0)
	}
	return t
}

// drain returns the published samples.
func drain(p *managed.Profiler) []ccmap.Sample {
	var all []ccmap.Sample
	p.Sink().Queue.Drain(func(s *ccmap.Sample) {
		kept := *s
		kept.Frames = append([]ccmap.Frame(nil), s.Frames...)
		all = append(all, kept)
	})
	return all
}

// A sample that a full ring refuses marks nothing. The next sample also stands for its
// time.
func TestDrop(t *testing.T) {
	t.Parallel()
	p := newManual(64, managed.Burst{})
	g := attachDeep(p, 30)
	for range 5 { // 37 words, then 4 × 8 > 64 words
		p.Mark(time.Millisecond)
		g.Safepoint(g)
	}
	g.call(1)
	p.Mark(time.Millisecond)
	g.Safepoint(g)
	before := drain(p)
	p.Mark(time.Millisecond)
	g.Safepoint(g)
	g.Detach()
	after := drain(p)
	if len(before) != 4 || len(after) != 1 || p.Sink().Queue.Stats().Dropped != 2 {
		t.Fatalf("%d samples before, %d after, %d dropped", len(before), len(after), p.Sink().Queue.Stats().Dropped)
	}
	if s := after[0]; s.Fresh != 1 || s.Depth != 30 || s.Weight != int64(3*time.Millisecond) {
		t.Errorf("the sample after two drops is %+v", s)
	}
}

// A stack deeper than a sample can hold is known from partial samples. A walk that should
// be whole becomes partial again.
func TestDeeperThanSamples(t *testing.T) {
	t.Parallel()
	p := newManual(64, managed.Burst{})
	folded := ccmap.New(ccmap.Options{Names: p.Sink().Names})
	p.Sink().Names.Intern(ccmap.Method{Name: "m"})
	g := attachDeep(p, 50)
	for range 300 {
		p.Mark(time.Millisecond)
		g.Safepoint(g)
		g.Park()
		g.Unpark()
		p.Sink().Queue.Drain(folded.Fold)
		if len(g.calls) < 100 {
			g.call(0)
		}
	}
	if n := p.Stats().Counts[sampler.Truncated]; n > 0 || folded.Meta().Loss != (ccmap.Loss{}) {
		t.Errorf("%d samples truncated; loss %+v", n, folded.Meta().Loss)
	}
	if got := folded.Snapshot().Total(); got.Samples != 300 || got.Activations != 100 {
		t.Errorf("the map has %+v", got)
	}
}

// The samples of a burst share the weight of its mark. All but the first are early.
func TestBurst(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{Samples: 4, Stride: 3})
	g := attachDeep(p, 1)
	taken := 0
	for range 2 {
		p.Mark(10 * time.Millisecond)
		for i := range 20 {
			before := p.Stats().Counts[sampler.Samples]
			g.Safepoint(g)
			if took := p.Stats().Counts[sampler.Samples] > before; took != (i%3 == 0 && i < 12) {
				t.Errorf("safe point %d after a mark: sample taken: %v", i, took)
			}
		}
	}
	g.Detach()
	for i, s := range drain(p) {
		taken++
		if s.Weight != int64(2500*time.Microsecond) || s.Early != (i%4 > 0) {
			t.Errorf("sample %d weighs %v; early: %v", i, time.Duration(s.Weight), s.Early)
		}
	}
	if taken != 8 {
		t.Errorf("%d samples", taken)
	}
}

// Sample reports whether a burst goes on, for a VM that polls a flag of its own.
func TestSampleAgain(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{Samples: 3})
	g := attachDeep(p, 1)
	var again []bool
	p.Mark(time.Millisecond)
	for range 4 {
		again = append(again, g.Sample(g))
	}
	if again[0] != true || again[1] != true || again[2] || again[3] || p.Stats().Counts[sampler.Samples] != 3 {
		t.Errorf("again: %v; %d samples", again, p.Stats().Counts[sampler.Samples])
	}
}

// A detached thread that goes on is walked once at most.
func TestDetachedThreadGoesOn(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	g := attachDeep(p, 1)
	g.Detach()
	walks := 0
	for range 10 {
		p.Mark(time.Millisecond)
		g.Safepoint(walkerFunc(func(visit func(managed.Frame) bool) {
			walks++
			g.Walk(visit)
		}))
	}
	if s, q := p.Stats(), p.Sink().Queue.Stats(); walks > 1 || s.Counts[sampler.Samples] != 0 || q.Rings != 0 {
		t.Errorf("%d walks, %d samples, %d rings", walks, s.Counts[sampler.Samples], q.Rings)
	}
}

// A mark for a negative time counts as 0.
func TestNegativeTime(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	g := attachDeep(p, 1)
	for _, d := range []time.Duration{-time.Second, time.Millisecond} {
		p.Mark(d)
		g.Safepoint(g)
	}
	g.Detach()
	if all := drain(p); all[0].Weight != 0 || all[1].Weight != int64(time.Millisecond) {
		t.Errorf("samples: %+v", all)
	}
}

// Parked threads are not sampled, and their time does not count.
func TestPark(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	g := attachDeep(p, 1)
	p.Mark(time.Second)
	g.Safepoint(g)
	g.Park()
	if n := len(drain(p)); n != 1 {
		t.Errorf("%d samples published", n)
	}
	p.Mark(time.Second)
	g.Safepoint(g)
	g.Unpark()
	g.Safepoint(g)
	p.Mark(time.Millisecond)
	g.Safepoint(g)
	g.Detach()
	if all := drain(p); len(all) != 1 || all[0].Weight != int64(time.Millisecond) {
		t.Errorf("samples after the parking: %+v", all)
	}
}

// An activation is counted once for any number of attachments of its thread. A new
// profiler counts it again.
func TestSecondSession(t *testing.T) {
	t.Parallel()
	first := newManual(0, managed.Burst{})
	g := attachDeep(first, 3)
	fresh := func(p *managed.Profiler) int32 {
		g.Detach()
		g.Thread = p.Attach(managed.ThreadOptions{})
		p.Mark(time.Millisecond)
		g.Safepoint(g)
		g.Park()
		return drain(p)[0].Fresh
	}
	if a, b, c := fresh(first), fresh(first), fresh(newManual(0, managed.Burst{})); a != 3 || b != 0 || c != 3 {
		t.Errorf("%d, %d and, in another session, %d new activations", a, b, c)
	}
}

// A mark from another thread's sample says that the activation is old, but not its depth
// on this stack.
func TestActivationOfAnotherThread(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	from, to := attachDeep(p, 7), attachDeep(p, 2)
	for range 2 {
		p.Mark(time.Millisecond)
		from.Safepoint(from)
		to.Safepoint(to)
		if len(to.calls) == 2 {
			to.calls = append(to.calls, from.calls[6])
			from.ret()
		}
	}
	from.Detach()
	drain(p)
	to.Detach()
	all := drain(p)
	if s := all[1]; len(s.Frames) != 2 || s.Depth != 2 || s.Fresh != 0 || s.Top != ccmap.TopRepeated {
		t.Errorf("sample: %+v", s)
	}
}

// slotless shows frames without slots, above those of a thread.
type slotless struct {
	g     *modelThread
	above int
}

func (w slotless) Walk(visit func(managed.Frame) bool) {
	for range w.above {
		if !visit(managed.Frame{}) {
			return
		}
	}
	w.g.Walk(visit)
}

// Frames without a slot are new if the frames below are.
func TestFramesWithoutSlot(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	g := attachDeep(p, 2)
	for range 2 {
		p.Mark(time.Millisecond)
		g.Safepoint(slotless{g, 1})
	}
	g.calls = nil
	p.Mark(time.Millisecond)
	g.Safepoint(slotless{g, 1})
	g.Detach()
	all := drain(p)
	if all[0].Fresh != 3 || all[0].Top != ccmap.TopNew {
		t.Errorf("on new calls: %+v", all[0])
	}
	if all[1].Fresh != 0 || all[1].Top != ccmap.TopUnknown || all[1].Depth != 2 {
		t.Errorf("on old calls: %+v", all[1])
	}
	if all[2].Fresh != ccmap.FreshUnknown || all[2].Depth != 0 {
		t.Errorf("alone: %+v", all[2])
	}
}

// walkerFunc is a walker.
type walkerFunc func(visit func(managed.Frame) bool)

func (f walkerFunc) Walk(visit func(managed.Frame) bool) { f(visit) }

// If a walker panics, its thread is switched off. The VM and other threads go on.
func TestPanickingWalker(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{Samples: 3})
	g, other := attachDeep(p, 1), attachDeep(p, 1)
	for range 3 {
		p.Mark(time.Millisecond)
		g.Safepoint(walkerFunc(func(visit func(managed.Frame) bool) {
			g.Walk(visit)
			panic("broken")
		}))
		other.Safepoint(other)
	}
	if s := p.Stats(); s.Counts[sampler.Panicked] != 1 || s.Counts[sampler.Samples] != 3 || s.Threads != 2 {
		t.Errorf("stats: %+v", s)
	}
	g.Detach()
	g.Thread = p.Attach(managed.ThreadOptions{})
	p.Mark(time.Millisecond)
	if g.Safepoint(g); p.Stats().Counts[sampler.Samples] != 4 {
		t.Error("not sampled, attached again")
	}
}

// A goroutine that a walker ends leaves no lock held.
func TestGoexitInWalker(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	g := attachDeep(p, 1)
	done := make(chan struct{})
	p.Mark(time.Millisecond)
	go func() {
		defer close(done)
		g.Safepoint(walkerFunc(func(func(managed.Frame) bool) { runtime.Goexit() }))
		t.Error("the goroutine goes on")
	}()
	<-done
	p.Mark(time.Millisecond)
	g.Safepoint(g)
	g.Detach()
	if s := p.Stats(); s.Counts[sampler.Panicked] != 0 || s.Counts[sampler.Samples] != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// A walker that runs code of the VM, or detaches its thread, does no harm.
func TestWalkerThatCallsBack(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	g := attachDeep(p, 1)
	p.Mark(time.Millisecond)
	g.Safepoint(walkerFunc(func(visit func(managed.Frame) bool) {
		p.Mark(time.Millisecond)
		g.Safepoint(g)
		g.Walk(visit)
		g.Detach()
	}))
	if s := p.Stats(); s.Counts[sampler.Samples] != 0 || s.Threads != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// The garbage collector detaches a forgotten thread, and its ring goes on to the next
// one.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	func() {
		g := attachDeep(p, 1)
		p.Mark(time.Millisecond)
		g.Safepoint(g)
	}()
	for p.Stats().Counts[sampler.Abandoned] == 0 {
		runtime.GC()
	}
	g := attachDeep(p, 1)
	p.Mark(time.Millisecond)
	g.Safepoint(g)
	g.Detach()
	g.Detach()
	if s, q := p.Stats(), p.Sink().Queue.Stats(); len(drain(p)) != 2 || q.Rings != 1 || s.Threads != 0 || s.Counts[sampler.Abandoned] != 1 {
		t.Errorf("%+v, %d rings", s, q.Rings)
	}
}

// Thousands of threads that come and go share few rings, and no ring is lost.
func TestManyThreads(t *testing.T) {
	t.Parallel()
	p := newManual(512, managed.Burst{})
	samples := 0
	for range 5000 {
		g := attachDeep(p, 5)
		p.Mark(time.Millisecond)
		g.Safepoint(g)
		g.Detach()
		samples += len(drain(p))
	}
	if q := p.Sink().Queue.Stats(); samples != 5000 || q.Rings != 1 || p.Stats().Threads != 0 {
		t.Errorf("%d samples, %d rings, %d threads left", samples, q.Rings, p.Stats().Threads)
	}
}

// A map forgets stacks of threads if there are too many. The threads notice, and no
// sample is an orphan.
func TestForgottenThreads(t *testing.T) {
	t.Parallel()
	p := newManual(16, managed.Burst{})
	m := ccmap.New(ccmap.Options{Names: p.Sink().Names})
	p.Sink().Names.Intern(ccmap.Method{Name: "m"})
	all := make([]*modelThread, 17_000) // a map remembers 16,384
	for i := range all {
		all[i] = attachDeep(p, 3)
	}
	for range 3 {
		for _, g := range all {
			p.Mark(time.Millisecond)
			g.Safepoint(g)
			g.Park()
			g.Unpark()
		}
		p.Sink().Queue.Drain(m.Fold)
	}
	if loss, total := m.Meta().Loss, m.Snapshot().Total(); loss != (ccmap.Loss{}) || total.Activations != 51_000 || total.Samples != 51_000 {
		t.Errorf("lost %+v; total %+v", loss, total)
	}
	for _, g := range all {
		g.Detach()
	}
}

// A safe point, a sample and a caught call do not allocate.
func TestNoAllocations(t *testing.T) {
	p := newManual(0, managed.Burst{})
	g := attachDeep(p, 100)
	fold := func(*ccmap.Sample) {}
	for name, f := range map[string]func(){
		"not marked": func() { g.Safepoint(g) },
		"sample": func() {
			for _, a := range g.calls[50:] {
				a.mark.Clear()
			}
			p.Mark(time.Second)
			g.Safepoint(g)
			if g.CallsWanted() {
				g.Called(0, g)
			}
			p.Sink().Queue.Drain(fold)
		},
		"park": func() { g.Park(); g.Unpark() },
	} {
		if n := testing.AllocsPerRun(100, f); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The tests at safe points and calls inline into the VM.
func TestInlining(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package")
	}
	t.Parallel()
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, method := range []string{"Safepoint", "CallsWanted"} {
		if !strings.Contains(string(out), "can inline (*Thread)."+method+"\n") {
			t.Errorf("%s does not inline", method)
		}
	}
}
