package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Build is a build of a target, as its stored profiles tell.
type Build struct {
	Name        string    // of its directory
	Commit      time.Time // of its source; zero: not known
	First, Last time.Time // that it was seen, or a hub was asked for it
}

// Series has the builds of one target in the order of their source: by its commit where both of two say it, else by
// when they were first seen. A build that does not say its commit keeps the place among all that it has by time.
type Series []Build

// SeriesOf returns the series of the builds that entries of one target are of.
func SeriesOf(entries []Entry) Series {
	var s Series
	for _, e := range entries {
		i := slices.IndexFunc(s, func(b Build) bool { return b.Name == BuildName(e.Build) })
		if i < 0 {
			i = len(s)
			s = append(s, Build{Name: BuildName(e.Build)})
		}
		s[i].see(&e)
	}
	slices.SortFunc(s, func(a, b Build) int { return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Name, b.Name)) })
	s.orderCommits()
	return s
}

// see takes an entry of the build into account.
func (b *Build) see(e *Entry) {
	b.Commit = cmp.Or(b.Commit, e.Commit)
	if b.First.IsZero() || e.From.Before(b.First) {
		b.First = e.From
	}
	b.Last = later(b.Last, e.To)
}

// orderCommits puts the builds with a commit into its order, among the places that they have.
func (s Series) orderCommits() {
	var places []int
	var known Series
	for i, b := range s {
		if !b.Commit.IsZero() {
			places, known = append(places, i), append(known, b)
		}
	}
	slices.SortStableFunc(known, func(a, b Build) int { return a.Commit.Compare(b.Commit) })
	for i, at := range places {
		s[at] = known[i]
	}
}

// index returns the place of a build, -1 if it is not in the series.
func (s Series) index(name string) int {
	return slices.IndexFunc(s, func(b Build) bool { return b.Name == name })
}

// Present returns the build that was seen last, which after a rollback is not the last one of the series. The series
// must not be empty.
func (s Series) Present() Build {
	return slices.MaxFunc(s, func(a, b Build) int { return cmp.Or(a.Last.Compare(b.Last), a.First.Compare(b.First)) })
}

// Nearest returns the build that is nearest to one of the series among those that are wanted: that build itself, or
// the last one before it, or if there is none the first one after it.
func (s Series) Nearest(name string, wanted func(Build) bool) (near Build, found bool) {
	at := s.index(name)
	for _, b := range slices.Backward(s[:at+1]) {
		if wanted(b) {
			return b, true
		}
	}
	for _, b := range s[at+1:] {
		if wanted(b) {
			return b, true
		}
	}
	return Build{}, false
}

// Precedes reports whether a build is before another one in the series.
func (s Series) Precedes(a, b string) bool { return s.index(a) < s.index(b) }

// String returns a build with its commit, for example "1f0c7d2e55aa, committed 2026-11-20".
func (b Build) String() string {
	if b.Commit.IsZero() {
		return b.Name
	}
	return fmt.Sprintf("%s, committed %s", b.Name, b.Commit.Format(time.DateTime))
}
