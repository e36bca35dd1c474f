package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
)

// A run without a daemon files its profile in its user's own store, if --store asks for it, and begins with what
// earlier runs of the same build know. Under sudo the store is the one of the user who called it, and only with the
// rights of that user: see invoker.go.

// storeFlag and pastFlag are the flags of attach and run that let runs know each other.
const (
	storeFlag = "store"
	pastFlag  = "profiles"

	noProfilesKnown = "none" // as a value of --profiles
)

// loneFlags are their values.
type loneFlags struct {
	registered bool
	store      bool
	past       string // a store or a profile; "": the user's own store
	name       string // to store profiles under; "": the executable's
}

func (f *loneFlags) register(cmd *cobra.Command) {
	f.registered = true
	cmd.Flags().BoolVar(&f.store, storeFlag, false, "file the profile in your store, as recent:NAME; without -o, there alone")
	cmd.Flags().StringVar(&f.past, pastFlag, "", "begin with what is known at `PATH`, a store or profile; none: nothing; default: your store")
}

// lone is the way of one command to stored profiles. Its methods are safe for any goroutine.
type lone struct {
	flags loneFlags
	own   profiles // the user's own store
	log   *slog.Logger
	name  string // to store profiles under; "": the executable's

	mu      sync.Mutex
	earlier string // what is stored of the first program that was asked for
}

// profiles are where profiles of runs are stored.
type profiles interface {
	// past returns what is known of a key; nothing, where there is no store.
	past(store.Key) (store.Past, error)

	// add files a profile.
	add(k store.Key, from, to time.Time, s *ccmap.Snapshot) error

	// mismatches returns what earlier runs have logged of the cached profiles of a key, and the log for more; nil,
	// where none is kept.
	mismatches(store.Key) (earlier io.Reader, log io.Writer)

	// dir is the directory, for people.
	dir() string
}

// newLone returns the way to stored profiles of a session.
func (env *environment) newLone(f *samplingFlags) *lone {
	l := &lone{flags: f.lone, log: f.logger(env.stderr), name: f.lone.name}
	var err error
	if l.own, err = env.ownProfiles(l.log); err != nil {
		l.own = nothing{err} // --store was refused
	}
	return l
}

// connect has a session file its profile, if that is asked for, and begin with what is stored.
func (f *samplingFlags) connect(env *environment, c *session.Config) {
	l := env.newLone(f)
	if !f.intervalGiven {
		c.Begin = l.begin
	}
	c.Earlier = l.saysEarlier
	if f.lone.store {
		c.Store = func(i sampler.Info) manager.Dump { return l.output(i.Target, i.Unit) }
	}
}

// begin returns the interval at which the last run of a program had settled.
func (l *lone) begin(info sampler.Info) time.Duration {
	k := keyOf(l.nameOf(info.Target), info.Target.BuildID, info.Unit)
	p, of, err := l.known(k)
	if err != nil {
		level := slog.LevelInfo
		if l.flags.store || l.flags.past != "" {
			level = slog.LevelWarn // they were asked for
		}
		l.log.Log(context.Background(), level, "earlier runs of the program are not known", "error", err)
		return 0
	}
	if p.Files > 0 {
		l.mu.Lock()
		l.earlier = cmp.Or(l.earlier, earlierText(p, of, time.Now()))
		l.mu.Unlock()
	}
	return p.Interval
}

// known returns what is known of a key, and a name for all of it, "" if it has none.
func (l *lone) known(k store.Key) (p store.Past, name string, err error) {
	switch where := l.flags.past; where {
	case noProfilesKnown:
		return p, "", nil
	case "":
		p, err = l.own.past(k)
		return p, buildReference(k), err
	default:
		p, err = pastAt(where, k)
		return p, "", err
	}
}

