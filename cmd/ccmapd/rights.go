package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/mergefiles"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/kallsyms"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// forSampling are the uses of capabilities of a command that attaches to a process.
const forSampling = privilege.Targets | privilege.Sampling | privilege.Files

// subcommand is a command with the rights that it needs: without them it does not compile.
type subcommand struct {
	*cobra.Command
	rights rights
}

// rights leaves this process only what a command needs, before the command runs.
type rights func(env *environment, cmd *cobra.Command, args []string) error

// unbounded leaves all. Run decides later: a program that it starts has all rights of its caller, and a module
// needs few.
func unbounded(*environment, *cobra.Command, []string) error { return nil }

// filesAlone is for commands that open files and connections of their caller.
func filesAlone(env *environment, _ *cobra.Command, _ []string) error {
	return env.process.Keep(privilege.Files)
}

// starting is for a command that starts the program that it samples.
func starting(env *environment, _ *cobra.Command, _ []string) error {
	return env.process.Keep(forSampling)
}

// sampling is for commands that sample programs which run already.
func sampling(env *environment, _ *cobra.Command, _ []string) error {
	return errors.Join(env.process.Keep(forSampling), env.process.NoNewPrivileges())
}

// attaching is for commands that sample a process, perhaps a JVM of another user, unless their argument is
// another thing, which they read.
func attaching(isOther func(string) bool) rights {
	return func(env *environment, _ *cobra.Command, args []string) error {
		kept := forSampling | privilege.Waking | becoming()
		if isOther != nil && len(args) > 0 && isOther(args[0]) {
			kept = privilege.Files | becoming()
		}
		return errors.Join(env.process.Keep(kept), env.process.NoNewPrivileges())
	}
}

// toFetch leaves the rights to read files and to ask servers, and says which event is asked for.
func (env *environment) toFetch(cmd *cobra.Command) error {
	if event := cmd.Flag("event"); event != nil {
		env.reader.Event = event.Value.String()
	}
	return errors.Join(env.process.Keep(privilege.Files), env.process.NoNewPrivileges())
}

// reading is for commands that read profiles. It gets those that are not files here, with the rights of the
// caller. Then the command may only read files and write its outputs: no profile is decoded before.
func reading(profiles func(args []string) []string, outputs func(cmd *cobra.Command, args []string) []string) rights {
	return func(env *environment, cmd *cobra.Command, args []string) error {
		if err := env.toFetch(cmd); err != nil {
			return err
		}
		if isFollowing(cmd) {
			return nil // it connects once a second
		}
		for _, where := range profiles(args) {
			if err := env.fetch(cmd.Context(), where); err != nil {
				return err
			}
		}
		return env.process.Confine(outputs(cmd, args)...)
	}
}

// firstProfile and mergedProfiles return the arguments that name profiles.
func firstProfile(args []string) []string { return args[:min(1, len(args))] }

func mergedProfiles(args []string) []string {
	paths := slices.Clone(args)
	for i, arg := range args {
		if in, err := mergefiles.ParseInput(arg); err == nil { // else merge says what is wrong
			paths[i] = in.Path
		}
	}
	return paths
}

// noOutputs, converted and flaggedOutput return the files that a command writes.
func noOutputs(*cobra.Command, []string) []string { return nil }

func converted(_ *cobra.Command, args []string) []string { return toOpen(args[1:]) }

func flaggedOutput(cmd *cobra.Command, _ []string) []string {
	return toOpen([]string{cmd.Flag("output").Value.String()})
}

// toOpen returns the outputs that are no descriptors: those were open when this process started.
func toOpen(outputs []string) []string {
	return slices.DeleteFunc(slices.Clone(outputs), func(path string) bool {
		_, isDescriptor := export.Descriptor(path)
		return isDescriptor || path == stdPath
	})
}

// explainStart adds a remedy to an error in lowering capabilities.
func explainStart(err error) error {
	if errors.Is(err, privilege.ErrSetuid) {
		return withHint(err, "Take the bit off (chmod ug-s), and use setcap: see \"Permissions\" in the README.")
	}
	return err
}

// The most that sampling may cost a process that its caller could not sample without
// the capabilities of ccmapd.
const (
	borrowedOverhead = 5                // percent
	borrowedOfHost   = 1                // percent of each CPU
	borrowedInterval = time.Millisecond // the shortest
	borrowedHits     = 1000             // calls caught a second of CPU time
)

// borrows reports whether the caller may look into a process only by the capabilities of
// ccmapd, which are not in effect here.
func (env *environment) borrows(pid int) bool {
	if !env.process.Granted() {
		return false
	}
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return errors.Is(err, fs.ErrPermission)
}

