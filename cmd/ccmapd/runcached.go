package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// cachedFlags are the flags of run that give a JVM the profile of an earlier run.
type cachedFlags struct {
	profile string
	mode    usage.Choice // empty: hints alone
	early   earlyFlags
	log     []string
}

// What --store-log can print.
const (
	logUse        = "use"
	logDeopts     = "deopts"
	logDeoptsEach = "deopts-each"
	logQueue      = "queue"
)

var storeLogs = []string{logUse, logDeopts, logDeoptsEach, logQueue}

func (f *cachedFlags) register(cmd *cobra.Command) {
	f.mode = usage.Choice{From: []string{modeThresholds, modeCache, modeTier}}
	f.early = defaultEarly()
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "cached", "", "begin with what `PROFILE` knows, a JVM or a module: a file, or @best:NAME of a daemon's store")
	f.mode.Register(cmd, "mode", "with --cached: `MODE` 0 also compiles a JVM's hot methods early; 1: PROFILE is JDK 25's AOT cache; 2 asks a module less")
	f.early.register(cmd)
	flags.StringSliceVar(&f.log, "store-log", nil, "print what becomes of it, `WHAT` is "+terminal.OrList(storeLogs)+"; several with commas")
	usage.Complete(cmd, "store-log", storeLogs...)
}

// check finds what is wrong before anything is started.
func (f *cachedFlags) check(cmd *cobra.Command, isJVM bool) error {
	for _, name := range []string{"cached", "mode", "scale", "most", "store-log"} {
		if cmd.Flags().Changed(name) && !isJVM {
			return withHint(usage.Errorf("--%s is for JVMs and WebAssembly modules: the program must be 'java' or a module", name), "Omit --%s.", name)
		}
	}
	for _, what := range f.log {
		if !slices.Contains(storeLogs, what) {
			return usage.Errorf("--store-log %q is not %s", what, terminal.OrList(storeLogs))
		}
	}
	switch {
	case f.mode.Value == modeTier:
		return errNoTier()
	case f.profile == "" && (f.mode.Value != "" || f.logs(logUse)):
		return usage.Errorf("--mode and --store-log use are for --cached PROFILE")
	}
	return errors.Join(f.early.check(cmd, f.mode.Value), f.checkAOT())
}

func (f *cachedFlags) logs(what string) bool { return slices.Contains(f.log, what) }

// arguments returns the arguments with which a JVM starts, and the directory of the files that it reads then; empty:
// there is none. A profile that cannot be used never keeps the JVM from starting: it is reported.
func (f *cachedFlags) arguments(cmd *cobra.Command, env *environment, args []string) (with []string, dir string) {
	if f.profile == "" {
		return args, ""
	}
	var flags []string
	var err error
	if f.mode.Value == modeCache {
		flags, err = f.aot(env.stderr, args)
	} else {
		flags, dir, err = f.write(cmd.Context(), env, args)
	}
	if err != nil {
		reportError(env.stderr, cmd, fmt.Errorf("the JVM starts without a cached profile: %w", err))
		return args, ""
	}
	return slices.Concat(args[:1], flags, args[1:]), dir
}

