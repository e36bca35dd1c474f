package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/bpf"
	"github.com/ccmapd/ccmapd/sampler/internal/jfr"
	"github.com/ccmapd/ccmapd/sampler/internal/perf"
)

// fakeSource is a source that is never run.
type fakeSource struct {
	Source
	name        string
	watchpoints uint64
}

func (s fakeSource) Info() sampler.Info { return sampler.Info{Engine: s.name} }
func (s fakeSource) Close() error       { return nil }

func (s fakeSource) Run(ctx context.Context) (sampler.Ending, error) {
	<-ctx.Done()
	return sampler.Ending{}, nil
}

func (s fakeSource) Stats() sampler.Stats {
	return sampler.Stats{Counts: sampler.Counts{sampler.Watchpoints: s.watchpoints}}
}

// working returns an engine that attaches to anything.
func working(name string, watchpoints uint64) Engine {
	return Engine{name, nil, func(context.Context, sampler.ProcessOptions) (Source, error) {
		return fakeSource{name: name, watchpoints: watchpoints}, nil
	}}
}

// refusing returns an engine that cannot attach.
func refusing(name string, err error) Engine {
	return Engine{name, nil, func(context.Context, sampler.ProcessOptions) (Source, error) { return nil, err }}
}

func TestAttachTakesTheFirstPermitted(t *testing.T) {
	t.Parallel()
	forbidden := refusing("forbidden", fmt.Errorf("seccomp: %w", sampler.ErrPermission))
	missing := refusing("missing", fmt.Errorf("kernel: %w", sampler.ErrUnsupported))
	fake := working("fake", 0)
	second := working("second", 0)
	for _, test := range []struct {
		all            []Engine
		ask, name, why string
	}{
		{[]Engine{fake, second}, Auto, "fake", "the best engine, and permitted"},
		{[]Engine{fake, second}, "second", "second", "as asked for"},
		{[]Engine{forbidden, missing, fake}, Auto, "fake",
			"the best engine permitted; forbidden: seccomp: not permitted; missing: kernel: not supported here"},
	} {
		got, err := Attach(context.Background(), test.all, test.ask, sampler.ProcessOptions{})
		if err != nil {
			t.Errorf("attach by %s: %v", test.ask, err)
		} else if name := got.Source.Info().Engine; name != test.name || got.Why != test.why {
			t.Errorf("attach by %s: %s (%s); want %s (%s)", test.ask, name, got.Why, test.name, test.why)
		}
	}
}

// TestBetter: engine perf is told how engine bpf can be had, and only where it can.
func TestBetter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ask     string
		doctor  string
		refusal error // of bpf
		want    string
	}{
		{Auto, "", sampler.ErrPermission, "engine bpf, which samples CPUs, avoids that: run ccmapd as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE ('ccmapd doctor' has the command)"},
		{Auto, "", sampler.ErrUnsupported, ""},
		{perf.Engine, "ccmapd doctor @7", nil, "engine bpf, which samples CPUs, avoids that ('ccmapd doctor @7' says whether it is permitted)"},
		{jfr.Engine, "", nil, ""},
	} {
		got := "not opened"
		note := func(_ context.Context, o sampler.ProcessOptions) (Source, error) {
			got = o.Better
			return fakeSource{}, nil
		}
		all := []Engine{refusing(bpf.Engine, fmt.Errorf("bpf: %w", c.refusal)), {perf.Engine, nil, note}, {jfr.Engine, nil, note}}
		if _, err := Attach(t.Context(), all, c.ask, sampler.ProcessOptions{Doctor: c.doctor}); err != nil || got != c.want {
			t.Errorf("attach by %s after %v: %q, %v; want %q", c.ask, c.refusal, got, err, c.want)
		}
	}
}

func TestAttachReportsEveryRefusal(t *testing.T) {
	t.Parallel()
	all := []Engine{
		refusing("one", fmt.Errorf("first reason: %w", sampler.ErrPermission)),
		refusing("two", fmt.Errorf("second reason: %w", sampler.ErrUnsupported)),
	}
	_, err := Attach(context.Background(), all, Auto, sampler.ProcessOptions{})
	if !errors.Is(err, sampler.ErrPermission) || !strings.Contains(err.Error(), "two: second reason") {
		t.Errorf("error %v", err)
	}
	_, err = Attach(context.Background(), all, Auto, sampler.ProcessOptions{Doctor: "ccmapd doctor @7"})
	if hint, _ := advice.Of(err); hint != "'ccmapd doctor @7' says what forbids it here, and what permits it." {
		t.Errorf("a daemon's advice: %q", hint)
	}
	same := fmt.Errorf("unsupported Go: %w", sampler.ErrUnsupported)
	_, err = Attach(context.Background(), []Engine{refusing("one", same), refusing("two", same)}, Auto, sampler.ProcessOptions{})
	if !errors.Is(err, sampler.ErrUnsupported) || strings.Count(err.Error(), "unsupported Go") != 1 {
		t.Errorf("one reason, twice: %v", err)
	}
	_, err = Attach(context.Background(), []Engine{refusing("one", same), refusing("two", same), all[0]}, Auto, sampler.ProcessOptions{})
	if want := "one, two: unsupported Go: not supported here\none: first reason: not permitted"; err == nil || err.Error() != want {
		t.Errorf("one reason, twice, and another: %v", err)
	}
	of := func(name, reason string) Engine {
		return refusing(name, fmt.Errorf("attach to process 7: %s: %w", reason, sampler.ErrPermission))
	}
	_, err = Attach(context.Background(), []Engine{of("one", "lacks rights"), of("two", "is another's")}, Auto, sampler.ProcessOptions{})
	if want := "attach to process 7: no engine can sample it\none: lacks rights: not permitted\ntwo: is another's: not permitted"; err == nil || err.Error() != want {
		t.Errorf("the process is named once: %v", err)
	}
	_, err = Attach(context.Background(), all, "one", sampler.ProcessOptions{})
	if err == nil || strings.Contains(err.Error(), "second") {
		t.Errorf("error of one engine: %v", err)
	}
}

