package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/view"
)

// reportSettling says what is wrong with how the profile has settled.
func (s *session) reportSettling(w io.Writer, r manager.Report) {
	switch until := s.flags.until; {
	case until.Percent == 0 || r.Reached:
	case r.Snapshot.Blind().Misleads():
		fmt.Fprintf(w, "%s were to settle to %v %%, and could not: too much of the profile is unknown. The warning above says how to mend it.\n",
			capital(until.Of.String()), until.Percent)
	default:
		fmt.Fprintf(w, "%s were to settle to %v %%, and came to %.1f %%%s.\n", capital(until.Of.String()), until.Percent,
			until.Of.Settled(r.Snapshot.Meta().Settled), moreSamples(until.Goal, r.Snapshot.Meta().Settled))
	}
	if _, windowed := r.Snapshot.Recent(); r.Drift && windowed && r.Snapshot.Meta().Unit != ccmap.Instructions {
		fmt.Fprintln(w, "In the end the program did something else than before: see 'ccmapd top --recent'.")
	}
}

// moreSamples estimates what a goal would have taken, "" where that is not known:
// what is missing to 100 % falls with the root of the samples.
func moreSamples(g manager.Goal, s ccmap.Settled) string {
	missing, allowed := 100-g.Of.Settled(s), 100-g.Percent
	if missing <= allowed || missing >= 100 {
		return ""
	}
	samples := float64(s.Samples) * (missing / allowed) * (missing / allowed)
	return fmt.Sprintf(": that takes some %s samples", figure.Count(roundTwoDigits(samples)))
}

// roundTwoDigits rounds a positive estimate to two digits.
func roundTwoDigits(x float64) int64 {
	unit := math.Pow(10, math.Max(0, math.Floor(math.Log10(x))-1))
	return int64(math.Round(x/unit) * unit)
}

// reportPruning says why contexts are missing, and which file has the most of them.
func reportPruning(w io.Writer, p *view.Profile, files []string) {
	if !p.IsPruned() {
		return
	}
	fmt.Fprintln(w, "\nContexts were pruned to --max-memory, and are lower bounds: a larger one keeps more.")
	if !slices.ContainsFunc(files, func(f string) bool { return isFormat(f, export.XML, export.JSON) }) {
		fmt.Fprintln(w, "Only XML and JSON keep the exact totals of methods and edges: -o FILE.xml.zst.")
	}
}
