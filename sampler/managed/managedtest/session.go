package managedtest

import (
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// session is a profiler on a guest, and knows the right samples.
type session struct {
	vm       VM
	profiler *managed.Profiler
	thread   *managed.Thread
	folded   *ccmap.Map

	expected map[uint64][]expected // by thread: samples to be drained
	calls    map[string]int64      // the true calls of A and B, by context
	seen     int64                 // activations that samples have seen
	stop     int                   // of the last sample: the frames above A and B are old at it
	below    bool                  // so are the frames below
	err      error                 // of a drain
}

// expected is the right content of a sample.
type expected struct {
	depth int // of the stack
	fresh int
	top   ccmap.Repetition
}

func newSession(vm VM, o queue.Options) *session {
	sink := sampler.Sink{Queue: queue.New(o), Names: vm.Names}
	s := &session{
		vm:       vm,
		profiler: managed.New(managed.Options{Sink: sink, Interval: -1}),
		folded:   ccmap.New(ccmap.Options{Names: vm.Names}),
		expected: make(map[uint64][]expected),
		calls:    make(map[string]int64),
	}
	s.thread = s.profiler.Attach(managed.ThreadOptions{})
	return s
}

func (s *session) attachAgain() {
	s.thread.Detach()
	s.thread = s.profiler.Attach(managed.ThreadOptions{})
}

// count counts the innermost call of the program, at its first stop.
func (s *session) count(g *guest, w managed.Walker) {
	if !g.began {
		return
	}
	path, site := "", ccmap.NoOffset
	frames := walk(w)
	for i := len(frames) - 1; i >= g.above; i-- {
		path += element(site, frames[i].Method)
		site = frames[i].Offset
	}
	s.calls[path]++
}

// element is an element of a context: a call site and its callee.
func element(site uint32, m ccmap.MethodID) string { return fmt.Sprintf("/%d:%d", int32(site), m) }

// sample takes a sample, and notes its right content.
func (s *session) sample(g *guest, w managed.Walker) error {
	want := s.expect(g, walk(w))
	before := s.profiler.Stats().Counts[sampler.Samples]
	s.profiler.Mark(time.Millisecond)
	s.thread.Safepoint(w)
	if s.profiler.Stats().Counts[sampler.Samples] > before {
		id := s.thread.ID()
		s.expected[id] = append(s.expected[id], want)
		s.see(g, want.fresh)
	}
	return s.err
}

// expect returns the right content of a sample with these frames.
func (s *session) expect(g *guest, frames []managed.Frame) expected {
	e := expected{depth: len(frames)}
	for i, f := range frames {
		if f.Mark == nil {
			continue
		}
		if s.old(g, i) {
			break
		}
		e.fresh = i + 1
	}
	switch {
	case e.fresh > 0:
		e.top = ccmap.TopNew
	case frames[0].Mark != nil:
		e.top = ccmap.TopRepeated
	}
	return e
}

// old reports whether a sample has seen frame i.
func (s *session) old(g *guest, i int) bool {
	if c := g.call(i); c != nil {
		return c.seen
	}
	if i < g.above {
		return s.stop == g.stops
	}
	return s.below
}

// see notes that a sample has seen the stack, with fresh new frames.
func (s *session) see(g *guest, fresh int) {
	for i := range fresh {
		if c := g.call(i); c != nil {
			c.seen = true
			s.seen++
		}
	}
	s.stop, s.below = g.stops, true
}

// drain folds the published samples.
func (s *session) drain() {
	s.profiler.Sink().Queue.Drain(func(got *ccmap.Sample) {
		all := s.expected[got.Thread]
		s.expected[got.Thread] = all[1:]
		if err := all[0].compare(got); err != nil && s.err == nil {
			s.err = err
		}
		s.folded.Fold(got)
	})
}

// compare compares a sample with its right content.
func (e expected) compare(got *ccmap.Sample) error {
	depth := len(got.Frames)
	if got.Depth > 0 {
		depth += int(got.Depth) - 1
	}
	switch {
	case depth != e.depth:
		return fmt.Errorf("a sample of %d calls says that there are %d: a slot has moved to another activation, or was not cleared", e.depth, depth)
	case int(got.Fresh) != e.fresh:
		return fmt.Errorf("a sample of %d calls, %d of them new, says that %d are new", e.depth, e.fresh, got.Fresh)
	case got.Top != e.top:
		return fmt.Errorf("a sample has the top %d instead of %d (%d new calls of %d)", got.Top, e.top, e.fresh, e.depth)
	}
	return nil
}

// finish drains the queue, and compares the map with the true calls.
func (s *session) finish() error {
	s.thread.Detach()
	s.drain()
	if s.err != nil {
		return s.err
	}
	if loss := s.folded.Meta().Loss; loss != (ccmap.Loss{}) {
		return fmt.Errorf("folding has lost %+v", loss)
	}
	return s.checkMap()
}

// checkMap checks that no context has more activations than calls, and that all seen
// activations are counted.
func (s *session) checkMap() error {
	all := int64(0)
	snapshot := s.folded.Snapshot()
	paths := make([]string, snapshot.Len())
	for n := range snapshot.Nodes() {
		if n.ID == s.folded.Root() || n.Method == ccmap.NoMethod {
			continue
		}
		paths[n.ID] = paths[n.Parent] + element(n.Offset, n.Method)
		if name := s.vm.Names.At(n.Method).Name; name != s.vm.A && name != s.vm.B {
			continue
		}
		all += n.Self.Activations
		if got, calls := n.Self.Activations, s.calls[paths[n.ID]]; got > calls {
			return fmt.Errorf("the context %s has %d activations and %d calls", paths[n.ID], got, calls)
		}
	}
	if all != s.seen {
		return fmt.Errorf("the map has %d activations, but %d were seen", all, s.seen)
	}
	return nil
}
