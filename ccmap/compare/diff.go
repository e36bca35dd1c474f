package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// DiffOptions configure [Differences]. The zero value is useful.
type DiffOptions struct {
	Weight Weight // ByTime or BySamples

	// Level is the highest probability that a list names any change at all for two
	// profiles of one behaviour, over 0 and under 1; 0: [DefaultLevel].
	Level float64
	// Least is the smallest change that is called significant, in points of share,
	// 0 to 100: two runs of one program differ by a little more than noise.
	Least float64

	All   bool // list changes that are not significant, too
	Limit int  // most changes in a list, the largest; 0: no limit

	// Absorb has the meaning of Absorb in [Options].
	Absorb func(ccmap.Method) bool
}

// DefaultLevel is the Level of the zero DiffOptions.
const DefaultLevel = 0.05

// Diff holds the changes from profile A to profile B.
type Diff struct {
	Weight Weight
	A      Profile
	B      Profile
	Level  float64
	Least  float64 // points
	CutAt  int     // see [Result]
	// LeftOut lists the things that only one of the profiles can have, and that were left out of the other: a
	// profile of runtime/pprof, for example, has no time in the kernel.
	LeftOut []LeftOut

	Methods  Changes // with all their callees
	Edges    Changes // calls of one method by another, at one position
	Contexts Changes // whole stacks down to a method, with all its callees
}

// Changes are the changes of all methods, all edges, or all contexts.
type Changes struct {
	List        []Change // the largest first; never nil
	Significant int      // how many are significant, including changes that the limit left out
	Tested      int      // how many have enough samples to be significant
	More        int      // how many the limit left out

	// Detectable is how many points a share of 10 % must grow to be called significant nine
	// times in ten. It is 0 if nothing was tested, and 100 if even the largest change would
	// not be significant.
	Detectable float64
}

// Change is a change in the share of one item. A sample counts once for it, also
// under recursion.
type Change struct {
	Path     []Frame // innermost first: the method, its callers
	ShareA   float64 // percent of the profile's weight
	ShareB   float64 // percent
	Points   float64 // ShareB − ShareA
	SamplesA int64   // that the share was computed from
	SamplesB int64

	// P is the probability of a change like this one, or a larger one, anywhere in
	// the list if nothing changed; 1 if there are too few samples to tell.
	P           float64
	Significant bool
}

// errCalls says why calls have no significance.
var errCalls = errors.New("calls that one sample found together are not independent: choose time or samples")

func (o DiffOptions) checked() (DiffOptions, error) {
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	switch {
	case o.Weight == ByActivations:
		return o, fmt.Errorf("weight is %v: %w", o.Weight, errCalls)
	case int(o.Weight) >= len(weights):
		return o, fmt.Errorf("%v is not a weight", o.Weight)
	case !(o.Level > 0 && o.Level < 1):
		return o, fmt.Errorf("level is %v: choose one over 0 and under 1", o.Level)
	case !(o.Least >= 0 && o.Least <= 100):
		return o, fmt.Errorf("least change is %v: choose one from 0 to 100 points", o.Least)
	case o.Limit < 0:
		return o, fmt.Errorf("limit is %d: choose one of 0 or more", o.Limit)
	}
	return o, nil
}

