package main

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"

	"github.com/tetratelabs/wazero"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// guestSource samples a guest from inside.
type guestSource struct {
	*wasm.Profiler
	guest *guest
}

// sampled returns what opens the source of a session with the guest, and compiles
// that for it.
func (g *guest) sampled(ctx context.Context, f *moduleFlags) opener {
	return func(s sampling) (chosen, error) {
		p := wasm.New(g.runtime, f.options(s))
		if err := g.compile(ctx, p); err != nil {
			return chosen{}, errors.Join(err, p.Close(ctx))
		}
		g.profiler = p
		if !g.isProgram() {
			s.log.Warn("module is no program: nothing but its start function runs", "missing", entry)
		}
		name, why := f.engine()
		return chosen{source: guestSource{p, g}, name: name, why: why, embedded: true}, nil
	}
}

// options returns what the flags mean to a profiler.
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

// engine returns the name that profiles have of how they were taken, and what there
// is to say of it.
func (f *moduleFlags) engine() (name, why string) {
	if f.exact {
		return wasm.ExactEngine, "every call is recorded, and weighs the instructions that it executed itself"
	}
	return wasm.SamplingEngine, "samples are taken from inside, at safe points"
}

// Target says what is sampled.
func (s guestSource) Target() ccmap.Target {
	return s.guest.module.target(s.guest.args, wazeroVersion())
}

// Close frees the profiler of a guest that does not run.
func (s guestSource) Close() error { return s.Profiler.Close(context.Background()) }

// tryModule compiles an empty module for the profiler, and returns why that cannot be.
func tryModule() error {
	ctx := context.Background()
	g, err := newGuest(ctx, &environment{}, &module{binary: []byte(moduleMagic + "\x01\x00\x00\x00")}, nil, wazero.NewModuleConfig())
	if err != nil {
		return err
	}
	g.profiler = wasm.New(g.runtime, wasm.Options{})
	err = g.compile(ctx, g.profiler)
	return errors.Join(err, g.close(ctx))
}

// wazeroModule is the path of the module that runs modules.
const wazeroModule = "github.com/tetratelabs/wazero"

// wazeroVersion names the runtime of guests, for example "wazero 1.12.0 (compiler)".
func wazeroVersion() string {
	version := ""
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			if m.Path == wazeroModule {
				version = " " + strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	return "wazero" + version + " (compiler)"
}