// TestAttachBySamples: engines that do not sample what is asked for are passed over, and whoever
// asks for one learns which does.
func TestAttachBySamples(t *testing.T) {
	t.Parallel()
	counting := working("counting", 0)
	counting.Units = []ccmap.Unit{ccmap.SampleCount}
	all := []Engine{working("best", 0), counting}
	o := sampler.ProcessOptions{PID: 7, Unit: ccmap.SampleCount}
	got, err := Attach(t.Context(), all, Auto, o)
	if err != nil || got.Source.Info().Engine != "counting" || got.Why != "the engine that samples samples" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = Attach(t.Context(), all, "best", o)
	if text, _ := advice.Of(err); !errors.Is(err, sampler.ErrUnsupported) || !errors.Is(err, sampler.ErrUnit) || text != "--engine counting does, of a JVM." {
		t.Errorf("%v, with the advice %q", err, text)
	}
	stranger := refusing("counting", fmt.Errorf("%w: %w", jfr.ErrNotJVM, sampler.ErrUnsupported))
	stranger.Units = counting.Units
	_, err = Attach(t.Context(), []Engine{working("best", 0), stranger}, Auto, o)
	if text, _ := advice.Of(err); !errors.Is(err, jfr.ErrNotJVM) || !strings.Contains(text, "/debug/pprof/allocs") {
		t.Errorf("no JVM: %v, with the advice %q", err, text)
	}
}

// TestAttachStopsAtAHopelessTarget: no engine finds a process that there is not.
func TestAttachStopsAtAHopelessTarget(t *testing.T) {
	t.Parallel()
	for _, hopeless := range []error{sampler.ErrNoProcess, sampler.ErrNotManaged} {
		_, err := Attach(context.Background(), []Engine{refusing("one", hopeless), working("fake", 0)}, Auto, sampler.ProcessOptions{})
		if _, hinted := advice.Of(err); !hinted || !errors.Is(err, hopeless) {
			t.Errorf("error %v, want %v with a hint", err, hopeless)
		}
		_, err = Attach(context.Background(), []Engine{refusing("one", sampler.ErrPermission), refusing("two", hopeless)}, Auto, sampler.ProcessOptions{})
		if _, hinted := advice.Of(err); !hinted || !errors.Is(err, hopeless) || errors.Is(err, sampler.ErrPermission) {
			t.Errorf("error %v, want %v alone", err, hopeless)
		}
	}
}

// TestAll: the engines have names of their own, an engine that refuses is no source, and each
// refuses a unit that it does not sample.
func TestAll(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{Auto: true}
	for _, e := range All() {
		if seen[e.Name] || e.Name == "" {
			t.Errorf("name %q is taken", e.Name)
		}
		seen[e.Name] = true
		if s, err := e.Open(t.Context(), sampler.ProcessOptions{}); s != nil || err == nil {
			t.Errorf("%s opens nothing: %v, %v", e.Name, s, err)
		}
		o := sampler.ProcessOptions{PID: 1, Unit: ccmap.Instructions, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}}
		if s, err := e.Open(t.Context(), o); s != nil || !errors.Is(err, sampler.ErrUnit) {
			t.Errorf("%s samples instructions: %v", e.Name, err)
		}
	}
}

// TestSharedHasAllEngines: a host for many targets that is not permitted leaves the other engines.
func TestSharedHasAllEngines(t *testing.T) {
	t.Parallel()
	s := NewShared(SharedOptions{})
	if got, want := Names(s.Engines()), Names(All()); !slices.Equal(got, want) {
		t.Errorf("engines %v, want %v", got, want)
	}
	s.refused, s.again = fmt.Errorf("kernel: %w", sampler.ErrPermission), time.Now().Add(time.Hour)
	if _, err := Attach(t.Context(), s.Engines(), "bpf", sampler.ProcessOptions{PID: 1}); !errors.Is(err, sampler.ErrPermission) {
		t.Errorf("a refused host: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSharedKeepsItsHost: targets join one host, which is opened once.
func TestSharedKeepsItsHost(t *testing.T) {
	t.Parallel()
	s := NewShared(SharedOptions{})
	first, err := s.joined()
	if err != nil {
		if again, refused := s.joined(); again != nil || refused != err {
			t.Errorf("refused, and tried again at once: %v", refused)
		}
		return
	}
	if again, err := s.joined(); again != first || err != nil {
		t.Errorf("another host, %v", err)
	}
	if err := s.Close(); err != nil || s.host != nil {
		t.Errorf("close: %v", err)
	}
}

// TestSharedRings: targets of engine perf join the same rings, which have a process once.
func TestSharedRings(t *testing.T) {
	t.Parallel()
	s := NewShared(SharedOptions{})
	o := sampler.ProcessOptions{PID: os.Getpid(), Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}}
	first, err := Attach(t.Context(), s.Engines(), perf.Engine, o)
	if errors.Is(err, sampler.ErrPermission) || errors.Is(err, sampler.ErrUnsupported) {
		testrun.Lacks(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(t.Context(), s.Engines(), perf.Engine, o); err == nil || !strings.Contains(err.Error(), "sampled already") {
		t.Errorf("the same process again: %v", err)
	}
	if err := errors.Join(first.Source.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}
