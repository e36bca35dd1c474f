package export

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// prunedEdgeDoc is a ccmap.PrunedEdge as XML and JSON hold it.
type prunedEdgeDoc struct {
	Caller        int64 // index in the methods
	Offset        int64 // signed; -1 is ccmap.NoOffset
	Callee        int64 // index in the methods
	Total, Recent ccmap.Counters
}

var prunedEdgeColumns = newColumns(slices.Concat([]column[prunedEdgeDoc]{
	{name: "caller", at: func(d *prunedEdgeDoc) *int64 { return &d.Caller }, absent: noMethod},
	{name: "offset", at: func(d *prunedEdgeDoc) *int64 { return &d.Offset }, absent: -1},
	{name: "callee", at: func(d *prunedEdgeDoc) *int64 { return &d.Callee }, absent: noMethod},
},
	counterColumns("", false, func(d *prunedEdgeDoc) *ccmap.Counters { return &d.Total }),
	counterColumns(recentPrefix, true, func(d *prunedEdgeDoc) *ccmap.Counters { return &d.Recent }),
))

// prunedMethodDoc is a ccmap.PrunedMethod as XML and JSON hold it.
type prunedMethodDoc struct {
	Method                       int64 // index in the methods
	Self, Cumulative             ccmap.Counters
	RecentSelf, RecentCumulative ccmap.Counters
}

// cumulativePrefix begins the names of cumulative counters.
const cumulativePrefix = "cumulative_"

var prunedMethodColumns = newColumns(slices.Concat([]column[prunedMethodDoc]{
	{name: "method", at: func(d *prunedMethodDoc) *int64 { return &d.Method }, absent: noMethod},
},
	counterColumns("", true, func(d *prunedMethodDoc) *ccmap.Counters { return &d.Self }),
	counterColumns(cumulativePrefix, true, func(d *prunedMethodDoc) *ccmap.Counters { return &d.Cumulative }),
	counterColumns(recentPrefix, true, func(d *prunedMethodDoc) *ccmap.Counters { return &d.RecentSelf }),
	counterColumns(recentPrefix+cumulativePrefix, true, func(d *prunedMethodDoc) *ccmap.Counters { return &d.RecentCumulative }),
))

// prunedEdges returns the edges in the order of their content: by caller, offset
// and callee, where no method comes first.
func (c *canonical) prunedEdges() iter.Seq[*prunedEdgeDoc] {
	var docs []prunedEdgeDoc
	for e := range c.snapshot.PrunedEdges() {
		docs = append(docs, prunedEdgeDoc{c.indexOf(e.Caller), int64(int32(e.Offset)), c.indexOf(e.Callee), e.Total, e.Recent})
	}
	slices.SortFunc(docs, func(a, b prunedEdgeDoc) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(uint32(a.Offset), uint32(b.Offset)), cmp.Compare(a.Callee, b.Callee))
	})
	return each(docs)
}

func (c *canonical) prunedMethods() iter.Seq[*prunedMethodDoc] {
	var docs []prunedMethodDoc
	for p := range c.snapshot.PrunedMethods() {
		docs = append(docs, prunedMethodDoc{c.indexOf(p.Method), p.Self, p.Cumulative, p.RecentSelf, p.RecentCumulative})
	}
	slices.SortFunc(docs, func(a, b prunedMethodDoc) int { return cmp.Compare(a.Method, b.Method) })
	return each(docs)
}

// indexOf returns the index of a method, noMethod of none.
func (c *canonical) indexOf(id ccmap.MethodID) int64 {
	if id == ccmap.NoMethod {
		return noMethod
	}
	return int64(c.rank[id])
}

// prunedEdgeKey is the identity of an edge.
type prunedEdgeKey struct {
	caller, callee ccmap.MethodID
	offset         uint32
}

// addPrunedEdge adds the next pruned edge of a document. None stands twice.
func (b *builder) addPrunedEdge(d *prunedEdgeDoc) error {
	e, err := b.prunedEdge(d)
	if err != nil {
		return fmt.Errorf("pruned edge %d: %w", len(b.prunedEdges), err)
	}
	if err := b.note(unsafe.Sizeof(prunedEdgeKey{})); err != nil {
		return err
	}
	b.prunedEdges[prunedEdgeKey{e.Caller, e.Callee, e.Offset}] = true
	b.m.AddPruned(e)
	return b.afford()
}

func (b *builder) prunedEdge(d *prunedEdgeDoc) (e ccmap.PrunedEdge, err error) {
	if e.Caller, err = b.method(d.Caller); err != nil {
		return e, err
	}
	if e.Callee, err = b.method(d.Callee); err != nil {
		return e, err
	}
	if e.Offset, err = offset32(d.Offset); err != nil {
		return e, err
	}
	e.Total, e.Recent = d.Total, d.Recent
	switch {
	case e.Caller == ccmap.NoMethod && e.Callee == ccmap.NoMethod:
		return e, errors.New("neither a caller nor a callee")
	case b.prunedEdges[prunedEdgeKey{e.Caller, e.Callee, e.Offset}]:
		return e, errors.New("it stands twice")
	case len(b.prunedEdges) == b.limits.MaxNodes:
		return e, fmt.Errorf("%w: more than %d", ErrTooLarge, b.limits.MaxNodes)
	case d.Total.IsNegative():
		return e, errNegative
	}
	// The [pruned] nodes have counted samples and time for the total.
	if err := addCounts(&b.total, ccmap.Counters{Activations: d.Total.Activations}); err != nil {
		return e, err
	}
	return e, b.checkRecent(e.Recent)
}

// addPrunedMethod adds the next pruned method of a document. None stands twice.
func (b *builder) addPrunedMethod(d *prunedMethodDoc) error {
	p, err := b.prunedMethod(d)
	if err != nil {
		return fmt.Errorf("pruned method %d: %w", len(b.prunedMethods), err)
	}
	if err := b.note(unsafe.Sizeof(p.Method)); err != nil {
		return err
	}
	b.prunedMethods[p.Method] = true
	b.m.AddPrunedMethod(p)
	return b.afford()
}

func (b *builder) prunedMethod(d *prunedMethodDoc) (p ccmap.PrunedMethod, err error) {
	if p.Method, err = b.method(d.Method); err != nil {
		return p, err
	}
	p.Self, p.Cumulative, p.RecentSelf, p.RecentCumulative = d.Self, d.Cumulative, d.RecentSelf, d.RecentCumulative
	switch {
	case p.Method == ccmap.NoMethod:
		return p, errors.New("no method")
	case b.prunedMethods[p.Method]:
		return p, errors.New("it stands twice")
	case d.Self.IsNegative() || d.Cumulative.IsNegative():
		return p, errNegative
	}
	return p, errors.Join(b.checkRecent(p.RecentSelf), b.checkRecent(p.RecentCumulative))
}

// method returns the method with an index in the document, NoMethod for noMethod.
func (b *builder) method(index int64) (ccmap.MethodID, error) {
	switch {
	case index == noMethod:
		return ccmap.NoMethod, nil
	case index < 0 || index >= int64(len(b.methods)):
		return ccmap.NoMethod, fmt.Errorf("method %d of %d", index, len(b.methods))
	}
	return b.methods[index], nil
}

// checkRecent refuses counts of a window that there is not.
func (b *builder) checkRecent(c ccmap.Counters) error {
	switch {
	case c.IsZero():
		return nil
	case c.IsNegative():
		return errNegative
	case b.m.Meta().Window == 0:
		return errors.New("recent counts without a window")
	}
	return nil
}
