package compare

import (
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// stackLimits are the frames at which runtime/pprof cuts stacks, keeping the innermost:
// 64 in CPU profiles (maxCPUProfStack in runtime/cpuprof.go, Go 1.20 to 1.27), in others
// 128 (profstackdepth in runtime/runtime1.go, from Go 1.23) and before that 32.
var stackLimits = []int{32, 64, 128}

// beyondLimit is how many frames more a cut stack may have: those that are inlined
// into its outermost one.
const beyondLimit = 8

// cutAlike returns what two profiles can both have, and at how many frames it has cut
// the stacks of both; 0: neither. It cuts if the stacks of one end at a limit and the
// other has deeper ones. Pruned profiles stay as they are: what was pruned has no
// stacks to be cut.
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
	of      []int32 // by node: frames down to it
	deepest int     // of those that count something
}

func newDepths(s *ccmap.Snapshot) depths {
	d := depths{Snapshot: s, of: make([]int32, s.Len())}
	for n := range s.Nodes() {
		if n.ID == 0 {
			continue
		}
		d.of[n.ID] = d.of[n.Parent]
		if !n.IsPosition() {
			d.of[n.ID]++
		}
		if n.Self.Samples > 0 || n.Self.Time > 0 {
			d.deepest = max(d.deepest, int(d.of[n.ID]))
		}
	}
	return d
}

// limitBeside returns the limit at which the stacks of d were cut, as far as those of
// another profile tell: 0 where they were not. Then as many stacks have reached the
// limit as there are deeper ones in the other, or half as many at least.
func (d depths) limitBeside(o depths) int {
	i := slices.IndexFunc(stackLimits, func(limit int) bool { return d.deepest >= limit && d.deepest <= limit+beyondLimit })
	if i < 0 || o.deepest <= d.deepest || 2*d.shareFrom(stackLimits[i]) < o.shareFrom(stackLimits[i]) {
		return 0
	}
	return stackLimits[i]
}

// shareFrom returns the share of the samples whose stacks have so many frames or more.
func (d depths) shareFrom(frames int) float64 {
	var deep, all float64
	for n := range d.Nodes() {
		things := float64(max(n.Self.Samples, 1))
		if n.Self.Samples == 0 && n.Self.Time == 0 {
			continue
		}
		all += things
		if int(d.of[n.ID]) >= frames {
			deep += things
		}
	}
	return deep / max(all, 1)
}

// cut returns the profile with the innermost frames of each stack only.
func (d depths) cut(frames int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{Names: d.Names()})
	*m.Meta() = d.Meta()
	m.SetExact(d.ActivationsExact())
	to := make([]ccmap.NodeID, d.Len()) // of stacks that are no deeper
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
				n.Offset = ccmap.NoOffset // nobody calls it any more
			}
			at = m.Child(at, n.Offset, n.Method)
		}
		m.Add(at, n.Self)
	}
	return m.Snapshot()
}

// innermost appends the nodes of a stack's innermost frames, from n up.
func (d depths) innermost(path []ccmap.Node, n ccmap.Node, frames int) []ccmap.Node {
	for least := int(d.of[n.ID]) - frames; int(d.of[n.ID]) > least; n = d.Node(n.Parent) {
		path = append(path, n)
	}
	return path
}
