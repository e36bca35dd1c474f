package compare

import (
	"cmp"
	"math"
	"slices"
)

// leastWitnesses is how many independent samples of a thing, in both profiles
// together, are needed to say anything. All ten in one of two equal profiles has a
// chance of 1 in 500.
const leastWitnesses = 10

// mostPassed is the part of a context's change from which on one that it calls
// speaks for it.
const mostPassed = 0.75

// witness judges changes.
type witness struct {
	*tries
	DiffOptions
}

// changes judges all things of a kind by their tallies. Above, if there is one,
// has by thing that from which it is called; path describes a thing.
func (w witness) changes(tallies []tally, above []uint32, path func(i int) []Frame) Changes {
	p, tested := w.probabilities(tallies)
	all := make([]change, 0, len(tallies))
	for i, x := range tallies {
		if x.things != (value{}) {
			all = append(all, w.change(i, x, p[i]))
		}
	}
	found := Changes{List: []Change{}, Tested: tested, Detectable: w.detectable(tested)}
	list := w.listed(all, above, len(tallies))
	for _, c := range list {
		if c.Significant {
			found.Significant++
		}
	}
	for _, c := range w.cut(&found, list, path) {
		c.Path = path(c.thing)
		found.List = append(found.List, c.Change)
	}
	return found
}

// change is one in the making.
type change struct {
	Change
	thing int
}

func (w witness) change(i int, x tally, p float64) change {
	a := 100 * float64(x.value.a) / float64(w.weight.of(w.a.Total()))
	b := 100 * float64(x.value.b) / float64(w.weight.of(w.b.Total()))
	return change{Change{
		ShareA: a, ShareB: b, Points: b - a,
		SamplesA: int64(x.things.a), SamplesB: int64(x.things.b),
		P: p, Significant: p < w.Level && math.Abs(b-a) >= w.Least,
	}, i}
}

// probabilities returns the corrected ones of all things, and how many were
// tested.
func (w witness) probabilities(tallies []tally) (p []float64, tested int) {
	p = make([]float64, len(tallies))
	var things []int
	var raw []float64
	for i, x := range tallies {
		p[i] = 1
		if float64(x.things.a)/w.a.effect+float64(x.things.b)/w.b.effect >= leastWitnesses {
			things = append(things, i)
			raw = append(raw, w.test(x))
		}
	}
	holm(raw)
	for k, i := range things {
		p[i] = raw[k]
	}
	return p, len(things)
}

// test returns how probable a split like that of a thing's samples is by chance.
// The binomial test takes samples to be rare. Those of a thing that has more than
// half of all are not: what it has not is tested instead.
func (w witness) test(x tally) float64 {
	a, b := float64(x.things.a)/w.a.effect, float64(x.things.b)/w.b.effect
	allA, allB := w.a.witnesses(x.value.a, x.things.a, w.weight), w.b.witnesses(x.value.b, x.things.b, w.weight)
	if a+b > (allA+allB)/2 {
		a, b = max(allA-a, 0), max(allB-b, 0)
	}
	return binomialTest(a, b, allA/(allA+allB), allB/(allA+allB))
}

// witnesses returns how many independent samples the profile would have if all
// weighed what those of a thing do.
func (s side) witnesses(value, things uint64, w Weight) float64 {
	if value == 0 || things == 0 {
		return s.independent
	}
	return float64(w.of(s.Total())) / float64(value) * float64(things) / s.effect
}

// detectable returns the change in points that a thing with a share of 10 % must
// make to be significant nine times in ten, where the normal distribution may
// stand in for the binomial.
func (w witness) detectable(tested int) float64 {
	if tested == 0 {
		return 0
	}
	const share, missed = 0.1, 0.1
	deviation := math.Sqrt(share * (1/w.a.independent + 1/w.b.independent))
	return min(100, max(100*deviation*(exceeded(w.Level/2/float64(tested))+exceeded(missed)), w.Least))
}

// exceeded returns what a normally distributed number of variance 1 exceeds with
// probability p.
func exceeded(p float64) float64 { return math.Sqrt2 * math.Erfcinv(2*p) }

// listed returns the changes to be listed. Of those that another one speaks for,
// none is.
func (w witness) listed(all []change, above []uint32, things int) []change {
	spoken := w.spokenFor(all, above, things)
	return slices.DeleteFunc(all, func(c change) bool {
		return c.Points == 0 || !w.All && !c.Significant || spoken != nil && spoken[c.thing]
	})
}

// spokenFor returns the things that pass on their change to one that they call.
func (w witness) spokenFor(all []change, above []uint32, things int) []bool {
	if above == nil {
		return nil
	}
	byThing := make([]Change, things)
	for _, c := range all {
		byThing[c.thing] = c.Change
	}
	spoken := make([]bool, things)
	for _, c := range all {
		caller := byThing[above[c.thing]]
		if c.Points*caller.Points > 0 && math.Abs(c.Points) >= mostPassed*math.Abs(caller.Points) &&
			(c.Significant || !caller.Significant) {
			spoken[above[c.thing]] = true
		}
	}
	return spoken
}

// cut sorts changes by their size, and equal ones by path, and drops those beyond
// the limit.
func (w witness) cut(found *Changes, list []change, path func(int) []Frame) []change {
	slices.SortFunc(list, func(c, d change) int {
		order := cmp.Or(cmp.Compare(math.Abs(d.Points), math.Abs(c.Points)), cmp.Compare(c.P, d.P))
		if order == 0 {
			order = slices.CompareFunc(path(c.thing), path(d.thing), Frame.compare)
		}
		return order
	})
	if w.Limit > 0 && len(list) > w.Limit {
		found.More = len(list) - w.Limit
		list = list[:w.Limit]
	}
	return list
}

func (t *tries) edgeFrames(i int) []Frame {
	e := t.edges[i]
	return []Frame{t.declaration(e.callee), t.call(e.caller, e.offset)}
}

// contextFrames returns the path of the last node of a stretch.
func (t *tries) contextFrames(i int) []Frame {
	v := t.last[i]
	return t.frames(path{v, t.depth[v] - 1})
}