// pastAt returns the past of a key by a store or a profile.
func pastAt(where string, k store.Key) (store.Past, error) {
	if info, err := os.Stat(where); err == nil && info.IsDir() {
		r, err := store.NewReader(where)
		if err != nil {
			return store.Past{}, err
		}
		return r.Past(k), nil
	}
	f, err := os.Open(where)
	if err != nil {
		return store.Past{}, err
	}
	defer f.Close()
	m, _, err := export.Read(f, export.ReadOptions{MaxMemory: int64(mostServed)})
	if err != nil {
		return store.Past{}, fmt.Errorf("%s: %w", where, err)
	}
	if meta := m.Meta(); meta.Target.BuildID == "" || meta.Target.BuildID != k.Build || meta.Unit != k.Unit {
		return store.Past{}, fmt.Errorf("%s is of another program, build or event", where)
	}
	return store.PastOfProfile(*m.Meta()), nil
}

// check refuses a store that cannot be used, and a place of --profiles that cannot be read.
func (f *loneFlags) check() error {
	if f.store {
		if _, err := invokedBy(os.Geteuid(), os.Getenv); err != nil {
			return err
		}
	}
	if f.past == "" || f.past == noProfilesKnown {
		return nil
	}
	info, err := os.Stat(f.past)
	if err == nil && info.IsDir() {
		_, err = store.NewReader(f.past)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return usage.Errorf("--%s %s: there is no store and no profile", pastFlag, f.past)
	}
	return err
}

// saysEarlier says which earlier runs are stored, "" if none are.
func (l *lone) saysEarlier() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.earlier
}

// earlierText is a sentence about what is stored.
func earlierText(p store.Past, name string, now time.Time) string {
	text := fmt.Sprintf("Stored of this build: %s since %s", figure.Plural(int64(p.Files), "earlier profile"), sinceText(p.Since, now))
	if name == "" {
		return text + "."
	}
	return text + ": 'ccmapd top " + name + "' adds them up."
}

// sinceText names a time as people do: by the hour of today, by the day of the week, or by the day.
func sinceText(t, now time.Time) string {
	t = t.In(now.Location())
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch {
	case t.After(now):
		return t.Format(time.DateTime)
	case !t.Before(midnight):
		return t.Format("15:04")
	case !t.Before(midnight.AddDate(0, 0, -6)):
		return t.Weekday().String()
	}
	return t.Format(time.DateOnly)
}

// output returns the output that files the profile of a program. The build of a target that is a child is not known
// yet.
func (l *lone) output(t ccmap.Target, unit ccmap.Unit) manager.Dump {
	name := l.nameOf(t)
	k := keyOf(name, t.BuildID, unit)
	dump := manager.Dump{Name: recentReference(k), Write: func(s *ccmap.Snapshot) error {
		meta := s.Meta()
		k := keyOf(name, meta.Target.BuildID, meta.Unit)
		return output.Explain(l.own.add(k, meta.Start, meta.Start.Add(meta.Duration), s))
	}}
	if unit != ccmap.CPUTime {
		dump.Name = session.StoreName + l.own.dir() // readers would have to name the event, too
	}
	return dump
}

// keyOf returns the key of a profile in a user's own store: its files are the user's, and have no other owner.
func keyOf(name, build string, unit ccmap.Unit) store.Key {
	return store.Key{Target: name, Build: build, Unit: unit}
}

// buildReference and recentReference name what is stored of a key, and the last of it.
func buildReference(k store.Key) string  { return reference("build", k) }
func recentReference(k store.Key) string { return reference("recent", k) }

func reference(kind string, k store.Key) string {
	r := store.Reference{Kind: kind, Name: k.Target}
	if k.Build != "" {
		r.At = store.BuildName(k.Build)
	}
	return r.String()
}

func (l *lone) nameOf(t ccmap.Target) string { return cmp.Or(l.name, storedName(t)) }

