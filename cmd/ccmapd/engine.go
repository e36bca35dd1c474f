package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/perf"
)

// source is a sampler that can be closed, if its Run is not called.
type source interface {
	sampler.Source
	Close() error
}

// engine is one way to sample a process from outside.
type engine struct {
	name string
	open func(context.Context, attachment) (source, error)
}

// sampling is how a source is to sample, whatever its target is.
type sampling struct {
	interval time.Duration
	hits     float64 // calls caught a second; negative: none
	sink     sampler.Sink
	log      *slog.Logger
}

// attachment is what an engine is to attach to, and how.
type attachment struct {
	pid int
	sampling
}

// engines are all there are, the best first.
var engines = []engine{
	{perf.Engine, openPerf},
}

func openPerf(ctx context.Context, a attachment) (source, error) {
	return perf.Open(ctx, perf.Options{PID: a.pid, Interval: a.interval, HitBudget: a.hits, Sink: a.sink, Logger: a.log})
}

// autoEngine, as the name of an engine, means the best that is permitted.
const autoEngine = "auto"

// engineNames returns what --engine may be.
func engineNames(all []engine) []string {
	names := []string{autoEngine}
	for _, e := range all {
		names = append(names, e.name)
	}
	return names
}

// chosen says which engine samples, and why that one.
type chosen struct {
	source
	why string
}

// attach opens the engine of the given name or, for auto, the first that is
// permitted and supported here. An error that no other engine would avoid, for
// example that there is no such process, ends the search.
func attach(ctx context.Context, all []engine, name string, a attachment) (chosen, error) {
	var refused []refusal
	for _, e := range all {
		if name != autoEngine && name != e.name {
			continue
		}
		src, err := e.open(ctx, a)
		if err == nil {
			return chosen{source: src, why: whyEngine(name, refused)}, nil
		}
		refused = append(refused, refusal{e.name, err})
		if !errors.Is(err, sampler.ErrPermission) && !errors.Is(err, sampler.ErrUnsupported) {
			break
		}
	}
	return chosen{}, explainAttach(joinRefusals(refused))
}

// refusal is why an engine cannot sample.
type refusal struct {
	engine string
	err    error
}

// joinRefusals returns why no engine can sample. It names the engines only where
// there are several to tell apart.
func joinRefusals(refused []refusal) error {
	if len(refused) == 1 {
		return refused[0].err
	}
	var errs []error
	for _, r := range refused {
		errs = append(errs, fmt.Errorf("%s: %w", r.engine, r.err))
	}
	return errors.Join(errs...)
}

// whyEngine says why an engine was chosen after others had refused.
func whyEngine(name string, refused []refusal) string {
	switch {
	case name != autoEngine:
		return "as asked for"
	case len(refused) == 0:
		return "the best engine, and permitted"
	}
	why := "the best engine permitted"
	for _, r := range refused {
		why += fmt.Sprintf("; %s: %v", r.engine, r.err)
	}
	return why
}

// explainAttach adds what to do about an error in attaching.
func explainAttach(err error) error {
	switch {
	case errors.Is(err, sampler.ErrNoProcess):
		return withHint(err, "'pgrep -l NAME' finds the process id of a program.")
	case errors.Is(err, sampler.ErrNotGo):
		return withHint(err, "Only programs built by Go's own compiler can be sampled. If this one runs another, attach to that.")
	case errors.Is(err, sampler.ErrPermission):
		return withHint(err, "'ccmapd version' says what is permitted here, 'ccmapd attach --help' what is required.")
	case errors.Is(err, gosym.ErrTooMuch):
		return withHint(err, "Its symbols are larger than those of any known program, or are made to exhaust ccmapd. Its own net/http/pprof can profile it.")
	}
	return err
}
