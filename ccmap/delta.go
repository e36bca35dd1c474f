package ccmap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// ErrNotEarlier is the error of [Delta] if the first snapshot is not an earlier state of the
// second.
var ErrNotEarlier = errors.New("not an earlier state of the same map")

// Delta returns a map of all that a map has counted between two of its snapshots, without
// recent counters. Totals of methods and edges are always exact: if the delta is merged
// into old, the result has the totals of new. If nothing was pruned, it has the contexts
// of new, too.
//
// After a prune, a context of new may have fewer counts than it had in old, because it
// was removed in between. Then the delta has none of it. The samples hang at a node
// [PrunedName], and the totals are in [PrunedEdge] and [PrunedMethod]. A point has the
// executions that it has gained.
//
// Start of the delta is the earliest possible end of old: snapshots do not know the pauses
// between sessions. A caller that knows the end moves Start by [Meta.StartAt]. The error
// wraps [ErrNotEarlier] or [ErrUnlike]. The cost is linear in the nodes and edges. Without a
// prune between the snapshots, Delta skips the chunks of nodes that both share.
func Delta(old, new *Snapshot) (*Map, error) {
	if !old.isEmpty() {
		if err := CheckLike(old.meta.Unit, new.meta.Unit); err != nil {
			return nil, fmt.Errorf("subtract profile: %w", err)
		}
	}
	if old.names != new.names {
		names := NewNames()
		var err error
		if old, err = old.under(names); err != nil {
			return nil, err
		}
		if new, err = new.under(names); err != nil {
			return nil, err
		}
	}
	d := delta{old: old, new: new, m: New(Options{Names: new.names})}
	if err := d.subtract(); err != nil {
		return nil, fmt.Errorf("subtract profile: %w", err)
	}
	d.subtractPoints()
	d.m.inexact = new.inexact
	d.m.meta = new.meta.since(old.meta)
	return d.m, nil
}

// under returns the snapshot with methods of other names.
func (s *Snapshot) under(names *Names) (*Snapshot, error) {
	m := New(Options{Names: names})
	if err := m.Merge(s); err != nil {
		return nil, fmt.Errorf("subtract profile: %w", err)
	}
	return m.Snapshot(), nil
}

// delta is the subtraction of a snapshot from a later one with the same names.
type delta struct {
	old, new *Snapshot
	m        *Map // the result
	graft    graft
}

func (d *delta) subtract() error {
	d.graft = graft{m: d.m, from: d.new, methods: d.m.names.adopt(d.new.names), moved: make([]NodeID, d.new.Len())}
	if d.new.total.minus(d.old.total).IsNegative() {
		return ErrNotEarlier
	}
	if d.old.nodes.chunks[0] != d.new.nodes.chunks[0] {
		return d.overlay() // a prune makes new chunks
	}
	if err := d.subtractNodes(); err != nil {
		return err
	}
	return d.subtractRemoved()
}

// subtractNodes subtracts the counters of tries that have the same ids. A chunk of counters
// that both snapshots share has not changed.
func (d *delta) subtractNodes() error {
	for i, chunk := range d.new.columns.chunks {
		if i < len(d.old.columns.chunks) && d.old.columns.chunks[i].cells == chunk.cells {
			continue
		}
		first := NodeID(i * chunkLen)
		for n := first; uint32(n) < min(uint32(first)+chunkLen, d.new.nodes.len); n++ {
			gained := d.new.columns.at(n).minus(d.before(n))
			if gained.IsNegative() {
				return ErrNotEarlier
			}
			d.count(n, gained)
		}
	}
	return nil
}

// before returns the counters that a node of old has.
func (d *delta) before(n NodeID) Counters {
	if uint32(n) >= d.old.nodes.len {
		return Counters{}
	}
	return d.old.columns.at(n)
}

// count adds counts to the node that stands for a node of new.
func (d *delta) count(n NodeID, c Counters) {
	if !c.IsZero() {
		d.m.Add(d.graft.place(n), c)
	}
}

