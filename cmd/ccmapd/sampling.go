package main

import (
	"cmp"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// samplingFlags are the flags of attach and run.
type samplingFlags struct {
	duration   time.Duration
	outputs    []string
	page       string       // file; "": none
	to         usage.Choice // format of standard output
	interval   time.Duration
	tune       bool
	low, high  float64 // percent
	tuneWindow int     // samples
	min, max   time.Duration
	settle     float64 // percent; 0: never
	overhead   float64 // percent; 0: no limit
	ofHost     float64 // percent of each CPU; 0: no limit
	memory     figure.ByteSize
	window     time.Duration // time constant of what is recent; 0: none
	until      session.Goal
	engine     usage.Choice
	event      usage.Choice // kinds of units
	units      []ccmap.Unit // of event.From
	idle       time.Duration
	under      []string // functions that answer requests
	threads    bool     // label samples with their names
	values     valueFlags
	hot        hotFlags
	lone       loneFlags
	quiet      bool
	json       bool
	verbose    bool

	children      bool
	labels        bool
	overheadGiven bool
	intervalGiven bool
}

// newSamplingFlags returns the defaults.
func newSamplingFlags(all []engine.Engine) *samplingFlags {
	units := engine.Units(all)
	return &samplingFlags{
		interval: 10 * time.Millisecond,
		tune:     true, low: 1, high: 15, tuneWindow: 1000,
		settle:   98,
		overhead: 1, ofHost: 1,
		memory: 64 * figure.MiB,
		window: 15 * time.Minute,
		engine: usage.NewChoice(engine.Names(all)),
		event:  usage.NewChoice(kinds(units)),
		units:  units,
		idle:   time.Second,
		values: newValueFlags(),
	}
}

func kinds(units []ccmap.Unit) (names []string) {
	for _, u := range units {
		names = append(names, u.Kind())
	}
	return names
}

func (f *samplingFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVarP(&f.duration, "duration", "d", 0, "sample for `TIME`; 0: until the program ends or Ctrl-C")
	flags.StringArrayVarP(&f.outputs, "output", "o", nil, "write the profile to `FILE`; may be repeated; '-': standard output, and all else to standard error")
	registerTo(cmd, &f.to)
	registerPage(cmd, &f.page)
	flags.DurationVarP(&f.interval, "interval", "i", f.interval, "CPU `TIME` between two samples of a thread")
	flags.BoolVar(&f.tune, "tune", f.tune, "adapt the interval to the program")
	flags.Float64Var(&f.low, "tune-low", f.low, "repetitions in `PERCENT` below which the interval becomes shorter")
	flags.Float64Var(&f.high, "tune-high", f.high, "repetitions in `PERCENT` above which the interval becomes longer")
	flags.IntVar(&f.tuneWindow, "tune-window", f.tuneWindow, "`SAMPLES` between two looks at the repetitions")
	flags.Float64Var(&f.settle, "tune-settled", f.settle, "lengthen the interval once the profile is settled to `PERCENT`; 0: never")
	flags.DurationVar(&f.min, "min-interval", 0, "shortest interval, a `TIME` (default 100µs, or --interval if that is shorter)")
	flags.DurationVar(&f.max, "max-interval", 0, "longest interval, a `TIME` (default 100ms, or --interval if that is longer)")
	flags.Float64Var(&f.overhead, "max-overhead", f.overhead, "CPU time of the program in `PERCENT` that sampling may cost; 0: no limit")
	flags.Float64Var(&f.ofHost, "max-host-overhead", f.ofHost, "time in `PERCENT` that engine bpf may take of every CPU, or engine memory of one; 0: no limit")
	flags.Var(&f.memory, "max-memory", "prune a profile that outgrows this `SIZE`, from 64KiB; 0: no limit")
	flags.DurationVar(&f.window, "window", f.window, "keep what is recent: a sample falls to 1/e of its weight in `TIME`; 0: do not")
	flags.BoolVar(&f.children, childrenFlag, false, "sample the processes that the program starts, too")
	flags.Bool(kernelFlag, false, "name the kernel's functions, too (root, or CAP_SYSLOG)")
	flags.BoolVar(&f.labels, labelsFlag, true, "sample labels of goroutines (pprof.Do), which may hold user data")
	flags.Var(&f.until, "until", "stop when settled to this `GOAL`, for example 95% or contexts:95%")
	f.engine.Register(cmd, "engine", "`ENGINE` to sample with: "+terminal.OrList(f.engine.From)+"; auto: the best permitted")
	f.event.Register(cmd, "event", "`EVENT` to sample: cpu; of a JVM alloc (bytes) or lock (time); of goroutines or Java's threads wait or wall (time)")
	flags.DurationVar(&f.idle, idleFlag, f.idle, "waits longer than `TIME` outside of requests are [idle]; 0: none are")
	flags.StringArrayVar(&f.under, underFlag, nil, "`FUNCTION` that answers requests: waits below it are never [idle]; may be repeated")
	flags.BoolVar(&f.threads, threadsFlag, false, "label waits of a JVM with the names of threads")
	f.values.register(cmd)
	f.hot.register(cmd)
	f.lone.register(cmd)
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log changes of the interval and more, not only warnings, to standard error, and report what the machine pays")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		f.overheadGiven, f.intervalGiven = cmd.Flags().Changed("max-overhead"), cmd.Flags().Changed("interval")
		if err := f.check(); err != nil {
			return err
		}
		if err := f.checkEvent(cmd); err != nil {
			return err
		}
		return f.hot.check(cmd)
	}
}

