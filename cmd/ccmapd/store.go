package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/safepath"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const storeLong = `Store is for the profiles that a daemon, 'attach --store' and 'run --store' have filed:
periods of hours and days, runs, the best profile of each build, and the log of the
running period. All but 'compact' may be used while a daemon writes to the store.

  KIND:NAME        best:web, recent:web, period:web or build:web, of the latest build
  KIND:NAME@BUILD  of the build whose id begins like this
  KIND:NAME@TIME   of a day, an hour, a moment, today, yesterday, this-week, last-week
  targets/…        a file, as 'store list -v' names it

All commands that read profiles take these names. The store is at --dir, or else at
$CCMAPD_STORE, for root in /var/lib/ccmapd, for others in $XDG_STATE_HOME/ccmapd.
docs/store.md explains best and recent, and what is in the directory.`

const storeExample = `  ccmapd store list                          what there is
  ccmapd store show best:web                 the best profile of a target, in figures
  ccmapd store export period:web@yesterday day.pb.gz
  ccmapd store check                         read all, and count damage`

// systemStore is the store of the daemon of a machine.
const systemStore = "/var/lib/ccmapd"

// storeVariable names a store in the place of the default one.
const storeVariable = "CCMAPD_STORE"

// defaultStore returns the directory of the store of this user.
func defaultStore(euid int, getenv func(string) string) string {
	if dir := getenv(storeVariable); filepath.IsAbs(dir) {
		return dir
	}
	if euid == 0 {
		return systemStore
	}
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "ccmapd")
	}
	return filepath.Join(getenv("HOME"), ".local", "state", "ccmapd")
}

// storeFlags are the flags of all commands of the store.
type storeFlags struct {
	dir    string
	asJSON bool
}

// newStoreCmds returns the command and those below it.
func newStoreCmds(env *environment) []subcommand {
	var f storeFlags
	cmd := &cobra.Command{
		Use:     "store",
		Short:   "Look at stored profiles, and after the store",
		Long:    storeLong,
		Example: storeExample,
		GroupID: groupServe,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.UnknownCommand(cmd, args, usage.Errorf("store has no command %q", args[0]))
			}
			return cmd.Help()
		},
	}
	cmd.PersistentFlags().StringVar(&f.dir, "dir", "", "the store in `DIR`; default: $"+storeVariable+", for root "+systemStore+",\nelse $XDG_STATE_HOME/ccmapd")
	below := []subcommand{
		newStoreListCmd(env, &f), newStoreShowCmd(env, &f), newStoreExportCmd(env, &f), newStoreAddCmd(env, &f),
		newStoreRecordsCmd(env, &f),
		newStoreDeleteCmd(env, &f), newStoreCheckCmd(env, &f), newStoreCompactCmd(env, &f),
	}
	for _, sub := range below {
		cmd.AddCommand(sub.Command)
	}
	return append(below, subcommand{cmd, filesAlone})
}

// registerJSON adds the flag that prints JSON.
func (f *storeFlags) registerJSON(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, which has every figure")
}

func (f *storeFlags) path() string {
	if f.dir != "" {
		return f.dir
	}
	return defaultStore(os.Geteuid(), os.Getenv)
}

// reader opens the store for reading.
func (f *storeFlags) reader() (*store.Reader, error) {
	r, err := store.NewReader(f.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &advice.Error{Code: advice.CodeNoTarget, Err: fmt.Errorf("there is no store in %s", f.path()),
			Hint: "Name its directory with --dir: it is dir of [store] in the daemon's configuration. 'run --store' makes one."}
	}
	return r, explainStore(err, f.path())
}

// explainStore adds to an error in reading a store who may. No other user may, not even root: who can change a
// directory can lead root's commands to any file.
func explainStore(err error, dir string) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, safepath.ErrOthers) {
		return err
	}
	of, others := ownerOf(dir)
	switch {
	case others:
		return &advice.Error{Code: advice.CodeNotPermitted, Err: err, Hint: fmt.Sprintf(
			"A store is for its own user: 'sudo -u %s env %s=%s ccmapd …'.\nAll that a daemon stores it also serves: @best:NAME.", of, storeVariable, terminal.Printable(dir))}
	case errors.Is(err, fs.ErrPermission):
		return &advice.Error{Code: advice.CodeNotPermitted, Err: err, Hint: "Run as the user whose store it is."}
	}
	return err // this user's own directory, which has advice
}

// ownerOf returns the user of a directory, as sudo -u takes it. others: it is neither this user nor root.
func ownerOf(dir string) (of string, others bool) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil || int(st.Uid) == os.Geteuid() || st.Uid == 0 {
		return "", false
	}
	id := strconv.Itoa(int(st.Uid))
	if u, err := user.LookupId(id); err == nil {
		return terminal.Printable(u.Username), true
	}
	return "'#" + id + "'", true
}

const storeListLong = `List lists stored profiles, by target, event, build and time.

  kind     period (as it was filed), hour or day (periods of one hour or day in one file),
           running (the log has it), or best: a second name of a file, which is kept
           longer; phase-2: the best of a phase of the build
  samples  and how much the profile knows: pruned, truncated. '?': not looked at yet
  user     who may see it besides root and the daemon's group`

