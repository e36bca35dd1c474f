package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

// fleetHub asks a hub what 'ccmapd fleet' prints.
type fleetHub struct {
	get  func(ctx context.Context, into any, query url.Values, route string) error
	dial func() (*uplink.Hub, error) // for questions that have a body
}

// fleetTarget is a target of a fleet.
type fleetTarget struct {
	Target    string    `json:"target"`
	Builds    int       `json:"builds"`    // of all units
	Instances int       `json:"instances"` // of the build that was updated last
	Samples   int64     `json:"samples"`   // of all builds
	Outliers  int       `json:"outliers"`
	Updated   time.Time `json:"updated"`
}

func (h fleetHub) targets(ctx context.Context) ([]fleetTarget, error) {
	builds, err := h.builds(ctx, "")
	targets := []fleetTarget{}
	for _, b := range builds { // by target, the last update first
		if n := len(targets); n == 0 || targets[n-1].Target != b.Target {
			targets = append(targets, fleetTarget{Target: b.Target, Instances: b.Instances, Updated: b.Updated})
		}
		t := &targets[len(targets)-1]
		t.Builds, t.Samples, t.Outliers = t.Builds+1, t.Samples+b.Samples, t.Outliers+b.Outliers
	}
	return targets, err
}

// builds returns the builds of a target, or all.
func (h fleetHub) builds(ctx context.Context, target string) ([]fleet.Build, error) {
	list, err := allPages[fleet.Build](ctx, h, target, "builds")
	slices.SortFunc(list, fleet.Build.Compare)
	return list, err
}

// outliers returns the outliers of a target, or all.
func (h fleetHub) outliers(ctx context.Context, target string) ([]fleet.OutlierOf, error) {
	list, err := allPages[fleet.OutlierOf](ctx, h, target, "outliers")
	slices.SortStableFunc(list, func(a, b fleet.OutlierOf) int { return strings.Compare(a.Target, b.Target) })
	return list, err
}

// Bounds of a list of a hub. A page may have little, as the hub bounds its work for each.
const (
	pageSize  = 500
	mostPages = 2000
	mostItems = 100_000
)

// allPages returns a list of a hub, page by page.
func allPages[T any](ctx context.Context, h fleetHub, target, route string) ([]T, error) {
	list, query := []T{}, url.Values{"limit": {fmt.Sprint(pageSize)}}
	if target != "" {
		query.Set("target", target)
	}
	for range mostPages {
		var page fleet.Page[T]
		if err := h.get(ctx, &page, query, route); err != nil {
			return nil, err
		}
		list = append(list, page.List...)
		if page.Next == "" {
			return list, nil
		}
		if page.Next <= query.Get("after") || len(list) > mostItems {
			break
		}
		query.Set("after", page.Next)
	}
	return nil, fmt.Errorf("the hub's list of %s does not end: name a target", route)
}

// eventOf returns the event of a unit as a hub writes it.
func eventOf(unit string) string {
	kind, base, _ := strings.Cut(unit, "/")
	return store.Event(ccmap.NewUnit(kind, base))
}

// describe asks for all that the hub says of TARGET[@BUILD].
func (h fleetHub) describe(ctx context.Context, name, event string) (d fleet.Description, err error) {
	b, err := h.build(ctx, name, event)
	if err != nil {
		return d, err
	}
	err = h.get(ctx, &d, ofBuild(b), "build")
	return d, err
}

// status asks how far the hub is behind.
func (h fleetHub) status(ctx context.Context) (s fleet.Status, err error) {
	err = h.get(ctx, &s, url.Values{}, "status")
	return s, err
}

// nearest asks how much of the profiles of other builds holds in TARGET[@BUILD].
func (h fleetHub) nearest(ctx context.Context, name, event string) (list []fleet.Near, err error) {
	b, err := h.build(ctx, name, event)
	if err != nil {
		return nil, err
	}
	list = []fleet.Near{}
	err = h.get(ctx, &list, ofBuild(b), "nearest")
	return list, err
}