// subtractRemoved subtracts the counts of removed nodes.
func (d *delta) subtractRemoved() error {
	edges, methods := make(map[edgeKey]Counters), make(map[MethodID]PrunedMethod)
	for e := range d.old.PrunedEdges() {
		edges[e.key()] = e.Total
	}
	for p := range d.old.PrunedMethods() {
		methods[p.Method] = p
	}
	for e := range d.new.PrunedEdges() {
		if err := d.addEdge(e.key(), e.Total.minus(edges[e.key()])); err != nil {
			return err
		}
	}
	for p := range d.new.PrunedMethods() {
		before := methods[p.Method]
		if err := d.addMethod(p.Method, p.Self.minus(before.Self), p.Cumulative.minus(before.Cumulative)); err != nil {
			return err
		}
	}
	return nil
}

// addEdge adds counts of an edge that no node of the result has.
func (d *delta) addEdge(k edgeKey, c Counters) error {
	if c.IsNegative() {
		return ErrNotEarlier
	}
	if !c.IsZero() {
		d.m.AddPruned(PrunedEdge{Caller: k.Caller, Offset: k.Site, Callee: k.Callee, Total: c})
	}
	return nil
}

// addMethod is addEdge for a method, whose calls count at edges.
func (d *delta) addMethod(id MethodID, self, cumulative Counters) error {
	self.Activations, cumulative.Activations = 0, 0
	if self.IsNegative() || cumulative.IsNegative() {
		return ErrNotEarlier
	}
	if !self.IsZero() || !cumulative.IsZero() {
		d.m.AddPrunedMethod(PrunedMethod{Method: id, Self: self, Cumulative: cumulative})
	}
	return nil
}

// overlay subtracts tries whose nodes have other ids. It gives each context the counts that it
// has certainly gained, and the rest to [pruned] nodes and to the totals of removed nodes.
func (d *delta) overlay() error {
	o := overlay{delta: d, was: d.counterparts(), rest: make([]span, d.new.Len()), self: make([]span, d.new.Len())}
	o.measureSelf()
	o.share()
	o.hangRest()
	return d.addRemainders()
}

// counterparts returns the node of old for each node of new, 0 for a node that old lacks.
func (d *delta) counterparts() []NodeID {
	t := table{seed: rand.Uint64() | 1}
	t.reset(0)
	for n := NodeID(1); uint32(n) < d.old.nodes.len; n++ {
		if !d.old.chained(n) {
			t.insert(n, *d.old.at(n))
		}
	}
	was := make([]NodeID, d.new.Len())
	for n := NodeID(1); uint32(n) < d.new.nodes.len; n++ {
		what := *d.new.at(n)
		if what.parent != 0 && was[what.parent] == 0 {
			continue
		}
		what.parent = was[what.parent]
		if next := what.parent + 1; uint32(next) < d.old.nodes.len && *d.old.at(next) == what {
			was[n] = next
		} else {
			was[n] = t.find(&d.old.nodes, what)
		}
	}
	return was
}

// overlay is the state of a subtraction after a prune. A context that was never removed
// has gained the difference of its counts, with all below it. A context that was removed
// and added again has gained more than the difference.
type overlay struct {
	*delta
	was  []NodeID // by node of new: the node of old, 0 if old lacks it
	rest []span   // by node of new: gained by it and all below it, less the shares of its children
	self []span   // by node of new: gained by a method's node and its positions, less the shares of these
}

// measureSelf finds how much a node has gained together with its positions: a prune
// gives the counts of positions to their method.
func (o *overlay) measureSelf() {
	for n := NodeID(1); uint32(n) < o.new.nodes.len; n++ {
		o.self[o.holder(&o.new.nodes, n)].add(spanOf(o.new.columns.at(n)))
	}
	before := make([]span, o.old.Len())
	for n := NodeID(1); uint32(n) < o.old.nodes.len; n++ {
		before[o.holder(&o.old.nodes, n)].add(spanOf(o.old.columns.at(n)))
	}
	for n := NodeID(1); uint32(n) < o.new.nodes.len; n++ {
		if was := o.was[n]; was != 0 {
			o.self[n] = o.self[n].above(before[was])
		}
	}
}

