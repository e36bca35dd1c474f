package valueprof

import (
	"iter"
	"maps"
	"slices"
)

// Points goes through the profile points of the best info of every method: by
// method, and then as they were first executed. The Values of a view are good
// until the next one. The profile may be added to and renewed meanwhile.
func (p *Profile) Points() iter.Seq[PointView] {
	return func(yield func(PointView) bool) {
		var a Accessed
		defer a.Release()
		var v PointView
		for _, id := range slices.Sorted(maps.Keys(p.methods)) {
			if !p.eachPoint(&a, p.methods[id], &v, yield) {
				return
			}
		}
	}
}

func (p *Profile) eachPoint(a *Accessed, m *method, v *PointView, yield func(PointView) bool) bool {
	if m == nil { // forgotten meanwhile
		return true
	}
	best := a.Best(&m.history)
	if best == nil {
		return true
	}
	for _, pt := range best.body.(*body).points {
		pt.view(v)
		if !yield(*v) {
			return false
		}
	}
	return true
}

// Sites goes through the sites of all points held, in no order: those of best and
// recent infos, and those that a reader still holds. The profile must not be added
// to meanwhile.
func (p *Profile) Sites() iter.Seq[Site] {
	return func(yield func(Site) bool) {
		for i := p.janitor.all.Load(); i != nil; i = i.next {
			for _, pt := range i.body.(*body).points {
				if !yield(pt.Site) {
					return
				}
			}
		}
	}
}
