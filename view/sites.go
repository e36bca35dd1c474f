package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// ByTargets orders call sites by the number of their targets.
const ByTargets = "targets"

// SitesOrders has the orders of [Sites].
func SitesOrders() []string {
	return []string{ByTime, BySamples, ByActivations, ByTargets, ByName}
}

// Sites lists call sites with all that they call: the exact totals of edges in the map,
// also for calls of one target and for code that the compiler put in. [Receivers] lists
// the targets of dynamic calls, by samples and by caught calls, and splits them by caller.
type Sites struct {
	rows    []siteRow
	more    int
	callees uint
	profile *Profile
}

// siteRow is a call site with its callees, the hottest first.
type siteRow struct {
	caller  ccmap.Method
	call    ccmap.Frame
	total   ccmap.Counters
	callees []calleeRow
	targets int // callees that the source has there
	verdict pollution.Verdict
}

type calleeRow struct {
	method ccmap.Method
	total  ccmap.Counters
}

// NewSites lists the call sites in the methods of a list. Text has at most so many callees
// of a site, and the others as one; 0: all.
func NewSites(p *Profile, l List, callees uint) *Sites {
	rows := siteRows(p, l)
	shown := cut(rows, l.Limit)
	return &Sites{shown, len(rows) - len(shown), callees, p}
}

func siteRows(p *Profile, l List) []siteRow {
	var rows []siteRow
	receivers := p.pollution()
	for m := range p.Methods() {
		if l.Methods != nil && !l.Methods.Has(m.ID()) {
			continue
		}
		for site := range m.CallSites() {
			if row := newSiteRow(p, m.Method(), site, receivers.Samples(site)); !row.total.IsZero() {
				rows = append(rows, row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b siteRow) int {
		return cmp.Or(
			p.measure.compareSites(l.Order, a, b),
			cmp.Compare(a.caller.Name, b.caller.Name),
			cmp.Compare(a.caller.Signature, b.caller.Signature),
			cmp.Compare(int32(a.call.Offset), int32(b.call.Offset)),
		)
	})
	return rows
}

func newSiteRow(p *Profile, caller ccmap.Method, site ccmap.CallSite, receivers pollution.Evidence) siteRow {
	row := siteRow{
		caller: caller, call: ccmap.Frame{Method: site.Caller(), Offset: site.Offset()}, total: site.Cumulative(),
		targets: len(receivers.Targets), verdict: receivers.Verdict,
	}
	for callee := range site.Callees() {
		method := p.Names().At(callee.Callee())
		if callee.Total().IsZero() || method.Name == ccmap.PrunedName {
			continue // nothing recent; counted at other callees
		}
		row.callees = append(row.callees, calleeRow{method, callee.Cumulative()})
	}
	slices.SortFunc(row.callees, func(a, b calleeRow) int {
		return cmp.Or(
			p.measure.hotter(ByTime, a.total, b.total),
			cmp.Compare(a.method.Name, b.method.Name),
			cmp.Compare(a.method.Signature, b.method.Signature),
		)
	})
	return row
}

// hint names the kind of call that the callees of a site make it.
func (r siteRow) hint() string {
	if r.verdict == pollution.Unknown {
		return "few samples"
	}
	return r.verdict.String()
}

func (m measure) compareSites(by string, a, b siteRow) int {
	switch by {
	case ByName:
		return 0
	case ByTargets:
		return cmp.Or(cmp.Compare(b.targets, a.targets), m.hotter(ByTime, a.total, b.total))
	}
	return m.hotter(by, a.total, b.total)
}

// Text prints a table of call sites, their callees below each.
func (v *Sites) Text(w io.Writer, wide bool) error {
	t := newFigureTable(v.profile, nameColumn("call site"), locationColumn(2), terminal.Column{Title: "targets"})
	for _, r := range v.rows {
		v.addSite(t, r)
	}
	return v.profile.print(terminal.NewPrinter(w, wide), &t.Table, v.more)
}

// addSite adds a site and the hottest of its callees. The others are added up.
func (v *Sites) addSite(t *figureTable, r siteRow) {
	t.addFigures(r.total, r.total, methodTitle(r.caller), formatLocation(v.profile.Names(), r.call),
		figure.Count(int64(r.targets))+" "+r.hint())
	shown := cut(r.callees, v.callees)
	for _, c := range shown {
		t.addFigures(c.total, r.total, "  → "+methodTitle(c.method), formatDeclaration(c.method))
	}
	rest := r.callees[len(shown):]
	if len(rest) == 0 {
		return
	}
	var total ccmap.Counters
	for _, c := range rest {
		total = total.Add(c.total)
	}
	total.Samples, total.Time = min(total.Samples, r.total.Samples), min(total.Time, r.total.Time) // each counts once
	t.addFigures(total, r.total, fmt.Sprintf("  → %s %d more", terminal.Ellipsis, len(rest)))
}

type siteJSON struct {
	Caller NameJSON `json:"caller"`
	CountersJSON
	Targets int          `json:"targets"` // callees that the source has there
	Hint    string       `json:"hint"`
	Callees []calleeJSON `json:"callees"`
}

type calleeJSON struct {
	NameJSON
	CountersJSON
	SharePercent float64 `json:"share_percent"` // of the site, by the measure of percent
}

// JSON describes the profile and lists the call sites, with all callees.
func (v *Sites) JSON() any {
	p := v.profile
	out := struct {
		Profile ProfileJSON `json:"profile"`
		Sites   []siteJSON  `json:"sites"`
	}{p.JSON(), make([]siteJSON, len(v.rows))}
	for i, r := range v.rows {
		site := siteJSON{callJSON(p.Names(), r.call), p.measure.json(r.total), r.targets, r.hint(), make([]calleeJSON, len(r.callees))}
		for j, c := range r.callees {
			site.Callees[j] = calleeJSON{nameJSON(c.method), p.measure.json(c.total),
				figure.Share(p.measure.of(c.total), p.measure.of(r.total))}
		}
		out.Sites[i] = site
	}
	return out
}
