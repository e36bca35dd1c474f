// Package view shows profiles: the hot methods, their contexts and receivers, and how
// profiles differ. Commands, an HTTP service and a browser share it.
//
//  1. [New] makes a [Profile] of a snapshot: it adds the measure of hot code, CPU time or
//     else samples. [Profile.RecentOnly] is its window of recent samples.
//  2. [NewTop], [NewContexts], [NewSites], [NewReceivers], [NewPoints] and [NewQuery]
//     find, order and cut the rows of one profile; [NewOverlap] and [NewDiff] compare
//     several. A [List] selects and orders the rows, and says how many.
//  3. Each of them is a [View]: Text prints it as lines and tables that fit the terminal;
//     JSON returns the value of its documented JSON.
//
// Each list declares its columns once, beside the rows that fill them. JSON has the exact
// figures, text has them rounded for people.
//
// All text is safe to print: names in a profile are foreign, and characters in them that
// are not visible are replaced. JSON keeps them; its writer must escape them.
//
// Any goroutine may make views of one profile, once nothing changes the profile:
// [Profile.UsePhase], [Profile.UseLastPhase], [Profile.UsePhaseOfWindow] and
// [Profile.TakeCaution] must be called before, or under a lock that views take, too.
package view

import (
	"cmp"
	"io"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

// View is an answer about profiles, ready to be shown.
type View interface {
	// Text prints the view for people. Tables fit the terminal that w is; in a pipe, names
	// are shortened, unless wide is set.
	Text(w io.Writer, wide bool) error
	// JSON returns the value that encoding/json marshals to the documented JSON.
	JSON() any
}

// List selects and orders the rows of a view.
type List struct {
	Methods query.Methods // the methods that are asked for; nil: all, but none in NewContexts
	Order   string        // one of the orders of the view; any other: by time, of points by name
	Limit   uint          // rows; 0: all
}

// Orders that several views have.
const (
	ByTime        = "time"
	BySamples     = "samples"
	ByActivations = "activations"
	ByName        = "name" // by name alone
)

// hotter compares two counters in one of these orders, the higher first. By time means by
// the measure of the profile, which may have samples only.
func (m measure) hotter(by string, a, b ccmap.Counters) int {
	switch by {
	case BySamples:
		return cmp.Compare(b.Samples, a.Samples)
	case ByActivations:
		return cmp.Compare(b.Activations, a.Activations)
	}
	return cmp.Compare(m.of(b), m.of(a))
}

// cut returns the first rows of a list; all of them if limit is 0.
func cut[T any](rows []T, limit uint) []T {
	if limit == 0 || uint(len(rows)) <= limit {
		return rows
	}
	return rows[:limit]
}
