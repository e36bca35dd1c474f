package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/sampler"
)

func TestAttachTakesTheFirstPermitted(t *testing.T) {
	t.Parallel()
	forbidden := refusingEngine("forbidden", fmt.Errorf("seccomp: %w", sampler.ErrPermission))
	missing := refusingEngine("missing", fmt.Errorf("kernel: %w", sampler.ErrUnsupported))
	fake := fakeEngine(false)
	second := engine{"second", func(_ context.Context, a attachment) (source, error) {
		return &fakeSource{attachment: a, engine: "second"}, nil
	}}
	for _, test := range []struct {
		all            []engine
		ask, name, why string
	}{
		{[]engine{fake, second}, autoEngine, "fake", "the best engine, and permitted"},
		{[]engine{fake, second}, "second", "second", "as asked for"},
		{[]engine{forbidden, missing, fake}, autoEngine, "fake",
			"the best engine permitted; forbidden: seccomp: not permitted; missing: kernel: not supported here"},
	} {
		got, err := attach(context.Background(), test.all, test.ask, attachment{})
		if err != nil {
			t.Errorf("attach by %s: %v", test.ask, err)
		} else if name := got.Info().Engine; name != test.name || got.why != test.why {
			t.Errorf("attach by %s: %s (%s); want %s (%s)", test.ask, name, got.why, test.name, test.why)
		}
	}
}

func TestAttachReportsEveryRefusal(t *testing.T) {
	t.Parallel()
	all := []engine{
		refusingEngine("one", fmt.Errorf("first reason: %w", sampler.ErrPermission)),
		refusingEngine("two", fmt.Errorf("second reason: %w", sampler.ErrUnsupported)),
	}
	_, err := attach(context.Background(), all, autoEngine, attachment{})
	if !errors.Is(err, sampler.ErrPermission) || !strings.Contains(err.Error(), "two: second reason") {
		t.Errorf("error %v", err)
	}
	_, err = attach(context.Background(), all, "one", attachment{})
	if err == nil || strings.Contains(err.Error(), "second") {
		t.Errorf("error of one engine: %v", err)
	}
}

// TestAttachStopsAtAHopelessTarget: no engine finds a process that there is not.
func TestAttachStopsAtAHopelessTarget(t *testing.T) {
	t.Parallel()
	for _, hopeless := range []error{sampler.ErrNoProcess, sampler.ErrNotGo} {
		_, err := attach(context.Background(), []engine{refusingEngine("one", hopeless), fakeEngine(false)}, autoEngine, attachment{})
		if _, hinted := advice.Of(err); !hinted || !errors.Is(err, hopeless) {
			t.Errorf("error %v, want %v with a hint", err, hopeless)
		}
	}
}

// TestTooManySymbols: who meets the bounds of a load is told what to do.
func TestTooManySymbols(t *testing.T) {
	t.Parallel()
	r := runEngines(t, []engine{refusingEngine("full", fmt.Errorf("load symbols: %w", gosym.ErrTooMuch))}, "attach", "42")
	if r.code != exitFailed || !strings.Contains(r.stderr, "net/http/pprof can profile it") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	able := engine{"able", func(_ context.Context, a attachment) (source, error) {
		return &fakeSource{attachment: a, probes: 1}, nil
	}}
	all := []engine{able, fakeEngine(false), refusingEngine("forbidden", sampler.ErrPermission)}
	r := runEngines(t, all, "version")
	for _, want := range []string{
		"ccmapd ", "go1.", "engine able: permitted, and hardware breakpoints\n",
		"engine fake: permitted, without hardware breakpoints: it catches no calls\n", "engine forbidden: not permitted\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("output %q lacks %q", r.stdout, want)
		}
	}
}
