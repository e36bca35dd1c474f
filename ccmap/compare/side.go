package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// side is one profile of a comparison.
type side struct {
	*ccmap.Snapshot
	placed  []uint32  // by node of the profile: its node of the union; nil once collected
	counted []counted // counts of kept nodes, in the profile's own order
	evicted []counted // counts of pruned nodes, by edge
	sampleSize

	independent float64 // samples or calls, divided by the effect, at least 1
	content     uint64  // hash of the counts
}

// counted are the counts of one place in one profile.
type counted struct {
	at           uint32 // node of the union, then its compressed path; of evicted counts, number of the edge
	observations uint64 // samples or calls that the value is made of
	value        uint64
}

// place lays a profile over the union. It returns an error if the profile has no
// weight there.
func (t *tries) place(s *ccmap.Snapshot, o Options) (side, error) {
	if c := s.Total(); o.Weight.of(c) == 0 {
		return side{}, fmt.Errorf("%w by %v: it has %d samples, a weight of %d and %d activations",
			ErrEmpty, o.Weight, c.Samples, c.Time, c.Activations)
	}
	methods := t.methods(s.Names(), o.Absorb)
	p := side{Snapshot: s, placed: t.addProfile(s, methods, o.Weight)}
	p.evicted = t.evicted(s, methods, o.Weight)
	if len(p.evicted) > 0 {
		return p, nil
	}
	for n := range s.Nodes() {
		if p.placed[n.ID] != 0 && o.Weight.of(n.Self) > 0 {
			return p, nil
		}
	}
	return side{}, fmt.Errorf("%w by %v: all of it is absorbed", ErrEmpty, o.Weight)
}

// evicted returns the counts of pruned nodes, by edge. They do not say below which
// methods an edge was. So an edge that was pruned below an absorbed method counts,
// unless it leads from or to an absorbed method.
func (t *tries) evicted(s *ccmap.Snapshot, methods []uint32, w Weight) []counted {
	number := func(id ccmap.MethodID) uint32 {
		if id == ccmap.NoMethod {
			return noMethod
		}
		return methods[id]
	}
	var evicted []counted
	for p := range s.PrunedEdges() {
		e := edge{Caller: number(p.Caller), Site: p.Offset, Callee: number(p.Callee)}
		if e.Caller == absorbed || e.Callee == absorbed || e.Callee == noMethod || w.of(p.Total) == 0 {
			continue
		}
		evicted = append(evicted, counted{t.edges.Number(e), w.observations(p.Total), w.of(p.Total)})
	}
	return evicted
}

// collect sums the counts at the nodes of the union. Slots has an entry for each of
// these nodes; collect finds and leaves them 0.
func (s *side) collect(slots []uint32, w Weight) {
	if s.Snapshot == nil {
		return
	}
	for n := range s.Nodes() {
		at, value, observations := s.placed[n.ID], w.of(n.Self), w.observations(n.Self)
		if at == 0 || value == 0 && observations == 0 {
			continue
		}
		if slots[at] == 0 {
			s.counted = append(s.counted, counted{at: at})
			slots[at] = uint32(len(s.counted))
		}
		c := &s.counted[slots[at]-1]
		c.observations += observations
		c.value += value
	}
	for _, c := range s.counted {
		slots[c.at] = 0
	}
	s.placed = nil
	s.sampleSize = newSampleSize(s.Meta(), w, s.counted)
	s.independent = max(1, float64(w.observations(s.Total()))/s.effect)
	s.content = hash(s.counted) + hash(s.evicted)
}

