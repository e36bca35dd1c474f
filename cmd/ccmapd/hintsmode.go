package main

import (
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

// The modes of using a kept profile at a JVM's next start. The names are of the thesis on cached
// profiles: see docs/jvm.md.
const (
	modeThresholds = "0" // compile earlier
	modeCache      = "1" // compile as usual, with the kept profile
	modeTier       = "2" // a tier of its own until then
)

// firstCache is the release of the JDK that can keep profiles (JEP 515).
const firstCache = 25

// checkMode checks that there are as many profiles as the mode reads.
func (f *hintsFlags) checkMode(profiles int) error {
	switch {
	case f.mode.Value == modeTier:
		return errNoTier()
	case f.mode.Value == modeCache && f.shared.where != "":
		return usage.Errorf("--shared is for hints and --mode 0: --mode 1 compares whole profiles")
	case profiles == 2 && f.mode.Value != modeCache:
		return usage.Errorf("two profiles are for --mode 1: of a training run, and of production")
	}
	return nil
}

// errNoTier says why there is no mode 2.
func errNoTier() error {
	return withHint(usage.Errorf("--mode 2: no JVM as it comes has a tier for methods with a kept profile"),
		"'--mode 0' writes lower thresholds, '--mode 1' is about JDK 25's AOT cache.")
}

// earlyFlags say which methods a JVM compiles early in mode 0, and how early.
type earlyFlags struct {
	scale float64
	most  int
}

func defaultEarly() earlyFlags { return earlyFlags{hotspot.EarlyScale, hotspot.MostEarly} }

func (f *earlyFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float64Var(&f.scale, "scale", f.scale, "with --mode 0: compile after this `PART` of the usual calls")
	flags.IntVar(&f.most, "most", f.most, "with --mode 0: at most `N` methods, those with the most CPU time")
}

func (f *earlyFlags) check(cmd *cobra.Command, mode string) error {
	for _, name := range []string{"scale", "most"} {
		if cmd.Flags().Changed(name) && mode != modeThresholds {
			return usage.Errorf("--%s is for --mode 0", name)
		}
	}
	switch {
	case !(f.scale >= 0.001 && f.scale <= 1):
		return usage.Errorf("--scale %v is not from 0.001 to 1", f.scale)
	case f.most < 1 || f.most > hotspot.MostEarlyEver:
		return usage.Errorf("--most must be 1 to %d", hotspot.MostEarlyEver)
	}
	return nil
}

// writerOfMode returns the writer of a mode's output: the commands of mode 0, or see writeCache.
func (f *hintsFlags) writerOfMode(env *environment, profiles []*view.Profile) (func(io.Writer) error, error) {
	if f.mode.Value != modeThresholds {
		return func(w io.Writer) error { return writeCache(w, profiles) }, nil
	}
	own := profiles[0].Snapshot
	early := hotspot.Early(own, f.early.most)
	called, err := f.shared.called(env, f.recency, own, hotspot.EarlyKeys(early))
	return func(w io.Writer) error { return hotspot.WriteThresholds(w, early, called, f.early.scale) }, err
}

// writeCache writes the comparison of two profiles, or how a JVM keeps its own profile: mode 1.
func writeCache(w io.Writer, profiles []*view.Profile) error {
	if len(profiles) == 2 {
		return compareTraining(w, profiles[0], profiles[1])
	}
	return printCache(w, profiles[0])
}

// printCache says how a JVM keeps its profile.
func printCache(w io.Writer, p *view.Profile) error {
	if err := hasCache(p); err != nil {
		return err
	}
	out := terminal.NewPrinter(w, false)
	out.Line("JDK 25 keeps the JVM's profiles in its AOT cache:")
	out.Line("  java -XX:AOTCacheOutput=app.aot …   a training run, which ends by itself")
	out.Line("  java -XX:AOTCache=app.aot …         production")
	out.Line("'ccmapd hints --mode 1 TRAINING PRODUCTION' says whether a training run is like production.")
	return out.Err()
}

var release = regexp.MustCompile(`^OpenJDK ([0-9]{1,4})\b`)

// hasCache returns an error unless the JVM of a profile can keep profiles.
func hasCache(p *view.Profile) error {
	found := release.FindStringSubmatch(p.Meta().Target.Runtime)
	if found == nil {
		return fmt.Errorf("%s is of no JVM that is known", p.Path)
	}
	if n, _ := strconv.Atoi(found[1]); n < firstCache {
		return withHint(fmt.Errorf("%s is of JDK %d, which cannot keep profiles", p.Path, n), "JDK %d can, in its AOT cache.", firstCache)
	}
	return nil
}

// compareTraining says whether a training run is like production: in where the time is spent, and in
// what C2 would make of its counts.
func compareTraining(w io.Writer, training, production *view.Profile) error {
	for _, p := range []*view.Profile{training, production} {
		if err := hasCache(p); err != nil {
			return err
		}
	}
	r, err := compare.Compare(training.Snapshot, production.Snapshot, compare.Options{Seed: 1, Tolerance: compare.DefaultTolerance})
	if err != nil {
		return explainCompare(err)
	}
	t := hotspot.Train(training.Snapshot, production.Snapshot)
	out := terminal.NewPrinter(w, false)
	out.Line("The contexts of training and production overlap by %s, and %s of one behaviour would: %s.",
		figure.Percent(r.Contexts.Percent), figure.Percent(r.Contexts.Expected), r.Verdict)
	out.Line("Of production's CPU time in Java methods, %s is in methods that training serves: what C2 would make", figure.Percent(t.Serves))
	out.Line("of its counts suits production, at all of %s. %s is in methods with a call, branch or check", figure.Plural(int64(t.Positions), "position"), figure.Percent(t.Differs))
	out.Line("that differs, %s in methods that training has not counted.", figure.Percent(t.Unknown))
	printUnserved(out, t.Unserved)
	if err := out.Err(); err != nil {
		return err
	}
	if r.Verdict == compare.Differs || 100-t.Serves > compare.DefaultTolerance {
		return fmt.Errorf("%s is not like %s: train again, with what production does", training.Path, production.Path)
	}
	return nil
}

// mostUnserved is how many methods are listed.
const mostUnserved = 10

func printUnserved(out *terminal.Printer, list []hotspot.Unserved) {
	if len(list) == 0 {
		return
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "time", Right: true}, {Title: "method", Shorten: terminal.ShortenMethod, Least: 24}, {Title: "position", Shorten: terminal.ShortenMiddle, Least: 24},
	}}
	for _, u := range list[:min(len(list), mostUnserved)] {
		t.Add(figure.Percent(u.Share), u.Method, u.Reason)
	}
	out.Table("", t)
	if more := len(list) - mostUnserved; more > 0 {
		out.Line("… %s more", figure.Plural(int64(more), "method"))
	}
}
