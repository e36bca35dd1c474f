package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Reference names stored profiles: KIND:NAME[@AT].
type Reference struct {
	Kind  string // "best", "recent", "period", "build" or "span"
	Name  string // of the target
	At    string // the beginning of a build id, a time, or for a span FROM..TO; empty: the latest
	Event string // empty: cpu
}

// Kinds lists the kinds of references.
func Kinds() []string { return []string{"best", "recent", "period", "build", "span"} }

// IsReference reports whether a name begins as one of a stored profile does, with a kind.
func IsReference(name string) bool {
	kind, _, found := strings.Cut(name, ":")
	return found && slices.Contains(Kinds(), kind)
}

// ParseReference parses KIND:NAME[@AT].
func ParseReference(s string) (Reference, error) {
	kind, rest, found := strings.Cut(s, ":")
	name, at, _ := strings.Cut(rest, "@")
	r := Reference{Kind: kind, Name: name, At: at}
	if !found || !slices.Contains(Kinds(), kind) || !isName(name) {
		return r, &advice.Error{
			Code: advice.CodeUsage, Candidates: Kinds(),
			Hint: "Write KIND:NAME, KIND:NAME@BUILD or KIND:NAME@TIME, where KIND is " + strings.Join(Kinds(), ", ") + ".",
			Err:  fmt.Errorf("%q names no stored profile", s),
		}
	}
	return r, nil
}

// String returns the reference as it is written.
func (r Reference) String() string {
	if r.At == "" {
		return r.Kind + ":" + r.Name
	}
	return r.Kind + ":" + r.Name + "@" + r.At
}

// Resolve returns the entries that a reference means among those that a filter lets through, whose Target, Event and
// Build count for nothing here. The profile is their sum. Kinds mean:
//
//	best      the best file of the build, the latest build with one by default; what a hub knew of a build that has none
//	recent    the running period of the build, or its last one
//	period    the periods that began on a day, in an hour, or that a moment lies in; the last one by default
//	build     all of the build, the running period included
//	span      the moments from one time to another, or of a day or an hour; of the last 24 hours by default
//
// An error has candidates, and a code: no-target for what does not exist, usage for what cannot be.
func (r *Reader) Resolve(ref Reference, f Filter, now time.Time) ([]Entry, error) {
	f.Target, f.Event, f.Build, f.Running = "", cmp.Or(ref.Event, Event(ccmap.CPUTime)), "", true
	all := r.List(f).Entries
	own := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return e.Target != ref.Name })
	if len(own) == 0 {
		return nil, notThere(fmt.Errorf("no stored profile of %q, event %s", ref.Name, f.Event), names(all))
	}
	switch ref.Kind {
	case "best":
		entries, err := ofBuild(own, ref, KindBest, KindFleet)
		if slices.ContainsFunc(entries, func(e Entry) bool { return e.Kind == KindBest }) {
			entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Kind == KindFleet })
		}
		return entries, err
	case "recent":
		entries, err := ofBuild(own, ref, KindRunning, KindPeriod)
		return lastOf(entries), err
	case "build":
		return ofBuild(own, ref, KindPeriod, KindRunning)
	case "period":
		return periods(own, ref, now)
	case spanKind:
		return r.spanOf(own, ref, f, now)
	}
	return nil, &advice.Error{Code: advice.CodeUsage, Candidates: Kinds(), Err: fmt.Errorf("unknown kind %q", ref.Kind)}
}

// notThere is the error of a reference that means nothing.
func notThere(err error, candidates []string) error {
	return &advice.Error{Code: advice.CodeNoTarget, Candidates: candidates, Hint: hintOf(candidates), Err: err}
}

// hintOf names candidates.
func hintOf(candidates []string) string {
	const most = 10
	switch n := len(candidates); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf("Perhaps %s, or one of %d others.", strings.Join(candidates[:most], ", "), n-most)
	}
	return "Perhaps " + terminal.OrList(candidates) + "."
}

func names(all []Entry) (names []string) {
	for _, e := range all {
		if !slices.Contains(names, e.Target) {
			names = append(names, e.Target)
		}
	}
	return names
}

// ofBuild returns the entries of some kinds of the build that a reference names. If it names none they are of the build
// that was seen last, or of the one that is nearest to it in the series and has any.
func ofBuild(own []Entry, ref Reference, kinds ...Kind) ([]Entry, error) {
	some := slices.DeleteFunc(slices.Clone(own), func(e Entry) bool { return !slices.Contains(kinds, e.Kind) })
	if ref.At == "" && len(some) > 0 {
		return ofNearest(SeriesOf(own), some), nil
	}
	builds := buildsOf(some)
	matching := slices.DeleteFunc(slices.Clone(builds), func(b string) bool { return !isBuild(b, ref.At) })
	switch {
	case len(some) == 0:
		return nil, notThere(fmt.Errorf("%s has no %s profile yet", ref.Name, ref.Kind), nil)
	case len(matching) == 0:
		return nil, notThere(fmt.Errorf("%s has no %s profile of build %s", ref.Name, ref.Kind, ref.At), builds)
	case len(matching) > 1:
		return nil, &advice.Error{
			Code: advice.CodeUsage, Candidates: matching, Hint: hintOf(matching),
			Err: fmt.Errorf("build %s of %s may be %d builds", ref.At, ref.Name, len(matching)),
		}
	}
	return slices.DeleteFunc(some, func(e Entry) bool { return BuildName(e.Build) != matching[0] }), nil
}

