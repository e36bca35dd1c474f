package managed

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/compilation"
)

// calling folds n samples of method a, whose call at 3 is in a method.
func calling(m *ccmap.Map, to string, n int) {
	names := m.Names()
	a, callee := names.Intern(ccmap.Method{Name: "a", Body: 7}), names.Intern(ccmap.Method{Name: to, Body: 8})
	for range n {
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: callee, Offset: 1}, {Method: a, Offset: 3}}, Weight: 1, Thread: 1, Fresh: ccmap.FreshUnknown})
	}
}

// sampledEarlier returns the profile of a run that ended at a time.
func sampledEarlier(end time.Time) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	m.Meta().Start = end
	calling(m, "b", 100)
	return m.Snapshot()
}

// TestCachedProfileWithoutRecords: methods that 30 samples have met are cached while their code is the same. Ten
// looks that find samples below another callee end that, also in the next run with the same profile, but not with a
// later one.
func TestCachedProfileWithoutRecords(t *testing.T) {
	t.Parallel()
	ended := time.Now().Add(-time.Hour)
	c, err := ReadCachedProfile(nil, sampledEarlier(ended))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p := New(Options{Interval: -1, Cached: c, Records: &log})
	a := ccmap.Method{Name: "a", Body: 7}
	if c.Level(a) != 3 || c.Level(ccmap.Method{Name: "a", Body: 9}) != 0 || c.Level(ccmap.Method{Name: "c"}) != 0 {
		t.Fatalf("levels %d, %d, %d", c.Level(a), c.Level(ccmap.Method{Name: "a", Body: 9}), c.Level(ccmap.Method{Name: "c"}))
	}
	live := ccmap.New(ccmap.Options{Names: p.Sink().Names})
	calling(live, "b", 40)
	if out := p.Look(live.Snapshot()); out != nil || log.Len() > 0 {
		t.Fatalf("%v is wrong: %s", out, log.String())
	}
	for i := range 10 {
		calling(live, "c", 29)
		if out := p.Look(live.Snapshot()); out != nil {
			t.Fatalf("look %d: %v with too few samples", i, out)
		}
		calling(live, "c", 1)
		if out := p.Look(live.Snapshot()); (len(out) == 1) != (i == 9) {
			t.Fatalf("look %d: out of use %v", i, out)
		}
	}
	// The profile of the run that found the mismatches ends before its last look.
	for end, want := range map[time.Time]int{ended: 0, ended.Add(time.Minute): 3, time.Now().Add(time.Hour): 3} {
		again, err := ReadCachedProfile(bytes.NewReader(log.Bytes()), sampledEarlier(end))
		if err != nil || again.Level(a) != want {
			t.Errorf("a profile of %v: level %d, %v", end, again.Level(a), err)
		}
	}
}

// oneFrame is a stack of one frame.
type oneFrame Frame

func (f oneFrame) Walk(visit func(Frame) bool) { visit(Frame(f)) }

// TestBudgetGoesToUnknownSites: of two sites that call in turn, the one that a cached profile knows well gets fewer
// catches, and its receivers keep their shares; the other one gets more. No more calls are caught than without, and
// nothing of the cached profile is among them. When the cached profile is out of use, both are equal again.
func TestBudgetGoesToUnknownSites(t *testing.T) {
	t.Parallel()
	caught := func(known, out bool) map[uint32][2]int {
		o := Options{Interval: -1}
		if known {
			o.Cached = earlier(t)
			o.Cached.calls[siteOfCall{compilation.Method{Name: "a"}, 3}] = true
		}
		p := New(o)
		names := p.Sink().Names
		a := names.Intern(ccmap.Method{Name: "a", Body: 7})
		targets := [2]ccmap.MethodID{names.Intern(ccmap.Method{Name: "b"}), names.Intern(ccmap.Method{Name: "c"})}
		th := p.Attach(ThreadOptions{})
		for range 10 * map[bool]int{true: 1}[out] {
			th.Deoptimized(a)
		}
		counts, random := make(map[uint32][2]int), rand.New(rand.NewPCG(1, 2))
		for range 100 {
			p.calls.left.Store(burstCalls)
			p.wanted.Store(true)
			for i := 0; p.wanted.Load(); i++ {
				th.Called(targets[random.IntN(2)], oneFrame{Method: a, Offset: uint32(3 + i%2)})
			}
		}
		th.Park()
		p.Sink().Queue.Drain(func(s *ccmap.Sample) {
			c := counts[s.Frames[1].Offset]
			c[map[ccmap.MethodID]int{targets[0]: 0, targets[1]: 1}[s.Frames[0].Method]]++
			counts[s.Frames[1].Offset] = c
		})
		return counts
	}
	total := func(c [2]int) int { return c[0] + c[1] }
	plain, seeded, spent := caught(false, false), caught(true, false), caught(true, true)
	if total(plain[3]) != total(plain[4]) || total(spent[3]) != total(spent[4]) {
		t.Errorf("without a profile in use: %v, %v", plain, spent)
	}
	if n := total(seeded[3]); n*4 > total(plain[3]) || n < 100 || total(seeded[4])*2 < 3*total(plain[4]) || n+total(seeded[4]) > 100*burstCalls {
		t.Errorf("caught %v, and %v without", seeded, plain)
	}
	if c := seeded[3]; c[0] < total(c)/3 || c[1] < total(c)/3 {
		t.Errorf("receivers that are equally frequent: %v", c)
	}
}
