package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/wasi"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// runModule runs a WebAssembly module in this process, samples it, and returns its
// exit code as an error, as runProgram does.
func runModule(cmd *cobra.Command, env *environment, f *runFlags, path string) error {
	if err := errors.Join(env.process.Keep(privilege.Files|becoming()), env.process.NoNewPrivileges()); err != nil {
		return exitError{exitRunFailed, err}
	}
	m, err := wasi.Read(path)
	if err != nil {
		return exitError{exitCannotRun, err}
	}
	if err := errors.Join(f.module.check(cmd), f.checkModuleOutputs()); err != nil {
		return err
	}
	g, err := wasi.New(cmd.Context(), m, f.guestOptions(env, cmd.Flags().Args()[1:]))
	if err != nil {
		return explainGuest(err)
	}
	f.module.cached, f.module.mismatches = f.ofModule(cmd, env, path)
	s, err := session.Open(f.config(env), f.module.sampled(cmd.Context(), g))
	switch {
	case err == nil:
		return runSampled(cmd, env, f, g, s)
	case errors.Is(err, wasm.ErrRefused), errors.Is(err, sampler.ErrUnsupported):
		return runRefused(cmd, env, f, g, err)
	}
	return refuseGuest(g, exitCannotRun, err)
}

// guestOptions returns the parts of the outside that a module has. Its output is not
// guarded.
func (f *runFlags) guestOptions(env *environment, args []string) wasi.Options {
	o := wasi.Options{
		Args: args, Env: f.module.env, Mounts: f.module.dirs,
		Stdin: env.stdin, Stdout: terminal.Unguarded(env.stdout), Stderr: terminal.Unguarded(env.stderr),
	}
	if !f.quiet {
		o.Progress = env.stderr
	}
	return o
}

// explainGuest returns an error in making a guest with its exit code.
func explainGuest(err error) error {
	if errors.As(err, new(wasi.MountError)) {
		return withHint(usage.Errorf("--dir: %w", err), "Name a directory that you may read.")
	}
	return exitError{exitRunFailed, err}
}

// checkModuleOutputs refuses outputs that have no place for the profile of a module,
// so that no run ends without one.
func (f *runFlags) checkModuleOutputs() error {
	for _, path := range f.outputs {
		switch {
		case export.IsPGO(path):
			return withHint(usage.Errorf("output %s: a WebAssembly module has no functions that 'go build -pgo' could use", path),
				"Name it .pb.gz, .xml or .json.")
		case f.module.exact && !f.formatOf(path).HasUnits():
			return withHint(usage.Errorf("output %s: %v has no place for instructions, which --exact counts", path, f.formatOf(path)),
				"Write .pb.gz, .xml or .json.")
		}
	}
	return nil
}

// runSampled runs a guest beside the session that samples it.
func runSampled(cmd *cobra.Command, env *environment, f *runFlags, g *wasi.Guest, s *session.Session) error {
	signaled, stop := signals.Until(cmd.Context())
	defer stop()
	defer signals.SurvivePipes()()
	r := g.Start(signaled)
	looked := f.cached.look(env.stderr, f.module.source, s.Manager.Snapshot)
	reportError(env.stderr, cmd, follow(r.Abandoned(), env, s))
	looked()
	end, ended := r.Wait()
	if !ended {
		return exitError{code: signals.Of(r.Abandoned()).ExitCode()}
	}
	return errors.Join(exitOfGuest(end), g.Close(context.Background()))
}

// runRefused runs a guest that cannot be sampled, because of refused, if that is wanted. If
// wazero refuses the module, too, it cannot be run at all, and wazero says why.
func runRefused(cmd *cobra.Command, env *environment, f *runFlags, g *wasi.Guest, refused error) error {
	if err := g.Compile(cmd.Context()); err != nil {
		return refuseGuest(g, exitCannotRun, err)
	}
	if !f.anyway {
		return refuseGuest(g, exitRunFailed, withHint(refused, "--anyway runs it without sampling it."))
	}
	if !f.quiet {
		reportError(env.stderr, cmd, fmt.Errorf("%s runs without being sampled: %w", g.Name(), refused))
	}
	end := g.Run(cmd.Context())
	return errors.Join(exitOfGuest(end), g.Close(cmd.Context()))
}

// refuseGuest returns why a guest is not started, as an exit code of ccmapd.
func refuseGuest(g *wasi.Guest, code int, err error) error {
	return exitError{code, errors.Join(fmt.Errorf("%s is not started: %w", g.Name(), err), g.Close(context.Background()))}
}

// exitOfGuest returns the end of a guest as the exit code of ccmapd, with the text of a
// trap.
func exitOfGuest(e wasi.End) error {
	switch {
	case e.Trapped:
		return exitError{exitTrapped, e.Err}
	case e.NotStarted:
		return exitError{exitCannotRun, e.Err}
	case e.Err != nil || e.Code != 0:
		return exitError{e.Code, e.Err}
	}
	return nil
}
