package main

import (
	"context"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/wasi"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// guestSource samples a guest from inside.
type guestSource struct {
	*wasm.Profiler
	guest *wasi.Guest
}

// sampled returns a function that opens the source of a session with a guest. It compiles
// the guest for that.
func (f *moduleFlags) sampled(ctx context.Context, g *wasi.Guest) opener {
	return func(s sampling) (chosen, error) {
		p, err := g.Profile(ctx, f.options(s))
		if err != nil {
			return chosen{}, err
		}
		if !g.IsProgram() {
			s.log.Warn("module is no program: nothing but its start function runs", "missing", wasi.Entry)
		}
		name, why := f.engine()
		return chosen{source: guestSource{p, g}, name: name, why: why, embedded: true}, nil
	}
}

// options returns the options of the profiler that the flags ask for.
func (f *moduleFlags) options(s sampling) wasm.Options {
	return wasm.Options{
		Options: managed.Options{
			Sink: s.sink, Interval: s.interval, HitBudget: s.hits, Logger: s.log,
			Burst: managed.Burst{Samples: f.burst.samples, Stride: f.burst.stride},
		},
		CollectAtSamples: true,
		Exact:            f.exact,
	}
}

// engine returns the name that profiles have of the engine, and a description.
func (f *moduleFlags) engine() (name, why string) {
	if f.exact {
		return wasm.ExactEngine, "every call is recorded, and weighs the instructions that it executed itself"
	}
	return wasm.SamplingEngine, "samples are taken from inside, at safe points"
}

// Target describes the guest.
func (s guestSource) Target() ccmap.Target { return s.guest.Target() }

// Close frees the profiler of a guest that does not run.
func (s guestSource) Close() error { return s.Profiler.Close(context.Background()) }