// storeListFlags are the flags of store list.
type storeListFlags struct {
	*storeFlags
	filter store.Filter
	all    bool
}

func newStoreListCmd(env *environment, f *storeFlags) subcommand {
	l := storeListFlags{storeFlags: f}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List stored profiles",
		Long:    storeListLong,
		Example: "  ccmapd store list --target web\n  ccmapd store list -v                       with the names of files",
		Args:    argCount(0, 0, "no arguments"),
		RunE:    func(*cobra.Command, []string) error { return l.run(env) },
	}
	flags := cmd.Flags()
	flags.StringVar(&l.filter.Target, "target", "", "only those of the target `NAME`")
	flags.StringVar(&l.filter.Build, "build", "", "only those of builds whose `ID` begins like this")
	flags.StringVar(&l.filter.Event, "event", "", "only those of the `EVENT`, for example cpu or alloc_space")
	flags.BoolVarP(&l.all, "verbose", "v", false, "print the names of files, which 'store delete' takes")
	f.registerJSON(cmd)
	return subcommand{cmd, filesAlone}
}

func (l *storeListFlags) run(env *environment) error {
	r, err := l.reader()
	if err != nil {
		return err
	}
	l.filter.Running = true
	list := r.List(l.filter)
	if err := reportSkipped(env.stderr, list.Skipped, list.First, list.Damage); err != nil {
		return err
	}
	if l.asJSON {
		return terminal.WriteJSON(env.stdout, storeList{store.ListedOf(list.Entries), list.Skipped, list.Damage})
	}
	if len(list.Entries) == 0 {
		_, err := fmt.Fprintln(env.stdout, "No stored profiles.")
		return err
	}
	return printEntries(terminal.NewPrinter(env.stdout, env.wide), list.Entries, l.all)
}

// storeList is the JSON of store list.
type storeList struct {
	Entries []store.Listed `json:"entries"`
	Skipped int            `json:"skipped"` // names that are no profiles
	Damage  string         `json:"log_damage,omitempty"`
}

// printEntries prints a table of entries.
func printEntries(out *terminal.Printer, entries []store.Entry, all bool) error {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "target"}, {Title: "event"}, {Title: "build"}, {Title: "kind"}, {Title: "from"}, {Title: "length", Right: true},
		{Title: "samples", Right: true}, {Title: "pruned", Right: true}, {Title: "size", Right: true}, {Title: "user"},
	}}
	if all {
		t.Columns = append(t.Columns, terminal.Column{Title: "file"})
	}
	for _, e := range entries {
		samples, pruned := "?", ""
		if q := e.Quality; q != nil {
			samples, pruned = figure.Count(q.Samples), percentOf(q.Pruned)
		}
		row := []string{
			e.Target, e.Event, store.BuildName(e.Build), e.Label(), e.From.Local().Format(time.DateTime),
			figure.Time(int64(e.To.Sub(e.From).Round(time.Second))), samples, pruned, figure.SizeInColumn(e.Size), userOf(e.Owner),
		}
		if all {
			row = append(row, e.Name)
		}
		t.Add(row...)
	}
	out.Table("", t)
	return out.Err()
}

