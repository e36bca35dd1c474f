package main

import (
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// rest is how far single runs agree with all others taken together, which come
// as close to the truth as sampling does. Figures are means, in percent.
type rest struct {
	overlap  [allKinds]float64
	coverage float64 // hot edges of the others that the run has, τ = 0.1
	warm     float64 // the same of those that are warm, τ = 0.01
}

// warmTau is that of D'Elia et al.
const warmTau = 0.01

// againstRest holds every profile against the others.
func againstRest(profiles []*ccmap.Snapshot) (rest, error) {
	var r rest
	n := float64(len(profiles))
	for i, p := range profiles {
		others, err := pool(slices.Delete(slices.Clone(profiles), i, i+1))
		if err != nil {
			return r, err
		}
		c, err := compareRuns(p, others)
		if err != nil {
			return r, err
		}
		for k, o := range c.overlaps {
			r.overlap[k] += o.Percent / n
		}
		warm, err := compare.Compare(p, others, compare.Options{Tau: warmTau})
		if err != nil {
			return r, err
		}
		r.coverage += c.Coverage.BA / n
		r.warm += warm.Coverage.BA / n
	}
	return r, nil
}
