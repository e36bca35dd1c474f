package view

import (
	"cmp"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Orders of the methods in [Top].
const (
	ByFlat   = "flat"
	ByCum    = "cum"
	ByRecent = "recent" // by what is hot now
)

// TopOrders has the orders of [Top].
func TopOrders() []string {
	return []string{ByFlat, ByCum, ByRecent, BySamples, ByActivations, ByName}
}

// Top lists the methods of a profile.
type Top struct {
	Rows    []MethodRow // those to be shown
	more    int         // rows that were cut
	profile *Profile
}

// MethodRow is a method that was sampled.
type MethodRow struct {
	Method ccmap.Method
	amounts
	recent amounts // in the window; zero without one
}

// amounts are the counters of a method itself, and of it with all that it called.
type amounts struct{ flat, cum ccmap.Counters }

func amountsOf(m ccmap.MethodProfile) amounts { return amounts{m.Self(), m.Cumulative()} }

// NewTop lists the methods of a profile that were sampled. The error is ErrNoWindow for the
// order ByRecent if the profile has no window.
func NewTop(p *Profile, l List) (*Top, error) {
	window, windowed := p.window()
	if !windowed && l.Order == ByRecent {
		return nil, p.noWindow()
	}
	var rows []MethodRow
	for m := range p.Methods() {
		if l.Methods != nil && !l.Methods.Has(m.ID()) || m.Total().IsZero() {
			continue
		}
		row := MethodRow{Method: m.Method(), amounts: amountsOf(m)}
		if windowed {
			now, _ := window.Method(m.ID())
			row.recent = amountsOf(now)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b MethodRow) int {
		return cmp.Or(
			p.measure.compareMethods(l.Order, a, b),
			cmp.Compare(a.Method.Name, b.Method.Name),
			cmp.Compare(a.Method.Signature, b.Method.Signature),
		)
	})
	shown := cut(rows, l.Limit)
	return &Top{shown, len(rows) - len(shown), p}, nil
}

func (m measure) compareMethods(by string, a, b MethodRow) int {
	switch by {
	case ByName:
		return 0
	case ByRecent:
		return m.compareAmounts(a.recent, b.recent)
	case ByFlat:
		return m.compareAmounts(a.amounts, b.amounts)
	case ByCum:
		return cmp.Or(cmp.Compare(m.of(b.cum), m.of(a.cum)), cmp.Compare(m.of(b.flat), m.of(a.flat)))
	}
	return m.hotter(by, a.cum, b.cum)
}

// compareAmounts orders by the time in the methods themselves.
func (m measure) compareAmounts(a, b amounts) int {
	return cmp.Or(cmp.Compare(m.of(b.flat), m.of(a.flat)), cmp.Compare(m.of(b.cum), m.of(a.cum)))
}

// Text prints a table of methods.
func (v *Top) Text(w io.Writer, wide bool) error {
	p, m := v.profile, v.profile.measure
	samples, activations := samplesColumn, activationsColumn
	samples.Drop = 2
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "flat", Right: true},
		{Title: "flat%", Right: true},
		cumColumn,
		{Title: "cum%", Right: true},
		{Title: "recent%", Right: true, Drop: 1},
		samples, activations, nameColumn("method"), locationColumn(4),
	}}
	recent := p.recentShare()
	for _, r := range v.Rows {
		t.Add(m.format(r.flat), m.share(r.flat), m.format(r.cum), m.share(r.cum),
			recent(r.recent.flat), p.formatSamples(r.cum), p.formatActivations(r.cum), methodTitle(r.Method), formatDeclaration(r.Method))
	}
	return p.print(terminal.NewPrinter(w, wide), t, v.more)
}

// MethodJSON is a method in the JSON of [Top].
type MethodJSON struct {
	NameJSON
	Flat   CountersJSON `json:"flat"`
	Cum    CountersJSON `json:"cum"`
	Recent *recentJSON  `json:"recent,omitempty"` // if there is a window
}

// recentJSON has the figures of a method in the window.
type recentJSON struct {
	Flat AmountJSON `json:"flat"`
	Cum  AmountJSON `json:"cum"`
}

// JSON describes the profile and lists its methods.
func (v *Top) JSON() any {
	return struct {
		Profile ProfileJSON  `json:"profile"`
		Methods []MethodJSON `json:"methods"`
	}{v.profile.JSON(), v.MethodsJSON()}
}

// MethodsJSON lists the methods.
func (v *Top) MethodsJSON() []MethodJSON {
	m := v.profile.measure
	out := make([]MethodJSON, len(v.Rows))
	for i, r := range v.Rows {
		out[i] = MethodJSON{NameJSON: nameJSON(r.Method), Flat: m.json(r.flat), Cum: m.json(r.cum)}
	}
	if window, ok := v.profile.Recent(); ok {
		now := measureOf(window)
		for i, r := range v.Rows {
			out[i].Recent = &recentJSON{now.amountJSON(r.recent.flat), now.amountJSON(r.recent.cum)}
		}
	}
	return out
}
