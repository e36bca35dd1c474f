package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

const storeShowLong = `Show prints what a stored profile is: its files, times, extent and quality. The
commands that read profiles tell the rest: 'store export' writes a file for them.

Quality compares profiles of one build. A profile supersedes the best one if its two
halves agree in 95% of their edges, if it has as many independent samples within the
noise, and no larger share of pruned contexts and of values that are not known.`

func newStoreShowCmd(env *environment, f *storeFlags) subcommand {
	cmd := &cobra.Command{
		Use:     "show KIND:NAME[@AT]",
		Short:   "Say what a stored profile is, and how good",
		Long:    storeShowLong,
		Example: "  ccmapd store show best:web\n  ccmapd store show period:web@2026-11-20T10",
		Args:    argCount(1, 1, "a stored profile"),
		RunE:    func(_ *cobra.Command, args []string) error { return showStored(env, f, args[0]) },
	}
	f.registerJSON(cmd)
	return subcommand{cmd, reading(noProfiles, noOutputs)}
}

// noProfiles is for commands whose arguments name no profiles that are elsewhere.
func noProfiles([]string) []string { return nil }

// shownProfile is the JSON of store show.
type shownProfile struct {
	Name    string               `json:"name"`
	Entries []store.Listed       `json:"entries"`
	Unit    string               `json:"unit"`
	Nodes   int                  `json:"nodes"`
	Quality *store.ListedQuality `json:"quality"`
}

// sum returns the stored profiles that a name means, and the sum of them.
func (f *storeFlags) sum(env *environment, name string) ([]store.Entry, *ccmap.Snapshot, error) {
	r, err := f.reader()
	if err != nil {
		return nil, nil, err
	}
	entries, err := entriesNamed(r, name)
	if err != nil {
		return nil, nil, err
	}
	m, err := env.within(r).Sum(entries)
	if err != nil {
		return nil, nil, explainRead(err)
	}
	return entries, m.Snapshot(), nil
}

// storedHere are the profiles of this user's store, for commands that read profiles.
type storedHere struct{ env *environment }

// IsName reports whether an argument names a stored profile.
func (storedHere) IsName(where string) bool { return store.IsReference(where) }

// Open opens the sum of all that a name means.
func (s storedHere) Open(name, event string) (io.ReadCloser, error) {
	to, err := store.ParseReference(name)
	if err != nil {
		return nil, err
	}
	to.Event = event
	dir := defaultStore(os.Geteuid(), os.Getenv)
	r, err := store.NewReader(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &advice.Error{Code: advice.CodeNoTarget, Err: fmt.Errorf("%s: there is no store in %s", name, dir),
			Hint: fmt.Sprintf("'run --store' makes one, and $%s names another. A file of that name is ./%s.", storeVariable, name)}
	case err != nil:
		return nil, explainRead(explainStore(err, dir))
	}
	entries, err := r.Resolve(to, store.Filter{}, time.Now())
	if err != nil {
		return nil, err
	}
	m, err := s.env.within(r).Sum(entries)
	if err != nil {
		return nil, explainRead(err)
	}
	var b bytes.Buffer
	if err := export.Write(&b, export.JSON, m.Snapshot()); err != nil {
		return nil, err
	}
	return io.NopCloser(&b), nil
}

func showStored(env *environment, f *storeFlags, name string) error {
	entries, s, err := f.sum(env, name)
	if err != nil {
		return err
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, shownProfile{name, store.ListedOf(entries), s.Meta().Unit.String(), s.Len() - 1, store.QualityOf(s).Listed()})
	}
	out := terminal.NewPrinter(env.stdout, env.wide)
	out.Line("%s: %s; %s", terminal.Printable(name), view.New(name, s).Extent(), figure.Plural(int64(s.Len()-1), "node"))
	printQuality(out, store.QualityOf(s))
	return printEntries(out, entries, true)
}

