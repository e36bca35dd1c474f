package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
)

const applyLong = `Apply gives hints to the compiler C2 of a running JVM, which needs no flag and no restart,
and finds out what became of them:

  1. it starts a recording of the compiler's events in the JVM, and samples its CPU time
  2. it adds the hints as compiler directives, which hold for later compilations alone
  3. it waits until C2 has compiled each method that has hints, by the JVM's own events
  4. it samples again, removes the directives, and prints outcomes and CPU time

A hint was taken or refused, in C2's own words, was not needed, or its method was not
compiled. FILE is what 'ccmapd hints --json' wrote. A method whose code the JVM has thrown
away ten times has no hints.

Ctrl-C removes the directives, too. Compiled code stays as it is until the JVM compiles
the method again. It takes the rights of jcmd: to be the JVM's user, or root. Root needs
CAP_KILL, which containers may lack, to wake a JVM of another user. docs/jvm.md has an
example, docs/formats.md the JSON.`

const applyExample = `  ccmapd hints app.json --json -o hints.json   look at the hints first
  ccmapd apply hints.json 4242
  ccmapd apply hints.json 4242 --wait 10m      the methods are compiled seldom
  ccmapd apply hints.json 4242 --keep          leave the directives in the JVM`

// applyFlags are the flags of apply.
type applyFlags struct {
	duration time.Duration // of sampling, before and after; 0: none
	interval time.Duration
	wait     time.Duration
	engine   usage.Choice
	keep     bool
	quiet    bool
	json     bool
}

func newApplyCmd(env *environment) subcommand {
	defaults := newSamplingFlags(env.engines)
	f := applyFlags{interval: defaults.interval, engine: defaults.engine}
	cmd := &cobra.Command{
		Use:     "apply FILE PID|NAME",
		Short:   "Give hints to the compiler of a running JVM, and see what became of them",
		Long:    applyLong,
		Example: applyExample,
		GroupID: groupSample,
		Args:    argCount(2, 2, "a file of hints, and a process id or name"),
		PreRunE: func(*cobra.Command, []string) error { return f.check() },
		RunE: func(cmd *cobra.Command, args []string) error {
			hints, err := readHints(args[0])
			if err != nil {
				return err
			}
			p, err := findProcess(args[1:], "")
			if err != nil {
				return err
			}
			defer p.close()
			a := application{env: env, applyFlags: f, pid: p.pid}
			return a.run(cmd.Context(), hints)
		},
	}
	f.register(cmd)
	return subcommand{cmd, attaching(nil)}
}

func (f *applyFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVarP(&f.duration, "duration", "d", 10*time.Second, "sample for `TIME` before, and as long after; 0: do not")
	flags.DurationVarP(&f.interval, "interval", "i", f.interval, "CPU `TIME` between two samples of a thread")
	flags.DurationVar(&f.wait, "wait", time.Minute, "wait at most `TIME` for compilations")
	f.engine.Register(cmd, "engine", "`ENGINE` to sample with: "+terminal.OrList(f.engine.From)+"; auto: the best permitted")
	flags.BoolVar(&f.keep, "keep", false, "leave the directives in the JVM")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
}

func (f *applyFlags) check() error {
	switch {
	case f.quiet && f.json:
		return usage.Errorf("--quiet and --json exclude each other")
	case f.duration < 0:
		return usage.Errorf("--duration %v is negative", f.duration)
	case f.interval <= 0:
		return usage.Errorf("--interval %v is not positive", f.interval)
	case f.wait <= 0:
		return usage.Errorf("--wait %v is not positive", f.wait)
	}
	return nil
}

// readHints reads a file of hints.
func readHints(path string) ([]hotspot.Hint, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, explainRead(err)
	}
	defer file.Close()
	hints, err := hotspot.ReadFile(file)
	switch {
	case err != nil:
		return nil, withHint(fmt.Errorf("%s: %w", path, err), "'ccmapd hints --json -o FILE' writes such a file.")
	case len(hints) == 0:
		return nil, withHint(fmt.Errorf("%s: %w", path, hotspot.ErrNoHints), "There is nothing to apply.")
	}
	return hints, nil
}

// application is one run of apply.
type application struct {
	env *environment
	applyFlags
	pid int
}