// holder returns the node of a method that counts a node.
func (o *overlay) holder(t *nodes, n NodeID) NodeID {
	if t.isPosition(n) {
		return t.at(n).parent
	}
	return n
}

// share gives each node the counts that it has certainly gained, as far as its parent has so many.
func (o *overlay) share() {
	now, before := o.new.sums(), o.old.sums()
	o.rest[0] = spanOf(o.new.total).above(spanOf(o.old.total))
	for n := NodeID(1); uint32(n) < o.new.nodes.len; n++ {
		what := o.new.at(n)
		if what.method == PrunedID {
			continue // it gains the counts of removed contexts, too
		}
		gained, calls := now.of(n), o.new.columns.at(n).Activations
		if was := o.was[n]; was != 0 {
			gained = gained.above(before.of(was))
			calls = max(calls-o.old.columns.at(was).Activations, 0)
		}
		parent := &o.rest[what.parent]
		gained = gained.atMost(*parent)
		if o.new.isPosition(n) {
			self := &o.self[what.parent]
			gained = gained.atMost(*self)
			*self = self.above(gained)
			o.count(n, gained.counters())
		} else {
			o.rest[n] = gained
			o.count(n, Counters{Activations: calls})
		}
		*parent = parent.above(gained)
	}
}

// hangRest counts what is left at the nodes themselves, as far as they have gained it,
// and else at [pruned] nodes below them.
func (o *overlay) hangRest() {
	for n, rest := range o.rest {
		own := rest.atMost(o.self[n])
		o.count(NodeID(n), own.counters())
		if rest = rest.above(own); rest != (span{}) {
			o.m.Add(o.m.Child(o.graft.place(NodeID(n)), NoOffset, PrunedID), rest.counters())
		}
	}
}

// addRemainders adds the counts of edges and methods that no node of the result has.
func (d *delta) addRemainders() error {
	old, new, nodes := d.old.indexed(), d.new.indexed(), d.m.Snapshot().indexed()
	for _, e := range old.edges {
		if e.Callee != PrunedID && new.totalOf(e.edgeKey).minus(e.total).IsNegative() {
			return ErrNotEarlier
		}
	}
	for _, e := range new.edges {
		if e.Callee == PrunedID {
			continue
		}
		if err := d.addEdge(e.edgeKey, e.total.minus(old.totalOf(e.edgeKey)).minus(nodes.totalOf(e.edgeKey))); err != nil {
			return err
		}
	}
	for id := range max(len(old.methods), len(new.methods)) {
		if MethodID(id) == PrunedID {
			continue
		}
		is, was, has := new.methodAt(id), old.methodAt(id), nodes.methodAt(id)
		if err := d.addMethod(MethodID(id), is.self.minus(was.self).minus(has.self), is.cumulative.minus(was.cumulative).minus(has.cumulative)); err != nil {
			return err
		}
	}
	return nil
}

// totalOf returns the total of an edge, which need not exist.
func (x *index) totalOf(key edgeKey) Counters {
	i, ok := slices.BinarySearchFunc(x.edges, key, func(e edge, k edgeKey) int { return e.CompareByCallee(k) })
	if !ok {
		return Counters{}
	}
	return x.edges[i].total
}

// methodAt returns the totals of a method, which the index need not have.
func (x *index) methodAt(id int) methodTotals {
	if id >= len(x.methods) {
		return methodTotals{}
	}
	return x.methods[id]
}