const (
	// leastMemory holds some hundred contexts. With fewer a profile would be
	// pruned all the time.
	leastMemory = 64 * figure.KiB
	// leastWindow is many turns of the manager: the window moves once a turn.
	leastWindow = time.Second
)

// Flags of waits alone.
const (
	idleFlag   = "idle"
	labelsFlag = "labels" // and of CPU time
	underFlag  = "under"

	threadsFlag = "threads"
)

// waitInterval is the time between two looks at all goroutines.
const waitInterval = 50 * time.Millisecond

// isOfWaits reports whether goroutines are sampled, waiting ones included.
func (f *samplingFlags) isOfWaits() bool { return f.unit() == engine.Wait || f.unit() == engine.Wall }

// unit returns the unit of samples.
func (f *samplingFlags) unit() ccmap.Unit { return f.units[slices.Index(f.event.From, f.event.Value)] }

// onlyCPUFlagNames are flags that have no use for samples of other events than CPU time.
var onlyCPUFlagNames = append([]string{"hits", "value-hash", "janitor", "dump-values", labelsFlag, kernelFlag}, tuneFlagNames...)

// checkEvent finds what does not go with an event other than CPU time, after check.
func (f *samplingFlags) checkEvent(cmd *cobra.Command) error {
	if f.isOfWaits() {
		return f.checkWaits(cmd)
	}
	ofWaits := []string{idleFlag, underFlag, threadsFlag}
	if i := slices.IndexFunc(ofWaits, cmd.Flags().Changed); i >= 0 {
		return usage.Errorf("--%s is for --event wait and wall", ofWaits[i])
	}
	if f.unit() == ccmap.CPUTime {
		return nil
	}
	if i := slices.IndexFunc(onlyCPUFlagNames, cmd.Flags().Changed); i >= 0 {
		return withHint(usage.Errorf("--event %s and --%s exclude each other", f.event.Value, onlyCPUFlagNames[i]),
			"The JVM records events at a fixed rate: --interval bounds them.")
	}
	return f.checkUnits()
}

// checkWaits finds what does not go with waits.
func (f *samplingFlags) checkWaits(cmd *cobra.Command) error {
	for _, name := range onlyCPUFlagNames {
		if name != labelsFlag && cmd.Flags().Changed(name) {
			return withHint(usage.Errorf("--event %s and --%s exclude each other", f.event.Value, name),
				"All goroutines or threads are looked at each --interval, as far as --max-host-overhead permits.")
		}
	}
	switch {
	case f.idle < 0:
		return usage.Errorf("--idle %v is negative", f.idle)
	case f.children:
		return usage.Errorf("--event %s is for one process: --%s is not", f.event.Value, childrenFlag)
	case !f.intervalGiven:
		f.interval = waitInterval
	}
	return f.checkUnits()
}

