package recording

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// fakeSource gives one sample, and ends.
type fakeSource struct {
	info   sampler.Info
	closed int
}

func (s *fakeSource) Info() sampler.Info   { return s.info }
func (s *fakeSource) Stats() sampler.Stats { return sampler.Stats{} }
func (s *fakeSource) Close() error         { s.closed++; return nil }

func (s *fakeSource) SetInterval(time.Duration) error { return nil }

func (s *fakeSource) Run(context.Context) (sampler.Ending, error) {
	ring := s.info.Sink.Queue.Ring()
	defer ring.Close()
	method := s.info.Sink.Names.Intern(ccmap.Method{Name: "main.work"})
	ring.Push(&ccmap.Sample{Frames: []ccmap.Frame{{Method: method}}, Thread: 1, Weight: 10, Fresh: ccmap.FreshUnknown})
	return sampler.Ending{Exited: true, Reason: "ended"}, nil
}

// opens returns an opener of a source.
func (s *fakeSource) opens(sink sampler.Sink) (engine.Choice, error) {
	s.info.Sink = sink
	return engine.Choice{Source: s, Why: "it is fake"}, nil
}

// TestRecording: the samples of a source reach the map, which says what was sampled and keeps the latest warnings.
func TestRecording(t *testing.T) {
	t.Parallel()
	s := &fakeSource{info: sampler.Info{Engine: "fake", Lacks: "all else", Target: ccmap.Target{Executable: "/bin/web"}}}
	m := ccmap.New(ccmap.Options{})
	for i := range 2 * mostWarnings {
		m.Meta().Comments = append(m.Meta().Comments, fmt.Sprintf("%s%d", ccmap.CommentWarning, i))
	}
	opened := 0
	r, err := Open(Options{
		Map: m, Tuning: func() tuning.Config { return tuning.Config{Initial: time.Millisecond} },
		Opened: func(c engine.Choice, _ *manager.Config) {
			if opened++; c.Source != engine.Source(s) || m.Meta().Engine != "fake" {
				t.Errorf("opened with %v, by %q", c.Source, m.Meta().Engine)
			}
		},
	}, s.opens)
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.Run(t.Context())
	if err != nil || report.Snapshot.Total().Samples != 1 || opened != 1 {
		t.Errorf("%v: %+v, opened %d times", err, report.Snapshot.Total(), opened)
	}
	comments := report.Snapshot.Meta().Comments
	if len(comments) != mostWarnings || !slices.Equal(comments[:2], []string{"engine fake: it is fake", "all else"}) {
		t.Errorf("comments %q", comments)
	}
}

// TestOpenCloses: a source is closed where no manager can be made for it.
func TestOpenCloses(t *testing.T) {
	t.Parallel()
	s, o := new(fakeSource), Options{Map: ccmap.New(ccmap.Options{}), Tuning: func() tuning.Config { return tuning.Config{Initial: -1} }}
	if _, err := Open(o, s.opens); err == nil || s.closed != 1 {
		t.Errorf("%v, closed %d times", err, s.closed)
	}
	refused := errors.New("refused")
	if _, err := Open(o, func(sampler.Sink) (engine.Choice, error) { return engine.Choice{}, refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	s, o.Tuning = new(fakeSource), nil
	r, err := Open(o, s.opens)
	if err != nil || r.Discard() != nil || s.closed != 1 {
		t.Errorf("%v, closed %d times", err, s.closed)
	}
}

// tunedSource has an interval, which it counts changes of.
type tunedSource struct {
	fakeSource
	interval time.Duration
}

func (s *tunedSource) Stats() sampler.Stats { return sampler.Stats{Interval: s.interval} }

func (s *tunedSource) SetInterval(d time.Duration) error { s.interval = d; return nil }

func (s *tunedSource) opens(sink sampler.Sink) (engine.Choice, error) {
	s.info.Sink, s.info.Unit = sink, ccmap.CPUTime
	return engine.Choice{Source: s}, nil
}

// TestBegin: a session begins where an earlier one had settled, within the bounds, and says why. One whose map goes on
// with an interval, or that must not tune, does not. What is stored never changes what the map counts.
func TestBegin(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		config  tuning.Config
		stored  time.Duration
		goesOn  bool
		want    time.Duration
		resumed bool
	}{
		"as stored":         {tuning.Config{Initial: 10 * ms}, 3 * ms, false, 3 * ms, true},
		"nothing stored":    {tuning.Config{Initial: 10 * ms}, 0, false, 10 * ms, false},
		"the same":          {tuning.Config{Initial: 10 * ms}, 10 * ms, false, 10 * ms, false},
		"too short":         {tuning.Config{Initial: 10 * ms, Min: 5 * ms}, ms, false, 5 * ms, true},
		"too long":          {tuning.Config{Initial: 10 * ms, Max: 20 * ms}, time.Hour, false, 20 * ms, true},
		"hostile":           {tuning.Config{Initial: 10 * ms}, 1, false, 100 * time.Microsecond, true},
		"hostile, too":      {tuning.Config{Initial: 10 * ms}, 1 << 62, false, 100 * ms, true},
		"negative":          {tuning.Config{Initial: 10 * ms}, -1, false, 10 * ms, false},
		"not tuned":         {tuning.Config{Initial: 10 * ms, Off: true}, 3 * ms, false, 10 * ms, false},
		"the map has begun": {tuning.Config{Initial: 10 * ms}, 3 * ms, true, 10 * ms, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := &tunedSource{interval: 10 * ms}, ccmap.New(ccmap.Options{})
			if c.goesOn {
				m.Meta().Interval = []ccmap.IntervalChange{{Interval: 10 * ms, Reason: "initial"}}
			}
			r, err := Open(Options{
				Map: m, Tuning: func() tuning.Config { return c.config },
				Begin: func(sampler.Info) time.Duration { return c.stored },
			}, s.opens)
			if err != nil {
				t.Fatal(err)
			}
			report, err := r.Run(t.Context())
			if err != nil || s.interval != c.want || (r.Resumed != 0) != c.resumed {
				t.Errorf("%v: interval %v, resumed at %v", err, s.interval, r.Resumed)
			}
			changes := report.Snapshot.Meta().Interval
			if len(changes) != 1 || changes[0].Interval != c.want || (changes[0].Reason == tuning.Resumed) != c.resumed {
				t.Errorf("changes %+v", changes)
			}
			if total := report.Snapshot.Total(); total.Samples != 1 || total.Time != 10 {
				t.Errorf("counted %+v", total)
			}
		})
	}
}