// toProcess returns the function that opens the source of a session with a process. The
// function ends when ctx is done. It looks at the owner of the process before and after,
// because the process may execute a program of another user meanwhile.
func (env *environment) toProcess(ctx context.Context, f *samplingFlags, pid int) session.Opener {
	return func(o sampler.ProcessOptions) (engine.Choice, error) {
		o.PID, o.SymbolCache = pid, symbolCache(os.Getenv)
		if env.kernel != nil {
			o.KernelNames = env.kernel.Name
		}
		if err := env.holdBack(f, pid); err != nil {
			return engine.Choice{}, err
		}
		o.MaxOverhead = f.tuning().MaxOverhead
		wakePromptly(o.Logger) // a program that run starts has begun
		got, err := engine.Attach(ctx, env.engines, f.engine.Value, o)
		if err != nil {
			return engine.Choice{}, err
		}
		if err := env.holdBack(f, pid); err != nil {
			return engine.Choice{}, errors.Join(err, got.Source.Close())
		}
		return got, nil
	}
}

// wakePromptly lets verdicts come in time on a busy machine. Sampling goes without.
func wakePromptly(log *slog.Logger) {
	if err := process.ShortenSlices(os.Getpid()); err != nil && log != nil {
		log.Info("repetitions will be harder to tell on a busy machine", "reason", err)
	}
}

// kernelFlag asks for the kernel's functions in stacks.
const kernelFlag = "kernel-stacks"

// nameKernel reads the names of the kernel's functions, if the command asks for them. The kernel shows them to the
// capabilities of the caller, which the rights of a command drop.
func (env *environment) nameKernel(cmd *cobra.Command) error {
	if f := cmd.Flag(kernelFlag); f == nil || f.Value.String() != "true" {
		return nil
	}
	var err error
	env.kernel, err = kallsyms.Read()
	if errors.Is(err, kallsyms.ErrHidden) {
		return &advice.Error{Code: advice.CodeNotPermitted, Err: fmt.Errorf("--%s: %w", kernelFlag, err)}
	}
	return err
}

// symbolCache returns where the caller's debuginfod client keeps what it has got (debuginfod-find(1), elfutils
// 0.188 to 0.193); "" if that is not known. It may be missing.
func symbolCache(getenv func(string) string) string {
	for _, at := range []struct{ variable, below string }{
		{"DEBUGINFOD_CACHE_PATH", ""}, {"XDG_CACHE_HOME", "debuginfod_client"}, {"HOME", ".cache/debuginfod_client"},
	} {
		if dir := getenv(at.variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, at.below)
		}
	}
	return ""
}

// holdBack bounds the cost of sampling a process where that takes borrowed capabilities:
// defaults are bounded silently, flags that ask for more are refused.
func (env *environment) holdBack(f *samplingFlags, pid int) error {
	if !env.borrows(pid) {
		return nil
	}
	return f.bound()
}

// bound holds the flags to the most that sampling may cost another user's process.
func (f *samplingFlags) bound() error {
	switch {
	case f.interval < borrowedInterval:
		return tooMuch("--interval %v is too short, at least %v", f.interval, borrowedInterval)
	case f.min > 0 && f.min < borrowedInterval:
		return tooMuch("--min-interval %v is too short, at least %v", f.min, borrowedInterval)
	case f.overhead == 0 || f.overhead > borrowedOverhead:
		return tooMuch("--max-overhead %v is too much, at most %v percent", f.overhead, borrowedOverhead)
	case f.ofHost == 0 || f.ofHost > borrowedOfHost:
		return tooMuch("--max-host-overhead %v is too much, at most %v percent", f.ofHost, borrowedOfHost)
	case f.values.hits > borrowedHits:
		return tooMuch("--hits %v are too many, at most %v", f.values.hits, borrowedHits)
	}
	f.min = cmp.Or(f.min, borrowedInterval)
	if !f.tune && !f.overheadGiven {
		f.overhead, f.overheadGiven = borrowedOverhead, true
	}
	return nil
}

// tooMuch says which flag asks for too much, and what is permitted.
func tooMuch(format string, args ...any) error {
	return &advice.Error{Code: advice.CodeNotPermitted, Err: fmt.Errorf(format+", for another user's process", args...),
		Hint: "You sample it by capabilities that only ccmapd has: only root may slow it down more."}
}

// holdServed bounds the cost of sampling a process where that takes borrowed capabilities.
func (env *environment) holdServed(pid int, s config.Settings) config.Settings {
	if !env.borrows(pid) {
		return s
	}
	s.Interval = max(s.Interval, borrowedInterval)
	s.MinInterval = max(s.MinInterval, borrowedInterval)
	s.MaxOverhead = min(cmp.Or(s.MaxOverhead, borrowedOverhead), borrowedOverhead)
	s.Hits = min(s.Hits, borrowedHits)
	return s
}
