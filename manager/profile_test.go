package manager

import (
	"context"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
)

// profileSource delivers profiles in place of samples.
type profileSource struct {
	*fakeSource
	profiles chan *ccmap.Map
}

func (s *profileSource) Profiles() <-chan *ccmap.Map { return s.profiles }

// profileOf returns a profile of one stack, which was sampled n times.
func profileOf(n int, methods ...string) *ccmap.Map {
	m := ccmap.New(ccmap.Options{})
	for range n {
		m.Fold(stack(m.Names(), methods...))
	}
	return m
}

// TestProfilesAreMerged: a session adds up the profiles that its source delivers, up to the last,
// and all of them are recent.
func TestProfilesAreMerged(t *testing.T) {
	t.Parallel()
	s := newSessionOf(ccmap.Options{Seed: 1, Window: time.Hour}, nil)
	s.source.stats.Interval = 0
	source := &profileSource{s.source, make(chan *ccmap.Map)}
	source.info.Target = ccmap.Target{BuildID: "known later"}
	source.run = func(context.Context) (sampler.Ending, error) {
		source.profiles <- profileOf(30, "leaf", "main")
		source.mu.Lock()
		source.stats.Interval = 10 * time.Millisecond
		source.mu.Unlock()
		source.profiles <- profileOf(12, "other", "main")
		return sampler.Ending{Reason: "stopped"}, nil
	}
	config := s.config
	config.Source = source
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total, meta := r.Snapshot.Total(), r.Snapshot.Meta()
	if total.Samples != 42 || total.Time != int64(42*time.Millisecond) {
		t.Errorf("total %+v", total)
	}
	if recent, ok := r.Snapshot.Recent(); !ok {
		t.Error("the window is lost")
	} else if n := recent.Total().Samples; n != 42 {
		t.Errorf("%d recent samples", n)
	}
	if status := m.Status(); status.Samples != 42 || status.Sampled != 42*time.Millisecond {
		t.Errorf("status %+v", status)
	}
	if meta.Target.BuildID != "known later" || len(meta.Interval) != 2 || meta.Interval[1].Interval != 10*time.Millisecond {
		t.Errorf("meta %+v", meta)
	}
}

// TestUnlikeProfileIsLost: a profile of another unit is left out, and its samples are counted as lost.
func TestUnlikeProfileIsLost(t *testing.T) {
	t.Parallel()
	s := newSession(nil)
	source := &profileSource{s.source, make(chan *ccmap.Map)}
	source.run = func(context.Context) (sampler.Ending, error) {
		source.profiles <- profileOf(3, "leaf")
		other := ccmap.New(ccmap.Options{})
		if err := other.SetUnit(ccmap.NewUnit("inuse_space", "bytes")); err != nil {
			t.Error(err)
		}
		for range 7 {
			other.Fold(stack(other.Names(), "leaf"))
		}
		source.profiles <- other
		return sampler.Ending{Reason: "stopped"}, nil
	}
	config := s.config
	config.Source = source
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if total, lost := r.Snapshot.Total().Samples, r.Snapshot.Meta().Loss.Corrupt; total != 3 || lost != 7 {
		t.Errorf("%d samples, %d lost", total, lost)
	}
}

// TestLossOfProfileIsPublished: a reader sees the loss, also if nothing follows.
func TestLossOfProfileIsPublished(t *testing.T) {
	t.Parallel()
	m := newSession(nil).mustStart(t)
	m.begin()
	m.takeProfile(profileOf(3, "leaf"))
	m.publish()
	other := profileOf(7, "leaf")
	other.Meta().Unit = ccmap.NewUnit("inuse_space", "bytes")
	m.takeProfile(other)
	m.publish()
	if lost := m.Snapshot().Meta().Loss.Corrupt; lost != 7 {
		t.Errorf("%d lost samples, want 7", lost)
	}
}
