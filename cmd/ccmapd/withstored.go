package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/view"
)

// withStoredFlag is the flag that adds to a profile what is stored of its build.
const withStoredFlag = "with-stored"

// withStored adds to a profile all that is stored of its program, build and event, and was not sampled at the same
// time: that may be the same samples.
func (env *environment) withStored(p *view.Profile) (*view.Profile, error) {
	meta := p.Meta()
	switch {
	case client.IsRemote(p.Path):
		return env.withServed(p)
	case store.IsReference(p.Path):
		return nil, withHint(usage.Errorf("--%s is for files: %s is stored", withStoredFlag, p.Path), "build:NAME has all that is stored of a build.")
	case meta.Target.BuildID == "":
		return nil, &advice.Error{Code: advice.CodeNoTarget, Err: fmt.Errorf("%s has no build id: which stored profiles are of the same build is not known", p.Path)}
	}
	r, entries, err := storedBeside(meta, time.Now())
	if err != nil || len(entries) == 0 {
		return p, err
	}
	stored, err := env.within(r).Sum(entries)
	if err != nil {
		return nil, explainRead(err)
	}
	sum := ccmap.New(ccmap.Options{})
	if err := errors.Join(sum.Merge(p.Labelled()), sum.Merge(stored.Snapshot())); err != nil {
		return nil, err
	}
	past := store.PastOf(entries)
	all := view.New(fmt.Sprintf("%s and %s since %s", p.Path, figure.Plural(int64(past.Files), "stored profile"), sinceText(past.Since, time.Now())), sum.Snapshot())
	all.Hints = hints
	return all, nil
}

// A daemon's target has its base at the daemon: what is stored of its build, of earlier processes and of this one, and
// the running period, is @build:NAME. The live profile is not added to that: files have a part of it.

// withBase returns the name of a daemon's target with all that is stored of its build, or else the name itself.
func withBase(where string) string {
	at, ref, found := "@", "", false
	if ref, found = strings.CutPrefix(where, at); !found && strings.HasPrefix(where, "unix:") {
		at, ref, found = strings.Cut(where, "#")
		at += "#"
	}
	if !found || ref == "" || strings.Contains(ref, ":") {
		return where // a file, another server, one process, or a reference to something stored
	}
	return at + baseKind + ref
}

const baseKind = "build:"

// withServed says that a profile of a daemon has what is stored; all others are refused.
func (env *environment) withServed(p *view.Profile) (*view.Profile, error) {
	at, name, found := strings.Cut(p.Path, baseKind)
	if !found || withBase(at+name) != p.Path {
		return nil, withHint(usage.Errorf("--%s is for files and a daemon's targets: %s is neither", withStoredFlag, client.Name(p.Path)),
			"@NAME --%s has all that a daemon stores of a target's build, and the running period.", withStoredFlag)
	}
	all := view.New(fmt.Sprintf("%s and what is stored of its build, since %s", at+name, sinceText(p.Meta().Start, time.Now())), p.Labelled())
	all.Hints = hints
	return all, nil
}

// storedBeside returns what this user's store has of a program and was sampled at other times.
func storedBeside(meta ccmap.Meta, now time.Time) (*store.Reader, []store.Entry, error) {
	dir := defaultStore(os.Geteuid(), os.Getenv)
	r, err := store.NewReader(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, explainRead(explainStore(err, dir))
	}
	of := store.Filter{Target: storedName(meta.Target), Build: meta.Target.BuildID, Event: store.Event(meta.Unit)}
	from, to := meta.Start, meta.Start.Add(meta.Duration)
	return r, slices.DeleteFunc(r.List(of).Entries, func(e store.Entry) bool {
		return e.Kind != store.KindPeriod || e.From.Before(to) && e.To.After(from)
	}), nil
}
