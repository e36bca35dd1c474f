package export

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// prunedEdgeDoc is a ccmap.PrunedEdge as XML and JSON hold it. Caller, offset and
// callee are -1 where they are left out.
type prunedEdgeDoc struct {
	Caller        int64 `json:"caller" xml:"caller,attr"` // index in the methods
	Offset        int64 `json:"offset" xml:"offset,attr"` // signed; -1 is ccmap.NoOffset
	Callee        int64 `json:"callee" xml:"callee,attr"` // index in the methods
	Samples       int64 `json:"samples" xml:"samples,attr"`
	Time          int64 `json:"time_ns" xml:"time_ns,attr"`
	Activations   int64 `json:"activations" xml:"activations,attr"`
	RecentSamples int64 `json:"recent_samples" xml:"recent_samples,attr"`
	RecentTime    int64 `json:"recent_time_ns" xml:"recent_time_ns,attr"`
}

// newPrunedEdgeDoc returns one of which everything is left out.
func newPrunedEdgeDoc() prunedEdgeDoc {
	return prunedEdgeDoc{Caller: noMethod, Offset: -1, Callee: noMethod}
}

// prunedMethodDoc is a ccmap.PrunedMethod as XML and JSON hold it.
type prunedMethodDoc struct {
	Method                  int64 `json:"method" xml:"method,attr"` // index in the methods
	Samples                 int64 `json:"samples" xml:"samples,attr"`
	Time                    int64 `json:"time_ns" xml:"time_ns,attr"`
	CumulativeSamples       int64 `json:"cumulative_samples" xml:"cumulative_samples,attr"`
	CumulativeTime          int64 `json:"cumulative_time_ns" xml:"cumulative_time_ns,attr"`
	RecentSamples           int64 `json:"recent_samples" xml:"recent_samples,attr"`
	RecentTime              int64 `json:"recent_time_ns" xml:"recent_time_ns,attr"`
	RecentCumulativeSamples int64 `json:"recent_cumulative_samples" xml:"recent_cumulative_samples,attr"`
	RecentCumulativeTime    int64 `json:"recent_cumulative_time_ns" xml:"recent_cumulative_time_ns,attr"`
}

// prunedEdges returns the edges in the order of their content: by caller, offset
// and callee, where no method comes first.
func (c *canonical) prunedEdges() []ccmap.PrunedEdge {
	edges := slices.Collect(c.snapshot.PrunedEdges())
	slices.SortFunc(edges, func(a, b ccmap.PrunedEdge) int {
		return cmp.Or(
			cmp.Compare(c.indexOf(a.Caller), c.indexOf(b.Caller)),
			cmp.Compare(a.Offset, b.Offset),
			cmp.Compare(c.indexOf(a.Callee), c.indexOf(b.Callee)))
	})
	return edges
}

func (c *canonical) prunedMethods() []ccmap.PrunedMethod {
	methods := slices.Collect(c.snapshot.PrunedMethods())
	slices.SortFunc(methods, func(a, b ccmap.PrunedMethod) int {
		return cmp.Compare(c.indexOf(a.Method), c.indexOf(b.Method))
	})
	return methods
}

// indexOf returns the index of a method, noMethod of none.
func (c *canonical) indexOf(id ccmap.MethodID) int {
	if id == ccmap.NoMethod {
		return noMethod
	}
	return int(c.rank[id])
}

// prunedEdgeNumbers returns what is not left out of an edge.
func (c *canonical) prunedEdgeNumbers(to []number, e ccmap.PrunedEdge) []number {
	if e.Caller != ccmap.NoMethod {
		to = append(to, number{"caller", int64(c.indexOf(e.Caller))})
	}
	if e.Offset != ccmap.NoOffset {
		to = append(to, number{"offset", int64(int32(e.Offset))})
	}
	if e.Callee != ccmap.NoMethod {
		to = append(to, number{"callee", int64(c.indexOf(e.Callee))})
	}
	return appendCounts(to, e.Total, e.Recent)
}