// subtractPoints adds the executions that points have gained.
func (d *delta) subtractPoints() {
	old := d.old.points
	for _, p := range d.new.points {
		for len(old) > 0 && old[0].compare(&p) < 0 {
			old = old[1:]
		}
		if len(old) > 0 && old[0].compare(&p) == 0 {
			p = p.since(&old[0])
		}
		if p.Count > 0 {
			d.m.AddPoint(p)
		}
	}
}

// since returns the executions that a point has gained. Counts that have shrunk, because
// tables of values forget, have gained nothing.
func (p Point) since(o *Point) Point {
	before := make(map[uint64]int64, len(o.Values))
	for _, v := range o.Values {
		before[v.Value] = v.Count
	}
	values := slices.Clone(p.Values)
	for i := range values {
		values[i].Count = max(values[i].Count-before[values[i].Value], 0)
	}
	p.Values = SumValues(values)
	p.Count, p.Other, p.Aged = max(p.Count-o.Count, 0), max(p.Other-o.Other, 0), max(p.Aged-o.Aged, 0)
	if p.Nulls > 0 {
		p.Nulls = max(p.Nulls-max(o.Nulls, 0), 0)
	}
	return p
}

// since returns the description of all that was sampled after o.
func (m Meta) since(o Meta) Meta {
	m = m.clone()
	if !o.Start.IsZero() {
		m.StartAt(o.Start.Add(o.end()))
	}
	m.Duration = max(m.Duration-o.Duration, 0)
	m.Loss = m.Loss.since(o.Loss)
	m.Known -= min(o.Known, m.Known)
	m.Repeated -= min(o.Repeated, m.Repeated)
	m.Pruned.Times -= min(o.Pruned.Times, m.Pruned.Times)
	m.Pruned.Nodes -= min(o.Pruned.Nodes, m.Pruned.Nodes)
	m.Elided.Samples -= min(o.Elided.Samples, m.Elided.Samples)
	m.Elided.Uncounted = min(m.Elided.Uncounted-min(o.Elided.Uncounted, m.Elided.Uncounted), m.Elided.Samples)
	m.Settled, m.Window = Settled{}, 0
	return m
}

// end returns the least wall time from the start to the end: pauses are not known.
func (m Meta) end() time.Duration {
	if n := len(m.Interval); n > 0 {
		return max(m.Duration, m.Interval[n-1].At)
	}
	return m.Duration
}

// StartAt moves Start to a later time. The interval in force at that time and the later
// changes stay.
func (m *Meta) StartAt(start time.Time) {
	if !start.After(m.Start) {
		return
	}
	first, by := 0, start.Sub(m.Start)
	for first+1 < len(m.Interval) && m.Interval[first+1].At <= by {
		first++
	}
	m.Start, m.Interval = start, slices.Clone(m.Interval[first:])
	for i, c := range m.Interval {
		m.Interval[i].At = max(c.At-by, 0)
	}
}

// since returns the losses after o.
func (l Loss) since(o Loss) Loss {
	l.Source -= min(o.Source, l.Source)
	l.Queue -= min(o.Queue, l.Queue)
	l.Throttled -= min(o.Throttled, l.Throttled)
	l.Corrupt -= min(o.Corrupt, l.Corrupt)
	l.Orphaned -= min(o.Orphaned, l.Orphaned)
	l.Clock = max(l.Clock-o.Clock, 0)
	l.Unaccounted = max(min(l.Unaccounted-o.Unaccounted, l.Clock), -time.Duration(1<<62))
	return l
}

// minus returns the difference, which may be negative.
func (c Counters) minus(o Counters) Counters {
	for k := range NumCounters {
		*k.Of(&c) -= *k.Of(&o)
	}
	return c
}

func spanOf(c Counters) span { return span{c.Samples, c.Time} }

// above returns by how much s exceeds o.
func (s span) above(o span) span {
	return span{max(s.samples-o.samples, 0), max(s.time-o.time, 0)}
}

func (s span) atMost(o span) span { return span{min(s.samples, o.samples), min(s.time, o.time)} }
