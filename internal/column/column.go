package column

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/cursor"
)

var (
	errLong   = errors.New("a list is longer than its bytes")
	errMethod = errors.New("a method is missing")
	errParent = errors.New("a parent is missing")
	errRest   = errors.New("something follows the map")
)

// Append appends a map. It returns how much memory the map's decoder takes, too.
func Append(b []byte, s *ccmap.Snapshot) (all []byte, memory int64) {
	w := newWriter(b, s)
	w.addAddresses()
	w.common()
	w.bodies(w.methods)
	w.rest()
	return w.out, w.memory
}

// AppendDelta appends a map for the log of a store.
func AppendDelta(b []byte, s *ccmap.Snapshot) []byte {
	w := newWriter(b, s)
	w.addOwnAddresses()
	w.common()
	if slices.ContainsFunc(w.methods, func(m ccmap.Method) bool { return m.Body != 0 }) {
		w.bodies(w.methods)
	}
	return w.out
}

// Decoder decodes maps that have the same methods more often than not. One goroutine uses it.
type Decoder struct {
	names *ccmap.Names
	texts map[string]string // that were met
}

// NewDecoder returns a decoder of maps with common names.
func NewDecoder(names *ccmap.Names) *Decoder { return &Decoder{names, make(map[string]string)} }

// Decode returns the map of bytes that Append or AppendDelta has appended, if it takes no more memory than that: else
// the error wraps [ErrMemory]. Other bytes are an error, or another valid map.
func (d *Decoder) Decode(b []byte, memory int64) (*ccmap.Map, error) {
	m := ccmap.New(ccmap.Options{Names: d.names})
	r := &reader{coder: coder{in: cursor.Cursor{Data: b}, reading: true, texts: d.texts, most: memory}, m: m, names: d.names}
	r.head()
	r.nodes()
	r.lists()
	r.tail()
	if r.in.Err != nil {
		return nil, fmt.Errorf("decode map: %w", r.in.Err)
	}
	for i := range r.methods {
		r.names.SetBody(r.ids[i], r.methods[i].Body)
	}
	return m, nil
}

// bodies codes the bodies of methods. Where nothing follows they are left out if none is known.
func (c *coder) bodies(methods []ccmap.Method) {
	for i := range methods {
		c.fixed(&methods[i].Body)
	}
}

// method codes the description of a method without its body.
func (c *coder) method(m *ccmap.Method) {
	c.text(&m.Name)
	c.text(&m.Signature)
	c.text(&m.Receiver)
	c.text(&m.File)
	signed(c, &m.StartLine)
	unsigned(c, &m.Coordinate)
	c.text(&m.Module)
}

// records are the lists of a map beside its nodes. Methods are numbers in the list of methods plus 1; 0 is none.
type records struct {
	lines     []lineRecord
	inlined   []callRecord
	mappings  []mappingRecord
	addresses []ccmap.Address
	edges     []ccmap.PrunedEdge
	pruned    []ccmap.PrunedMethod
	points    []ccmap.Point
}

type lineRecord struct {
	frame ccmap.Frame
	line  int32
}

type callRecord struct {
	caller ccmap.Frame
	callee ccmap.MethodID
}

type mappingRecord struct {
	module string
	ccmap.Mapping
}

// all codes all lists.
func (r *records) all(c *coder, ids func(*ccmap.MethodID)) {
	frame := func(f *ccmap.Frame) {
		ids(&f.Method)
		c.offset(&f.Offset)
	}
	list(c, &r.lines, func(l *lineRecord) {
		frame(&l.frame)
		signed(c, &l.line)
	})
	list(c, &r.inlined, func(i *callRecord) {
		frame(&i.caller)
		ids(&i.callee)
	})
	list(c, &r.mappings, func(m *mappingRecord) {
		c.text(&m.module)
		c.text(&m.File)
		for _, v := range []*uint64{&m.Start, &m.Limit, &m.Offset} {
			c.uint(v)
		}
	})
	list(c, &r.addresses, func(a *ccmap.Address) {
		list(c, &a.Frames, frame)
		c.bool(&a.Call)
		c.uint(&a.Offset)
	})
	list(c, &r.edges, func(e *ccmap.PrunedEdge) {
		ids(&e.Caller)
		c.offset(&e.Offset)
		ids(&e.Callee)
		c.counters(&e.Total)
	})
	list(c, &r.pruned, func(p *ccmap.PrunedMethod) {
		ids(&p.Method)
		c.counters(&p.Self)
		c.counters(&p.Cumulative)
	})
	list(c, &r.points, func(p *ccmap.Point) { c.point(p, ids, frame) })
}

