package indirect

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newSites() *sites { return &sites{byPC: make(map[uint64]*site)} }

// sampled counts n samples with a call on the stack.
func (s *sites) sampled(n int, c Call) *site {
	for i := range n {
		s.next()
		s.meet(c, uint32(i))
	}
	return s.byPC[c.PC]
}

// TestSitesTakeTurns: every hot site gets its turns, as many as its weight says,
// and none waits longer than that for the next.
func TestSitesTakeTurns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newSites()
		n := rapid.IntRange(1, 30).Draw(t, "sites")
		for pc := range n {
			kind := rapid.SampledFrom([]Kind{Interface, Closure, Indirect}).Draw(t, "kind")
			s.sampled(rapid.IntRange(10, 500).Draw(t, "samples"), Call{PC: uint64(pc + 1), Kind: kind})
		}
		var all float64
		for _, st := range s.byPC {
			if s.hot(st) {
				all += s.weight(st)
			}
		}
		const turns = 300
		got := make(map[*site]int)
		for range turns {
			got[s.turn()]++
		}
		for _, st := range s.byPC {
			if want := turns * s.weight(st) / all; s.hot(st) && math.Abs(float64(got[st])-want) > float64(n)+2 {
				t.Fatalf("site %d of weight %.3f of %.3f got %d of %d turns, want %.1f", st.PC, s.weight(st), all, got[st], turns, want)
			}
		}
	})
}

// TestNewSiteDoesNotHog: a site that comes late, or back, gets no more turns
// than its share, and soon one.
func TestNewSiteDoesNotHog(t *testing.T) {
	t.Parallel()
	s := newSites()
	s.sampled(100, Call{PC: 1, Kind: Interface})
	for range 1000 {
		s.turn()
	}
	late := s.sampled(100, Call{PC: 2, Kind: Interface})
	turns := 0
	for range 10 {
		if s.turn() == late {
			turns++
		}
	}
	if turns < 4 || turns > 6 {
		t.Errorf("the late one of two like sites got %d of 10 turns", turns)
	}
}

func TestSitesCountSamples(t *testing.T) {
	t.Parallel()
	s := newSites()
	if s.turn() != nil {
		t.Error("a turn of no site")
	}
	s.next()
	for range 5 {
		s.meet(Call{PC: 1, Kind: Interface}, 7)
	}
	st := s.byPC[1]
	if st.samples != 1 {
		t.Errorf("a recursive call counts %v times in one sample", st.samples)
	}
	if s.hot(st) {
		t.Error("one sample makes a site hot")
	}
	s.sampled(1, st.Call)
	if !s.hot(st) || s.count() != 1 {
		t.Error("a site on every stack is not hot")
	}
	for range 1000 {
		s.next()
	}
	if s.hot(st) {
		t.Error("a site on 2 of 1002 stacks is hot")
	}
}

// TestSitesAreBounded: of any number of calls those that are met often stay.
func TestSitesAreBounded(t *testing.T) {
	t.Parallel()
	s := newSites()
	often := Call{PC: 1 << 40, Kind: Interface}
	for pc := range 10 * maxSites {
		s.sampled(1, Call{PC: uint64(pc + 1)})
		if pc%10 == 0 {
			s.sampled(1, often)
		}
	}
	if len(s.byPC) > maxSites || s.byPC[often.PC] == nil {
		t.Errorf("%d sites are kept; the hot one is %v", len(s.byPC), s.byPC[often.PC])
	}
	for range 20 {
		for range fadeAfter {
			s.next()
		}
		s.fade()
	}
	if len(s.byPC) != 0 || s.turn() != nil {
		t.Errorf("%d sites are left long after the last sample", len(s.byPC))
	}
}

// TestSlowSamplesDoNotFade: what was hot stays so, however long the interval is,
// until there are samples enough to say otherwise.
func TestSlowSamplesDoNotFade(t *testing.T) {
	t.Parallel()
	s := newSites()
	st := s.sampled(3, Call{PC: 1, Kind: Interface})
	for range fadeAfter - 3 {
		s.fade()
		s.next()
	}
	if !s.hot(st) {
		t.Errorf("after %d samples: %+v", s.sample, st)
	}
	s.fade()
	if s.hot(st) {
		t.Errorf("after %d samples, faded: %+v", s.sample, st)
	}
}

// TestWeights: what yields nothing, or nothing new, gets fewer turns.
func TestWeights(t *testing.T) {
	t.Parallel()
	s := newSites()
	st := s.sampled(100, Call{PC: 1, Kind: Interface})
	fresh := s.weight(st)
	for range 100 {
		st.yield(0, false)
	}
	if dry := s.weight(st); dry >= fresh || dry == 0 {
		t.Errorf("a site without calls weighs %v, a fresh one %v", dry, fresh)
	}
	st.yield(1, false)
	if w := s.weight(st); w != fresh {
		t.Errorf("a site with calls again weighs %v, a fresh one %v", w, fresh)
	}
	for range settledCalls {
		st.caught(42)
	}
	if settled := s.weight(st); settled >= fresh {
		t.Errorf("a site that always calls the same weighs %v, a fresh one %v", settled, fresh)
	}
	st.caught(43)
	st.caught(43)
	if w := s.weight(st); w != fresh {
		t.Errorf("a site that calls another weighs %v, a fresh one %v", w, fresh)
	}
	closure := s.sampled(100, Call{PC: 2, Kind: Closure})
	if w := s.weight(closure); w >= fresh {
		t.Errorf("a closure's site weighs %v, an interface's %v", w, fresh)
	}
}

// TestDraw: a thread is drawn as often as it was met of late.
func TestDraw(t *testing.T) {
	t.Parallel()
	s := newSites()
	st := s.sampled(1, Call{PC: 1})
	for range 100 {
		if tid := st.draw(); tid != 0 {
			t.Fatalf("drew thread %d, which was not met", tid)
		}
	}
	s.sampled(100*siteThreads, st.Call)
	for range 100 {
		if tid := st.draw(); tid < 99*siteThreads {
			t.Fatalf("drew thread %d, which was not met of late", tid)
		}
	}
}

// TestPatience: a burst is looked at early only where the last one has caught all its calls.
func TestPatience(t *testing.T) {
	t.Parallel()
	var st site
	for _, step := range []struct {
		full bool
		want time.Duration
	}{{true, firstLook}, {false, burstTime}, {false, burstTime}, {true, firstLook}} {
		st.yield(1, step.full)
		if got := st.patience(); got != step.want {
			t.Errorf("after a burst that was full: %v, the next look is after %v, want %v", step.full, got, step.want)
		}
	}
	if got := new(site).patience(); got != firstLook {
		t.Errorf("the first burst is looked at after %v", got)
	}
}
