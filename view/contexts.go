package view

import (
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// ContextsOrders has the orders of [Contexts].
func ContextsOrders() []string { return []string{ByTime, BySamples, ByActivations} }

// Contexts lists the chains of callers that lead to some methods.
type Contexts struct {
	query.ContextList // those to be shown
	more              int
	profile           *Profile
}

// NewContexts lists the contexts of the methods of a list, told apart by up to depth
// callers; by all of them if depth is 0.
func NewContexts(p *Profile, l List, depth uint) *Contexts {
	v := &Contexts{query.Contexts(p.Snapshot, l.Methods, depth), 0, p}
	all := v.ContextList.Contexts
	slices.SortStableFunc(all, func(a, b query.Context) int { return p.measure.hotter(l.Order, a.Total, b.Total) })
	v.ContextList.Contexts = cut(all, l.Limit)
	v.more = len(all) - len(v.ContextList.Contexts)
	return v
}

// Text prints a table of contexts, the callers below each.
func (v *Contexts) Text(w io.Writer, wide bool) error {
	t := newFigureTable(v.profile, nameColumn("context"), locationColumn(2))
	for _, c := range v.ContextList.Contexts {
		v.addContext(t, c)
	}
	if !v.Pruned.IsZero() {
		t.addFigures(v.Pruned, v.Total, "(pruned contexts)")
	}
	return v.profile.print(terminal.NewPrinter(w, wide), &t.Table, v.more, v.profile.lowerBounds("Contexts")...)
}

func (v *Contexts) addContext(t *figureTable, c query.Context) {
	names := v.profile.Names()
	m := names.At(c.Method)
	t.addFigures(c.Total, v.Total, methodTitle(m), formatDeclaration(m))
	for _, f := range c.Callers {
		t.addText("  ← "+methodTitle(names.At(f.Method)), formatLocation(names, f))
	}
	if c.More {
		t.addText("  ← "+terminal.Ellipsis, "")
	}
}

type contextJSON struct {
	CountersJSON
	Method  NameJSON   `json:"method"`
	Callers []NameJSON `json:"callers"` // innermost first
	More    bool       `json:"more"`    // there are further callers
}

// JSON describes the profile and lists the contexts.
func (v *Contexts) JSON() any {
	p := v.profile
	out := struct {
		Profile     ProfileJSON   `json:"profile"`
		Total       CountersJSON  `json:"total"`
		Contexts    []contextJSON `json:"contexts"`
		Pruned      *CountersJSON `json:"pruned,omitempty"`
		LowerBounds bool          `json:"lower_bounds,omitempty"`
	}{p.JSON(), p.measure.json(v.Total), make([]contextJSON, len(v.ContextList.Contexts)), nil, p.IsPruned()}
	if !v.Pruned.IsZero() {
		pruned := p.measure.json(v.Pruned)
		out.Pruned = &pruned
	}
	for i, c := range v.ContextList.Contexts {
		out.Contexts[i] = contextJSON{
			p.measure.json(c.Total), nameJSON(p.Names().At(c.Method)), callersJSON(p.Names(), c.Callers), c.More,
		}
	}
	return out
}
