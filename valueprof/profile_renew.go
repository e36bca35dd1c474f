package valueprof

import (
	"cmp"
	"maps"
	"slices"
)

// Renew begins new recent info for every method: what is recorded from now on
// is held apart from what was before, and replaces it once it is better
// ([Evidence.Better]). Called when the program has changed. Recent info that has
// seen too little to be held against the best goes on, or a method with few calls
// would never get any better in a program that changes often.
//
// A method without a call since the last Renew loses nothing, unless it is cold
// or half of MaxPoints is taken: then the methods with the fewest calls are
// forgotten, until half is free.
func (p *Profile) Renew() {
	for _, m := range p.methods {
		p.renew(m)
	}
	p.forgetRarest()
	p.look()
	p.reindex()
}

func (p *Profile) renew(m *method) {
	switch {
	case m.body == nil && m.stale:
		delete(p.methods, m.id)
	case m.body == nil:
		m.stale = true
	case m.points() == 0:
		p.forget(m)
	default:
		recent, old := m.body.Evidence(), m.earlier()
		m.calls = recent.Calls
		if old == nil || recent.enough(old.Evidence()) {
			p.open(m)
		}
	}
}

// reindex makes the index one of the recent points.
func (p *Profile) reindex() {
	p.index.empty()
	for _, m := range p.methods {
		if m.body == nil {
			continue
		}
		for _, pt := range m.body.points {
			p.index.insert(pt)
		}
	}
}

// forget lets go of a method and all its info, as if it had never been executed.
func (p *Profile) forget(m *method) {
	m.history.Drop()
	m.body.info.Release()
	delete(p.methods, m.id)
}

// makeRoom is for when MaxPoints are taken: cold methods are forgotten, and the
// rarest. Half of the points must be new ones before it is called again, so it
// costs each of these little. Nothing is gained while a reader holds what was
// forgotten.
func (p *Profile) makeRoom() {
	for _, m := range p.methods {
		if m.body == nil {
			delete(p.methods, m.id)
		}
	}
	p.forgetRarest()
	p.look()
	p.reindex()
}

// forgetRarest forgets the methods with the fewest calls, in this or the last
// recent info, until those that stay leave half of MaxPoints free.
func (p *Profile) forgetRarest() {
	excess := -p.opts.MaxPoints / 2
	for _, m := range p.methods {
		excess += m.points()
	}
	if excess <= 0 {
		return
	}
	for _, m := range p.methods {
		if m.body != nil {
			m.calls = max(m.calls, m.body.Evidence().Calls)
		}
	}
	for _, m := range slices.SortedFunc(maps.Values(p.methods), fewerCalls) {
		if n := m.points(); n > 0 && excess > 0 {
			excess -= n
			p.evicted += n
			p.forget(m)
		}
	}
}

func fewerCalls(a, b *method) int {
	return cmp.Or(cmp.Compare(a.calls, b.calls), cmp.Compare(a.id, b.id))
}
