package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/launch"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/wasi"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const runLong = `Run starts a Go program, JVM or WebAssembly module and samples it from its start on, a
JVM from the end of its own. Streams, signals and exit code are the program's; the report
goes to standard error. What cannot be sampled is not started unless with --anyway. A
WebAssembly module runs in ccmapd's process, for WASI preview 1, and gets --env and --dir.`

const runExample = `  ccmapd run -- ./server -addr :8080
  ccmapd run -d 30s -o start.pb.gz -- ./server
  ccmapd run --children -- go vet ./...      the go command, and all that it starts
  ccmapd run --cached @best:app --mode 0 --store-log use,deopts -- java -jar app.jar
  ccmapd run --store --mode 2 app.wasm       with what earlier runs in your store know
  ccmapd run --exact --dir /data:/in:ro -o all.xml app.wasm /in/a.txt   each call counted`

// runFlags are the flags of run.
type runFlags struct {
	*samplingFlags
	module moduleFlags
	cached cachedFlags
	anyway bool
}

func newRunCmd(env *environment) subcommand {
	f := &runFlags{samplingFlags: newSamplingFlags(env.engines), module: newModuleFlags()}
	cmd := &cobra.Command{
		Use:     "run [flags] -- PROGRAM|MODULE.wasm [ARG…]",
		Short:   "Start a Go program, JVM or WebAssembly module and sample it",
		Long:    runLong,
		Example: runExample,
		GroupID: groupSample,
		Args:    argCount(1, anyNumber, "a program"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.json && f.toStdout() {
				return withHint(usage.Errorf("--json and -o - exclude each other: the report would stand among the program's output on standard error"),
					"Write the profile to a file.")
			}
			env, err := f.apart(env)
			if err != nil {
				return err
			}
			path, isModule := wasi.Find(args[0])
			if isModule {
				err = f.cached.checkModule(cmd, f)
			} else {
				err = f.cached.check(cmd, isJavaLauncher(args[0]))
			}
			if err != nil {
				return err
			}
			if isModule {
				if f.children {
					return usage.Errorf("--%s is for programs: a module starts no processes", childrenFlag)
				}
				return runModule(cmd, env, f, path)
			}
			if err := f.module.checkUnused(cmd); err != nil {
				return err
			}
			return runProgram(cmd, env, f, args)
		},
	}
	f.register(cmd)
	f.module.register(cmd)
	f.cached.register(cmd)
	registerOpen(cmd)
	cmd.Flags().BoolVar(&f.anyway, "anyway", false, "run a program that cannot be sampled, too")
	cmd.Flags().SetInterspersed(false) // flags after PROGRAM are its own
	return subcommand{cmd, withPage(unbounded)}
}

// runProgram starts the program, samples it, and returns its exit code as an error. If the
// profile fails, it only reports that.
func runProgram(cmd *cobra.Command, env *environment, f *runFlags, args []string) error {
	forward := signals.Catch()
	defer forward.Stop()
	defer signals.SurvivePipes()()
	args, files := f.cached.arguments(cmd, env, args)
	if files != "" {
		defer os.RemoveAll(files)
	}
	start, isJVM := launch.Start, isJavaLauncher(args[0])
	if isJVM {
		start = launch.StartFreely
	}
	p, err := start(func() *exec.Cmd {
		c := exec.Command(args[0], args[1:]...)
		c.Stdin, c.Stdout, c.Stderr = env.stdin, terminal.Unguarded(env.stdout), terminal.Unguarded(env.stderr)
		return c
	})
	if err != nil {
		return startError(err)
	}
	if err := env.process.Keep(forSampling | privilege.Signals | becoming()); err != nil {
		return exitError{exitRunFailed, errors.Join(err, p.Kill())}
	}
	opening, opened := forward.Interrupted(cmd.Context())
	one, err := env.sampledBy(f.samplingFlags, p.Cmd.Process.Pid)
	var s *session.Session
	if err == nil {
		defer one.close()
		opener := one.opener(opening)
		if isJVM {
			opener = onceStarted(opening, p.Cmd.Process.Pid, opener)
		}
		s, err = session.Open(one.config, opener)
	}
	opened()
	if err != nil && p.Held && !f.anyway {
		return notStarted(opening, fmt.Errorf("%s is not started: %w", args[0], errors.Join(err, p.Kill())))
	}
	if s != nil {
		env.showPage(s)
	}
	forward.To(p.Cmd.Process)
	if err := errors.Join(err, p.Release()); err != nil && !(f.anyway && f.quiet) {
		reportError(env.stderr, cmd, fmt.Errorf("%s runs without being sampled: %w", args[0], err))
	}
	switch {
	case s != nil && isJVM:
		s.Announce(env.stderr, "The start of the JVM was not sampled.")
	case s != nil && !p.Held:
		s.Announce(env.stderr, "Its start was not sampled: ptrace is not permitted.")
	}
	watched := f.cached.watch(cmd.Context(), env.stderr, p.Cmd.Process.Pid)
	if s != nil {
		reportError(env.stderr, cmd, follow(cmd.Context(), env, s))
	}
	ended := exitOf(p.Cmd.Wait())
	watched()
	if s != nil {
		env.keepPage()
	}
	return ended
}

// follow samples the program that run has started, and reports on it. Standard error belongs to the
// program: it has no live line.
func follow(ctx context.Context, env *environment, s *session.Session) error {
	r, err := s.Run(ctx, io.Discard, env.stderr)
	return errors.Join(err, s.Report(env.stderr, r))
}

// notStarted gives an error the exit code of a program that could not be sampled and is
// not started, or of one that a signal has ended, if that ended opening.
func notStarted(opening context.Context, err error) error {
	if e := (signals.Error{}); errors.As(context.Cause(opening), &e) {
		return exitError{e.ExitCode(), err}
	}
	return exitError{exitRunFailed, err}
}

// startError maps an error in starting a program to the exit codes of env(1). A
// program that ended by itself, as the loader ends it where a library is
// missing, has given its own.
func startError(err error) error {
	code, ended := launch.ExitCode(err)
	switch {
	case ended:
		return exitError{code, err}
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exitError{exitNotFound, err}
	case errors.Is(err, fs.ErrPermission):
		return exitError{exitCannotRun, err}
	}
	return exitError{exitRunFailed, err}
}

// exitOf turns the end of a program into the exit code of ccmapd.
func exitOf(err error) error {
	if code, ended := launch.ExitCode(err); ended {
		return exitError{code: code}
	}
	return err
}