// Differences lists the changes from a to b, with the significance of each. It
// takes O(n log n) time and O(n) space for n nodes in both.
//
// The items are methods, edges and contexts. If the share of an item is the same in
// both profiles, its samples fall to A and B by chance: the test is the exact one
// of that binomial distribution, given their sum. The chance is A's part of all
// samples, as if all samples weighed as much as the item's: so profiles at
// different intervals compare fairly. Samples count as far as they are independent
// of each other (see [Profile]). Holm's procedure corrects for the number of items
// tested. Only items with ten independent samples or more are tested; no other item
// is ever significant.
//
// Methods and edges have their full totals, also in pruned maps. Contexts are the
// ones that were kept. A context is not listed if one of its callees makes three
// quarters of its change or more, and is as significant: the change is listed
// there.
//
// Differences leaves out samples that only one of the profiles can have, however the program behaves
// (see [LeftOut]). It does not if one of them was pruned.
//
// The error wraps [ErrEmpty] or, where the profiles measure different things,
// [ccmap.ErrUnlike], or says which option makes no sense.
func Differences(a, b *ccmap.Snapshot, o DiffOptions) (Diff, error) {
	o, err := o.checked()
	if err != nil {
		return Diff{}, fmt.Errorf("find differences: %w", err)
	}
	a, b, left := seenByBoth(a.WithoutLabels(), b.WithoutLabels(), o.Weight)
	t, err := lay(a, b, Options{Weight: o.Weight, Absorb: o.Absorb})
	if err != nil {
		return Diff{}, fmt.Errorf("find differences: %w", err)
	}
	d := Diff{Weight: o.Weight, A: t.describe(t.a), B: t.describe(t.b), Level: o.Level, Least: o.Least, CutAt: t.cutAt, LeftOut: left}
	x := t.tallies()
	methods, edges := t.once(x)
	callers := t.callers(x, t.joined())
	w := judge{t, o}
	d.Methods = w.changes(methods, nil, func(i int) []Frame { return []Frame{t.declaration(uint32(i))} })
	d.Edges = w.changes(edges, nil, t.edgeFrames)
	d.Contexts = w.changes(x, callers, t.contextFrames)
	return d, nil
}

// leastObservations is how many independent samples an item needs, in both profiles
// together, for a test. If all ten are in one of two equal profiles, the chance is
// 1 in 500.
const leastObservations = 10

// mostPassed is the part of a context's change that a callee must make to stand for
// the context.
const mostPassed = 0.75

// judge tests changes.
type judge struct {
	*tries
	DiffOptions
}

