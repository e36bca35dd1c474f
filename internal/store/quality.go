package store

import (
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Quality says how much a profile knows.
type Quality struct {
	Samples     int64
	Independent float64 // effective sample size; Samples where Known is false
	Known       bool    // enough samples say how often activations repeat
	Settled     float64 // overlap of two halves in edges, percent; 0: not known

	// Shares of the weight, 0 to 1.
	Pruned      float64 // of contexts that were removed
	Other       float64 // of the executions of points whose values were not kept
	Truncated   float64 // without outermost callers
	Unaccounted float64 // of CPU time that no sample stands for; 0 where not known
}

const (
	fewVerdicts  = 30   // with fewer, Meta.Independence is 1
	settledEdges = 95   // percent
	shareNoise   = 0.01 // that a share may be larger
)

// QualityOf returns the quality of a profile. It takes two walks through all nodes.
func QualityOf(s *ccmap.Snapshot) Quality {
	meta, total := s.Meta(), s.Total()
	q := Quality{
		Samples: total.Samples, Independent: float64(total.Samples) * meta.Independence(),
		Known: meta.Known >= fewVerdicts, Settled: meta.Settled.Edges,
		Pruned: prunedShare(s), Other: otherShare(s.Points()), Truncated: s.Blind().Truncated / 100,
	}
	if share, known := meta.Loss.UnaccountedShare(); known {
		q.Unaccounted = max(share, 0)
	}
	return q
}

// prunedShare returns the share of the samples whose contexts were removed.
func prunedShare(s *ccmap.Snapshot) float64 {
	if !s.Pruned() {
		return 0
	}
	pruned := int64(0)
	for n := range s.Nodes() {
		if n.Method == ccmap.PrunedID {
			pruned += n.Self.Samples
		}
	}
	return share(pruned, s.Total().Samples)
}

// otherShare returns the share of executions whose values are in no point.
func otherShare(points []ccmap.Point) float64 {
	other, all := 0.0, 0.0
	for _, p := range points {
		if p.KnowsValues() {
			other += float64(p.Other) + float64(p.Aged)
			all += float64(p.Count)
		}
	}
	if all == 0 {
		return 0
	}
	return other / all
}

func share(part, all int64) float64 {
	if all <= 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// Supersedes reports whether a recent profile is to become the best one of its build, in the place of best: it has
// settled, has as many independent samples within the noise of best, and no larger share of what is not known. So of
// two that are about equal the later one wins. A profile of unknown quality supersedes none whose quality is known.
func Supersedes(recent, best Quality) bool {
	if recent.Settled < settledEdges || best.Known && !recent.Known {
		return false
	}
	return recent.Independent >= best.Independent-2*math.Sqrt(max(best.Independent, 0)) &&
		recent.Pruned <= best.Pruned+shareNoise &&
		recent.Other <= best.Other+shareNoise
}
