package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// vmRow is what the profile that a VM keeps says of a call site, joined with the samples.
type vmRow struct {
	pollution.Counted
	Tables []pollution.Table // by one caller, by two, and so on
	Clean  []pollution.Clean // contexts with one receiver
}

// join joins the VM's counts of a site with its counts of the callers. It does nothing if
// the VM has no counts.
func (r *ReceiversRow) join(a *pollution.Analysis) {
	if r.Site.VM == nil || !r.MaybeDynamic() {
		return
	}
	depth := min(r.depth, ccmap.MaxPointCallers)
	r.vm = &vmRow{Counted: *r.Site.VM, Clean: a.Cleaners(r.Site, pollution.MostCallers)}
	for d := 1; d <= depth; d++ {
		if t, ok := a.Table(r.Site, d); ok {
			r.vm.Tables = append(r.vm.Tables, t)
		}
	}
}

// facts prints what the VM's counts mean, after the verdict.
func (v *vmRow) facts() string {
	var facts []string
	if v.Compiled != pollution.CompiledUnknown {
		facts = append(facts, v.Compiled.String())
	}
	if v.Frozen {
		facts = append(facts, "frozen")
	}
	if len(facts) == 0 {
		return ""
	}
	return "; " + strings.Join(facts, "; ")
}

// counted returns the calls that were counted at the site or at its callers, whichever counted more: both count
// the same calls, for different times.
func (v *vmRow) counted(site pollution.Site) int64 {
	atCallers := int64(0)
	if len(v.Tables) > 0 {
		for _, row := range v.Tables[0].Rows {
			atCallers += max(row.Calls, 0)
		}
	}
	return max(site.Calls.Total().Seen, atCallers)
}

// callerRow is a context of a site in text.
type callerRow struct {
	callers []ccmap.Frame
	calls   int64 // −1: not known
	samples pollution.Amount
	meaning string
}

// callerRows returns the contexts that have one receiver, and the other callers with what is
// known of their receivers.
func (p *Profile) callerRows(v *vmRow) []callerRow {
	var rows []callerRow
	for _, c := range v.Clean {
		rows = append(rows, callerRow{c.Callers, c.Calls, c.Samples, p.cleanOf(c)})
	}
	if len(v.Tables) == 0 {
		return rows
	}
	for _, row := range v.Tables[0].Rows {
		isClean := slices.ContainsFunc(v.Clean, func(c pollution.Clean) bool { return slices.Equal(c.Callers, row.Callers) })
		if !row.Rest && !isClean {
			rows = append(rows, callerRow{row.Callers, row.Calls, row.Samples.Total(), p.mixedOf(&v.Tables[0], row)})
		}
	}
	return rows
}

// cleanOf prints the receiver of a context, and how that is known.
func (p *Profile) cleanOf(c pollution.Clean) string {
	name := terminal.DropDirectories(p.Names().At(c.Target).Name)
	switch share := figure.Percent(100 * c.Share); c.Basis {
	case pollution.Proven:
		return fmt.Sprintf("monomorphic: %s, at least %s, proven", name, share)
	case pollution.Estimated:
		return fmt.Sprintf("monomorphic: %s, %s, estimated", name, share)
	}
	return "monomorphic: " + name + ", sampled"
}

// mixedOf prints what is known of the receivers of a caller: the most frequent one by
// estimate, or one that the counts prove, or nothing.
func (p *Profile) mixedOf(t *pollution.Table, row pollution.Row) string {
	best, words := 0, ""
	for k, c := range row.Cells {
		switch {
		case t.Estimated && row.Share(k) >= row.Share(best):
			best, words = k, figure.Percent(100*row.Share(k))+", estimated"
		case !t.Estimated && c.Least > row.Cells[best].Least || c.Least > 0 && words == "":
			best, words = k, "at least "+figure.Percent(figure.Share(c.Least, row.Calls))+", proven"
		}
	}
	if words == "" {
		return "receivers not known"
	}
	return "several: " + p.columnName(t, best) + ", " + words
}

// columnName returns the receiver of a column.
func (p *Profile) columnName(t *pollution.Table, k int) string {
	if m := t.Columns[k].Method; m != ccmap.NoMethod {
		return terminal.DropDirectories(p.Names().At(m).Name)
	}
	return "others"
}

// addCallers adds the first callers of a site that a VM counts.
func (t receiversTable) addCallers(row ReceiversRow) {
	all := t.callerRows(row.vm)
	shown := cut(all, t.list.Contexts)
	for _, c := range shown {
		calls := pollution.Amount{Weight: max(c.calls, 0), Seen: max(c.calls, 0)}
		t.addPart(receiversPart{c.samples, calls, &row, row.vm.counted(row.Site)}, cells{"call-site": "  " + t.ends(c.callers), "verdict": c.meaning})
	}
	if rest := len(all) - len(shown); rest > 0 {
		t.sheet.add(cells{"call-site": fmt.Sprintf("  ← %s %d more", terminal.Ellipsis, rest)})
	}
	if tables := row.vm.Tables; len(tables) > 0 && tables[0].Margins != pollution.MarginsAgree {
		t.sheet.add(cells{"call-site": "  ← callers: " + tables[0].Margins.String()})
	}
}

// mostChained is how many callers are printed of a context.
const mostChained = 3

// ends prints callers as chain does, of many the first and those at the end: the last one decides.
func (p *Profile) ends(callers []ccmap.Frame) string {
	left := len(callers) - mostChained
	if left <= 0 {
		return p.chain(callers)
	}
	return fmt.Sprintf("%s ← %s %d ← %s", p.chain(callers[:1]), terminal.Ellipsis, left, strings.TrimPrefix(p.chain(callers[1+left:]), "← "))
}