// storedName returns the name under which profiles of a program are stored: its executable's, a JVM's main class or
// archive, without what a shell or a terminal obeys.
func storedName(t ccmap.Target) string {
	const most = 64
	named := path.Base(t.Executable)
	if main, _ := javaname.Program(t.CommandLine); isJavaLauncher(named) && main != "" {
		named = strings.TrimSuffix(path.Base(main), ".jar")
	}
	name := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, named)
	name = strings.TrimLeft(name[:min(len(name), most)], ".-")
	return cmp.Or(name, "unnamed")
}

// nothing is a store that there is not, and why.
type nothing struct{ why error }

func (nothing) past(store.Key) (store.Past, error) { return store.Past{}, nil }
func (nothing) dir() string                        { return "" }

func (n nothing) add(store.Key, time.Time, time.Time, *ccmap.Snapshot) error { return n.why }

func (nothing) mismatches(store.Key) (io.Reader, io.Writer) { return nil, nil }

// ownStore is a store that this process uses itself.
type ownStore struct {
	at  string
	log *slog.Logger
}

func (o ownStore) dir() string { return o.at }

func (o ownStore) past(k store.Key) (store.Past, error) {
	r, err := store.NewReader(o.at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return store.Past{}, nil
	case err != nil:
		return store.Past{}, err
	}
	return r.Past(k), nil
}

// options are within the bounds that a daemon has by default.
func (o ownStore) options() store.Options {
	bounds := config.Default().Store
	return store.Options{Dir: o.at, Keep: bounds.Keep, MaxBytes: bounds.MaxBytes, Logger: o.log}
}

func (o ownStore) add(k store.Key, from, to time.Time, s *ccmap.Snapshot) error {
	_, err := store.Add(o.options(), k, from, to, s)
	return err
}

func (o ownStore) mismatches(k store.Key) (io.Reader, io.Writer) {
	var text []byte
	if r, err := store.NewReader(o.at); err == nil {
		for _, of := range r.Records(store.Filter{Target: k.Target, Build: k.Build}) {
			l, err := r.ReadRecords(of)
			if err != nil {
				o.log.Warn("mismatches of earlier runs are not known", "error", err)
			}
			for _, one := range l.Records {
				text, _ = compilation.Append(text, one) // it was checked when it was read
			}
		}
	}
	return bytes.NewReader(text), store.Recorder(o.options(), k)
}

const storeAddLong = `Add files a profile in the store, as 'attach --store' and 'run --store' do with theirs:
under the name of its program, its build and its event.`

func newStoreAddCmd(env *environment, f *storeFlags) subcommand {
	var target string
	cmd := &cobra.Command{
		Use:     "add FILE",
		Short:   "File a profile in the store",
		Long:    storeAddLong,
		Example: "  ccmapd store add web.pb.gz\n  ccmapd store add --target web http://web:6060/debug/pprof/profile",
		Args:    argCount(1, 1, "a profile"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return addStored(cmd.Context(), env, f, args[0], target)
		},
	}
	cmd.Flags().StringVar(&target, "target", "", "store it under this `NAME`, not the executable's")
	return subcommand{cmd, filesAlone}
}

func addStored(ctx context.Context, env *environment, f *storeFlags, where, target string) error {
	if err := env.fetch(ctx, where); err != nil {
		return err
	}
	m, err := readMap(env, where, export.ReadOptions{})
	if err != nil {
		return err
	}
	s := m.Snapshot()
	meta := s.Meta()
	k := keyOf(cmp.Or(target, storedName(meta.Target)), meta.Target.BuildID, meta.Unit)
	if meta.Start.IsZero() {
		meta.Start = time.Now().Add(-meta.Duration)
	}
	own := ownStore{f.path(), slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := own.add(k, meta.Start, meta.Start.Add(meta.Duration), s); err != nil {
		return output.Explain(err)
	}
	_, err = fmt.Fprintf(env.stdout, "%s: %s\n", recentReference(k), view.New(where, s).Extent())
	return err
}