// run applies hints, and reports. The directives are removed whatever happens.
func (a *application) run(ctx context.Context, hints []hotspot.Hint) error {
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	a.say("Starting a recording in %d, which takes a second or more. Ctrl-C ends all, and removes the directives.", a.pid)
	trial, err := hotspot.Begin(ctx, a.pid, hints)
	if err != nil {
		return explainApply(err)
	}
	before, after, err := a.try(ctx, trial, hotspot.Roots(hints))
	if ctx.Err() != nil {
		err = nil // the user has ended it
	}
	err = errors.Join(err, trial.End(a.keep))
	if a.quiet {
		return explainApply(err)
	}
	effect, failed := newEffect(before, after, hints)
	if errors.Is(failed, compare.ErrEmpty) { // a JVM that waits, or a busy machine: the hints are in force all the same
		a.say("CPU time is not compared: %v. Sample for longer: -d.", failed)
		failed = nil
	}
	report := applyReport{a.pid, trial.Results(), trial.Lost(), effect, a.keep}
	return errors.Join(explainApply(err), explainCompare(failed), report.print(a.env.stdout, a.json))
}

// try samples, applies, waits and samples again.
func (a *application) try(ctx context.Context, trial *hotspot.Trial, roots []hotspot.Method) (before, after *ccmap.Snapshot, err error) {
	if before, err = a.sample(ctx, "before"); err != nil || ctx.Err() != nil {
		return nil, nil, err
	}
	var thrown map[string]int64
	if before != nil {
		thrown = hotspot.Thrown(before)
	}
	if err := trial.Apply(ctx, thrown); err != nil {
		return nil, nil, err
	}
	a.say("%s", warmth(before, roots))
	a.say("The directives are in force. Waiting at most %v until C2 has compiled %s.", a.wait, figure.Plural(int64(len(roots)), "method"))
	late := time.NewTimer(a.wait)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return nil, nil, nil
	case <-trial.Ended():
		return nil, nil, nil
	case <-trial.Settled():
	case <-late.C:
	}
	if after, err = a.sample(ctx, "after"); err != nil || ctx.Err() != nil {
		return nil, nil, err
	}
	return before, after, nil
}

// warmth says that a hint has no method compiled again, and what has.
func warmth(before *ccmap.Snapshot, roots []hotspot.Method) string {
	text := "Methods that C2 has compiled are not compiled again because of a hint:"
	if before == nil {
		return text + unlessWarm
	}
	if n := len(hotspot.Compiled(before, roots)); n > 0 {
		text = fmt.Sprintf("C2 has compiled %d of %s. That is not done again because of a hint:", n, figure.Plural(int64(len(roots)), "method"))
	}
	return text + unlessWarm
}

// unlessWarm ends a sentence on code that is there already.
const unlessWarm = "\nonly where a type or a branch comes that the code does not expect. Or start the JVM with them: 'ccmapd hints\n" +
	"--format directives -o FILE', and java -XX:+UnlockDiagnosticVMOptions -XX:CompilerDirectivesFile=FILE."

// sample samples the CPU time of the JVM. Nothing is written.
func (a *application) sample(ctx context.Context, when string) (*ccmap.Snapshot, error) {
	if a.duration == 0 {
		return nil, nil
	}
	f := newSamplingFlags(a.env.engines)
	f.duration, f.interval, f.engine, f.quiet = a.duration, a.interval, a.engine, a.quiet
	c := f.config(a.env)
	c.Dumps = func(int) []manager.Dump { return nil }
	s, err := session.Open(c, a.env.toProcess(ctx, f, a.pid))
	if err != nil {
		return nil, err
	}
	a.say("Sampling for %v, %s.", a.duration, when)
	r, err := s.Run(ctx, a.env.stderr, io.Discard)
	return r.Snapshot, err
}

// say prints progress.
func (a *application) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.env.stderr, format+"\n", args...)
	}
}

// explainApply adds to an error what to do about it.
func explainApply(err error) error {
	if errors.Is(err, hotspot.ErrOthers) {
		return withHint(err, "'jcmd PID Compiler.directives_print' lists them, and Compiler.directives_remove\nremoves the one on top.")
	}
	if errors.Is(err, attach.ErrAsleep) {
		return withHint(err, "'jcmd PID VM.version', as the JVM's user, wakes it.")
	}
	return err
}
