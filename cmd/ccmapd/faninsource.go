package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/view"
)

// fanInSource is the fan-in of all methods, of a profile, of a file of fan-in, or of a build that the hub has.
type fanInSource struct {
	where string // as it was named
	build string // that it is of; empty: not known
	fanin.List
	methods int          // that it knows, of which List may have some
	names   *ccmap.Names // of a profile, which knows lines; nil: it is not a profile
}

// fanInFiles are the files of fan-in that were got from the hub, by their names: whole, and before a command can
// connect no more.
type fanInFiles map[string]hubFanIn

type hubFanIn struct {
	build string
	file  []byte
	found *fleet.Found[fanin.Entry] // in place of the file: the methods of a name
}

// mostFanIn bounds a file of fan-in, bytes.
const mostFanIn = 64 << 20

// fetched returns rights that first get sources of fan-in which are not files here.
func (f fanInFiles) fetched(env *environment, sources func(args []string) []string, then rights) rights {
	return func(_ *environment, cmd *cobra.Command, args []string) error {
		if err := env.toFetch(cmd); err != nil {
			return err
		}
		for _, where := range sources(args) {
			if err := f.fetch(cmd.Context(), env, where, ""); err != nil {
				return err
			}
		}
		return then(env, cmd, args)
	}
}

// fetch gets a source. With the whole name of a method, that of a build of the hub may have its methods alone.
func (f fanInFiles) fetch(ctx context.Context, env *environment, where, method string) error {
	if _, has := f[where]; has {
		return nil
	}
	name, isHub := strings.CutPrefix(where, hubRef)
	if !isHub {
		return env.fetch(ctx, where)
	}
	kind, name, _ := strings.Cut(name, ":")
	if kind != "build" && kind != "best" {
		return withHint(usage.Errorf("%s is no build: the hub has fan-in of whole builds", where), "Write %sbuild:TARGET or %sbuild:TARGET@BUILD.", hubRef, hubRef)
	}
	hub := hubAt(*env.reader.Hub)
	b, err := hub.build(ctx, name, cmp.Or(env.reader.Event, store.Event(ccmap.CPUTime)))
	if err != nil {
		return err
	}
	if found := methodAtHub(ctx, hub, b, method); found != nil {
		f[where] = hubFanIn{build: b.Build, found: found}
		return nil
	}
	var file []byte
	if err := hub.get(ctx, &file, ofBuild(b), "fanin"); err != nil {
		return err
	}
	f[where] = hubFanIn{build: b.Build, file: file}
	return nil
}

// methodAtHub asks a hub for the methods of a whole name; nil: the file of the build says more, for example which names
// end so. A hub of before knows files alone.
func methodAtHub(ctx context.Context, h fleetHub, b fleet.Build, name string) *fleet.Found[fanin.Entry] {
	if name == "" {
		return nil
	}
	found, err := h.fanInOf(ctx, b, name)
	if err != nil || len(found.List) == 0 {
		return nil
	}
	return &found
}

// ofHub reports whether a source is a build of the hub.
func ofHub(where string) bool { return strings.HasPrefix(where, hubRef) }

// read reads a source of fan-in.
func (f fanInFiles) read(env *environment, where string, r recency) (fanInSource, error) {
	if got, ok := f[where]; ok && got.found != nil {
		return fanInSource{where: where, build: got.build, List: got.found.List, methods: got.found.Methods}, nil
	} else if ok {
		s, err := readFanInFile(where, got.file)
		s.build = got.build
		return s, err
	}
	is, err := env.beginsAsFanIn(where)
	switch {
	case err != nil:
		return fanInSource{}, explainRead(err)
	case is:
		return env.readFanInFile(where)
	}
	p, err := r.load(env, where)
	if err != nil {
		return fanInSource{}, err
	}
	all := fanin.Of(p.Snapshot)
	return fanInSource{where, p.Meta().Target.BuildID, all, len(all), p.Names()}, nil
}

// beginsAsFanIn looks at the first bytes of what can be read again. A pipe is taken for a profile.
func (env *environment) beginsAsFanIn(where string) (bool, error) {
	if where == stdPath {
		in := bufio.NewReader(env.reader.Stdin)
		env.reader.Stdin = in
		head, _ := in.Peek(4) // an error comes again
		return fanin.Begins(head), nil
	}
	if _, again := env.reader.Size(where); !again {
		return false, nil
	}
	file, err := env.reader.Open(context.Background(), where, env.memory.left())
	if err != nil {
		return false, err
	}
	defer file.Close()
	head := make([]byte, 4)
	_, err = io.ReadFull(file, head)
	return err == nil && fanin.Begins(head), nil
}

func (env *environment) readFanInFile(where string) (fanInSource, error) {
	file, err := env.reader.Open(context.Background(), where, env.memory.left())
	if err != nil {
		return fanInSource{}, explainRead(err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, mostFanIn+1))
	switch {
	case err != nil:
		return fanInSource{}, fmt.Errorf("read %s: %w", client.Name(where), err)
	case len(b) > mostFanIn:
		return fanInSource{}, fmt.Errorf("read %s: %w: more than %d MiB", client.Name(where), fanin.ErrTooLarge, mostFanIn>>20)
	}
	return readFanInFile(where, b)
}

func readFanInFile(where string, b []byte) (fanInSource, error) {
	all, err := fanin.Read(b)
	return fanInSource{where: where, List: all, methods: len(all)}, explainFanIn(where, err)
}

