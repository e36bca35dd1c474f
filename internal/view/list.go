package view

import (
	"cmp"
	"io"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

// View is an answer about profiles, ready to be shown.
type View interface {
	// Text prints the view for people. The error is of the options or of the writer.
	Text(w io.Writer, o TextOptions) error
	// JSON returns the value that encoding/json marshals to the documented JSON.
	JSON() any
}

// TextOptions say how a view is printed. The zero TextOptions print the first screen: a line
// about the samples, the most important columns, and how far to trust them. Tables fit the
// writer's terminal. In a pipe, names are shortened.
type TextOptions struct {
	Columns []string // names of columns, in order; nil: Layout.First
	All     bool     // all columns, and all that is known about the profile
	Wide    bool     // names are printed whole
	Brief   bool     // without the sentence on how far to trust the figures, which may take a second
}

// List selects and orders the rows of a view.
type List struct {
	Methods query.Methods // the methods that are asked for; nil: all, but none in NewContexts
	Order   string        // one of Layout.Orders; empty: the first of them
	Limit   uint          // rows; 0: all
}

// Orders that several views have.
const (
	ByTime        = "time"
	BySamples     = "samples"
	ByActivations = "activations"
	ByName        = "name" // by name alone
)

// hotter compares two counters in one of these orders, the higher first. For a profile that
// has samples only, the order by time is the order by samples.
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

// Hint names a thing that a user can do about a view. The program that shows the view says
// how, in Profile.Hints.
type Hint int

// The hints of all views.
const (
	HintRows      Hint = iota // rows were cut: how to list all
	HintSites                 // call sites were left out: how to list them
	HintPhases                // caught calls are of several phases: how to choose one
	HintCalls                 // no calls were caught: how to catch some
	HintPoints                // there are no points: where they come from
	HintPath                  // no stack has the path: how to find the callers of a method
	HintChanges               // profiles differ: how to list the changes
	HintContexts              // pruned contexts are not compared: how to compare them
	HintIntervals             // the sampling intervals differ: how to compare all the same
)

// hint returns a hint after a separator, "" if the program gives no such hint.
func (p *Profile) hint(h Hint, separator string) string {
	if p.Hints[h] == "" {
		return ""
	}
	return separator + p.Hints[h]
}
