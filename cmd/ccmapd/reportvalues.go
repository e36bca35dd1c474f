package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// reportValues says what was learned of the calls that the program makes, if
// anything was.
func (s *session) reportValues(w io.Writer, r manager.Report) {
	v := r.Values
	if v.Points == 0 && r.Source.Counts[sampler.Samples] == 0 {
		return
	}
	points := ""
	if v.Points > 0 {
		points = "; " + figure.Plural(int64(v.Points), "profile point") + " in " + figure.Bytes(int64(v.Bytes))
	}
	fmt.Fprintf(w, "\nReceivers: %s%s%s.\n", s.caught(r), points, seeReceivers(r.Written))
	if v.Evicted > 0 {
		fmt.Fprintf(w, "%s of rare calls made room for others, and %s with them%s.\n",
			figure.Plural(int64(v.Evicted), "profile point"), figure.Plural(int64(v.Lost), "call"), s.moreRoom())
	}
}

// caught says how many calls were caught, or why none.
func (s *session) caught(r manager.Report) string {
	switch src := r.Source; {
	case r.Values.Caught > 0:
		return figure.Plural(int64(r.Values.Caught), "call") + " caught at " + figure.Plural(int64(r.Values.Sites), "call site")
	case s.flags.values.hits == 0:
		return "no calls caught, as asked for"
	case s.chosen.Source.Info().Engine == wasm.ExactEngine:
		return "no calls caught, as each one is recorded"
	case src.NoCalls != "":
		return "no calls caught, because " + src.NoCalls
	case s.chosen.Source.Info().Embedded:
		return "no calls caught, as none went through a table when one was wanted"
	case src.Counts[sampler.HotCalls] == 0:
		return "no calls caught, as none of an interface method or function value was hot"
	}
	return "no calls caught, as none was made while a breakpoint was set"
}

// moreRoom says what would keep more profile points, if anything would.
func (s *session) moreRoom() string {
	if pointsIn(s.flags.memory) == mostPoints {
		return ""
	}
	return ": a larger --max-memory keeps more"
}

// seeReceivers names the command that shows receivers, of the first file that has
// them all.
func seeReceivers(files []string) string {
	files = named(files)
	i := slices.IndexFunc(files, func(f string) bool { return !isFormat(f, export.Folded) })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(" (see 'ccmapd receivers %s')", shellQuote(files[i]))
}

// valuesJSON has the fields of manager.ValueStats.
type valuesJSON struct {
	Caught  uint64 `json:"caught"`  // calls
	Sites   int    `json:"sites"`   // where they were caught
	Points  int    `json:"points"`  // of caught calls
	Bytes   int    `json:"bytes"`   // that the points take
	Evicted int    `json:"evicted"` // points that made room for others
	Lost    uint64 `json:"lost"`    // calls in none of the points any more
	Decayed int    `json:"decayed"` // times that a table was
	Reset   int    `json:"reset"`   // times that a table was
}
