package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// outsideRow has the figures of a program at a load by an engine. A figure that is missing is 0.
type outsideRow struct {
	about, engine string
	spinning      int     // processes beside the program
	load          float64 // average of the machine, at the end of the window

	samples, peer   int64   // of ccmapd and of runtime/pprof
	rate, peersRate float64 // samples in a second of CPU time
	overhead        float64 // percent of the program's CPU time
	heaviest        float64 // percent of the profile, of the context with the most weight that has one sample
	held            string  // which budget has kept ccmapd from more samples
	contexts        compare.Overlap
}

// The reach: the part of runtime/pprof's samples by each engine.
var leastOfPeer = map[string]float64{"bpf": 90, "perf": 75} // percent

// mostOfOne is the most that one sample weighs in a profile of manySamples or more, percent.
const (
	mostOfOne   = 2.0
	manySamples = 1000
)

// fill computes the figures of a window.
func (r *outsideRow) fill(w window, said campaign.SessionReport) error {
	s, err := campaign.ReadProfile(w.file)
	if err != nil {
		return err
	}
	peer, err := campaign.ReadProfile(w.peer)
	if err != nil {
		return err
	}
	r.samples, r.peer = s.Total().Samples, peer.Total().Samples
	r.rate = perSecond(r.samples, s.Meta().Loss.Clock)
	r.peersRate = perSecond(r.peer, w.clock)
	r.overhead, r.held = said.Overhead.Percent, said.Profile.Held
	for n := range s.Nodes() {
		if n.Self.Samples == 1 {
			r.heaviest = max(r.heaviest, 100*float64(n.Self.Time)/float64(s.Total().Time))
		}
	}
	result, err := compare.Compare(s, peer, compare.Options{Seed: 1, Absorb: absorbed})
	if err != nil {
		return fmt.Errorf("compare with runtime/pprof: %w", err)
	}
	r.contexts = result.Contexts
	return nil
}

func perSecond(samples int64, cpu time.Duration) float64 {
	return float64(samples) / max(cpu.Seconds(), math.SmallestNonzeroFloat64)
}

// ofPeer is the percentage of runtime/pprof's samples, of equal CPU time.
func (r outsideRow) ofPeer() float64 { return 100 * r.rate / r.peersRate }

// misses names the figures that miss their reach.
func (r outsideRow) misses() (all []string) {
	if r.ofPeer() < leastOfPeer[r.engine] {
		all = append(all, "samples")
	}
	if r.contexts.Unexplained > compare.DefaultTolerance {
		all = append(all, "contexts")
	}
	if r.samples >= manySamples && r.heaviest > mostOfOne {
		all = append(all, "heaviest sample")
	}
	return all
}

var outsideHead = []string{"program", "processes beside", "load", "engine", "samples: ccmapd, runtime/pprof", "of equal CPU time, %",
	"overhead %", "heaviest sample, %", "contexts, % (expected)", "reach"}

func (r outsideRow) cells() []string {
	reach := "all"
	if misses := r.misses(); len(misses) > 0 {
		reach = "all but " + strings.Join(misses, ", ")
	}
	if r.held != "" {
		reach += "; " + strings.ReplaceAll(r.held, "|", "/")
	}
	return []string{r.about, fmt.Sprint(r.spinning), report.Number(r.load, 0), r.engine,
		report.Number(float64(r.samples), 0) + ", " + report.Number(float64(r.peer), 0), report.Number(r.ofPeer(), 0),
		report.Number(r.overhead, 2), report.Number(r.heaviest, 2), namedOverlap{"contexts", r.contexts}.String(), reach}
}

// outsideReport has the rows, after those of programs that were not measured again.
func outsideReport(rows []outsideRow, old [][]string, window time.Duration, began time.Time) string {
	t := report.Table{Head: outsideHead}
	again := make(map[string]bool)
	for _, r := range rows {
		again[r.about] = true
	}
	addOthers(&t, old, again)
	for _, r := range rows {
		t.Row(r.cells()...)
	}
	return fmt.Sprintf("%s The last run took %v; windows are of %v.\n\n%s", report.Measured(began), after(began), window, strings.TrimSuffix(t.String(), "\n"))
}
