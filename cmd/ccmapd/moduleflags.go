package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/wasi"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// moduleFlags are the flags of run that are for WebAssembly modules alone.
type moduleFlags struct {
	env    []string // NAME=VALUE
	dirs   wasi.Mounts
	exact  bool
	burst  wasi.Burst
	points usage.Choice // of pointSets

	cached     *managed.Cached // what an earlier run knows, in mode 2; nil: nothing
	mismatches io.Writer       // the log of what it is wrong about; nil: none is kept
	source     *wasi.Source    // set by sampled
}

// pointSets are the words for the kinds of points that a module counts.
var pointSets = map[string]managed.Points{"calls": managed.Calls, "branches": managed.Calls | managed.Branches}

// newModuleFlags returns the defaults.
func newModuleFlags() moduleFlags {
	return moduleFlags{points: usage.Choice{Value: "calls", From: []string{"calls", "branches"}}}
}

// moduleFlagNames are all of them.
var moduleFlagNames = []string{"env", "dir", "exact", "burst", "points"}

// tuneFlagNames are those that say how to adapt the interval.
var tuneFlagNames = []string{
	"tune", "tune-low", "tune-high", "tune-window", "tune-settled", "min-interval", "max-interval", "max-overhead",
}

// inexactFlagNames are flags that say how often to sample. With --exact they have no use.
var inexactFlagNames = append([]string{"burst", "interval"}, tuneFlagNames...)

func (f *moduleFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.env, "env", nil, "set `NAME=VALUE` in the module's environment, which is empty otherwise; may be repeated")
	flags.Var(&f.dirs, "dir", "let the module use the directory `HOST[:GUEST][:ro]`, as GUEST, for reading only; may be repeated")
	flags.BoolVar(&f.exact, "exact", false, "record every call of the module, instead of samples")
	flags.Var(&f.burst, "burst", "take `N[:STRIDE]` samples at each interval, one at each STRIDE-th safe point of the module")
	f.points.Register(cmd, "points", "`POINTS` of the module to count beside samples: calls, or branches, switches and blocks, too")
	_ = cmd.MarkFlagDirname("dir") // the only error is that there is no such flag
	usage.Complete(cmd, "env")
	usage.Complete(cmd, "burst")
}

// checkUnused refuses the flags for modules if the program is not a module.
func (f *moduleFlags) checkUnused(cmd *cobra.Command) error {
	for _, name := range moduleFlagNames {
		if cmd.Flags().Changed(name) {
			return withHint(usage.Errorf("--%s is for WebAssembly modules, and %s is none", name, cmd.Flags().Arg(0)),
				"Other programs have ccmapd's environment and files, and are sampled once at each interval.")
		}
	}
	return nil
}

// check finds what is wrong before the module is started.
func (f *moduleFlags) check(cmd *cobra.Command) error {
	for _, name := range []string{"engine", "event", "max-host-overhead", kernelFlag} {
		if cmd.Flags().Changed(name) {
			return withHint(usage.Errorf("--%s is for other programs: a WebAssembly module is sampled from inside", name), "Omit --%s.", name)
		}
	}
	for _, v := range f.env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return usage.Errorf("--env %q is not NAME=VALUE", v)
		}
	}
	if i := slices.IndexFunc(inexactFlagNames, cmd.Flags().Changed); f.exact && i >= 0 {
		return withHint(usage.Errorf("--exact and --%s exclude each other", inexactFlagNames[i]), "With --exact there is no interval: every call is recorded.")
	}
	return nil
}

// sampled returns a function that opens the source of a session with a guest. It compiles
// the guest for that.
func (f *moduleFlags) sampled(ctx context.Context, g *wasi.Guest) session.Opener {
	return func(o sampler.ProcessOptions) (engine.Choice, error) {
		source, err := g.Profile(ctx, f.options(o))
		if err != nil {
			return engine.Choice{}, err
		}
		f.source = source
		if !g.IsProgram() {
			o.Logger.Warn("module is no program: nothing but its start function runs", "missing", wasi.Entry)
		}
		return engine.Choice{Source: source, Why: f.why()}, nil
	}
}

// options returns the options of the profiler that the flags ask for.
func (f *moduleFlags) options(o sampler.ProcessOptions) wasm.Options {
	return wasm.Options{
		Options: managed.Options{
			Sink: o.Sink, Interval: o.Interval, HitBudget: o.HitBudget, Logger: o.Logger,
			Burst:  managed.Burst{Samples: f.burst.Samples, Stride: f.burst.Stride},
			Points: pointSets[f.points.Value],
			Cached: f.cached, Records: f.mismatches,
		},
		CollectAtSamples: true,
		Exact:            f.exact,
		Light:            f.cached != nil,
	}
}

// why says how the guest is profiled.
func (f *moduleFlags) why() string {
	if f.exact {
		return "every call is recorded, and weighs the instructions that it executed itself"
	}
	return "samples are taken from inside, at safe points"
}
