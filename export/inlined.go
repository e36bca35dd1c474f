package export

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// inlinedCall is a call that the compiler has put into its caller.
type inlinedCall struct {
	frame      // of the caller
	callee int // index in canonical.methods
}

// inlined returns the inlined calls in the document, by caller, offset and callee. Names
// may know calls of other maps.
func (c *canonical) inlined() iter.Seq[*inlinedDoc] {
	met := make(map[inlinedCall]bool)
	var docs []inlinedDoc
	for call := range c.calls() {
		if !met[call] && c.isInlined(call.frame, call.callee) {
			docs = append(docs, inlinedDoc{int64(call.method), int64(int32(call.offset)), int64(call.callee)})
		}
		met[call] = true
	}
	slices.SortFunc(docs, func(a, b inlinedDoc) int {
		return cmp.Or(cmp.Compare(a.Caller, b.Caller), cmp.Compare(uint32(a.Offset), uint32(b.Offset)), cmp.Compare(a.Callee, b.Callee))
	})
	return each(docs)
}

// isInlined reports whether a call was inlined.
func (c *canonical) isInlined(caller frame, callee int) bool {
	return c.snapshot.Names().Inlined(ccmap.Frame{Method: c.ids[caller.method], Offset: caller.offset}, c.ids[callee])
}

// calls returns the calls of all nodes, and of what was pruned; some many times.
func (c *canonical) calls() iter.Seq[inlinedCall] {
	return func(yield func(inlinedCall) bool) {
		call := func(caller ccmap.MethodID, offset uint32, callee ccmap.MethodID) bool {
			return caller == ccmap.NoMethod || callee == ccmap.NoMethod ||
				yield(inlinedCall{frame{int(c.rank[caller]), offset}, int(c.rank[callee])})
		}
		for n := range c.childNodes() {
			if n.Parent != root && !call(c.snapshot.Node(n.Parent).Method, n.Offset, n.Method) {
				return
			}
		}
		if !c.hasEvicted {
			return
		}
		for e := range c.snapshot.PrunedEdges() {
			if !call(e.Caller, e.Offset, e.Callee) {
				return
			}
		}
	}
}

// inlinedDoc is an inlined call as XML and JSON hold it.
type inlinedDoc struct {
	Caller int64 // index
	Offset int64 // signed; -1 is ccmap.NoOffset
	Callee int64 // index
}

var inlinedColumns = columns[inlinedDoc]{
	{name: "caller", at: func(d *inlinedDoc) *int64 { return &d.Caller }, absent: noMethod},
	{name: "offset", at: func(d *inlinedDoc) *int64 { return &d.Offset }, absent: -1},
	{name: "callee", at: func(d *inlinedDoc) *int64 { return &d.Callee }, absent: noMethod},
}

// addInlined adds the next inlined call of a document. None stands twice.
func (b *builder) addInlined(d *inlinedDoc) error {
	caller, callee, err := b.inlinedCall(d)
	if err != nil {
		return fmt.Errorf("inlined call %d: %w", b.inlined, err)
	}
	b.inlined++
	b.m.Names().SetInlined(caller, callee)
	return b.afford()
}

func (b *builder) inlinedCall(d *inlinedDoc) (caller ccmap.Frame, callee ccmap.MethodID, err error) {
	if caller.Method, err = b.method(d.Caller); err != nil {
		return caller, callee, err
	}
	if caller.Offset, err = offset32(d.Offset); err != nil {
		return caller, callee, err
	}
	if callee, err = b.method(d.Callee); err != nil {
		return caller, callee, err
	}
	names := b.m.Names()
	switch {
	case caller.Method == ccmap.NoMethod || callee == ccmap.NoMethod:
		return caller, callee, errors.New("it lacks its caller or its callee")
	case hasLines(names.At(caller.Method)) || hasLines(names.At(callee)):
		return caller, callee, errors.New("positions of its methods are not lines")
	case names.Inlined(caller, callee):
		return caller, callee, errors.New("it stands twice")
	case b.inlined == b.limits.MaxNodes:
		return caller, callee, fmt.Errorf("%w: more than %d", ErrTooLarge, b.limits.MaxNodes)
	}
	return caller, callee, nil
}