// write writes the files for a JVM's start, and returns the flags that name them.
func (f *cachedFlags) write(ctx context.Context, env *environment, args []string) (flags []string, dir string, err error) {
	if err := refuseOwn(args, "-XX:CompilerDirectivesFile=", "-XX:CompileCommandFile=", "-XX:+DisplayVMOutput"); err != nil {
		return nil, "", err
	}
	if err := env.fetch(ctx, f.profile); err != nil {
		return nil, "", err
	}
	p, err := recency{}.load(env, f.profile)
	if err != nil {
		return nil, "", err
	}
	if dir, err = os.MkdirTemp("", "ccmapd-cached-"); err != nil {
		return nil, "", fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
			dir = ""
		}
	}()
	hints, leftOut := hotspot.Find(p.Snapshot, hotspot.DefaultFind())
	f.sayHints(env.stderr, hints, leftOut)
	if len(hints) > 0 {
		path := filepath.Join(dir, "directives")
		// The JVM counts the directives on standard output, which is the program's.
		flags = append(flags, "-XX:+DisplayVMOutputToStderr", "-XX:+UnlockDiagnosticVMOptions", "-XX:CompilerDirectivesFile="+path)
		if err = writeFor(path, func(w io.Writer) error { return hotspot.WriteDirectives(w, hints) }); err != nil {
			return nil, dir, err
		}
	}
	early := f.methods(env.stderr, p.Snapshot)
	if len(early) > 0 {
		path := filepath.Join(dir, "commands")
		flags = append(flags, "-XX:CompileCommand=quiet", "-XX:CompileCommandFile="+path)
		err = writeFor(path, func(w io.Writer) error { return hotspot.WriteThresholds(w, early, nil, f.early.scale) })
	}
	if err == nil && len(flags) == 0 && f.logs(logUse) {
		fmt.Fprintln(env.stderr, "cached: nothing of the profile is of use to this JVM")
	}
	return flags, dir, err
}

func writeFor(path string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write for the JVM: %w", err)
	}
	return nil
}

// methods returns the methods that are compiled early, in mode 0.
func (f *cachedFlags) methods(w io.Writer, s *ccmap.Snapshot) []hotspot.Method {
	if f.mode.Value != modeThresholds {
		return nil
	}
	early := hotspot.Early(s, f.early.most)
	if f.logs(logUse) {
		for _, m := range early {
			fmt.Fprintf(w, "cached: used: %s is compiled after %v of the usual calls\n", terminal.Printable(m.Short()), f.early.scale)
		}
	}
	return early
}

// sayHints says which hints are used, and why others are not.
func (f *cachedFlags) sayHints(w io.Writer, hints []hotspot.Hint, leftOut []string) {
	if !f.logs(logUse) {
		return
	}
	for _, h := range hints {
		fmt.Fprintf(w, "cached: used: %s %s in %s: %s\n", h.Action, terminal.Printable(h.Callee.Short()), terminal.Printable(h.Root.Short()), terminal.Printable(h.Reason))
	}
	for _, why := range leftOut {
		fmt.Fprintf(w, "cached: not used: %s\n", terminal.Printable(why))
	}
}

// watch prints what the compilers of a JVM do, as --store-log asks, until the function that it returns is called, or
// the JVM has ended.
func (f *cachedFlags) watch(ctx context.Context, w io.Writer, pid int) (end func()) {
	if !f.logs(logDeopts) && !f.logs(logDeoptsEach) && !f.logs(logQueue) {
		return func() {}
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, format+"\n", args...)
	}
	c := &hotspot.Compilations{}
	if f.logs(logDeoptsEach) {
		c.Deopt = func(d hotspot.Deoptimization) {
			say("deoptimized: %s at %d: %s, %s; %s in all", terminal.Printable(d.Method), d.Bytecode, terminal.Printable(d.Reason),
				terminal.Printable(d.Action), figure.Count(d.Total))
		}
	}
	if f.logs(logQueue) {
		c.Queue = func(q hotspot.Queue) {
			if q.Adding > 0 {
				say("queue of %s: %d methods added, %d in it, %d at most", terminal.Printable(q.Compiler), q.Adding, q.Size, q.Peak)
			}
		}
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := awaitJVM(ctx, pid)
		if err == nil {
			err = c.Watch(ctx, pid)
		}
		if err != nil && ctx.Err() == nil {
			say("the compilers cannot be watched: %s", terminal.PrintableError(err))
			return
		}
		if f.logs(logDeopts) && !errors.Is(err, context.Canceled) {
			say("%s in all, since the JVM could be watched", figure.Plural(c.Deopts(), "deoptimization"))
		}
	}()
	return func() { stop(); <-ended }
}
