package session

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// fakeSource takes one sample.
type fakeSource struct {
	engine.Source
	info sampler.Info
}

func (s *fakeSource) Info() sampler.Info { return s.info }
func (s *fakeSource) Stats() sampler.Stats {
	return sampler.Stats{Counts: sampler.Counts{sampler.Samples: 1}, Interval: time.Second}
}

func (s *fakeSource) SetInterval(time.Duration) error { return nil }

func (s *fakeSource) Run(context.Context) (sampler.Ending, error) {
	r := s.info.Sink.Queue.Ring()
	defer r.Close()
	id := s.info.Sink.Names.Intern(ccmap.Method{Name: "main.main"})
	r.Push(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}}, Weight: 1e9, Fresh: ccmap.FreshUnknown})
	return sampler.Ending{Reason: "target exited", Exited: true}, nil
}

// TestSessionInThisProcess: a report of this process says nothing of kernels and
// breakpoints, and ccmapd's own CPU time is unknown.
func TestSessionInThisProcess(t *testing.T) {
	t.Parallel()
	for _, unit := range []ccmap.Unit{ccmap.CPUTime, ccmap.Instructions} {
		s, err := Open(Config{
			Interval: time.Second, Hits: 250,
			Tuning: func() tuning.Config { return tuning.Config{} },
			Dumps:  func(int) []manager.Dump { return nil },
			Logger: slog.New(slog.DiscardHandler),
		}, func(o sampler.ProcessOptions) (engine.Choice, error) {
			return engine.Choice{Source: &fakeSource{info: sampler.Info{Engine: "fake", Unit: unit, Embedded: true, Sink: o.Sink}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), io.Discard, io.Discard)
		if err != nil || r.CPU != 0 {
			t.Errorf("%v of CPU time, %v", r.CPU, err)
		}
		var out strings.Builder
		s.Announce(&out, "")
		if err := s.Report(&out, r); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "kernel") || strings.Contains(text, "breakpoint") || !strings.Contains(text, "no calls caught") {
			t.Errorf("%v: %s", unit, text)
		}
		if got := s.newReportJSON(r).Source; !got.Embedded || got.NoKernelTime != "" {
			t.Errorf("source as JSON: %+v", got)
		}
	}
}

// closing is a source that notes that it was closed.
type closing struct {
	fakeSource
	closed bool
}

func (s *closing) Close() error { s.closed = true; return nil }

// TestTuningIsReadAfterOpening: opening a source can change the most that sampling may cost,
// because the target can change its owner meanwhile. So the tuner must have the later
// settings. If they are bad, Open closes the source.
func TestTuningIsReadAfterOpening(t *testing.T) {
	t.Parallel()
	settings := tuning.Config{}
	source := &closing{}
	_, err := Open(Config{
		Interval: time.Second,
		Tuning:   func() tuning.Config { return settings },
		Dumps:    func(int) []manager.Dump { return nil },
		Logger:   slog.New(slog.DiscardHandler),
	}, func(o sampler.ProcessOptions) (engine.Choice, error) {
		settings.Low, settings.High = 0.9, 0.1
		source.info = sampler.Info{Unit: ccmap.CPUTime, Sink: o.Sink}
		return engine.Choice{Source: source}, nil
	})
	if _, want := tuning.New(settings); err == nil || want == nil || err.Error() != want.Error() {
		t.Errorf("opened with earlier settings: %v, want %v", err, want)
	}
	if !source.closed {
		t.Error("the source stays open")
	}
}

// TestOrNone: no hits are a negative budget, because 0 is a source's default.
func TestOrNone(t *testing.T) {
	t.Parallel()
	for bound, want := range map[float64]float64{250: 250, 0: -1} {
		if got := orNone(bound); got != want {
			t.Errorf("a budget of %v for %v, want %v", got, bound, want)
		}
	}
}

// TestPointsWithinTheMemory: there is room for some in any case, and no more than
// a quarter of the memory holds.
func TestPointsWithinTheMemory(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]int{0: 65536, 64 << 10: 64, 64 << 20: 26214, 8 << 30: 65536} {
		if got := maxPoints(memory); got != want {
			t.Errorf("%d bytes: %d points, want %d", memory, got, want)
		}
	}
}