// percentOf prints a share, nothing where there is none.
func percentOf(share float64) string {
	if share == 0 {
		return ""
	}
	return figure.Percent(100 * share)
}

// userOf says which user may see a profile besides masters.
func userOf(o process.Owner) string {
	if !o.Traceable {
		return ""
	}
	return fmt.Sprint(o.UID)
}

// reportSkipped says what in a store is no profile, and what of the log is lost.
func reportSkipped(w io.Writer, skipped int, first error, damage string) (err error) {
	if skipped > 0 {
		_, err = fmt.Fprintf(w, "%s skipped: %s\n", figure.Plural(int64(skipped), "name"), terminal.PrintableError(first))
	}
	if damage != "" {
		_, err2 := fmt.Fprintf(w, "the log is damaged, and what is whole was read: %s\n", damage)
		err = errors.Join(err, err2)
	}
	return err
}

const storeDeleteLong = `Delete removes files from the store for good: those whose names you give in full, as
'store list -v' prints them. Who reads such a file goes on reading. The best profile of a
build has a name of its own, and stays until that is deleted, too.`

func newStoreDeleteCmd(env *environment, f *storeFlags) subcommand {
	cmd := &cobra.Command{
		Use:     "delete FILE...",
		Short:   "Remove files from the store",
		Long:    storeDeleteLong,
		Example: "  ccmapd store delete targets/web/1f0c…/cpu/20261120T100000.000Z-20261120T110000.000Z.json.zst",
		Args:    argCount(1, anyNumber, "a file of the store, by its whole name"),
		RunE:    func(_ *cobra.Command, args []string) error { return deleteStored(env, f, args) },
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.completeFiles(args), cobra.ShellCompDirectiveNoFileComp
	}
	return subcommand{cmd, filesAlone}
}

// completeFiles completes the names of files.
func (f *storeFlags) completeFiles(but []string) (names []cobra.Completion) {
	r, err := f.reader()
	if err != nil {
		return nil
	}
	for _, e := range r.List(store.Filter{}).Entries {
		if !slices.Contains(but, e.Name) && isPlain(strings.ReplaceAll(e.Name, "/", "")) {
			names = append(names, e.Name)
		}
	}
	return names
}

// deleteStored removes files. All names are looked for before the first file goes.
func deleteStored(env *environment, f *storeFlags, names []string) error {
	r, err := f.reader()
	if err != nil {
		return err
	}
	entries := r.List(store.Filter{}).Entries
	var doomed []store.Entry
	for _, name := range names {
		i := slices.IndexFunc(entries, func(e store.Entry) bool { return e.Name == name })
		if i < 0 {
			return &advice.Error{Code: advice.CodeNoTarget, Err: fmt.Errorf("the store has no file %q", name),
				Hint: "'ccmapd store list -v' prints the names of all files."}
		}
		doomed = append(doomed, entries[i])
	}
	for _, e := range doomed {
		if err := r.Delete(e); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(env.stdout, "%s is deleted.\n", e.Name); err != nil {
			return err
		}
	}
	return nil
}

// entriesNamed returns the entries that a reference or the name of a file means.
func entriesNamed(r *store.Reader, name string) ([]store.Entry, error) {
	for _, e := range r.List(store.Filter{}).Entries {
		if e.Name == name {
			return []store.Entry{e}, nil
		}
	}
	ref, err := store.ParseReference(name)
	if err != nil {
		return nil, err
	}
	return r.Resolve(ref, store.Filter{}, time.Now())
}

// within returns the reader, within the memory for profiles.
func (env *environment) within(r *store.Reader) *store.Reader {
	return r.Within(env.memory.bound(export.ReadOptions{}))
}
