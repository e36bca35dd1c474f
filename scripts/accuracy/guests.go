package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	threads "github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// loadedGuest is a deterministic program for WebAssembly, ready for execution: every
// execution makes the same calls.
type loadedGuest struct {
	guests.Guest
	binary   []byte
	imported int             // functions
	leaves   map[string]bool // names of functions without safe points
}

// guestList returns the measured guests. A quick campaign needs nothing but Go, and leaves the
// smallest one to TestGuestCampaign. The last two are foreign programs: a database and an interpreter.
func guestList(c config) []guests.Guest {
	if c.Quick {
		return []guests.Guest{guests.Eval(3)}
	}
	return []guests.Guest{
		guests.Queens(50), guests.Eval(30), guests.JSON(50), guests.Parse(8), guests.SQLite(10), guests.QuickJS(10),
	}
}

// loadGuests builds or fetches guests.
func loadGuests(ctx context.Context, list []guests.Guest) ([]loadedGuest, error) {
	var all []loadedGuest
	for _, g := range list {
		path, err := g.Path(ctx)
		if err != nil {
			return nil, fmt.Errorf("obtain %s: %w", g.Name, err)
		}
		l := loadedGuest{Guest: g}
		if l.binary, err = os.ReadFile(path); err != nil {
			return nil, err
		}
		if l.imported, l.leaves, err = leavesOf(l.binary); err != nil {
			return nil, fmt.Errorf("find leaves of %s: %w", g.Name, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// leavesOf returns the number of imported functions, and the names of the functions that
// get no safe point.
func leavesOf(binary []byte) (imported int, _ map[string]bool, err error) {
	functions, err := wasm.Functions(binary)
	if err != nil {
		return 0, nil, err
	}
	leaves := make(map[string]bool)
	for _, f := range functions {
		if f.Imported {
			imported++
		}
		if f.Bare {
			leaves[f.Name] = true
		}
	}
	return imported, leaves, nil
}

// guestRun is a guest executed over and over in one profile, each time in a new instance.
// Every execution makes the same calls, so the truth of one execution is the truth of
// all.
type guestRun struct {
	executions int
	took       time.Duration // in all
	profile    *ccmap.Snapshot
	uses       []wasm.CachedUse  // of the cached profile, in mode 2
	prefixes   []*ccmap.Snapshot // the profile after each of the requested times
}

// execute runs a guest for some time, and at least once. A clock measures the time of its
// functions meanwhile; nil: none does.
func execute(ctx context.Context, g loadedGuest, o wasm.Options, atLeast time.Duration, prefixes []time.Duration, clock *guestClock) (r guestRun, err error) {
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall) // as ccmapd run does
	if clock != nil {
		if config, err = clock.config(config); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, clock.stop(ctx)) }()
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	defer runtime.Close(ctx)
	profiler := wasm.New(runtime, o)
	unbounded := ccmap.New(ccmap.Options{Names: profiler.Sink().Names})
	session, err := manager.Start(ctx, manager.Config{Source: profiler, Map: unbounded, FixedInterval: true})
	if err != nil {
		return guestRun{}, err
	}
	r, err = g.repeat(ctx, runtime, profiler, session, atLeast, prefixes, clock)
	report, stopped := session.Stop()
	r.profile, r.uses = report.Snapshot, profiler.CachedUses()
	err = errors.Join(err, stopped)
	if err == nil && o.Exact {
		err = lossless(report)
	}
	return r, err
}

// repeat executes the guest and takes the profile after each of the times.
func (g loadedGuest) repeat(ctx context.Context, runtime wazero.Runtime, p *wasm.Profiler, s *manager.Session, atLeast time.Duration, prefixes []time.Duration, clock *guestClock) (guestRun, error) {
	var r guestRun
	compiled, err := p.CompileModule(ctx, g.binary)
	if err != nil {
		return r, fmt.Errorf("compile guest: %w", err)
	}
	if err := guests.Host(ctx, runtime, compiled); err != nil {
		return r, err
	}
	if clock != nil {
		if err := clock.start(); err != nil {
			return r, fmt.Errorf("measure the functions' time: %w", err)
		}
	}
	for begin := time.Now(); r.executions == 0 || r.took < atLeast; r.executions++ {
		if err := g.once(ctx, runtime, compiled); err != nil {
			return r, err
		}
		r.took = time.Since(begin)
		now := s.Snapshot() // requests the next one, too
		if len(prefixes) > 0 && r.took >= prefixes[0] {
			r.prefixes = append(r.prefixes, now)
		}
		for len(prefixes) > 0 && r.took >= prefixes[0] {
			prefixes = prefixes[1:]
		}
	}
	return r, nil
}

// once executes the guest in a new instance, from beginning to end. Commands get wazero's
// clock and random numbers, which are the same each time.
func (g loadedGuest) once(ctx context.Context, runtime wazero.Runtime, compiled wazero.CompiledModule) error {
	if !g.Command() {
		output, err := g.Run(ctx, runtime, compiled)
		return errors.Join(err, g.check(output))
	}
	var output strings.Builder
	instance, err := runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").
		WithArgs(append([]string{g.Name}, g.Args...)...).WithStdin(strings.NewReader(g.Stdin)).WithStdout(&output))
	if exit := new(sys.ExitError); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 0) {
		return err
	}
	if instance != nil {
		err = instance.Close(ctx)
	}
	return errors.Join(err, g.check(output.String()))
}

// check compares an execution's output with the known one.
func (g loadedGuest) check(output string) error {
	if output != g.Want {
		return fmt.Errorf("%s wrote %q, want %q", g.Name, output, g.Want)
	}
	return nil
}

// lossless returns an error for an incomplete profile.
func lossless(r manager.Report) error {
	if lost := r.Snapshot.Meta().Loss; r.Queue.Dropped > 0 || lost != (ccmap.Loss{}) {
		return fmt.Errorf("incomplete profile: %d samples dropped, lost %+v", r.Queue.Dropped, lost)
	}
	return nil
}

// shape is a way to sample guests.
type shape struct {
	interval time.Duration
	burst    threads.Burst // zero: one sample at each interval
	part     int           // divides the headline's time
}

func (s shape) String() string {
	if s.burst == (threads.Burst{}) {
		return s.interval.String()
	}
	return fmt.Sprintf("%v, %d × %d", s.interval, s.burst.Samples, s.burst.Stride)
}

// Shapes with more than a row in the report.
var (
	plainShape = shape{interval: 10 * time.Millisecond, part: 1}
	denseShape = shape{interval: time.Millisecond, part: 3}
	burstShape = shape{interval: 10 * time.Millisecond, burst: threads.Burst{Samples: 64, Stride: 1}, part: 1}
)

// shapes returns all ways to sample guests: the headline's, and bursts that are shorter,
// longer, and spread over more safe points.
func shapes(c config) []shape {
	all := []shape{plainShape, denseShape, burstShape}
	if c.Quick {
		return all
	}
	for _, b := range []threads.Burst{{Samples: 16, Stride: 1}, {Samples: 16, Stride: 7}, {Samples: 512, Stride: 1}} {
		all = append(all, shape{interval: 10 * time.Millisecond, burst: b, part: 8})
	}
	return all
}

// curved reports whether the report shows the growth of the overlap.
func (s shape) curved() bool { return s == plainShape || s == denseShape || s == burstShape }

// prefixes returns the times up to a whole run. Each is half the next.
func prefixes(whole time.Duration) []time.Duration {
	var all []time.Duration
	for part := whole / 64; part < whole; part *= 2 {
		all = append(all, part)
	}
	return all
}
