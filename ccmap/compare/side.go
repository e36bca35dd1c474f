package compare

import (
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
)

// side is one profile of a comparison.
type side struct {
	*ccmap.Snapshot
	placed  []uint32  // by node of the profile: its node of the union; nil once collected
	counted []counted // what was counted at kept nodes, in the profile's own order
	bases   []counted // what was counted at pruned ones, by edge
	evidence

	independent float64 // samples or calls, divided by the effect, at least 1
	content     uint64  // hash of what was counted
}

// counted is what one profile counted in one place itself.
type counted struct {
	at     uint32 // node of the union, then its stretch; in a base, number of its edge
	things uint64 // samples or calls that the value is made of
	value  uint64
}

// place lays a profile over the union. Without weight there, it returns an error.
func (t *tries) place(s *ccmap.Snapshot, o Options) (side, error) {
	if c := s.Total(); o.Weight.of(c) == 0 {
		return side{}, fmt.Errorf("%w by %v: it has %d samples, a weight of %d and %d activations",
			ErrEmpty, o.Weight, c.Samples, c.Time, c.Activations)
	}
	methods := t.methods(s.Names(), o.Absorb)
	p := side{Snapshot: s, placed: t.add(s, methods, o.Weight)}
	p.bases = t.bases(s, methods, o.Weight)
	if len(p.bases) > 0 {
		return p, nil
	}
	for n := range s.Nodes() {
		if p.placed[n.ID] != 0 && o.Weight.of(n.Self) > 0 {
			return p, nil
		}
	}
	return side{}, fmt.Errorf("%w by %v: all of it is absorbed", ErrEmpty, o.Weight)
}

// bases returns what pruned nodes counted, by edge. A base does not say below
// which methods its edge was: what was pruned below an absorbed method counts,
// unless it is an edge from or to one.
func (t *tries) bases(s *ccmap.Snapshot, methods []uint32, w Weight) []counted {
	number := func(id ccmap.MethodID) uint32 {
		if id == ccmap.NoMethod {
			return nobody
		}
		return methods[id]
	}
	var bases []counted
	for p := range s.PrunedEdges() {
		e := edge{number(p.Caller), p.Offset, number(p.Callee)}
		if e.caller == absorbed || e.callee == absorbed || e.callee == nobody || w.of(p.Total) == 0 {
			continue
		}
		bases = append(bases, counted{t.number(e), w.things(p.Total), w.of(p.Total)})
	}
	return bases
}

// collect sums what was counted at the nodes of the union. It leaves slots, one
// for each of these, as it found them: 0.
func (s *side) collect(slots []uint32, w Weight) {
	if s.Snapshot == nil {
		return
	}
	for n := range s.Nodes() {
		at, value, things := s.placed[n.ID], w.of(n.Self), w.things(n.Self)
		if at == 0 || value == 0 && things == 0 {
			continue
		}
		if slots[at] == 0 {
			s.counted = append(s.counted, counted{at: at})
			slots[at] = uint32(len(s.counted))
		}
		c := &s.counted[slots[at]-1]
		c.things += things
		c.value += value
	}
	for _, c := range s.counted {
		slots[c.at] = 0
	}
	s.placed = nil
	s.evidence = newEvidence(s.Meta(), w, s.counted)
	s.independent = max(1, float64(w.things(s.Total()))/s.effect)
	s.content = hash(s.counted) + hash(s.bases)
}

// hash returns a number that profiles hardly share (FNV-1a, by words). Where
// things were counted is no part of it: that depends on the other profile.
func hash(counted []counted) uint64 {
	const basis, prime = 14695981039346656037, 1099511628211
	h := uint64(basis)
	for _, c := range counted {
		h = (h ^ c.things) * prime
		h = (h ^ c.value) * prime
	}
	return h
}

// prunedPercent returns how much of the profile's weight hangs at pruned nodes.
func (s side) prunedPercent(w Weight) float64 {
	pruned := s.PrunedTotal()
	if w == ByActivations {
		for p := range s.PrunedEdges() {
			pruned.Activations += p.Total.Activations
		}
	}
	return 100 * float64(w.of(pruned)) / float64(w.of(s.Total()))
}
