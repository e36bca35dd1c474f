package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/wasm"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// guestRun is a guest executed over and over in one profile, each time in a new
// instance. As every execution makes the same calls, the truth of all of them is
// that of one.
type guestRun struct {
	executions int
	took       time.Duration // in all
	profile    *ccmap.Snapshot
	prefixes   []*ccmap.Snapshot // what there was after each of the times asked for
}

// execute runs a guest until it has run for some time, and once at least.
func execute(ctx context.Context, g loadedGuest, o wasm.Options, atLeast time.Duration, prefixes []time.Duration) (guestRun, error) {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(api.CoreFeaturesV2|experimental.CoreFeaturesTailCall)) // as ccmapd run does
	defer runtime.Close(ctx)
	profiler := wasm.New(runtime, o)
	unbounded := ccmap.New(ccmap.Options{Names: profiler.Sink().Names})
	session, err := manager.Start(ctx, manager.Config{Source: profiler, Map: unbounded, FixedInterval: true})
	if err != nil {
		return guestRun{}, err
	}
	r, err := g.repeat(ctx, runtime, profiler, session, atLeast, prefixes)
	report, stopped := session.Stop()
	r.profile = report.Snapshot
	err = errors.Join(err, stopped)
	if err == nil && o.Exact {
		err = lossless(report)
	}
	return r, err
}

// repeat executes the guest and looks at the profile after each of the times.
func (g loadedGuest) repeat(ctx context.Context, runtime wazero.Runtime, p *wasm.Profiler, s *manager.Session, atLeast time.Duration, prefixes []time.Duration) (guestRun, error) {
	var r guestRun
	compiled, err := p.CompileModule(ctx, g.binary)
	if err != nil {
		return r, fmt.Errorf("compile guest: %w", err)
	}
	if err := guests.Host(ctx, runtime, compiled); err != nil {
		return r, err
	}
	for begin := time.Now(); r.executions == 0 || r.took < atLeast; r.executions++ {
		if err := g.once(ctx, runtime, compiled); err != nil {
			return r, err
		}
		r.took = time.Since(begin)
		now := s.Snapshot() // asks for the next one, too
		if len(prefixes) > 0 && r.took >= prefixes[0] {
			r.prefixes = append(r.prefixes, now)
		}
		for len(prefixes) > 0 && r.took >= prefixes[0] {
			prefixes = prefixes[1:]
		}
	}
	return r, nil
}

// once executes the guest in an instance of its own, from its beginning to its end.
// Commands get wazero's clock and random numbers, which are the same each time.
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

// check holds what an execution has written against what it is known to write.
func (g loadedGuest) check(output string) error {
	if output != g.Want {
		return fmt.Errorf("%s wrote %q, want %q", g.Name, output, g.Want)
	}
	return nil
}

// lossless makes an error of a profile that lacks something.
func lossless(r manager.Report) error {
	if lost := r.Snapshot.Meta().Loss; r.Queue.Dropped > 0 || lost != (ccmap.Loss{}) {
		return fmt.Errorf("incomplete profile: %d samples dropped, lost %+v", r.Queue.Dropped, lost)
	}
	return nil
}