// printQuality prints what a profile knows, and what it lacks.
func printQuality(out *terminal.Printer, q store.Quality) {
	if q.Known {
		out.Line("%s independent samples of %s", figure.Count(int64(q.Independent)), figure.Count(q.Samples))
	} else {
		out.Line("%s samples; how many are independent is not known: too few say whether activations repeat", figure.Count(q.Samples))
	}
	if q.Settled > 0 {
		out.Line("two halves agree in %s of their edges", figure.Percent(q.Settled))
	}
	for _, lack := range []struct {
		share float64
		of    string
	}{
		{q.Pruned, "of contexts that were pruned"}, {q.Truncated, "without outermost callers"},
		{q.Unaccounted, "of the CPU time has no sample"}, {q.Other, "of the values at points are not known"},
	} {
		if lack.share > 0 {
			out.Line("%s %s", figure.Percent(100*lack.share), lack.of)
		}
	}
}

const storeExportLong = `Export writes a stored profile to a file, in the format of its name, for all commands
and other tools. Several periods add up.

--points writes profile points alone, method by method: those of the profile, or of the
recent one where that knows as much. Methods with other code by then are left out.`

func newStoreExportCmd(env *environment, f *storeFlags) subcommand {
	var to usage.Choice
	var points bool
	cmd := &cobra.Command{
		Use:     "export KIND:NAME[@AT] OUT",
		Short:   "Write a stored profile to a file",
		Long:    storeExportLong,
		Example: "  ccmapd store export best:web best.pb.gz\n  ccmapd store export build:web@1f0c - --to folded",
		Args:    argCount(2, 2, "a stored profile and an output"),
		RunE: func(_ *cobra.Command, args []string) error {
			if points {
				return exportPoints(env, f, args[0], args[1], to)
			}
			return exportStored(env, f, args[0], args[1], to)
		},
	}
	registerTo(cmd, &to)
	cmd.Flags().BoolVar(&points, "points", false, "write the points of each method, of the profile or of the recent one")
	return subcommand{cmd, reading(noProfiles, converted)}
}

func exportStored(env *environment, f *storeFlags, name, path string, to usage.Choice) error {
	out, err := output.New(path, formatNamed(to), terminal.Unguarded(env.stdout))
	if err != nil {
		return err
	}
	entries, s, err := f.sum(env, name)
	if err != nil {
		return err
	}
	if err := out.Write(s); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(env.stderr, "%s: %s of %s; %s\n", terminal.Printable(out.Path),
		figure.Plural(int64(len(entries)), "stored profile"), terminal.Printable(name), view.New(out.Path, s).Extent()); err != nil {
		return err
	}
	return reportLost(env.stderr, out, s)
}

// exportPoints writes the points of a stored profile and of the recent one of its build, chosen method by method.
func exportPoints(env *environment, f *storeFlags, name, path string, to usage.Choice) error {
	ref, err := store.ParseReference(name)
	if err != nil {
		return err
	}
	out, err := output.New(path, formatNamed(to), terminal.Unguarded(env.stdout))
	if err != nil {
		return err
	}
	entries, best, err := f.sum(env, name)
	if err != nil {
		return err
	}
	recent := store.Reference{Kind: "recent", Name: ref.Name, At: store.BuildName(entries[0].Build)}
	_, now, err := f.sum(env, recent.String())
	if err != nil {
		return err
	}
	c := store.ChoosePoints(best, now)
	if err := out.Write(c.Map.Snapshot()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stderr, "%s: points of %s: of %d as in %s, of %d as in %s; %d left out with other code\n", terminal.Printable(out.Path),
		figure.Plural(int64(c.Best+c.Recent), "method"), c.Best, terminal.Printable(name), c.Recent, recent, c.Stale)
	return err
}

const storeCheckLong = `Check reads all files of the store and its log, and counts what is damaged. It changes
nothing: a daemon leaves damaged files out, and removes them when they are old. Damage
exits with 1.`

func newStoreCheckCmd(env *environment, f *storeFlags) subcommand {
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Read all of the store, and count damage",
		Long:    storeCheckLong,
		Example: "  ccmapd store check\n  ccmapd store check --dir /backup/ccmapd --json",
		Args:    argCount(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return checkStored(cmd, env, f) },
	}
	f.registerJSON(cmd)
	return subcommand{cmd, reading(noProfiles, noOutputs)}
}

