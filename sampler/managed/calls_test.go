package managed_test

import (
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// A burst catches 32 calls, from any threads. Then none is wanted.
func TestCalled(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	deep, flat := attachDeep(p, 20), attachDeep(p, 1)
	if deep.CallsWanted() || deep.Called(1, deep) {
		t.Error("wanted before the first burst")
	}
	p.Mark(time.Hour)
	for n := 1; n <= 32; n++ {
		g := deep
		if n%2 == 0 {
			g = flat
		}
		if !g.CallsWanted() || g.Called(1, g) != (n < 32) {
			t.Errorf("call %d of the burst", n)
		}
	}
	if flat.CallsWanted() || flat.Called(1, flat) {
		t.Error("wanted after the burst")
	}
	deep.Detach()
	flat.Detach()
	for _, s := range drain(p) {
		frames, cut := 9, true // target, call and seven callers
		if s.Thread == flat.ID() {
			frames, cut = 2, false
		}
		if len(s.Frames) != frames || s.Truncated != cut || !s.Hit || s.Frames[0].Method != 1 || s.Weight != 0 {
			t.Errorf("call: %+v", s)
		}
	}
	if s := p.Stats(); s.Counts[sampler.Caught] != 32 || s.Counts[sampler.Samples] != 0 || s.Counts[sampler.Bursts] != 1 {
		t.Errorf("stats: %+v", s)
	}
}

// Caught calls keep to their budget, on average.
func TestHitBudget(t *testing.T) {
	t.Parallel()
	p := newManual(0, managed.Burst{})
	g := attachDeep(p, 1)
	for range 100_000 { // 1,000 s
		p.Mark(10 * time.Millisecond)
		for g.CallsWanted() {
			g.Called(0, g)
		}
		p.Sink().Queue.Drain(func(*ccmap.Sample) {})
	}
	if s := p.Stats(); s.Counts[sampler.Bursts] < 5000 || s.Counts[sampler.Bursts] > 7800 { // 7,812 of 32 calls are 250 a second
		t.Errorf("%d bursts in 1,000 s", s.Counts[sampler.Bursts])
	}
	none := managed.New(managed.Options{Interval: -1, HitBudget: -1})
	none.Mark(time.Hour)
	if s := none.Stats(); s.Counts[sampler.Bursts] != 0 || s.NoCalls == "" {
		t.Errorf("without a budget: %+v", s)
	}
	for range 20 {
		tiny := managed.New(managed.Options{Interval: -1, HitBudget: 1e-300})
		tiny.Mark(time.Hour)
		if s := tiny.Stats(); s.Counts[sampler.Bursts] != 0 {
			t.Errorf("with next to no budget: %+v", s)
		}
	}
}
