package manager

import (
	"context"
	"fmt"
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
	m.beginSession()
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

// withCalls adds a call that was caught n times to a profile, and what a VM has counted of it.
func withCalls(m *ccmap.Map, n int64, caller, callee string) *ccmap.Map {
	for _, origin := range []ccmap.Origin{ccmap.OriginBurst, ccmap.OriginVM} {
		m.AddPoint(ccmap.Point{
			Origin: origin, Kind: ccmap.PointCall, Method: m.Names().Intern(ccmap.Method{Name: caller}), Offset: 7, Count: n, Nulls: ccmap.NullsUnknown,
			Values: []ccmap.PointValue{{Value: uint64(m.Names().Intern(ccmap.Method{Name: callee})), Count: n}},
		})
	}
	return m
}

// TestPointsOfProfiles: points and repetitions of profiles add up, also those of a profile without samples, and
// a drift of the program does not drop them.
func TestPointsOfProfiles(t *testing.T) {
	t.Parallel()
	m := newSession(nil).mustStart(t)
	m.beginSession()
	for n := range int64(3) {
		p := withCalls(profileOf(int(n), "leaf", "main"), n+1, "main", "leaf")
		p.Meta().Known, p.Meta().Repeated = 10, uint64(n)
		m.takeProfile(p)
		m.values.assign(true)
		m.values.earliest = time.Time{}
		m.publish()
	}
	s := m.Snapshot()
	if meta := s.Meta(); meta.Known != 30 || meta.Repeated != 3 {
		t.Errorf("%d of %d repeated", meta.Repeated, meta.Known)
	}
	if points := s.Points(); len(points) != 2 || points[0].Count != 6 || points[1].Count != 6 || s.Names().At(points[0].Method).Name != "main" {
		t.Errorf("points %+v", points)
	}
}

// TestPointsOfProfilesAreBounded: a source that names ever new calls does not fill the memory, and the calls that
// count most stay.
func TestPointsOfProfilesAreBounded(t *testing.T) {
	t.Parallel()
	s := newSession(nil)
	s.config.Values.MaxPoints = 10
	m := s.mustStart(t)
	m.beginSession()
	for n := range int64(30) {
		m.takeProfile(withCalls(profileOf(1, "leaf", "main"), n+1, fmt.Sprint("main", n), "leaf"))
		m.values.earliest = time.Time{}
		m.publish()
	}
	points := m.Snapshot().Points()
	if len(points) > 20 {
		t.Errorf("%d points", len(points))
	}
	var most int64
	for _, p := range points {
		most = max(most, p.Count)
	}
	if most != 30 {
		t.Errorf("the most frequent point counts %d", most)
	}
}
