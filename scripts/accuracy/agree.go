package main

import (
	"iter"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// agreement is how far the runs of a program in a mode agree. Figures are means over all
// pairs, in percent unless noted.
type agreement struct {
	runs, pairs int
	samples     float64 // of a run
	pearson     float64 // −1 to 1
	spearman    float64 // −1 to 1
	overlap     [allKinds]float64
	least       [allKinds]float64 // of all pairs
	floor       [allKinds]float64
	below       [allKinds]int // pairs that overlap by less than their lower floor
	coverage    float64       // of hot edges, in both directions
	leastCover  float64
	hot         float64 // hot edges of a profile

	rest rest
}

// agree compares every profile with all later ones.
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

// divide turns the sums into means.
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

// kind is the kind of an overlap's elements, from coarse to fine.
type kind int

const (
	methods kind = iota
	edges
	managed  // contexts without the runtime's and the kernel's frames
	contexts // the whole Call Context Map
	allKinds
)

var kindNames = [allKinds]string{"methods", "edges", "managed contexts", "contexts"}

func (k kind) String() string { return kindNames[k] }

// comparison compares two profiles, in all kinds.
type comparison struct {
	compare.Result
	overlaps [allKinds]compare.Overlap
}

// compareRuns compares by time, because runs may have had different intervals.
func compareRuns(p, q *ccmap.Snapshot) (comparison, error) {
	all, err := compare.Compare(p, q, compare.Options{})
	if err != nil {
		return comparison{}, err
	}
	own, err := compare.Compare(p, q, compare.Options{Absorb: unmanaged})
	if err != nil {
		return comparison{}, err
	}
	return comparison{all, [allKinds]compare.Overlap{
		methods: all.Methods, edges: all.Edges, managed: own.Contexts, contexts: all.Contexts,
	}}, nil
}

// unmanaged reports whether the paper's VM would not have sampled a method: its own code
// and the kernel's. A program's main goroutine begins in the runtime.
func unmanaged(m ccmap.Method) bool {
	switch m.Name {
	case "runtime.main":
		return false
	case ccmap.KernelName, ccmap.TruncatedName:
		return true
	}
	return strings.HasPrefix(m.Name, "runtime.") || strings.HasPrefix(m.Name, "internal/runtime/")
}

// means are the means of several programs' figures, and the sum of their pairs: the
// paper's table would have them in its last line.
type means struct {
	paper paperRow
	sum   agreement
	n     float64
}

func (m *means) add(paper paperRow, a agreement) {
	m.n++
	m.paper = paperRow{m.paper.correlation + paper.correlation, m.paper.overlap + paper.overlap}
	m.sum.pairs += a.pairs
	for to, from := range m.sum.figures(&a) {
		*to += *from
	}
}

// of returns the means.
func (m *means) of() (paperRow, agreement) {
	a := m.sum
	for to := range a.figures(&a) {
		*to /= m.n
	}
	return paperRow{m.paper.correlation / m.n, m.paper.overlap / m.n}, a
}

// figures pairs the figures that the last line has with another agreement's.
func (a *agreement) figures(b *agreement) iter.Seq2[*float64, *float64] {
	return func(yield func(*float64, *float64) bool) {
		more := yield(&a.samples, &b.samples) && yield(&a.pearson, &b.pearson) && yield(&a.spearman, &b.spearman)
		for k := kind(0); more && k < allKinds; k++ {
			more = yield(&a.overlap[k], &b.overlap[k]) && yield(&a.floor[k], &b.floor[k]) && yield(&a.least[k], &b.least[k])
		}
	}
}
