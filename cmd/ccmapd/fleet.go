package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const fleetLong = `Fleet asks the hub of a fleet, which adds up the profiles that many machines send.

  @hub/best:web          the instances of web that behave alike, most of them
  @hub/best:web@1f0c     of the build whose id begins like this
  @hub/class-1:web       instances that behave otherwise
  @hub/build:web         all of the latest build
  @hub/period:web@DAY    what was sampled on a day, or in an hour (…T10), UTC

All commands that read profiles take these names. The hub is at --hub, or else at
$CCMAPD_HUB, with $CCMAPD_HUB_TOKEN_FILE and $CCMAPD_HUB_CA_FILE, or at url of
$XDG_CONFIG_HOME/ccmapd/hub.toml, beside token_file and ca_file. The token must permit
reading. docs/fleet.md explains classes and outliers.`

const fleetExample = `  ccmapd fleet targets                       what the hub has
  ccmapd fleet outliers                      instances that differ from the others
  ccmapd top @hub/best:web                   the hottest methods of all of web
  ccmapd diff @hub/best:web @web             one instance beside all`

// Variables that name a hub.
const (
	hubVariable      = "CCMAPD_HUB"
	hubTokenVariable = "CCMAPD_HUB_TOKEN_FILE"
	hubCAVariable    = "CCMAPD_HUB_CA_FILE"
)

// hubHere returns the hub that this user's commands ask: the variables have precedence over the file. One that cannot
// be read counts as none: the error without a hub says what to do.
func hubHere(getenv func(string) string) client.Hub {
	var file struct {
		URL       string `toml:"url"`
		TokenFile string `toml:"token_file"`
		CAFile    string `toml:"ca_file"`
	}
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(getenv("HOME"), ".config")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "ccmapd", "hub.toml")); err == nil && toml.Unmarshal(text, &file) != nil {
		file.URL = ""
	}
	return client.Hub{
		URL:       cmp.Or(getenv(hubVariable), file.URL),
		TokenFile: cmp.Or(getenv(hubTokenVariable), file.TokenFile),
		CAFile:    cmp.Or(getenv(hubCAVariable), file.CAFile),
	}
}

// fleetFlags are the flags of all commands of the fleet.
type fleetFlags struct {
	url, token, ca string
	event          string
	asJSON         bool
}

// newFleetCmds returns the command and those below it.
func newFleetCmds(env *environment) []subcommand {
	var f fleetFlags
	cmd := &cobra.Command{
		Use: "fleet", Short: "Ask the hub of a fleet: builds, classes, outliers", Long: fleetLong, Example: fleetExample,
		GroupID: groupServe,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.UnknownCommand(cmd, args, usage.Errorf("fleet has no command %q", args[0]))
			}
			return cmd.Help()
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.url, "hub", "", "ask the hub at this `URL`; default: $"+hubVariable)
	flags.StringVar(&f.token, "token-file", "", "the token is in this `FILE`; default: $"+hubTokenVariable)
	flags.StringVar(&f.ca, "ca-file", "", "certificates in this `FILE` vouch for the hub; default: $"+hubCAVariable)
	below := []*cobra.Command{
		{
			Use: "targets", Short: "List the targets of a fleet", Example: "  ccmapd fleet targets",
			Long: "Targets lists the programs that the hub has profiles of: how many builds, instances and\n" +
				"samples, and how many instances differ from the others of their build.",
			Args: argCount(0, 0, "no arguments"),
			RunE: func(cmd *cobra.Command, _ []string) error { return f.targets(cmd.Context(), env) },
		},
		{
			Use: "builds [TARGET]", Short: "List the builds of a fleet", Example: "  ccmapd fleet builds web",
			Long: `Builds lists the builds that the hub has profiles of, the last one that was updated first.

  classes  of instances that behave alike
  settled  overlap of two halves of the largest class: from 95% on more samples change
           little`,
			Args: argCount(0, 1, "at most one target"),
			RunE: func(cmd *cobra.Command, args []string) error { return f.builds(cmd.Context(), env, args) },
		},
		{
			Use: "show TARGET[@BUILD]", Short: "Say what a fleet knows of a build", Example: "  ccmapd fleet show web\n  ccmapd fleet show web@1f0c",
			Long: "Show says how much the hub knows of a build, by default of the one that was updated last,\n" +
				"how well a new instance would be known by it, and which hours and days it keeps.",
			Args: argCount(1, 1, "a target"),
			RunE: func(cmd *cobra.Command, args []string) error { return f.show(cmd.Context(), env, args[0]) },
		},
		{
			Use: "classes TARGET[@BUILD]", Short: "List instances that behave alike", Example: "  ccmapd fleet classes web",
			Long: `Classes lists the classes of a build: instances that behave alike. Each has a profile of
its own, @hub/class-N:TARGET. The largest one is @hub/best:TARGET.

  new      how far the others of the class know an instance that was left out, as they
           would know a new one: overlap in edges, with its standard deviation
  overlap  with the largest class, and in brackets what noise would leave`,
			Args: argCount(1, 1, "a target"),
			RunE: func(cmd *cobra.Command, args []string) error { return f.classes(cmd.Context(), env, args[0]) },
		},
		{
			Use: "outliers [TARGET]", Short: "List instances that differ from the others", Example: "  ccmapd fleet outliers web",
			Long: "Outliers lists the instances that differed from the others of their build three looks\n" +
				"running, of one look an hour, and in which method most.",
			Args: argCount(0, 1, "at most one target"),
			RunE: func(cmd *cobra.Command, args []string) error { return f.outliers(cmd.Context(), env, args) },
		},
		newFleetNearestCmd(env, &f),
		newFleetStatusCmd(env, &f),
		newFleetDeleteCmd(env, &f),
	}
	all := []subcommand{{cmd, filesAlone}}
	for _, sub := range below {
		sub.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, which has every figure")
		if strings.HasSuffix(sub.Use, "TARGET[@BUILD]") {
			sub.Flags().StringVar(&f.event, "event", store.Event(ccmap.CPUTime), "of the profiles of this `EVENT`, for example alloc_space")
		}
		cmd.AddCommand(sub)
		all = append(all, subcommand{sub, filesAlone})
	}
	return all
}

