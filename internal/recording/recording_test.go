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
