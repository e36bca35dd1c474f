package main

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestTopBeginsWithCaution: top says it first, once.
func TestTopBeginsWithCaution(t *testing.T) {
	t.Parallel()
	snapshot := profiletest.Blind("", 200, ccmap.Method{Name: ccmap.UnknownName}).Snapshot()
	file := filepath.Join(t.TempDir(), "a.json")
	if err := export.WriteFile(file, snapshot); err != nil {
		t.Fatal(err)
	}
	text := runEngines(t, nil, "top", file).stdout
	if !strings.HasPrefix(text, "warning: this profile misleads") || strings.Count(text, "misleads") != 1 || strings.Contains(text, "settled: ") {
		t.Errorf("does not begin with one warning, or is settled:\n%s", text)
	}
	var got struct {
		Profile struct{ Blind struct{ Misleads bool } }
	}
	if err := json.Unmarshal([]byte(runEngines(t, nil, "top", "--json", file).stdout), &got); err != nil || !got.Profile.Blind.Misleads {
		t.Errorf("JSON %+v, %v", got, err)
	}
}

// blindSource takes samples of code that nobody knows, until it is stopped.
type blindSource struct{ *fakeSource }

func (s blindSource) Run(ctx context.Context) (sampler.Ending, error) {
	r := s.Sink.Queue.Ring()
	defer r.Close()
	for ctx.Err() == nil {
		sample := s.stack([]string{ccmap.UnknownName})
		sample.Truncated = true
		r.Push(sample)
		r.Publish()
		time.Sleep(100 * time.Microsecond)
	}
	return sampler.Ending{Reason: "stopped"}, nil
}

// untilWritten ends a session when something was written.
type untilWritten struct {
	text strings.Builder
	end  func()
}

func (w *untilWritten) Write(p []byte) (int, error) {
	w.end()
	return w.text.Write(p)
}

// TestGoalOutOfReach: who waits for a goal that a misleading profile does not reach is told,
// once, and what to do, by attach and demo as by run.
func TestGoalOutOfReach(t *testing.T) {
	t.Parallel()
	for name, sample := range map[string]func(*session.Session, context.Context, io.Writer) error{
		"attach": func(s *session.Session, ctx context.Context, w io.Writer) error {
			_, err := s.Run(ctx, w, w)
			return err
		},
		"run": func(s *session.Session, ctx context.Context, w io.Writer) error {
			return follow(ctx, &environment{stderr: w}, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkGoalOutOfReach(t, sample)
		})
	}
}

func checkGoalOutOfReach(t *testing.T, sample func(*session.Session, context.Context, io.Writer) error) {
	f := newSamplingFlags(nil)
	f.until.Goal, f.outputs = manager.Goal{Of: manager.Edges, Percent: 95}, []string{filepath.Join(t.TempDir(), "a.json")}
	f.duration = time.Minute // where nothing is said
	env := &environment{stderr: io.Discard}
	s, err := session.Open(f.config(env), func(o sampler.ProcessOptions) (engine.Choice, error) {
		o.PID = 42
		return engine.Choice{Source: blindSource{&fakeSource{ProcessOptions: o, engine: "blind"}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	said := &untilWritten{end: end}
	if err := sample(s, ctx, said); err != nil {
		t.Error(err)
	}
	notice, _, _ := strings.Cut(said.text.String(), "Sampling goes on.")
	for _, want := range []string{"Edges cannot settle to 95 %", "this profile misleads", "(JIT): nothing names it"} {
		if strings.Count(notice, want) != 1 || strings.Count(said.text.String(), "Sampling goes on.") != 1 {
			t.Errorf("%q is not said once in:\n%s", want, said.text.String())
		}
	}
}
