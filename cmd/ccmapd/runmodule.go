package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

// runModule runs a WebAssembly module in this process, samples it, and returns its
// exit code as an error, as runProgram does.
func runModule(cmd *cobra.Command, env *environment, f *runFlags, path string) error {
	if err := errors.Join(env.process.Keep(privilege.Files), env.process.NoNewPrivileges()); err != nil {
		return exitError{exitRunFailed, err}
	}
	m, err := readModule(path)
	if err != nil {
		return exitError{exitCannotRun, err}
	}
	if err := errors.Join(f.module.check(cmd), f.checkModuleOutputs()); err != nil {
		return err
	}
	f.tune = f.tune && asksToTune(cmd)
	config, err := f.module.config()
	if err != nil {
		return err
	}
	g, err := newGuest(cmd.Context(), env, m, cmd.Flags().Args()[1:], config)
	if err != nil {
		return exitError{exitRunFailed, err}
	}
	if !f.quiet {
		g.progress = env.stderr
	}
	s, err := openSession(env, f.samplingFlags, g.sampled(cmd.Context(), &f.module))
	switch {
	case err == nil:
		return runSampled(cmd, env, g, s)
	case errors.Is(err, rewrite.ErrRefused), errors.Is(err, sampler.ErrUnsupported):
		return runRefused(cmd, env, f, g, err)
	}
	return g.refuse(exitCannotRun, err)
}

// checkModuleOutputs refuses outputs that have no place for the profile of a module,
// so that no run ends without one.
func (f *runFlags) checkModuleOutputs() error {
	for _, path := range f.outputs {
		switch {
		case export.IsPGO(path):
			return withHint(usagef("output %s: a WebAssembly module has no functions that 'go build -pgo' could use", path),
				"Name it .pb.gz, .xml or .json.")
		case f.module.exact && f.formatOf(path) == export.Folded:
			return withHint(usagef("output %s: folded stacks have no place for instructions, which --exact counts", path),
				"Write .pb.gz, .xml or .json.")
		}
	}
	return nil
}

// runSampled runs a guest beside the session that samples it.
func runSampled(cmd *cobra.Command, env *environment, g *guest, s *session) error {
	signaled, stop := untilSignal(cmd.Context())
	defer stop()
	defer survivePipes()()
	useTwoProcessors()
	r := startGuest(signaled, g)
	reportError(env.stderr, cmd, s.follow(r.abandoned, env))
	return r.wait()
}

// runRefused runs a guest that cannot be sampled, because of refused, if that is
// wanted. A module that wazero refuses, too, cannot be run at all; its reasons are
// the better ones.
func runRefused(cmd *cobra.Command, env *environment, f *runFlags, g *guest, refused error) error {
	if err := g.compile(cmd.Context(), g.runtime); err != nil {
		return g.refuse(exitCannotRun, err)
	}
	if !f.anyway {
		return g.refuse(exitRunFailed, withHint(refused, "--anyway runs it without sampling it."))
	}
	if !f.quiet {
		reportError(env.stderr, cmd, fmt.Errorf("%s runs without being sampled: %w", g.module.path, refused))
	}
	end := g.run(cmd.Context())
	return errors.Join(end.exit(), g.close(cmd.Context()))
}

// refuse returns why a guest is not started, as an exit code of ccmapd.
func (g *guest) refuse(code int, err error) error {
	return exitError{code, errors.Join(fmt.Errorf("%s is not started: %w", g.module.path, err), g.close(context.Background()))}
}

// useTwoProcessors lets the marker and the manager run beside a guest. Go cannot
// take its processor from compiled WebAssembly, which gives it back when it calls
// the host: asynchronous preemption is for code of Go's own (Go 1.26,
// runtime.isAsyncSafePoint).
func useTwoProcessors() {
	if runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}