// checkUnits finds outputs that have no place for the unit.
func (f *samplingFlags) checkUnits() error {
	for _, path := range f.outputs {
		if format := f.formatOf(path); !format.HasUnits() {
			return withHint(usage.Errorf("output %s: %v has no place for %s, which --event %s counts", path, format, f.unit().Base(), f.event.Value),
				"Write .pb.gz, .xml or .json.")
		}
	}
	return nil
}

// check finds what is wrong before anything is sampled.
func (f *samplingFlags) check() error {
	switch {
	case f.quiet && f.verbose:
		return usage.Errorf("--quiet and --verbose exclude each other")
	case f.quiet && f.json:
		return usage.Errorf("--quiet and --json exclude each other")
	case f.quiet && f.values.dump:
		return usage.Errorf("--quiet and --dump-values exclude each other")
	case f.duration < 0:
		return usage.Errorf("--duration %v is negative", f.duration)
	case f.interval <= 0:
		return usage.Errorf("--interval %v is not positive", f.interval)
	case !(f.overhead >= 0 && f.overhead <= 100):
		return usage.Errorf("--max-overhead %v is not from 0 to 100 percent", f.overhead)
	case !(f.ofHost >= 0 && f.ofHost <= 100):
		return usage.Errorf("--max-host-overhead %v is not from 0 to 100 percent", f.ofHost)
	case !(0 < f.low && f.low < f.high && f.high < 100):
		return usage.Errorf("--tune-low %v and --tune-high %v are not in the order 0 < low < high < 100 percent", f.low, f.high)
	case !(f.settle >= 0 && f.settle <= 100):
		return usage.Errorf("--tune-settled %v is not from 0 to 100 percent", f.settle)
	case f.memory != 0 && f.memory < leastMemory:
		return usage.Errorf("--max-memory %v is less than a profile needs: %v at least, or 0 for no limit", f.memory, leastMemory)
	case f.window < 0 || f.window > 0 && f.window < leastWindow:
		return usage.Errorf("--window %v is too short: %v at least, or 0 for none", f.window, leastWindow)
	case f.tuneWindow <= 0:
		return usage.Errorf("--tune-window %d is not positive", f.tuneWindow)
	case f.min > 0 && f.interval < f.min:
		return usage.Errorf("--interval %v is shorter than --min-interval %v", f.interval, f.min)
	case f.max > 0 && f.interval > f.max:
		return usage.Errorf("--interval %v is longer than --max-interval %v", f.interval, f.max)
	}
	if _, err := tuning.New(f.tuning()); err != nil {
		return usage.Of(err)
	}
	if err := f.values.check(); err != nil {
		return err
	}
	if err := f.lone.check(); err != nil {
		return err
	}
	if len(f.outputs) == 0 && !f.lone.store {
		f.outputs = []string{output.Default}
	}
	if f.to.Value != "" && !slices.ContainsFunc(f.outputs, output.IsNameless) {
		return usage.Errorf("--to %s is for standard output: add -o -", f.to.Value)
	}
	if f.children && slices.ContainsFunc(f.outputs, output.IsNameless) {
		return withHint(usage.Errorf("--%s wants files: each program that a child runs has a profile of its own", childrenFlag), "Name a file, for example -o web.pb.gz.")
	}
	if err := output.Check(f.outputs); err != nil || f.page == "" {
		return err
	}
	if f.children {
		return withHint(usage.Errorf("--%s is of one program, and --%s has several", pageFlag, childrenFlag), "Write the profiles, and then pages of them: 'ccmapd html'.")
	}
	return output.CheckPage(f.page, f.outputs)
}

// toStdout reports whether an output is standard output.
func (f *samplingFlags) toStdout() bool { return slices.ContainsFunc(f.outputs, output.IsStdout) }

// formatOf returns the format of an output that was checked.
func (f *samplingFlags) formatOf(path string) export.Format {
	if output.IsNameless(path) {
		return f.streamFormat()
	}
	format, _, _ := export.FormatOf(path)
	return format
}

// streamFormat is the format of outputs without a name: pprof, unless --to says
// otherwise.
func (f *samplingFlags) streamFormat() export.Format { return cmp.Or(formatNamed(f.to), export.Pprof) }

