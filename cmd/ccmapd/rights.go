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

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/daemon/config"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/kallsyms"
	"github.com/ccmapd/ccmapd/internal/mergefiles"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// forSampling are the uses of capabilities of a command that attaches to a process.
const forSampling = privilege.Targets | privilege.Sampling | privilege.Files

// confine leaves the process only the rights that a command needs. Run decides later: a
// program that it starts has all rights of its caller, and a module needs few.
func (env *environment) confine(cmd *cobra.Command, args []string) error {
	switch {
	case cmd.GroupID == groupRead:
		return env.confineReading(cmd, args)
	case cmd.Name() == "run":
		return nil
	case cmd.Name() == "demo": // starts its workload
		return env.process.Keep(forSampling)
	case cmd.Name() == "attach" && len(args) > 0 && isURL(args[0]), cmd.Name() == "doctor" && len(args) > 0 && client.IsRemote(args[0]):
		return errors.Join(env.process.Keep(privilege.Files), env.process.NoNewPrivileges())
	case cmd.Name() == "attach", cmd.Name() == "apply", cmd.Name() == "doctor": // perhaps to a JVM of another user
		return errors.Join(env.process.Keep(forSampling|privilege.Waking), env.process.NoNewPrivileges())
	case cmd.Name() == "serve", cmd.Name() == "version":
		return errors.Join(env.process.Keep(forSampling), env.process.NoNewPrivileges())
	}
	return env.process.Keep(privilege.Files)
}

// confineReading gets the profiles of a command that are not files here, with the rights of its
// caller. Then the command may only read files and write its output: no profile is decoded before.
func (env *environment) confineReading(cmd *cobra.Command, args []string) error {
	if err := errors.Join(env.process.Keep(privilege.Files), env.process.NoNewPrivileges()); err != nil {
		return err
	}
	if isFollowing(cmd) {
		return nil // it connects once a second
	}
	for _, where := range profilesOf(cmd, args) {
		if err := env.fetch(cmd.Context(), where); err != nil {
			return err
		}
	}
	return env.process.Confine(outputsOf(cmd, args)...)
}

// profilesOf returns the arguments that name profiles.
func profilesOf(cmd *cobra.Command, args []string) []string {
	switch cmd.Name() {
	case "overlap", "diff":
		return args
	case "merge":
		paths := slices.Clone(args)
		for i, arg := range args {
			if in, err := mergefiles.ParseInput(arg); err == nil { // else merge says what is wrong
				paths[i] = in.Path
			}
		}
		return paths
	}
	return args[:min(1, len(args))]
}

// outputsOf returns the files that a command which reads profiles writes. Descriptors that
// it was started with are open already.
func outputsOf(cmd *cobra.Command, args []string) []string {
	var outputs []string
	switch cmd.Name() {
	case "convert":
		outputs = args[1:]
	case "merge", "hints":
		outputs = []string{cmd.Flag("output").Value.String()}
	}
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
// capabilities of the caller, which confine drops.
func (env *environment) nameKernel(cmd *cobra.Command) error {
	if f := cmd.Flag(kernelFlag); f == nil || f.Value.String() != "true" {
		return nil
	}
	var err error
	env.kernel, err = kallsyms.Read()
	if errors.Is(err, kallsyms.ErrHidden) {
		return exitError{exitPermission, fmt.Errorf("--%s: %w", kernelFlag, err)}
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
	return exitError{exitPermission, withHint(fmt.Errorf(format+", for another user's process", args...),
		"You sample it by capabilities that only ccmapd has: only root may slow it down more.")}
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