// ofNearest returns those of some entries, of which there are any, that are of the build nearest to the present one.
// If that is another build, they say so.
func ofNearest(series Series, some []Entry) []Entry {
	present := series.Present()
	near, _ := series.Nearest(present.Name, func(b Build) bool {
		return slices.ContainsFunc(some, func(e Entry) bool { return BuildName(e.Build) == b.Name })
	})
	some = slices.DeleteFunc(some, func(e Entry) bool { return BuildName(e.Build) != near.Name })
	if near.Name != present.Name {
		side := "before"
		if series.Precedes(present.Name, near.Name) {
			side = "after"
		}
		for i := range some {
			some[i].Why = fmt.Sprintf("of build %s, the one %s %s, which has none yet", near, side, present)
		}
	}
	return some
}

// buildsOf returns the names of builds, the latest first.
func buildsOf(entries []Entry) (builds []string) {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return b.To.Compare(a.To) })
	for _, e := range entries {
		if name := BuildName(e.Build); !slices.Contains(builds, name) {
			builds = append(builds, name)
		}
	}
	return builds
}

// lastOf returns the running entries, or else those that end last: there may be several owners.
func lastOf(entries []Entry) []Entry {
	running := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Kind != KindRunning })
	if len(running) > 0 {
		return running
	}
	var last time.Time
	for _, e := range entries {
		if e.To.After(last) {
			last = e.To
		}
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return !e.To.Equal(last) })
}

// periods returns the periods of a time.
func periods(own []Entry, ref Reference, now time.Time) ([]Entry, error) {
	all := slices.DeleteFunc(slices.Clone(own), func(e Entry) bool { return e.Kind != KindPeriod })
	if len(all) == 0 {
		return nil, notThere(fmt.Errorf("%s has no period in a file yet", ref.Name), nil)
	}
	if ref.At == "" {
		return lastOf(all), nil
	}
	from, to, err := ParseTime(ref.At, now)
	if err != nil {
		return nil, err
	}
	some := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool {
		if from.Equal(to) {
			return e.From.After(from) || !e.To.After(from)
		}
		return e.From.Before(from) || !e.From.Before(to)
	})
	if len(some) == 0 {
		return nil, notThere(fmt.Errorf("%s has no period of %s", ref.Name, ref.At), timesNear(all, from))
	}
	return some, nil
}

// timesNear returns the times of the periods that are nearest to a time.
func timesNear(all []Entry, at time.Time) (times []string) {
	const most = 5
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.From.Sub(at).Abs(), b.From.Sub(at).Abs()) })
	for _, e := range all[:min(len(all), most)] {
		times = append(times, e.From.Format(minuteTime))
	}
	return times
}

// The times of references, in the time zone of now unless they name one.
const (
	dayTime    = "2006-01-02"
	hourTime   = "2006-01-02T15"
	minuteTime = "2006-01-02T15:04"
)

// ParseTime parses the time of a reference: a day, an hour, a week or, with equal ends, a moment.
func ParseTime(s string, now time.Time) (from, to time.Time, err error) {
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	monday := today.AddDate(0, 0, -(int(now.Weekday())+6)%7)
	switch s {
	case "today":
		return today, today.AddDate(0, 0, 1), nil
	case "yesterday":
		return today.AddDate(0, 0, -1), today, nil
	case "this-week":
		return monday, monday.AddDate(0, 0, 7), nil
	case "last-week":
		return monday.AddDate(0, 0, -7), monday, nil
	}
	if at, err := time.ParseInLocation(dayTime, s, now.Location()); err == nil {
		return at, at.AddDate(0, 0, 1), nil
	}
	if at, err := time.ParseInLocation(hourTime, s, now.Location()); err == nil {
		return at, at.Add(time.Hour), nil
	}
	for _, layout := range []string{minuteTime, "2006-01-02T15:04:05", time.RFC3339} {
		if at, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return at, at, nil
		}
	}
	return from, to, &advice.Error{
		Code: advice.CodeUsage, Candidates: []string{"today", "yesterday", "this-week", "last-week"},
		Hint: "Write a day as 2026-11-20, an hour as 2026-11-20T10, a moment as 2026-11-20T10:30, or a word.",
		Err:  fmt.Errorf("%q is no time", s),
	}
}