// checkedStore is the JSON of store check.
type checkedStore struct {
	Files     int           `json:"files"` // that are whole
	Bytes     int64         `json:"bytes"`
	Running   int           `json:"running"` // profiles in the log
	Skipped   int           `json:"skipped"`
	Damaged   []damagedFile `json:"damaged"`
	LogDamage string        `json:"log_damage,omitempty"`
}

type damagedFile struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

func checkStored(cmd *cobra.Command, env *environment, f *storeFlags) error {
	r, err := f.reader()
	if err != nil {
		return err
	}
	progress := terminal.Progress{W: terminal.Unguarded(env.stderr)}
	c, err := env.within(r).Check(cmd.Context(), func(done, of int) {
		progress.Draw(func() string { return fmt.Sprintf("%d of %d profiles read", done, of) })
	})
	progress.Clear()
	if err != nil {
		return err
	}
	if err := reportChecked(env, f, &c); err != nil {
		return err
	}
	if !c.Whole() {
		return fmt.Errorf("the store is damaged: %s cannot be read", figure.Plural(int64(len(c.Damaged)), "file"))
	}
	return nil
}

// reportChecked prints what was found.
func reportChecked(env *environment, f *storeFlags, c *store.Checked) error {
	if f.asJSON {
		all := checkedStore{c.Files, c.Bytes, c.Running, c.Skipped, []damagedFile{}, c.LogDamage}
		for _, d := range c.Damaged {
			all.Damaged = append(all.Damaged, damagedFile{d.Name, d.Err.Error()})
		}
		return terminal.WriteJSON(env.stdout, all)
	}
	out := terminal.NewPrinter(env.stdout, env.wide)
	for _, d := range c.Damaged {
		out.Line("%s", terminal.PrintableError(d.Err))
	}
	out.Line("%s are whole, %s; %s in the log", figure.Plural(int64(c.Files), "file"), figure.Size(c.Bytes), figure.Plural(int64(c.Running), "running profile"))
	if err := out.Err(); err != nil {
		return err
	}
	return reportSkipped(env.stderr, c.Skipped, c.First, c.LogDamage)
}

const storeCompactLong = `Compact merges the periods of each hour that is over for a day into one file, and those
of each day that is over for seven days. The daemon does so by itself, once a day; this is
for a store without one.`

func newStoreCompactCmd(env *environment, f *storeFlags) subcommand {
	cmd := &cobra.Command{
		Use:     "compact",
		Short:   "Merge old periods into days",
		Long:    storeCompactLong,
		Example: "  ccmapd store compact --dir /backup/ccmapd",
		Args:    argCount(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return compactStored(cmd, env, f) },
	}
	f.registerJSON(cmd)
	return subcommand{cmd, filesAlone}
}

// compactedStore is the JSON of store compact.
type compactedStore struct {
	Hours   int `json:"hours"`
	Days    int `json:"days"`
	Parts   int `json:"parts"`
	Skipped int `json:"skipped"`
}

func compactStored(cmd *cobra.Command, env *environment, f *storeFlags) error {
	if _, err := f.reader(); err != nil {
		return err // a store that is missing is not made
	}
	progress := terminal.Progress{W: terminal.Unguarded(env.stderr)}
	s, err := store.Open(store.Options{Dir: f.path(), Progress: func(done, of int) {
		progress.Draw(func() string { return fmt.Sprintf("%d of %d days merged", done, of) })
	}})
	if err != nil {
		return err
	}
	defer s.Close()
	s.Retain(time.Now()) // without bounds it removes nothing, and looks at files whose quality is not known
	done, err := s.Compact(cmd.Context(), time.Now())
	progress.Clear()
	if err != nil {
		return err
	}
	if f.asJSON {
		return terminal.WriteJSON(env.stdout, compactedStore(done))
	}
	_, err = fmt.Fprintf(env.stdout, "%s merged into %s and %s; %s left out, as they cannot be read\n",
		figure.Plural(int64(done.Parts), "period"), figure.Plural(int64(done.Hours), "hour"), figure.Plural(int64(done.Days), "day"), figure.Plural(int64(done.Skipped), "file"))
	return err
}
