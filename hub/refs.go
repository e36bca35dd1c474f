package hub

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/store"
)

// refKinds are the kinds of profiles that a hub has.
var refKinds = []string{"best", "build", "class-N", "period"}

// wantedParts is what a reference means: some parts of a build.
type wantedParts struct {
	id    string
	m     *manifest
	parts []part
}

// resolve returns what KIND:NAME[@AT] means among the builds that are permitted:
//
//	best     the largest class of a build, by default of the build that was updated last
//	class-N  class N of it
//	build    all classes of it
//	period   the hours and days of a build that began in a time: a day, an hour or a word, UTC
func (h *Hub) resolve(ctx context.Context, ref, event string, t token) (wantedParts, error) {
	kind, rest, found := strings.Cut(ref, ":")
	name, at, _ := strings.Cut(rest, "@")
	class, isClass := classNumber(kind)
	if !found || name == "" || !isClass && !slices.Contains(refKinds, kind) {
		return wantedParts{}, &refusal{
			http.StatusBadRequest, fmt.Sprintf("%.80q names no profile of a hub", ref), advice.CodeUsage,
			"Write KIND:NAME or KIND:NAME@AT, where KIND is " + strings.Join(refKinds, ", ") + ".", refKinds,
		}
	}
	list, err := h.catalog.builds(ctx, func(of string) bool { return t.permits(of) })
	if err != nil {
		return wantedParts{}, err
	}
	own := slices.DeleteFunc(slices.Clone(list), func(b fleet.Build) bool { return b.Target != name || eventOf(b.Unit) != event })
	if len(own) == 0 {
		return wantedParts{}, missing(targetsOf(list), "no profile of %q, event %s", name, event)
	}
	if kind == "period" {
		return h.period(ctx, own, name, at)
	}
	matching := slices.DeleteFunc(slices.Clone(own), func(b fleet.Build) bool { return !strings.HasPrefix(b.Build, at) })
	switch {
	case len(matching) == 0:
		return wantedParts{}, missing(idsOf(own), "%s has no build %.80s", name, at)
	case len(matching) > 1 && at != "" && matching[0].Build != at:
		return wantedParts{}, &refusal{http.StatusBadRequest, fmt.Sprintf("build %s of %s may be %d builds", at, name, len(matching)),
			advice.CodeUsage, perhaps(idsOf(matching)), idsOf(matching)}
	}
	w := wantedParts{id: matching[0].ID}
	if w.m, err = h.catalog.get(ctx, w.id); err != nil {
		return w, err
	}
	main := largest(w.m.members())
	for _, p := range w.m.classes() {
		if kind == "build" || kind == "best" && p.Class == main || isClass && p.Class == class {
			w.parts = append(w.parts, p)
		}
	}
	if len(w.parts) == 0 {
		return w, missing(refKinds, "%s has no %s", name, kind)
	}
	return w, nil
}

// classNumber returns N of class-N.
func classNumber(kind string) (n int, is bool) {
	digit, is := strings.CutPrefix(kind, "class-")
	if !is || len(digit) != 1 || digit[0] < '0' || digit[0] >= '0'+mostClasses {
		return 0, false
	}
	return int(digit[0] - '0'), true
}

// eventOf returns the name of what a unit measures.
func eventOf(unit string) string {
	kind, base, _ := strings.Cut(unit, "/")
	return store.Event(ccmap.NewUnit(kind, base))
}

// period returns the hours and days of a time, or the last one, of the build that was updated last of those that have
// any.
func (h *Hub) period(ctx context.Context, own []fleet.Build, name, at string) (w wantedParts, err error) {
	from, to := time.Unix(0, 0), time.Now()
	if at != "" {
		from, to, err = store.ParseTime(at, time.Now().UTC())
	}
	if err != nil {
		return w, &refusal{
			http.StatusBadRequest, err.Error(), advice.CodeUsage,
			"Write a day as 2026-11-20, an hour as 2026-11-20T10, or a word as today, in UTC.",
			[]string{"today", "yesterday", "this-week", "last-week"},
		}
	}
	if from.Equal(to) {
		to = from.Add(time.Nanosecond)
	}
	for _, b := range own {
		m, err := h.catalog.get(ctx, b.ID)
		if err != nil {
			return w, err
		}
		w := wantedParts{id: b.ID, m: m}
		for _, p := range m.Parts {
			if begin := time.Unix(p.From, 0); p.Level != levelBuild && !begin.Before(from.Truncate(time.Hour)) && begin.Before(to) {
				w.parts = append(w.parts, p)
			}
		}
		if len(w.parts) > 0 && at == "" {
			last := slices.MaxFunc(w.parts, func(a, b part) int { return cmp.Compare(a.From, b.From) })
			w.parts = []part{last}
		}
		if len(w.parts) > 0 {
			return w, nil
		}
	}
	return w, missing(nil, "%s has no hour and no day of %.80s; an hour is a part of its day two days later", name, at)
}

func missing(candidates []string, format string, args ...any) error {
	return &refusal{http.StatusNotFound, fmt.Sprintf(format, args...), advice.CodeNoTarget, perhaps(candidates), candidates}
}

// perhaps names candidates.
func perhaps(candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	const most = 10
	return "Perhaps " + strings.Join(candidates[:min(len(candidates), most)], ", ") + "."
}

func targetsOf(list []fleet.Build) (names []string) {
	for _, b := range list {
		if !slices.Contains(names, b.Target) {
			names = append(names, b.Target)
		}
	}
	return names
}

func idsOf(list []fleet.Build) (ids []string) {
	for _, b := range list {
		ids = append(ids, b.Build)
	}
	return ids
}

// profile sends the profile that a reference means, as a file of the store.
func (h *Hub) profile(w http.ResponseWriter, r *http.Request, t token) error {
	event := r.URL.Query().Get("event")
	if event == "" {
		event = store.Event(ccmap.CPUTime)
	}
	want, err := h.resolve(r.Context(), r.PathValue("ref"), event, t)
	if err != nil {
		return err
	}
	return h.sendParts(w, r, want)
}

// sendParts sends the sum of parts, made once for all who ask.
func (h *Hub) sendParts(w http.ResponseWriter, r *http.Request, want wantedParts) error {
	return answer(w, r, want.m, "application/zstd", func() ([]byte, error) {
		name := "profile"
		for _, p := range want.parts {
			name += fmt.Sprintf(" %s-%d-%d", p.Level, p.From, p.Class)
		}
		is, err := h.catalog.make(r.Context(), want.id, name, want.m, func(m *manifest) ([]byte, error) {
			sum, err := mergeParts(r.Context(), h.Bucket, want.parts)
			if err != nil {
				return nil, err
			}
			return writeProfile(sum.Snapshot())
		})
		return is.body, advised(err)
	})
}
