package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

var sitesQuestion = Question{
	Name:    "sites",
	Subject: OfMethods,
	Layout:  sitesLayout,
	Short:   "List call sites and the mix of their receivers",
	Long: `Sites lists all call sites of a profile with all that they call, the hottest first.
'receivers' lists dynamic calls only, by caught calls too, and split by caller.

  cum, samples  of the calls there; each sample counts once for a site and once for
                a callee, whatever the recursion
  activations   calls that were seen; ≥ marks a lower bound
  targets       different methods called there, without those that the compiler or
                the kernel put in (runtime.…, [kernel]), and the meaning of that.
                Under 30 samples say nothing: a receiver of 10 % of the calls would
                be missed in 4 % of such sites or more

METHOD restricts the list to calls made by it: a name, or as much of its end as is
unique. docs/receivers.md explains targets, docs/formats.md the JSON.`,
	Example: `  ccmapd sites web.pb.gz
  ccmapd sites --sort targets web.pb.gz            the most polymorphic first
  ccmapd sites web.pb.gz Server.handle
  ccmapd sites --json web.pb.gz | jq '.sites[] | select(.hint == "bimorphic")'`,
	New: func() *Form {
		var l List
		callees := uint(5)
		return &Form{
			Params: listParams(&l, 20, sitesLayout,
				Param{Name: "callees", Value: &callees, Help: "list at most `N` callees of a site, and the others as one; 0: all"}),
			Answer: ofMethods(&l, func(p *Profile) (View, error) { return NewSites(p, l, callees) }),
		}
	},
}

// ByTargets orders call sites by the number of their targets.
const ByTargets = "targets"

// Sites lists call sites with all that they call: the exact totals of edges in the map,
// also for calls of one target and for code that the compiler put in. [Receivers] lists
// the targets of dynamic calls, by samples and by caught calls, and splits them by caller.
type Sites struct {
	Rows    []SiteRow // those to be shown
	More    int       // rows that were cut
	callees uint
	profile *Profile
}

// SiteRow is a call site with its callees, the hottest first.
type SiteRow struct {
	Caller  ccmap.Method
	Call    ccmap.Frame
	Total   ccmap.Counters
	Callees []CalleeRow
	Targets int // callees that the source has there
	Verdict pollution.Verdict
}

// CalleeRow is a method that a call site calls.
type CalleeRow struct {
	Method ccmap.Method
	Total  ccmap.Counters
	site   ccmap.Counters
}

var sitesColumns = columns[*Sites]{
	profileMember(func(v *Sites) *Profile { return v.profile }),
	array("sites", "call sites", siteColumns, func(_ *Profile, v *Sites) []SiteRow { return v.Rows }),
}

var siteColumns = slices.Concat(
	columns[SiteRow]{object("caller", "the method that calls, at its call", placeColumns.named("call-site", "", "location"), func(p *Profile, r SiteRow) *place { return calledAt(p.Names(), r.Call) })},
	inline(counterColumns, func(_ *Profile, r SiteRow) *ccmap.Counters { return &r.Total }),
	columns[SiteRow]{
		col("targets", "targets", "callees that the source has there; in text, with the hint", func(r SiteRow) count { return count(r.Targets) }).
			printed(func(_ *Profile, r SiteRow) string { return figure.Count(int64(r.Targets)) + " " + r.hint() }),
		col("", "hint", "kind of call that they make it", func(r SiteRow) string { return r.hint() }),
		array("callees", "all that is called there, the hottest first", calleeColumns, func(_ *Profile, r SiteRow) []CalleeRow { return r.Callees }),
		shareOf("", func(_ *Profile, r SiteRow) part { return part{r.Total, r.Total} }),
	},
)

var calleeColumns = slices.Concat(
	inline(placeColumns.named("", "", "location"), func(_ *Profile, r CalleeRow) *place { return declaredAt(r.Method) }),
	inline(counterColumns, func(_ *Profile, r CalleeRow) *ccmap.Counters { return &r.Total }),
	columns[CalleeRow]{
		shareOf("share_percent", func(_ *Profile, r CalleeRow) part { return part{r.Total, r.site} }),
		col("call-site", "", "the method that is called", func(r CalleeRow) string { return r.Method.Name }).
			printed(func(p *Profile, r CalleeRow) string { return "  → " + p.title(r.Method) }),
	},
)

