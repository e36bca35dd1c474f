package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/wasi"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// checkModule finds what is wrong with the flags for a module, before it is started. A module has mode 2 alone.
func (f *cachedFlags) checkModule(cmd *cobra.Command, r *runFlags) error {
	for _, name := range []string{"scale", "most"} {
		if cmd.Flags().Changed(name) {
			return withHint(usage.Errorf("--%s is for JVMs: the program must be 'java'", name), "Omit --%s.", name)
		}
	}
	if i := slices.IndexFunc(f.log, func(what string) bool { return what != logUse }); i >= 0 {
		return usage.Errorf("--store-log %s is for JVMs: of a module it is %s", f.log[i], logUse)
	}
	given := f.profile != "" || f.mode.Value != ""
	switch {
	case f.mode.Value != "" && f.mode.Value != modeTier, f.profile != "" && f.mode.Value == "":
		return withHint(usage.Errorf("a module uses a cached profile in mode 2 alone: wazero compiles it before it runs"), "Say --mode 2.")
	case given && r.module.exact:
		return usage.Errorf("--exact and --mode exclude each other: every call is recorded")
	case f.mode.Value != "" && f.profile == "" && !r.lone.store:
		return withHint(usage.Errorf("--mode 2 needs a profile"), "Name it with --cached, or let --store keep one.")
	case f.logs(logUse) && !given:
		return usage.Errorf("--store-log use is for --mode 2")
	}
	return nil
}

// ofModule returns what an earlier run of a module knows, and the log of mismatches, nil if that is nothing. A profile
// that cannot be used never keeps the module from starting: it is reported.
func (f *runFlags) ofModule(cmd *cobra.Command, env *environment, path string) (*managed.Cached, io.Writer) {
	if f.cached.mode.Value == "" {
		return nil, nil
	}
	stored := storedName(ccmap.Target{Executable: path})
	name := f.cached.profile
	if name == "" {
		name = store.Reference{Kind: string(store.KindBest), Name: stored}.String()
	}
	s, err := snapshotAt(cmd.Context(), env, name)
	var c *managed.Cached
	var log io.Writer
	if err == nil {
		var earlier io.Reader
		if f.lone.store {
			earlier, log = env.newLone(f.samplingFlags).own.mismatches(keyOf(stored, s.Meta().Target.BuildID, s.Meta().Unit))
		}
		c, err = managed.ReadCachedProfile(earlier, s)
	}
	var none *advice.Error
	switch {
	case err == nil:
		return c, log
	case f.cached.profile == "" && errors.As(err, &none) && none.Code == advice.CodeNoTarget:
		if f.cached.logs(logUse) {
			fmt.Fprintf(env.stderr, "cached: nothing is stored of %s yet\n", terminal.Printable(name))
		}
	default:
		reportError(env.stderr, cmd, fmt.Errorf("the module starts without a cached profile: %w", err))
	}
	return nil, nil
}

func snapshotAt(ctx context.Context, env *environment, name string) (*ccmap.Snapshot, error) {
	if err := env.fetch(ctx, name); err != nil {
		return nil, err
	}
	p, err := recency{}.load(env, name)
	if err != nil {
		return nil, err
	}
	return p.Snapshot, nil
}

// lookEvery is how often a module's profile is held against the cached one.
const lookEvery = 10 * time.Second

// look says what is used of a cached profile, and holds a module's profile against it until the function that it
// returns is called.
func (f *cachedFlags) look(w io.Writer, p *wasi.Source, snapshot func() *ccmap.Snapshot) (end func()) {
	if f.mode.Value == "" {
		return func() {}
	}
	f.sayUses(w, p.CachedUses())
	ctx, stop := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for last := false; !last; {
			select {
			case <-ctx.Done():
				last = true
			case <-ticker.C:
			}
			for _, m := range p.Look(snapshot()) {
				if f.logs(logUse) {
					fmt.Fprintf(w, "cached: out of use: %s was wrong ten times\n", terminal.Printable(p.Sink().Names.At(m).Name))
				}
			}
		}
	})
	return func() { stop(); looking.Wait() }
}

func (f *cachedFlags) sayUses(w io.Writer, uses []wasm.CachedUse) {
	if !f.logs(logUse) {
		return
	}
	for _, u := range uses {
		name := terminal.Printable(u.Method.Name)
		if u.Reason != "" {
			fmt.Fprintf(w, "cached: not used: %s: %s\n", name, u.Reason)
			continue
		}
		fmt.Fprintf(w, "cached: used: %s goes without %s\n", name, goesWithout(u))
	}
	if len(uses) == 0 {
		fmt.Fprintln(w, "cached: not used: the profile has too few samples, or none of this module")
	}
}

// goesWithout names what a function goes without.
func goesWithout(u wasm.CachedUse) string {
	var all []string
	if u.Entry {
		all = append(all, "the poll at its entry")
	}
	if u.Exits {
		all = append(all, "polls at its exits")
	}
	if u.Calls > 0 {
		all = append(all, fmt.Sprintf("reports of %d indirect calls", u.Calls))
	}
	if len(all) == 0 {
		return "nothing: all its polls find something"
	}
	return strings.Join(all, " and ")
}