// fanInOf asks for the methods of a whole name in a build.
func (h fleetHub) fanInOf(ctx context.Context, b fleet.Build, method string) (found fleet.Found[fanin.Entry], err error) {
	to, err := h.dial()
	if err != nil {
		return found, err
	}
	defer to.Close()
	found, err = to.FanInOf(ctx, uplink.Build{Target: b.Target, Build: b.Build, Unit: b.Unit}, []fleet.Wanted{{Method: method}})
	if err == nil && fanin.List(found.List).Check() != nil {
		err = errNoAnswer
	}
	return found, err
}

// ofBuild is the query for a build.
func ofBuild(b fleet.Build) url.Values {
	return url.Values{"target": {b.Target}, "build": {b.Build}, "unit": {b.Unit}}
}

// build returns the build that TARGET[@BUILD] means: by default the one that was updated last.
func (h fleetHub) build(ctx context.Context, name, event string) (b fleet.Build, err error) {
	target, build, _ := strings.Cut(name, "@")
	list, err := h.builds(ctx, target)
	if err != nil {
		return b, err
	}
	own := slices.DeleteFunc(list, func(b fleet.Build) bool { return eventOf(b.Unit) != event })
	some := slices.DeleteFunc(slices.Clone(own), func(b fleet.Build) bool { return !strings.HasPrefix(b.Build, build) })
	var ids []string
	for _, b := range own {
		ids = append(ids, b.Build)
	}
	switch {
	case len(own) == 0:
		return b, &advice.Error{Code: advice.CodeNoTarget, Err: fmt.Errorf("the hub has no profile of %q, event %s", target, event),
			Hint: "'ccmapd fleet builds' lists what there is."}
	case len(some) == 0:
		return b, &advice.Error{Code: advice.CodeNoTarget, Candidates: ids, Err: fmt.Errorf("%s has no build %s", target, build),
			Hint: "'ccmapd fleet builds' lists what there is."}
	case len(some) > 1 && build != "" && some[0].Build != build:
		return b, &advice.Error{Code: advice.CodeUsage, Candidates: ids, Err: fmt.Errorf("build %s of %s may be %d builds", build, target, len(some)),
			Hint: "Perhaps " + terminal.OrList(ids) + "."}
	}
	return some[0], nil
}

// fleetPages answers pages about a fleet ([api.Fleet]). The token stays in this process.
type fleetPages struct {
	fleetHub
	profile func(ctx context.Context, ref, event string, most int64) ([]byte, error)
	explain func(error) error // of a question that has a body
}

// Ask answers as the command 'ccmapd fleet ABOUT' with --json.
func (f fleetPages) Ask(ctx context.Context, about, name, method, event string) (any, error) {
	switch about {
	case "targets":
		return f.targets(ctx)
	case "builds":
		return f.builds(ctx, name)
	case "outliers":
		return f.outliers(ctx, name)
	case "show":
		return f.describe(ctx, name, event)
	case "classes":
		d, err := f.describe(ctx, name, event)
		return d.ClassList, err
	case "nearest":
		return f.nearest(ctx, name, event)
	case "status":
		return f.status(ctx)
	case "fanin":
		return f.fanIn(ctx, name, method, event)
	}
	return nil, &advice.Error{Code: advice.CodeNoTarget, Err: fmt.Errorf("there is no command 'fleet %s'", about),
		Hint: "There are targets, builds, show, classes, outliers, nearest and status."}
}

// fanIn answers as 'ccmapd fanin @hub/build:TARGET[@BUILD] METHOD --json' about a whole name.
func (f fleetPages) fanIn(ctx context.Context, name, method, event string) (a fanInAnswer, err error) {
	b, err := f.build(ctx, name, event)
	if err != nil {
		return a, err
	}
	found, err := f.fanInOf(ctx, b, method)
	if err != nil {
		return a, f.explain(err)
	}
	own := fanInSource{where: hubRef + "build:" + name, build: b.Build, List: found.List, methods: found.Methods}
	return fanInFrom{own: own}.answer("", false, 0)
}

// Profile returns a profile of the hub, or of what else its owner may ask.
func (f fleetPages) Profile(ctx context.Context, ref, event string, most int64) ([]byte, error) {
	return f.profile(ctx, ref, event, most)
}