// apart returns an environment that leaves standard output to the profile, if that is
// where it goes: all else is printed on standard error.
func (f *samplingFlags) apart(env *environment) (*environment, error) {
	if !f.toStdout() {
		return env, nil
	}
	if f.streamFormat() == export.Pprof && terminal.Width(env.stdout) > 0 {
		return nil, withHint(usage.Errorf("standard output is a terminal, and pprof is no text"), "Redirect it, name a file, or add --to folded.")
	}
	rest := *env
	rest.profile, rest.stdout = terminal.Unguarded(env.stdout), env.stderr
	return &rest, nil
}

// config returns the configuration of the session that the flags ask for.
func (f *samplingFlags) config(env *environment) session.Config {
	c := session.Config{
		Unit:      f.unit(),
		Interval:  f.interval,
		Idle:      f.idle,
		Under:     f.under,
		Duration:  f.duration,
		Tuning:    f.tuning,
		Hits:      f.values.hits,
		NoLabels:  !f.labels,
		Threads:   f.threads,
		MaxHost:   f.ofHost / 100,
		MaxMemory: int64(f.memory),
		Window:    f.window,
		Until:     f.until.Goal,
		Values:    f.values.options(env.stderr),
		Hot:       f.hot.watched,
		OnHot:     f.hot.listener(env.stderr),
		Dumps:     func(pid int) []manager.Dump { return f.dumps(env, pid) },
		Logger:    f.logger(env.stderr),
		Quiet:     f.quiet,
		Verbose:   f.verbose,
		JSON:      f.json,
	}
	if f.lone.registered {
		f.connect(env, &c)
	}
	return c
}

// tuning returns the configuration of the tuner that the flags mean.
func (f *samplingFlags) tuning() tuning.Config {
	const unlimited, never = -1, -1
	c := tuning.Config{
		Initial:     f.interval,
		Min:         f.min,
		Max:         f.max,
		Low:         f.low / 100,
		High:        f.high / 100,
		Window:      f.tuneWindow,
		MaxOverhead: cmp.Or(f.overhead/100, unlimited),
		Settle:      cmp.Or(f.settle, never),
		Off:         !f.tune,
	}
	if c.Off {
		c.MaxDaemonCPU = unlimited
		if !f.overheadGiven {
			c.MaxOverhead = unlimited
		}
	}
	return c
}

// logger returns the session's log. Every user sees its warnings, for example that not all
// threads could be attached to.
func (f *samplingFlags) logger(w io.Writer) *slog.Logger {
	if f.quiet {
		return slog.New(slog.DiscardHandler)
	}
	level := slog.LevelWarn
	switch {
	case f.verbose && f.values.dump:
		level = slog.LevelDebug // the janitor of value tables logs at that
	case f.verbose:
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(terminal.AboveLive(w), &slog.HandlerOptions{Level: level}))
}

// registerTo adds the flag that gives the format of standard output.
func registerTo(cmd *cobra.Command, to *usage.Choice) {
	for _, f := range export.Formats() {
		to.From = append(to.From, f.String())
	}
	to.Register(cmd, "to", "`FORMAT` of standard output, a pipe or a device: "+terminal.OrList(to.From))
}

// formatNamed returns the format that --to names, 0 if it does not.
func formatNamed(to usage.Choice) export.Format {
	if i := slices.Index(to.From, to.Value); i >= 0 {
		return export.Formats()[i]
	}
	return 0
}

// dumps returns the dumps into the outputs, for a pid.
func (f *samplingFlags) dumps(env *environment, pid int) []manager.Dump {
	var dumps []manager.Dump
	for _, pattern := range f.outputs {
		dumps = append(dumps, f.dump(env, pattern, pid))
	}
	if f.page != "" {
		path := output.PathOf(f.page, pid)
		dumps = append(dumps, manager.Dump{Name: path, Write: func(s *ccmap.Snapshot) error {
			return writePage(path, view.New(path, s), nil, mostNodes)
		}})
	}
	return dumps
}

// dump returns the dump into one output, for a pid.
func (f *samplingFlags) dump(env *environment, pattern string, pid int) manager.Dump {
	o := output.Of(pattern, pid, f.streamFormat(), env.profile)
	return manager.Dump{Name: o.Path, Write: o.Write}
}
