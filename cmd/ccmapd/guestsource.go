package main

import (
	"context"

	"github.com/ccmapd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/internal/wasi"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
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
func (f *moduleFlags) sampled(ctx context.Context, g *wasi.Guest) session.Opener {
	return func(o sampler.ProcessOptions) (engine.Choice, error) {
		p, err := g.Profile(ctx, f.options(o))
		if err != nil {
			return engine.Choice{}, err
		}
		if !g.IsProgram() {
			o.Logger.Warn("module is no program: nothing but its start function runs", "missing", wasi.Entry)
		}
		return engine.Choice{Source: guestSource{p, g}, Why: f.why()}, nil
	}
}

// options returns the options of the profiler that the flags ask for.
func (f *moduleFlags) options(o sampler.ProcessOptions) wasm.Options {
	return wasm.Options{
		Options: managed.Options{
			Sink: o.Sink, Interval: o.Interval, HitBudget: o.HitBudget, Logger: o.Logger,
			Burst: managed.Burst{Samples: f.burst.Samples, Stride: f.burst.Stride},
		},
		CollectAtSamples: true,
		Exact:            f.exact,
	}
}

// why says how the guest is profiled.
func (f *moduleFlags) why() string {
	if f.exact {
		return "every call is recorded, and weighs the instructions that it executed itself"
	}
	return "samples are taken from inside, at safe points"
}

// Info names the guest as the target.
func (s guestSource) Info() sampler.Info {
	info := s.Profiler.Info()
	info.Target = s.guest.Target()
	return info
}

// Close frees the profiler of a guest that does not run.
func (s guestSource) Close() error { return s.Profiler.Close(context.Background()) }