// hash returns a number that profiles hardly share (FNV-1a, by words). It leaves
// out the places of counts, which depend on the other profile.
func hash(counted []counted) uint64 {
	const basis, prime = 14695981039346656037, 1099511628211
	h := uint64(basis)
	for _, c := range counted {
		h = (h ^ c.observations) * prime
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

// stackLimits are the depths, in frames, where runtime/pprof cuts stacks. It keeps the
// innermost:
// 64 in CPU profiles (maxCPUProfStack in runtime/cpuprof.go, Go 1.20 to 1.27), in others
// 128 (profstackdepth in runtime/runtime1.go, from Go 1.23) and before that 32.
var stackLimits = []int{32, 64, 128}

// beyondLimit is how many frames more a cut stack may have: frames that were
// inlined into its outermost one.
const beyondLimit = 8

// cutAlike returns two profiles with stacks of the same greatest length, and that
// number of frames; 0: it changed neither. It cuts if the stacks of one profile end
// at a limit and the other profile has deeper ones. Pruned profiles stay as they
// are: pruned nodes have no stacks to cut.
func cutAlike(a, b *ccmap.Snapshot) (cutA, cutB *ccmap.Snapshot, frames int) {
	if a.Pruned() || b.Pruned() {
		return a, b, 0
	}
	ofA, ofB := newDepths(a), newDepths(b)
	frames = max(ofA.limitBeside(ofB), ofB.limitBeside(ofA))
	if frames == 0 {
		return a, b, 0
	}
	return ofA.cut(frames), ofB.cut(frames), frames
}

// depths are the numbers of frames of a profile's stacks.
type depths struct {
	*ccmap.Snapshot
	of      []uint8 // by node: frames down to it, or 255 if there are more: no limit is so deep
	deepest int     // of the nodes that count something
}

func newDepths(s *ccmap.Snapshot) depths {
	d := depths{Snapshot: s, of: make([]uint8, s.Len())}
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		d.of[n.ID] = d.of[n.Parent]
		if !n.IsPosition() && d.of[n.ID] < math.MaxUint8 {
			d.of[n.ID]++
		}
		if n.Self.Samples > 0 || n.Self.Time > 0 {
			d.deepest = max(d.deepest, int(d.of[n.ID]))
		}
	}
	return d
}

// limitBeside returns the limit that the stacks of d were cut to, judged by another
// profile; 0 if they were not cut. If they were, about as many stacks have reached
// the limit as there are deeper ones in the other profile, at least half as many.
func (d depths) limitBeside(o depths) int {
	i := slices.IndexFunc(stackLimits, func(limit int) bool { return d.deepest >= limit && d.deepest <= limit+beyondLimit })
	if i < 0 || o.deepest <= d.deepest || 2*d.shareFrom(stackLimits[i]) < o.shareFrom(stackLimits[i]) {
		return 0
	}
	return stackLimits[i]
}

// shareFrom returns the share of the samples whose stacks have at least a number of
// frames.
func (d depths) shareFrom(frames int) float64 {
	var deep, all float64
	for n := range d.Nodes() {
		observations := float64(max(n.Self.Samples, 1))
		if n.Self.Samples == 0 && n.Self.Time == 0 {
			continue
		}
		all += observations
		if int(d.of[n.ID]) >= frames {
			deep += observations
		}
	}
	return deep / max(all, 1)
}

// cut returns the profile with the innermost frames of each stack only.
func (d depths) cut(frames int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Names: d.Names()})
	*m.Meta() = d.Meta()
	m.SetExact(d.ActivationsExact())
	to := make([]ccmap.NodeID, d.Len()) // by node, in stacks up to the limit
	var path []ccmap.Node
	for n := range d.Nodes() {
		if n.ID == 0 {
			continue
		}
		if int(d.of[n.ID]) <= frames {
			to[n.ID] = m.Child(to[n.Parent], n.Offset, n.Method)
			m.Add(to[n.ID], n.Self)
			continue
		}
		if n.Self.IsZero() {
			continue
		}
		path = d.innermost(path[:0], n, frames)
		at := m.Root()
		for i, n := range slices.Backward(path) {
			if i == len(path)-1 {
				n.Offset = ccmap.NoOffset // it has no caller any more
			}
			at = m.Child(at, n.Offset, n.Method)
		}
		m.Add(at, n.Self)
	}
	return m.Snapshot()
}

// innermost appends the nodes of a stack's innermost frames, from n up.
func (d depths) innermost(path []ccmap.Node, n ccmap.Node, frames int) []ccmap.Node {
	for frames > 0 {
		path = append(path, n)
		if !n.IsPosition() {
			frames--
		}
		n = d.Node(n.Parent)
	}
	return path
}
