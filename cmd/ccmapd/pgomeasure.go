package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/feedback/unitcost"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const pgoMeasureLong = `Measure says whether a new build takes less CPU time for a unit of work. Both builds run
at once, as a canary beside the old one, and share the load. --before and --after are the
id or the name of a process, or a target of the daemon here that has one, as @web.

A unit is one of a counter --per-metric of the programs' own metrics, in the text format
of Prometheus, at --before-url and --after-url. Or it is an execution of function --per,
counted by a breakpoint. That slows the program, perhaps several times, and two
builds not alike: it is for programs without metrics. Activations and samples are no
count of work, and are refused.

--same is another process of the old build. Its difference from --before is what two
processes of one build differ by: a smaller effect is none.`

const pgoMeasureExample = `  ccmapd pgo measure --before 4242 --after 4343 --per main.handle -d 5m   without metrics
  ccmapd pgo measure --before 4242 --same 4250 --after 4343 --per main.handle
  ccmapd pgo measure --before web-old --after web-new --per-metric http_requests_total \
    --before-url http://127.0.0.1:8080/metrics --after-url http://127.0.0.1:8081/metrics`

// pgoMeasureFlags are the flags of pgo measure.
type pgoMeasureFlags struct {
	refs, urls [sides]string
	root       string
	metric     string
	duration   time.Duration
	period     time.Duration
	least      float64 // percent
	asJSON     bool
}

// The sides of a measurement.
const (
	sideBefore = iota
	sideAfter
	sideSame
	sides
)

var sideNames = [sides]string{"before", "after", "same"}

func newPGOMeasureCmd(env *environment) subcommand {
	f := pgoMeasureFlags{duration: time.Minute, period: time.Second, least: 1}
	cmd := &cobra.Command{
		Use:     "measure --before PROCESS --after PROCESS --per FUNCTION",
		Short:   "Say whether a build takes less CPU time for a unit of work",
		Long:    pgoMeasureLong,
		Example: pgoMeasureExample,
		Args:    argCount(0, 0, "no argument: the processes are flags"),
		PreRunE: func(*cobra.Command, []string) error { return f.check() },
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },

		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.refs[sideBefore], "before", "", "the `PROCESS` of the old build")
	flags.StringVar(&f.refs[sideAfter], "after", "", "the `PROCESS` of the new build")
	flags.StringVar(&f.refs[sideSame], "same", "", "another `PROCESS` of the old build, to see what differs without a change")
	for side, name := range sideNames {
		flags.StringVar(&f.urls[side], name+"-url", "", "with --per-metric, the `URL` of the metrics of --"+name)
	}
	flags.StringVar(&f.root, "per", "", "a unit of work is an execution of `FUNCTION`")
	flags.StringVar(&f.metric, "per-metric", "", "a unit of work is one of counter `NAME`")
	flags.DurationVarP(&f.duration, "duration", "d", f.duration, "measure for this long")
	flags.DurationVar(&f.period, "period", f.period, "the time between two readings")
	flags.Float64Var(&f.least, "least", f.least, "the smallest change that matters, in percent")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, which has every figure")
	return subcommand{cmd, sampling}
}

func (f *pgoMeasureFlags) check() error {
	unit := cmp.Or(f.root, f.metric)
	switch {
	case f.refs[sideBefore] == "" || f.refs[sideAfter] == "":
		return usage.Errorf("--before and --after are needed: two processes")
	case (f.root == "") == (f.metric == ""):
		return withHint(usage.Errorf("either --per or --per-metric is needed: a unit of work"), "Load differs, so CPU time alone says nothing.")
	case isNoCount(unit):
		return withHint(usage.Errorf("%s is no unit of work: samples find activations, so CPU time for each is about the sampling interval, whatever a request costs", unit),
			"Take a counter of the program, or --per with the function that does a unit of work.")
	case f.period <= 0 || f.duration < unitcost.LeastPeriods*f.period:
		return usage.Errorf("--duration must be at least %d times --period", unitcost.LeastPeriods)
	case !(f.least > 0 && f.least < 100):
		return usage.Errorf("--least must be over 0 and under 100 percent")
	}
	for side, name := range sideNames {
		switch has := f.urls[side] != ""; {
		case has && (f.metric == "" || f.refs[side] == ""):
			return usage.Errorf("--%s-url is for --per-metric with --%s", name, name)
		case !has && f.metric != "" && f.refs[side] != "":
			return usage.Errorf("--per-metric needs --%s-url", name)
		}
	}
	return nil
}

// isNoCount reports whether a unit is what a sampler finds: it depends on the interval.
func isNoCount(unit string) bool {
	own := strings.HasPrefix(unit, "ccmapd_") && (strings.Contains(unit, "activations") || strings.Contains(unit, "samples"))
	return unit == "activations" || unit == "samples" || own
}