// hubRef begins the references of a hub's profiles.
const hubRef = "@hub/"

// pagesOfUser asks the hub of this user. A reference that is not the hub's is of the user's daemon.
func pagesOfUser(h client.Hub) fleetPages {
	get := func(ctx context.Context, into any, query url.Values, route string) error {
		return h.Get(ctx, into, query, route)
	}
	profile := func(ctx context.Context, ref, event string, most int64) ([]byte, error) {
		if !strings.HasPrefix(ref, hubRef) {
			ref = "@" + ref
		}
		in, err := (&client.Reader{Hub: &h, Event: event}).Open(ctx, ref, most)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		return io.ReadAll(in)
	}
	return fleetPages{fleetHub{get, dialer(h)}, profile, explainRead}
}

// dialer connects to a hub of this user.
func dialer(h client.Hub) func() (*uplink.Hub, error) {
	return func() (*uplink.Hub, error) {
		return uplink.New(uplink.Options{URL: h.URL, TokenFile: h.TokenFile, CAFile: h.CAFile})
	}
}

// besideDaemon passes requests about the fleet to one handler, and all others to the daemon.
func besideDaemon(fleet, daemon http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if strings.HasPrefix(r.URL.Path, "/v1/fleet/") || strings.HasPrefix(r.URL.Path, "/v1/p/"+hubRef) ||
			strings.HasPrefix(q.Get("a"), hubRef) || strings.HasPrefix(q.Get("b"), hubRef) {
			fleet.ServeHTTP(w, r)
			return
		}
		daemon.ServeHTTP(w, r)
	})
}

var errNoAnswer = errors.New("the hub answers with what is no answer")

// mostFleetJSON bounds what a hub may say of a fleet, bytes.
const mostFleetJSON = 16 << 20

// pagesOfDaemon asks the hub of the configuration in force, with the token that reads.
func pagesOfDaemon(inForce func() *config.Config) fleetPages {
	dial := func() (*uplink.Hub, error) {
		c := inForce().Hub
		if c.URL == "" || c.ReadTokenFile == "" {
			return nil, &advice.Error{Code: advice.CodeNoTarget, Err: errors.New("the daemon knows no hub that it may read"),
				Hint: "Set url and read_token_file in [hub] of its configuration, or ask a hub of your own with 'ccmapd ui': see 'ccmapd fleet --help'."}
		}
		h, err := uplink.New(uplink.Options{URL: c.URL, TokenFile: c.ReadTokenFile, CAFile: c.CAFile})
		return h, explainHub(err)
	}
	get := func(ctx context.Context, query url.Values, most int64, parts ...string) ([]byte, error) {
		h, err := dial()
		if err != nil {
			return nil, err
		}
		defer h.Close()
		text, err := h.Get(ctx, most, query, parts...)
		return text, explainHub(err)
	}
	ask := func(ctx context.Context, into any, query url.Values, route string) error {
		text, err := get(ctx, query, mostFleetJSON, route)
		if err == nil && json.Unmarshal(text, into) != nil {
			err = explainHub(errNoAnswer)
		}
		return err
	}
	profile := func(ctx context.Context, ref, event string, most int64) ([]byte, error) {
		return get(ctx, url.Values{"event": {cmp.Or(event, store.Event(ccmap.CPUTime))}}, most, "p", strings.TrimPrefix(ref, hubRef))
	}
	return fleetPages{fleetHub{ask, dial}, profile, explainHub}
}

// explainHub says what to do about an error of the daemon's hub. Nothing that the hub has said is in it.
func explainHub(err error) error {
	code, hint := advice.CodeFailed, "Is the hub up, and can this machine reach it? 'ccmapd status' says what the daemon knows of it."
	switch {
	case err == nil:
		return nil
	case errors.Is(err, uplink.ErrToken):
		code, hint = advice.CodeNotPermitted, "read_token_file in [hub] must have a token that reads: 'read' in the hub's file of tokens."
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, uplink.ErrPoison):
		code, hint = advice.CodeNoTarget, "The page of the fleet lists what there is."
	}
	return &advice.Error{Code: code, Err: fmt.Errorf("ask the hub: %w", err), Hint: hint}
}
