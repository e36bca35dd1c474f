package main

import "github.com/ccmapd/ccmapd/ccmap"

// agreement is how far the runs of a program in a mode agree. Figures are means
// over all pairs, in percent where nothing else is said.
type agreement struct {
	runs, pairs int
	samples     float64 // of a run
	pearson     float64 // −1 to 1
	spearman    float64 // −1 to 1
	overlap     [allKinds]float64
	least       [allKinds]float64 // of all pairs
	floor       [allKinds]float64
	below       [allKinds]int // pairs that overlap by less than the lower floor of the two
	coverage    float64       // of hot edges, in both directions
	leastCover  float64
	hot         float64 // hot edges of a profile

	rest rest
}

// agree compares every profile with all after it.
func agree(profiles []*ccmap.Snapshot) (agreement, error) {
	a := agreement{runs: len(profiles), leastCover: 100}
	for k := range a.least {
		a.least[k] = 100
	}
	for i, p := range profiles {
		for _, q := range profiles[i+1:] {
			c, err := compareRuns(p, q)
			if err != nil {
				return a, err
			}
			a.add(c)
		}
	}
	a.divide()
	var err error
	a.rest, err = againstRest(profiles)
	return a, err
}

// add adds a pair to the sums.
func (a *agreement) add(c comparison) {
	a.pairs++
	a.samples += float64(c.A.Samples+c.B.Samples) / 2
	a.pearson += c.Pearson
	a.spearman += c.Spearman
	for k, o := range c.overlaps {
		a.overlap[k] += o.Percent
		a.floor[k] += (o.FloorA + o.FloorB) / 2
		a.least[k] = min(a.least[k], o.Percent)
		if o.Percent < o.Floor {
			a.below[k]++
		}
	}
	a.coverage += (c.Coverage.AB + c.Coverage.BA) / 2
	a.leastCover = min(a.leastCover, c.Coverage.AB, c.Coverage.BA)
	a.hot += float64(c.Coverage.HotA+c.Coverage.HotB) / 2
}

// divide makes means of the sums.
func (a *agreement) divide() {
	n := float64(a.pairs)
	for _, sum := range []*float64{&a.samples, &a.pearson, &a.spearman, &a.coverage, &a.hot} {
		*sum /= n
	}
	for k := range allKinds {
		a.overlap[k] /= n
		a.floor[k] /= n
	}
}
