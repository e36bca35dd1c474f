package view

import (
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Contexts lists the chains of callers that lead to some methods.
type Contexts struct {
	query.ContextList     // those to be shown
	More              int // contexts that were cut
	profile           *Profile
}

var contextsColumns = columns[*Contexts]{
	profileMember(func(v *Contexts) *Profile { return v.profile }),
	counted("total", "the methods, in all contexts", func(v *Contexts) *ccmap.Counters { return &v.Total }),
	array("contexts", "the contexts of the methods", contextColumns, func(_ *Profile, v *Contexts) []contextRow { return v.rows() }),
	counted("pruned,omitempty", "part of total that no context has", func(v *Contexts) *ccmap.Counters { return given(v.Pruned, !v.Pruned.IsZero()) }),
	colIn("", "lower_bounds,omitempty", "contexts were pruned", func(p *Profile, _ *Contexts) bool { return p.IsPruned() }),
}

// contextRow is a context with the total that it is a part of.
type contextRow struct {
	query.Context
	whole ccmap.Counters
}

func (v *Contexts) rows() []contextRow {
	rows := make([]contextRow, len(v.ContextList.Contexts))
	for i, c := range v.ContextList.Contexts {
		rows[i] = contextRow{c, v.Total}
	}
	return rows
}

var contextColumns = append(
	inline(counterColumns, func(_ *Profile, r contextRow) *ccmap.Counters { return &r.Total }),
	shareOf("", func(_ *Profile, r contextRow) part { return part{r.Total, r.whole} }),
	object("method", "the method that was called", placeColumns.named("context", "", "location"), func(p *Profile, r contextRow) *place { return declaredAt(p.Names().At(r.Method)) }),
	array("callers", "innermost first, each at its call", placeColumns, func(p *Profile, r contextRow) []place { return chainOf(p.Names(), r.Callers) }),
	col("", "more", "there are further callers", func(r contextRow) bool { return r.More }),
)

// ContextsLayout returns the orders and columns of [Contexts].
func ContextsLayout() Layout {
	return layout("cum share context location",
		"cum share of-all samples activations context location", contextsColumns.list(""), ByTime, BySamples, ByActivations)
}

// NewContexts lists the contexts of the methods of a list, told apart by up to depth
// callers; by all of them if depth is 0. The error says that there is no such order.
func NewContexts(p *Profile, l List, depth uint) (*Contexts, error) {
	order, err := ContextsLayout().order(l)
	if err != nil {
		return nil, err
	}
	list := query.Contexts(p.Snapshot, l.Methods, depth)
	all := list.Contexts
	slices.SortStableFunc(all, func(a, b query.Context) int { return p.measure.hotter(order, a.Total, b.Total) })
	list.Contexts = cut(all, l.Limit)
	return &Contexts{list, len(all) - len(list.Contexts), p}, nil
}

// Text prints a table of contexts, the callers below each.
func (v *Contexts) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, ContextsLayout(), o)
	names := v.profile.Names()
	for _, r := range v.rows() {
		addRow(s, contextColumns, r)
		for _, f := range r.Callers {
			s.add(cells{"context": "  ← " + v.profile.title(names.At(f.Method)), "location": formatLocation(names, f)})
		}
		if r.More {
			s.add(cells{"context": "  ← " + terminal.Ellipsis})
		}
	}
	if !v.Pruned.IsZero() {
		s.addPart(v.Pruned, v.Total, cells{"context": "(pruned contexts)"})
	}
	return s.print(w, v.More, v.profile.lowerBounds("Contexts")...)
}

// JSON describes the profile and lists the contexts.
func (v *Contexts) JSON() any { return contextsColumns.json(v.profile, v) }
