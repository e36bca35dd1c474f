package manager

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

// fakeSource samples with its run function, in this process.
type fakeSource struct {
	run func(ctx context.Context) (sampler.Ending, error)

	mu          sync.Mutex
	stats       sampler.Stats
	setInterval error // the result of SetInterval
	slow        bool  // SetInterval changes nothing yet
	info        sampler.Info
	points      []ccmap.Point // that the target counted itself
	version     uint64
}

func (s *fakeSource) Counted() ([]ccmap.Point, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.points, s.version
}

// count sets the points that the target has counted itself.
func (s *fakeSource) count(points ...ccmap.Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = points
	s.version++
}

func (s *fakeSource) Run(ctx context.Context) (sampler.Ending, error) { return s.run(ctx) }

func (s *fakeSource) SetInterval(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.setInterval == nil && !s.slow {
		s.stats.Interval = d
	}
	return s.setInterval
}

func (s *fakeSource) Info() sampler.Info { return s.info }

func (s *fakeSource) Stats() sampler.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// session is the configuration of a manager with a fake source.
type session struct {
	source *fakeSource
	config Config
}

// newSession returns a session whose source runs a function with a ring of its own.
func newSession(run func(ctx context.Context, r *queue.Ring, names *ccmap.Names)) *session {
	return newSessionOf(ccmap.Options{Seed: 1}, run)
}

// newSessionOf is newSession with options of the map.
func newSessionOf(o ccmap.Options, run func(ctx context.Context, r *queue.Ring, names *ccmap.Names)) *session {
	q := queue.New(queue.Options{})
	m := ccmap.New(o)
	source := &fakeSource{
		stats: sampler.Stats{Interval: 10 * time.Millisecond},
		info:  sampler.Info{Engine: "fake", Sink: sampler.Sink{Queue: q, Names: m.Names()}},
	}
	source.run = func(ctx context.Context) (sampler.Ending, error) {
		r := q.Ring()
		defer r.Close()
		run(ctx, r, m.Names())
		return sampler.Ending{Reason: "stopped"}, nil
	}
	return &session{source: source, config: Config{Source: source, Map: m}}
}

// stack returns a sample of 1 ms of methods by their names, innermost first.
func stack(names *ccmap.Names, methods ...string) *ccmap.Sample {
	s := &ccmap.Sample{Thread: 1, Weight: int64(time.Millisecond), Fresh: ccmap.FreshUnknown}
	for i, name := range methods {
		id := names.Intern(ccmap.Method{Name: name})
		s.Frames = append(s.Frames, ccmap.Frame{Method: id, Offset: uint32(i + 1)})
	}
	return s
}

// fakeTuner decides with a function and counts the samples that it observes.
type fakeTuner struct {
	interval time.Duration
	decide   func(tuning.Observation) (tuning.Decision, bool)
	samples  atomic.Int64
	by       tuning.Budget
	wanted   time.Duration
}

func (t *fakeTuner) Verdicts() (known, needed int) { return 1, 4 }

func (t *fakeTuner) Held() (by tuning.Budget, wanted time.Duration) { return t.by, t.wanted }

func (t *fakeTuner) Observe(o tuning.Observation) (tuning.Decision, bool) {
	t.samples.Add(int64(o.Samples))
	return t.decide(o)
}

// untunable hides the method SetInterval of a source.
type untunable struct{ sampler.Source }