// changes judges all items of a kind by their tallies. Above maps each item to its
// caller, or is nil if items have none; path describes an item.
func (w judge) changes(tallies []tally, above []uint32, path func(i int) []Frame) Changes {
	p, tested := w.probabilities(tallies)
	all := make([]change, 0, len(tallies))
	for i, x := range tallies {
		if x.observations != (value{}) {
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
		c.Path = path(c.item)
		found.List = append(found.List, c.Change)
	}
	return found
}

// change is a Change and the number of its item.
type change struct {
	Change
	item int
}

func (w judge) change(i int, x tally, p float64) change {
	a := 100 * float64(x.value.a) / float64(w.weight.of(w.a.Total()))
	b := 100 * float64(x.value.b) / float64(w.weight.of(w.b.Total()))
	return change{Change{
		ShareA: a, ShareB: b, Points: b - a,
		SamplesA: int64(x.observations.a), SamplesB: int64(x.observations.b),
		P: p, Significant: p < w.Level && math.Abs(b-a) >= w.Least,
	}, i}
}

// probabilities returns the corrected probabilities of all items, and how many were
// tested.
func (w judge) probabilities(tallies []tally) (p []float64, tested int) {
	p = make([]float64, len(tallies))
	var items []int
	var raw []float64
	for i, x := range tallies {
		p[i] = 1
		if float64(x.observations.a)/w.a.effect+float64(x.observations.b)/w.b.effect >= leastObservations {
			items = append(items, i)
			raw = append(raw, w.test(x))
		}
	}
	holm(raw)
	for k, i := range items {
		p[i] = raw[k]
	}
	return p, len(items)
}

// test returns the probability of a split like the split of an item's samples, by
// chance. The binomial test takes samples to be rare. An item with more than half
// of all samples is not rare: then the test is of the samples without the item.
func (w judge) test(x tally) float64 {
	a, b := float64(x.observations.a)/w.a.effect, float64(x.observations.b)/w.b.effect
	allA, allB := w.a.independentLike(x.value.a, x.observations.a, w.weight), w.b.independentLike(x.value.b, x.observations.b, w.weight)
	if a+b > (allA+allB)/2 {
		a, b = max(allA-a, 0), max(allB-b, 0)
	}
	return binomialTest(a, b, allA/(allA+allB), allB/(allA+allB))
}

// independentLike returns how many independent samples the profile would have if
// all weighed as much as the samples of an item.
func (s side) independentLike(value, observations uint64, w Weight) float64 {
	if value == 0 || observations == 0 {
		return s.independent
	}
	return float64(w.of(s.Total())) / float64(value) * float64(observations) / s.effect
}

// detectable returns how many points a share of 10 % must grow to be significant nine times in ten.
func (w judge) detectable(tested int) float64 {
	if tested == 0 {
		return 0
	}
	return max(w.detectableBetween(tested, w.a.independent, w.b.independent), w.detectableBetween(tested, w.b.independent, w.a.independent))
}

// detectableBetween is detectable for a share of 10 % of n independent samples, and a larger one of m. It takes the
// normal distribution for the binomial, with the correction for whole numbers.
//
// Shares are significant if they are further apart than chance puts two samples of one share, and than the least
// change. Nine times in ten they are at most 1.28 deviations closer than their means.
func (w judge) detectableBetween(tested int, n, m float64) float64 {
	const share, missed = 0.1, 0.1
	critical, margin := exceeded(w.Level/2/float64(tested)), exceeded(missed)
	shows := func(d float64) bool {
		common := (share*n + (share+d)*m) / (n + m)
		chance := critical*math.Sqrt(common*(1/n+1/m)) + 0.5/n + 0.5/m
		return d-margin*math.Sqrt(share/n+(share+d)/m) >= max(chance, w.Least/100)
	}
	low, high := 0.0, 1-share
	if !shows(high) {
		return 100
	}
	for high-low > 1e-6 {
		if middle := (low + high) / 2; shows(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return 100 * high
}

// exceeded returns the value that a normally distributed number of variance 1
// exceeds with probability p.
func exceeded(p float64) float64 { return math.Sqrt2 * math.Erfcinv(2*p) }

// listed returns the changes to list: it leaves out every change that another one
// stands for.
func (w judge) listed(all []change, above []uint32, items int) []change {
	spoken := w.spokenFor(all, above, items)
	return slices.DeleteFunc(all, func(c change) bool {
		return c.Points == 0 || !w.All && !c.Significant || spoken != nil && spoken[c.item]
	})
}

// spokenFor reports, by item, whether a callee stands for the change of the item.
func (w judge) spokenFor(all []change, above []uint32, items int) []bool {
	if above == nil {
		return nil
	}
	byItem := make([]Change, items)
	for _, c := range all {
		byItem[c.item] = c.Change
	}
	spoken := make([]bool, items)
	for _, c := range all {
		caller := byItem[above[c.item]]
		if c.Points*caller.Points > 0 && math.Abs(c.Points) >= mostPassed*math.Abs(caller.Points) &&
			(c.Significant || !caller.Significant) {
			spoken[above[c.item]] = true
		}
	}
	return spoken
}

// cut sorts changes by size, and equal ones by path, and drops the changes beyond
// the limit.
func (w judge) cut(found *Changes, list []change, path func(int) []Frame) []change {
	slices.SortFunc(list, func(c, d change) int {
		order := cmp.Or(cmp.Compare(math.Abs(d.Points), math.Abs(c.Points)), cmp.Compare(c.P, d.P))
		if order == 0 {
			order = slices.CompareFunc(path(c.item), path(d.item), Frame.compare)
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
	e := t.edges.Keys[i]
	return []Frame{t.declaration(e.Callee), t.call(e.Caller, e.Site)}
}

// contextFrames returns the path of the last node of a compressed path.
func (t *tries) contextFrames(i int) []Frame {
	v := t.last[i]
	return t.frames(path{v, t.depth[v] - 1})
}

// holm corrects probabilities for their number (Holm, Scand. J. Statist. 6, 1979).
// The chance that any true null hypothesis gets a probability under α is at most α,
// however the hypotheses depend on each other. Paths depend strongly, as one
// contains another. Corrections that bound the share of false findings (Benjamini
// and Hochberg) would not do: one real change shows in a hundred paths, and would
// let others through.
func holm(p []float64) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, p[i]*float64(len(p)-rank)))
		p[i] = least
	}
}