func (c *canonical) prunedMethodNumbers(to []number, p ccmap.PrunedMethod) []number {
	to = append(to, number{"method", int64(c.indexOf(p.Method))})
	return appendPresent(to,
		number{"samples", p.Self.Samples}, number{"time_ns", p.Self.Time},
		number{"cumulative_samples", p.Cumulative.Samples}, number{"cumulative_time_ns", p.Cumulative.Time},
		number{"recent_samples", p.RecentSelf.Samples}, number{"recent_time_ns", p.RecentSelf.Time},
		number{"recent_cumulative_samples", p.RecentCumulative.Samples}, number{"recent_cumulative_time_ns", p.RecentCumulative.Time})
}

// prunedEdgeKey is what an edge is.
type prunedEdgeKey struct {
	caller, callee ccmap.MethodID
	offset         uint32
}

// addPrunedEdge adds the next pruned edge of a document. None stands twice.
func (b *builder) addPrunedEdge(d prunedEdgeDoc) error {
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

func (b *builder) prunedEdge(d prunedEdgeDoc) (e ccmap.PrunedEdge, err error) {
	if e.Caller, err = b.method(d.Caller); err != nil {
		return e, err
	}
	if e.Callee, err = b.method(d.Callee); err != nil {
		return e, err
	}
	if e.Offset, err = offset32(d.Offset); err != nil {
		return e, err
	}
	e.Total = ccmap.Counters{Samples: d.Samples, Time: d.Time, Activations: d.Activations}
	e.Recent = ccmap.Counters{Samples: d.RecentSamples, Time: d.RecentTime}
	switch {
	case e.Caller == ccmap.NoMethod && e.Callee == ccmap.NoMethod:
		return e, errors.New("neither a caller nor a callee")
	case b.prunedEdges[prunedEdgeKey{e.Caller, e.Callee, e.Offset}]:
		return e, errors.New("it stands twice")
	case len(b.prunedEdges) == b.limits.MaxNodes:
		return e, fmt.Errorf("%w: more than %d", ErrTooLarge, b.limits.MaxNodes)
	case min(d.Samples, d.Time) < 0:
		return e, errNegative
	}
	// Samples and time are those of [pruned] nodes, which count for the total.
	if err := addCounts(&b.total, ccmap.Counters{Activations: d.Activations}); err != nil {
		return e, err
	}
	return e, b.checkRecent(e.Recent)
}

// addPrunedMethod adds the next pruned method of a document. None stands twice.
func (b *builder) addPrunedMethod(d prunedMethodDoc) error {
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

func (b *builder) prunedMethod(d prunedMethodDoc) (p ccmap.PrunedMethod, err error) {
	if p.Method, err = b.method(d.Method); err != nil {
		return p, err
	}
	p.Self = ccmap.Counters{Samples: d.Samples, Time: d.Time}
	p.Cumulative = ccmap.Counters{Samples: d.CumulativeSamples, Time: d.CumulativeTime}
	p.RecentSelf = ccmap.Counters{Samples: d.RecentSamples, Time: d.RecentTime}
	p.RecentCumulative = ccmap.Counters{Samples: d.RecentCumulativeSamples, Time: d.RecentCumulativeTime}
	switch {
	case p.Method == ccmap.NoMethod:
		return p, errors.New("no method")
	case b.prunedMethods[p.Method]:
		return p, errors.New("it stands twice")
	case min(d.Samples, d.Time, d.CumulativeSamples, d.CumulativeTime) < 0:
		return p, errNegative
	}
	return p, errors.Join(b.checkRecent(p.RecentSelf), b.checkRecent(p.RecentCumulative))
}

// method returns the method with an index of the document's; noMethod is none.
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
	case min(c.Samples, c.Time) < 0:
		return errNegative
	case b.m.Meta().Window == 0:
		return errors.New("recent counts without a window")
	}
	return nil
}