// address returns the way to the hub that the flags name, or else to that of this user.
func (f *fleetFlags) address() client.Hub {
	h := hubHere(os.Getenv)
	return client.Hub{URL: cmp.Or(f.url, h.URL), TokenFile: cmp.Or(f.token, h.TokenFile), CAFile: cmp.Or(f.ca, h.CAFile)}
}

// hub returns the hub that the flags name, or else that of this user.
func (f *fleetFlags) hub() fleetHub {
	return hubAt(f.address())
}

// hubAt returns a hub of this user, whose errors say what to do.
func hubAt(h client.Hub) fleetHub {
	get := func(ctx context.Context, into any, query url.Values, route string) error {
		err := h.Get(ctx, into, query, route)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return explainRead(err)
		}
		return err
	}
	return fleetHub{get, dialer(h)}
}

func (f *fleetFlags) targets(ctx context.Context, env *environment) error {
	targets, err := f.hub().targets(ctx)
	if err != nil {
		return err
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, targets)
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "target"}, {Title: "builds", Right: true}, {Title: "instances", Right: true}, {Title: "samples", Right: true},
		{Title: "outliers", Right: true}, {Title: "updated"},
	}}
	for _, is := range targets {
		t.Add(is.Target, fmt.Sprint(is.Builds), figure.Count(int64(is.Instances)), figure.Count(is.Samples), fmt.Sprint(is.Outliers), dateOf(is.Updated))
	}
	return printTable(env, t, "The hub has no profiles that you may see.")
}

// printTable prints a table, or a sentence in place of an empty one.
func printTable(env *environment, t *terminal.Table, none string) error {
	out := terminal.NewPrinter(env.stdout, env.wide)
	if len(t.Rows) == 0 {
		out.Line("%s", none)
		return out.Err()
	}
	out.Table("", t)
	return out.Err()
}

func dateOf(t time.Time) string { return t.Local().Format(time.DateTime) }

func (f *fleetFlags) builds(ctx context.Context, env *environment, args []string) error {
	list, err := f.hub().builds(ctx, strings.Join(args, ""))
	if err != nil {
		return err
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, list)
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "target"}, {Title: "event"}, {Title: "build"}, {Title: "instances", Right: true}, {Title: "samples", Right: true},
		{Title: "classes", Right: true}, {Title: "settled", Right: true}, {Title: "outliers", Right: true}, {Title: "updated"},
	}}
	for _, b := range list {
		t.Add(b.Target, eventOf(b.Unit), store.BuildName(b.Build), figure.Count(int64(b.Instances)), figure.Count(b.Samples),
			fmt.Sprint(b.Classes), settledText(b.Settled), fmt.Sprint(b.Outliers), dateOf(b.Updated))
	}
	return printTable(env, t, "The hub has no profiles that you may see.")
}

