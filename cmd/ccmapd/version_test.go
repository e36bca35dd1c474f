package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestTooManySymbols: who meets the bounds of a load is told what to do.
func TestTooManySymbols(t *testing.T) {
	t.Parallel()
	r := runEngines(t, []engine.Engine{refusingEngine("full", fmt.Errorf("load symbols: %w", gosym.ErrTooMuch))}, "attach", "42")
	if r.code != exitFailed || !strings.Contains(r.stderr, "net/http/pprof can profile it") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	able := engine.Engine{Name: "able", Open: func(_ context.Context, a sampler.ProcessOptions) (engine.Source, error) {
		return &fakeSource{ProcessOptions: a, probes: 1}, nil
	}}
	all := []engine.Engine{able, fakeEngine(false), refusingEngine("forbidden", sampler.ErrPermission)}
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