// explainFanIn adds what to do about a file of fan-in that cannot be read.
func explainFanIn(where string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fanin.ErrDamaged):
		return withHint(fmt.Errorf("read %s: %w", client.Name(where), err), "Copy it again, or make it anew from profiles: 'ccmapd fanin store'.")
	case errors.Is(err, fanin.ErrVersion):
		return withHint(fmt.Errorf("read %s: %w", client.Name(where), err), "Make it anew from profiles: 'ccmapd fanin store'. Of a hub or a daemon, update the older one of the two.")
	}
	return fmt.Errorf("read %s: %w", client.Name(where), err)
}

// sharedFlag is --shared: a source of fan-in beside the profile's own. Without it, that of a profile of a daemon is what
// the daemon keeps of the whole fleet, if it has any.
type sharedFlag struct {
	where   string
	files   fanInFiles
	byFleet bool        // nobody has named it: what cannot be used is left out
	unused  func() bool // reports whether nothing is asked of it; nil: all is
}

func (f *sharedFlag) register(cmd *cobra.Command) {
	f.files = fanInFiles{}
	cmd.Flags().StringVar(&f.where, "shared", "",
		"where this `SOURCE` has more samples, as @hub/build:TARGET, say from where calls come by it; @NAME has the daemon's")
}

func (f *sharedFlag) isUnused() bool { return f.unused != nil && f.unused() }

// sources returns the source, if one is named.
func (f *sharedFlag) sources([]string) []string {
	if f.where == "" || f.byFleet || f.isUnused() {
		return nil
	}
	return []string{f.where}
}

// fetched returns rights that first get sources which are not files here, and what the daemon of a profile keeps.
func (f *sharedFlag) fetched(env *environment, sources func(args []string) []string, then rights) rights {
	return f.files.fetched(env, sources, func(env *environment, cmd *cobra.Command, args []string) error {
		if len(args) > 0 && !cmd.Flags().Changed("shared") && !f.isUnused() {
			f.ofDaemon(cmd.Context(), env, args[0])
		}
		return then(env, cmd, args)
	})
}

// ofDaemon gets what a daemon keeps of the fleet's fan-in of a profile of CPU time, @NAME.
func (f *sharedFlag) ofDaemon(ctx context.Context, env *environment, where string) {
	daemon, ref, is := client.ParseDaemon(where)
	if !is || daemon.URL != nil || ref == "" || cmp.Or(env.reader.Event, store.Event(ccmap.CPUTime)) != store.Event(ccmap.CPUTime) {
		return
	}
	var file []byte
	switch err := daemon.Get(ctx, &file, "p", client.FullRef(ref), "fanin"); {
	case err == nil:
		f.where, f.byFleet = fanin.OfFleet, true
		f.files[f.where] = hubFanIn{file: file}
	case advice.CodeOf(err) == advice.CodeNoTarget, errors.Is(err, client.ErrNoDaemon): // reading the profile says more
	default:
		f.leaveOut(env, err)
	}
}

// leaveOut goes without what nobody has asked for.
func (f *sharedFlag) leaveOut(env *environment, err error) {
	f.where, f.byFleet = "", false
	fmt.Fprintf(env.stderr, "What the fleet knows of the callers is left out: %v.\n", err)
}

// check refuses to read standard input twice, for a profile and for the source.
func (f *sharedFlag) check(args []string) error {
	return checkStdinOnce(slices.Concat(firstProfile(args), f.sources(args)))
}

// read reads the source, and says if it is of another build than one's own; nil: there is none.
func (f *sharedFlag) read(env *environment, r recency, own string) (*fanInSource, error) {
	if f.where == "" {
		return nil, nil
	}
	shared, err := f.files.read(env, f.where, recency{sampleType: r.sampleType})
	switch {
	case err != nil && f.byFleet:
		f.leaveOut(env, err)
		return nil, nil
	case err != nil:
		return nil, err
	case own != "" && shared.build != "" && own != shared.build:
		_, err = fmt.Fprintf(env.stderr, "%s is of build %s, and the profile of %s: methods whose code differs are not the same.\n",
			client.Name(f.where), store.BuildName(shared.build), store.BuildName(own))
	}
	return &shared, err
}

// called returns what the shared source knows better of methods, by the seed's rule ([fanin.Better]).
func (f *sharedFlag) called(env *environment, r recency, own *ccmap.Snapshot, methods []fanin.Key) ([]fanin.Called, error) {
	shared, err := f.read(env, r, own.Meta().Target.BuildID)
	if shared == nil || err != nil {
		return nil, err
	}
	return fanin.CalledIn(f.where, fanin.Of(own), shared.List, methods), nil
}

// besideShared adds the flag by which contexts says from where the methods are called in the whole fleet.
func (a *asking) besideShared(env *environment) subcommand {
	var shared sharedFlag
	shared.register(a.Command)
	a.before = shared.check
	a.enrich = func(about view.About, v view.View) (err error) {
		contexts, p := v.(*view.Contexts), about.Profiles[0]
		contexts.Shared, err = shared.called(env, a.recency, p.Snapshot, methodsOf(p.Names(), contexts.Contexts))
		return err
	}
	sub := a.subcommand()
	sub.rights = shared.fetched(env, shared.sources, sub.rights)
	return sub
}

// methodsOf returns the methods of some contexts, each once.
func methodsOf(names *ccmap.Names, contexts []query.Context) (keys []fanin.Key) {
	seen := make(map[ccmap.MethodID]bool)
	for _, c := range contexts {
		if m := names.At(c.Method); !seen[c.Method] {
			keys = append(keys, fanin.KeyOf(m))
		}
		seen[c.Method] = true
	}
	return keys
}