// settledText prints the overlap of two halves.
func settledText(percent float64) string {
	if percent == 0 {
		return terminal.Unknown
	}
	return figure.Percent(percent)
}

func (f *fleetFlags) show(ctx context.Context, env *environment, name string) error {
	d, err := f.hub().describe(ctx, name, f.event)
	if err != nil {
		return err
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, d)
	}
	out := terminal.NewPrinter(env.stdout, env.wide)
	out.Line("%s@%s, %s: %s of %s, %s independent; updated %s", terminal.Printable(d.Target), store.BuildName(d.Build.Build), eventOf(d.Unit),
		figure.Plural(d.Samples, "sample"), figure.Plural(int64(d.Instances), "instance"), figure.Count(int64(d.Independent)), dateOf(d.Updated))
	if len(d.ClassList) > 0 {
		showBest(out, d.ClassList[0])
	}
	if n := len(d.ClassList); n > 1 {
		out.Line("Classes: %d. 'ccmapd fleet classes %s' lists them.", n, terminal.Printable(name))
	}
	for _, o := range d.OutlierList {
		out.Line("Outlier: %s", terminal.Printable(o.String()))
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "level"}, {Title: "from"}, {Title: "samples", Right: true}, {Title: "size", Right: true},
	}}
	for _, is := range d.Times {
		t.Add(is.Level, is.From.UTC().Format("2006-01-02T15"), figure.Count(is.Samples), figure.SizeInColumn(is.Bytes))
	}
	if len(t.Rows) > 0 {
		out.Table("", t)
	}
	return out.Err()
}

// showBest says how good the best profile is.
func showBest(out *terminal.Printer, c fleet.Class) {
	switch {
	case c.IsSettled:
		out.Line("Best: settled, as two halves overlap to %s.", figure.Percent(c.Settled))
	case c.Settled > 0:
		out.Line("Best: two halves overlap to %s, and a settled profile's to 95%%.", figure.Percent(c.Settled))
	}
	if l := c.LeftOut; l != nil {
		out.Line("A new instance would be known to %s of its edges (%s were left out).", plusMinus(l), figure.Plural(int64(l.Instances), "instance"))
	}
}

// plusMinus prints a mean and its standard deviation.
func plusMinus(l *fleet.LeftOut) string {
	if l.Instances < 2 {
		return figure.Percent(l.Overlap)
	}
	return fmt.Sprintf("%.1f ± %.1f%%", l.Overlap, l.Error)
}

func (f *fleetFlags) classes(ctx context.Context, env *environment, name string) error {
	d, err := f.hub().describe(ctx, name, f.event)
	if err != nil {
		return err
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, d.ClassList)
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "class", Right: true}, {Title: "instances", Right: true}, {Title: "samples", Right: true}, {Title: "settled", Right: true},
		{Title: "new", Right: true}, {Title: "overlap", Right: true},
	}}
	for _, c := range d.ClassList {
		row := []string{fmt.Sprint(c.Class), figure.Count(int64(c.Instances)), figure.Count(c.Samples), settledText(c.Settled), "", ""}
		if c.LeftOut != nil {
			row[4] = plusMinus(c.LeftOut)
		}
		for _, o := range c.Overlaps {
			if o.Class == d.ClassList[0].Class {
				row[5] = fmt.Sprintf("%s (%s)", figure.Percent(o.Overlap), figure.Percent(o.Expected))
			}
		}
		t.Add(row...)
	}
	return printTable(env, t, "The build has no classes yet.")
}

func (f *fleetFlags) outliers(ctx context.Context, env *environment, args []string) error {
	list, err := f.hub().outliers(ctx, strings.Join(args, ""))
	if err != nil {
		return err
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, list)
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "target"}, {Title: "build"}, {Title: "instance"}, {Title: "class", Right: true}, {Title: "since"},
		{Title: "differs by"}, {Title: "from", Right: true},
	}}
	for _, o := range list {
		t.Add(o.Target, store.BuildName(o.Build), fmt.Sprintf("%.*s", fleet.Shortened, o.Instance), fmt.Sprint(o.Class), dateOf(o.Since),
			o.Difference(), figure.Plural(int64(o.Others), "other"))
	}
	return printTable(env, t, "No instance differs from the others of its build.")
}