var sitesLayout = layout("cum share call-site location targets",
	"cum share of-all samples activations call-site location targets", sitesColumns.list(""), ByTime, BySamples, ByActivations, ByTargets, ByName)

// NewSites lists the call sites in the methods of a list. Text has at most so many callees
// of a site, and the others as one; 0: all. The error says that there is no such order.
func NewSites(p *Profile, l List, callees uint) (*Sites, error) {
	order, err := sitesLayout.order(l)
	if err != nil {
		return nil, err
	}
	rows := siteRows(p, l.Methods, order)
	shown := cut(rows, l.Limit)
	return &Sites{shown, len(rows) - len(shown), callees, p}, nil
}

func siteRows(p *Profile, methods query.Methods, order string) []SiteRow {
	var rows []SiteRow
	receivers := p.pollution()
	for m := range p.Methods() {
		if methods != nil && !methods.Has(m.ID()) {
			continue
		}
		for site := range m.CallSites() {
			if row := newSiteRow(p, m.Method(), site, receivers.Samples(site)); !row.Total.IsZero() {
				rows = append(rows, row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b SiteRow) int {
		return cmp.Or(
			p.measure.compareSites(order, a, b),
			cmp.Compare(a.Caller.Name, b.Caller.Name),
			cmp.Compare(a.Caller.Signature, b.Caller.Signature),
			cmp.Compare(int32(a.Call.Offset), int32(b.Call.Offset)),
		)
	})
	return rows
}

func newSiteRow(p *Profile, caller ccmap.Method, site ccmap.CallSite, receivers pollution.Evidence) SiteRow {
	row := SiteRow{
		Caller: caller, Call: ccmap.Frame{Method: site.Caller(), Offset: site.Offset()}, Total: site.Cumulative(),
		Targets: len(receivers.Targets), Verdict: receivers.Verdict,
	}
	for callee := range site.Callees() {
		method := p.Names().At(callee.Callee())
		if callee.Total().IsZero() || method.Name == ccmap.PrunedName {
			continue // nothing recent; counted at other callees
		}
		row.Callees = append(row.Callees, CalleeRow{method, callee.Cumulative(), row.Total})
	}
	slices.SortFunc(row.Callees, func(a, b CalleeRow) int {
		return cmp.Or(
			p.measure.hotter(ByTime, a.Total, b.Total),
			cmp.Compare(a.Method.Name, b.Method.Name),
			cmp.Compare(a.Method.Signature, b.Method.Signature),
		)
	})
	return row
}

// hint names the kind of call that the callees of a site make it.
func (r SiteRow) hint() string {
	if r.Verdict == pollution.Unknown {
		return "few samples"
	}
	return r.Verdict.String()
}

func (m measure) compareSites(by string, a, b SiteRow) int {
	switch by {
	case ByName:
		return 0
	case ByTargets:
		return cmp.Or(cmp.Compare(b.Targets, a.Targets), m.hotter(ByTime, a.Total, b.Total))
	}
	return m.hotter(by, a.Total, b.Total)
}

// Text prints a table of call sites, their callees below each.
func (v *Sites) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, sitesLayout, o)
	for _, r := range v.Rows {
		v.addSite(s, r)
	}
	return s.print(w, v.More)
}

// addSite adds a site and the hottest of its callees. The others are added up.
func (v *Sites) addSite(s *sheet, r SiteRow) {
	addRow(s, siteColumns, r)
	shown := cut(r.Callees, v.callees)
	for _, c := range shown {
		addRow(s, calleeColumns, c)
	}
	rest := r.Callees[len(shown):]
	if len(rest) == 0 {
		return
	}
	var total ccmap.Counters
	for _, c := range rest {
		total = total.Add(c.Total)
	}
	total.Samples, total.Time = min(total.Samples, r.Total.Samples), min(total.Time, r.Total.Time) // each counts once
	s.addPart(total, r.Total, cells{"call-site": fmt.Sprintf("  → %s %d more", terminal.Ellipsis, len(rest))})
}

// JSON describes the profile and lists the call sites, with all callees.
func (v *Sites) JSON() any { return sitesColumns.json(v.profile, v) }