// vmNotes say what the VM's counts mean, the greatest reservation first.
func (v *Receivers) vmNotes() []string {
	return []string{
		figure.Plural(v.Counted, "call") + " counted by the VM. Frozen counts are of the time before the code was compiled: they\n" +
			"tell which receivers came, and hardly how often each comes now. The VM keeps two receivers\n" +
			"of a call, and counts the others together. A deoptimization begins the count anew.",
	}
}

// countedCalls returns how many calls a VM has counted.
func countedCalls(points []ccmap.Point) int64 {
	n := int64(0)
	for _, q := range points {
		if q.Origin == ccmap.OriginVM && q.Kind == ccmap.PointCall {
			n += q.Count
		}
	}
	return n
}

// isOfJVM reports whether a profile has Java methods.
func (p *Profile) isOfJVM() bool {
	for m := range p.Methods() {
		if pollution.IsJava(m.Method()) {
			return true
		}
	}
	return false
}

var vmColumns = columns[vmRow]{
	col("", "frozen,omitempty", "compiled code counts no more: counts tell which receivers came, hardly how often now", func(v vmRow) bool { return v.Frozen }),
	col("", "nulls,omitempty", "null receivers, if the VM sees them; -2: it has seen some, and not counted them", func(v vmRow) *int64 {
		return given(v.Nulls, v.Nulls != ccmap.NullsUnknown)
	}),
	col("", "compiled", "what the second compiler makes of such a call, as a rule", func(v vmRow) string { return v.Compiled.String() }),
	array("clean", "contexts with one receiver", cleanColumns, func(_ *Profile, v vmRow) []pollution.Clean { return v.Clean }),
	array("tables", "calls by context and by receiver, by one caller, by two, and so on", tableColumns, func(_ *Profile, v vmRow) []pollution.Table { return v.Tables }),
}

var cleanColumns = columns[pollution.Clean]{
	array("callers", "innermost first, each at its call", placeColumns, func(p *Profile, c pollution.Clean) []place { return chainOf(p.Names(), c.Callers) }),
	object("receiver", "the method that is reached", placeColumns, func(p *Profile, c pollution.Clean) *place { return declaredAt(p.Names().At(c.Target)) }),
	col("", "basis", "proven, estimated or sampled", func(c pollution.Clean) string { return c.Basis.String() }),
	col("", "share_percent", "of the calls that reach it: at least, if proven; of samples, if sampled", func(c pollution.Clean) percent { return percent(100 * c.Share) }),
	callsColumn(func(c pollution.Clean) int64 { return c.Calls }),
	col("", "samples", "of the context", func(c pollution.Clean) count { return count(c.Samples.Seen) }),
}

// callsColumn is the calls that a VM counted in a context.
func callsColumn[R any](calls func(R) int64) column[R] {
	return col("", "calls,omitempty", "that the VM counted in the context, if it tells", func(r R) *int64 { return given(calls(r), calls(r) >= 0) })
}

var tableColumns = columns[pollution.Table]{
	col("", "depth", "callers that tell contexts apart", func(t pollution.Table) int { return t.Depth }),
	col("", "margins", "how the counts of the callers go with those of the site", func(t pollution.Table) string { return t.Margins.String() }),
	array("contexts", "the callers, and how often each reached each receiver", tableRowColumns, func(_ *Profile, t pollution.Table) []tableRow {
		return rowsOf(t)
	}),
}

// tableRow is a row of a table, with the table.
type tableRow struct {
	pollution.Row
	of *pollution.Table
}

func rowsOf(t pollution.Table) []tableRow {
	rows := make([]tableRow, len(t.Rows))
	for i, r := range t.Rows {
		rows[i] = tableRow{r, &t}
	}
	return rows
}

var tableRowColumns = columns[tableRow]{
	array("callers", "innermost first, each at its call", placeColumns, func(p *Profile, r tableRow) []place { return chainOf(p.Names(), r.Callers) }),
	col("", "rest,omitempty", "all callers that are not listed", func(r tableRow) bool { return r.Rest }),
	callsColumn(func(r tableRow) int64 { return r.Calls }),
	col("", "frozen,omitempty", "the caller's compiled code counts no more", func(r tableRow) bool { return r.Frozen }),
	col("", "samples", "of the context", func(r tableRow) count { return count(r.Samples.Total().Seen) }),
	array("receivers", "how often each was reached", tableCellColumns, func(_ *Profile, r tableRow) []tableCell { return cellsOfTable(r) }),
}

// tableCell is a cell of a table, with its receiver.
type tableCell struct {
	pollution.Cell
	method    ccmap.MethodID
	estimated bool
}

func cellsOfTable(r tableRow) []tableCell {
	list := make([]tableCell, len(r.Cells))
	for k, c := range r.Cells {
		list[k] = tableCell{c, r.of.Columns[k].Method, r.of.Estimated}
	}
	return list
}

var tableCellColumns = append(
	inline(placeColumns, func(p *Profile, c tableCell) *place {
		if c.method == ccmap.NoMethod {
			return &place{Method: ccmap.Method{Name: "others"}}
		}
		return declaredAt(p.Names().At(c.method))
	}),
	col("", "least", "calls, as the counts prove", func(c tableCell) count { return count(c.Least) }),
	col("", "most", "calls, as the counts prove", func(c tableCell) count { return count(c.Most) }),
	col("", "estimate,omitempty", "calls, by counts and samples, if the counts agree", func(c tableCell) *float64 { return given(c.Estimate, c.estimated) }),
)