// pgoMeasured is the JSON of pgo measure.
type pgoMeasured struct {
	Unit     string           `json:"unit"`
	Seconds  float64          `json:"seconds"`
	Effect   unitcost.Result  `json:"effect"`
	OneBuild bool             `json:"one_build"`      // before and after are the same build: the change is noise
	Same     *unitcost.Result `json:"same,omitempty"` // of --same against --before
	Least    float64          `json:"least"`          // percent
	Verdict  string           `json:"verdict"`
	More     *float64         `json:"more_seconds,omitempty"`
	Units    uint64           `json:"units"`   // of before and after
	Stopped  bool             `json:"stopped"` // a breakpoint has counted them, which slows the processes, and not alike
}

func (f *pgoMeasureFlags) run(ctx context.Context, env *environment) error {
	ctx, stop := signals.UntilInterrupted(ctx)
	defer stop()
	m, err := f.open(ctx, env)
	if err != nil {
		return explainMeasure(err)
	}
	defer m.close()
	began := time.Now()
	if err := m.read(ctx, f.duration, f.period); err != nil {
		return explainMeasure(err)
	}
	r := pgoMeasured{Unit: cmp.Or(f.root, f.metric), Seconds: time.Since(began).Seconds(), Least: f.least, OneBuild: m.sameBuild(sideBefore, sideAfter)}
	if r.Effect, err = unitcost.Compare(m.periods(sideBefore), m.periods(sideAfter)); err != nil {
		return explainMeasure(err)
	}
	if m.sides[sideSame] != nil {
		same, err := unitcost.Compare(m.periods(sideBefore), m.periods(sideSame))
		if err != nil {
			return explainMeasure(fmt.Errorf("--same: %w", err))
		}
		r.Same = &same
	}
	r.Units, r.Stopped = m.units(), f.root != ""
	r.Verdict = verdictOf(r)
	if more := r.Effect.More(f.least); r.Verdict == notShown && more > 0 && more < math.MaxInt {
		seconds := float64(more) * r.Seconds / float64(r.Effect.Periods)
		r.More = &seconds
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, r)
	}
	return printPGOMeasured(env.stdout, r)
}

// The verdicts of a measurement.
const (
	lessTime = "less"      // CPU time for a unit
	moreTime = "more"      // CPU time for a unit
	noChange = "no change" // that matters
	notShown = "not shown"
)

// verdictOf compares a change with what two processes of one build differ by, too.
func verdictOf(r pgoMeasured) string {
	floor := 0.0
	if r.Same != nil && r.Same.Shown() {
		floor = math.Abs(r.Same.Change)
	}
	switch {
	case r.Effect.Within(r.Least):
		return noChange
	case r.Effect.High < -floor:
		return lessTime
	case r.Effect.Low > floor:
		return moreTime
	}
	return notShown
}

func printPGOMeasured(w io.Writer, r pgoMeasured) error {
	out := terminal.NewPrinter(w, false)
	e := r.Effect
	out.Line("CPU time for a unit, %s:", terminal.Printable(r.Unit))
	out.Line("  before  %s", figure.Time(int64(e.Before)))
	out.Line("  after   %s, %s", figure.Time(int64(e.After)), interval(e))
	if r.Same != nil {
		out.Line("  same    %s, %s: two processes of one build", figure.Time(int64(r.Same.After)), interval(*r.Same))
	}
	out.Line("")
	switch r.Verdict {
	case noChange:
		out.Line("The change is less than %.3g %%.", r.Least)
	case notShown:
		out.Line("No change is shown.")
	default:
		out.Line("The new build takes %s CPU time.", r.Verdict)
	}
	if r.More != nil {
		out.Line("A change of %.3g %% would show in another %v.", r.Least, time.Duration(*r.More*float64(time.Second)).Round(time.Second))
	}
	if r.OneBuild {
		out.Line("Before and after are the same build: any change is noise, or differs from process to process.")
	} else if r.Same == nil {
		out.Line("What two processes of one build differ by is not known: --same measures it.")
	}
	if r.Stopped {
		out.Line("The breakpoint that counted %s slows the processes, perhaps several times, and not alike:", figure.Plural(int64(r.Units), "execution"))
		out.Line("decide by --per-metric, which does not.")
	}
	return out.Err()
}

// interval prints a change with its interval.
func interval(r unitcost.Result) string {
	return fmt.Sprintf("%+.2f %% (%+.2f to %+.2f)", r.Change, r.Low, r.High)
}

// explainMeasure adds advice to an error of a measurement.
func explainMeasure(err error) error {
	switch {
	case errors.Is(err, unitcost.ErrNoWork):
		return withHint(err, "Give both processes load, and a unit that they work on.")
	case errors.Is(err, unitcost.ErrFewPeriods):
		return withHint(err, "Measure for longer.")
	case errors.Is(err, unitcost.ErrNotCounter), errors.Is(err, unitcost.ErrNoCounter):
		return withHint(err, "Take a counter of requests, as http_requests_total, or the _count of a histogram.")
	}
	return explainRoot(err)
}
