package valueprof

import (
	"cmp"
	"iter"
	"slices"
)

// Source says where values come from. Sources can be combined: Sampled|Imported.
type Source uint8

const (
	Sampled      Source = 1 << iota // receivers that samples found on stacks
	Instrumented                    // calls that were caught one by one, in bursts
	Imported                        // counters that came from elsewhere, such as files
	AllSources   = Sampled | Instrumented | Imported
)

// PointSource gives profile points. A [Profile] does, and [Views].
type PointSource interface{ Points() iter.Seq[PointView] }

// Sources gives the points of several sources as if they were of one: of all, or
// of some (OpenJ9's TR_ValueProfileInfoManager). The zero value has none. It
// belongs to one goroutine, which may read all of them.
type Sources struct{ of [3]PointSource }

// Set makes p the points of one source; nil takes them away.
func (s *Sources) Set(source Source, p PointSource) {
	for i := range s.of {
		if source&(1<<i) != 0 {
			s.of[i] = p
		}
	}
}

// Points goes through the points of the given sources: of one, as it has them. Of
// several, the points of a site and kind are one, whose counts are the sums, and
// come by site and kind. Samples and calls are added then, which are different
// units: what to read is shares.
func (s *Sources) Points(which Source) iter.Seq[PointView] {
	var chosen []PointSource
	for i, p := range s.of {
		if which&(1<<i) != 0 && p != nil {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) == 1 {
		return chosen[0].Points()
	}
	return func(yield func(PointView) bool) { unify(chosen).Points()(yield) }
}

// Views are points that somebody has made.
type Views []PointView

// Points implements [PointSource].
func (v Views) Points() iter.Seq[PointView] { return slices.Values(v) }

// unify adds the points of all sources up.
func unify(sources []PointSource) Views {
	at := map[key]int{}
	var all Views
	for _, s := range sources {
		for v := range s.Points() {
			k := key{v.Site, v.Kind}
			i, ok := at[k]
			if !ok {
				i = len(all)
				at[k] = i
				all = append(all, PointView{Site: v.Site, Kind: v.Kind, Nulls: NullsUnknown})
			}
			all[i].add(v)
		}
	}
	for i := range all {
		all[i].Values = sumUp(all[i].Values)
	}
	slices.SortFunc(all, PointView.compare)
	return all
}

// add adds the counts of w, and appends its values as they are.
func (v *PointView) add(w PointView) {
	v.Count += w.Count
	v.Values = append(v.Values, w.Values...)
	v.Other += w.Other
	v.Aged += w.Aged
	if w.Nulls != NullsUnknown {
		v.Nulls = max(v.Nulls, 0) + w.Nulls
	}
}

// sumUp makes the counts of equal values one, and sorts as a PointView has them.
func sumUp(values []Value) []Value {
	slices.SortFunc(values, func(a, b Value) int { return cmp.Compare(a.Value, b.Value) })
	sums := values[:0]
	for _, v := range values {
		if n := len(sums); n > 0 && sums[n-1].Value == v.Value {
			sums[n-1].Count += v.Count
		} else {
			sums = append(sums, v)
		}
	}
	sortValues(sums)
	return sums
}

func (v PointView) compare(w PointView) int {
	return cmp.Or(
		cmp.Compare(v.Site.Method, w.Site.Method),
		cmp.Compare(v.Site.Offset, w.Site.Offset),
		cmp.Compare(v.Site.Context, w.Site.Context),
		cmp.Compare(v.Kind, w.Kind))
}