func (c *coder) counters(v *ccmap.Counters) {
	for k := range ccmap.NumCounters {
		unsigned(c, k.Of(v))
	}
}

func (c *coder) point(p *ccmap.Point, ids func(*ccmap.MethodID), frame func(*ccmap.Frame)) {
	unsigned(c, &p.Origin)
	unsigned(c, &p.Kind)
	c.bool(&p.Frozen)
	ids(&p.Method)
	c.offset(&p.Offset)
	c.offset(&p.End)
	unsigned(c, &p.Phase)
	inContext := p.Callers != nil
	if c.bool(&inContext); inContext {
		list(c, &p.Callers, frame)
		if p.Callers == nil {
			p.Callers = []ccmap.Frame{}
		}
	}
	unsigned(c, &p.Count)
	list(c, &p.Values, func(v *ccmap.PointValue) {
		if id := ccmap.MethodID(v.Value); p.Kind.HasMethods() {
			ids(&id)
			v.Value = uint64(id)
		} else {
			c.uint(&v.Value)
		}
		unsigned(c, &v.Count)
	})
	for _, v := range []*int64{&p.Other, &p.Aged, &p.Nulls} {
		signed(c, v)
	}
}

// column codes a number of each node.
func column[T any](c *coder, nodes []T, code func(*T)) {
	for i := range nodes {
		code(&nodes[i])
	}
}

// node is a node as the columns have it.
type node struct {
	up     uint64 // nodes from the parent to it, less 1
	offset uint32
	method ccmap.MethodID
	self   ccmap.Counters
}

// columns codes nodes, a column after the other: equal numbers lie together. Their memory was taken.
func (c *coder) columns(nodes []node, ids func(*ccmap.MethodID)) {
	column(c, nodes, func(n *node) { c.uint(&n.up) })
	column(c, nodes, func(n *node) { c.offset(&n.offset) })
	column(c, nodes, func(n *node) { ids(&n.method) })
	for k := range ccmap.NumCounters {
		column(c, nodes, func(n *node) { unsigned(c, k.Of(&n.self)) })
	}
}

// compactRecords drops copies.
func compactRecords[T comparable](records []T) []T {
	seen := make(map[T]bool, len(records))
	return slices.DeleteFunc(records, func(r T) bool {
		if seen[r] {
			return true
		}
		seen[r] = true
		return false
	})
}

// rest is what a delta leaves out, beside addresses. The recent counters of what was pruned are in its records.
type rest struct {
	commit time.Time
	window time.Duration
	recent []ccmap.Counters // of nodes; nil without a window
}

// rest codes the rest, with the recent counters of records that were coded before. A reader gets as many of nodes as it
// has nodes.
func (c *coder) rest(s *rest, r *records, nodes int) {
	c.time(&s.commit)
	if signed(c, &s.window); s.window == 0 {
		return
	}
	if c.reading {
		s.recent = make([]ccmap.Counters, nodes)
	}
	for k := range ccmap.NumCounters {
		column(c, s.recent, func(v *ccmap.Counters) { unsigned(c, k.Of(v)) })
	}
	for i := range r.edges {
		c.counters(&r.edges[i].Recent)
	}
	for i := range r.pruned {
		c.counters(&r.pruned[i].RecentSelf)
		c.counters(&r.pruned[i].RecentCumulative)
	}
}
