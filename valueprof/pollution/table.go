package pollution

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Table divides the calls that a VM counted at a site by caller and by receiver. The VM
// counts each of the two by itself, see [Analysis.Table].
type Table struct {
	Depth   int
	Margins Margins
	// Estimated says that Cell.Estimate is known: the margins agree, and the fit converged.
	Estimated bool
	Columns   []Target // receivers as in Site.Calls; the last may be [ccmap.NoMethod], others
	Rows      []Row    // the most frequent first, those without a count last
}

// Row has the calls of one context.
type Row struct {
	Callers []ccmap.Frame // innermost first, each at its call
	Rest    bool          // the remaining calls of the chain, whose further callers are unknown; all, if no caller is
	Calls   int64         // that the VM counted at the last caller; −1: not known
	Frozen  bool          // the VM no longer counts there
	Samples Mix
	Cells   []Cell // by column

	group *group
}

// Share returns the estimated share, 0 to 1, of a column in the row's calls.
func (r Row) Share(column int) float64 {
	sum := 0.0
	for _, cell := range r.Cells {
		sum += cell.Estimate
	}
	if column < 0 || sum == 0 {
		return 0
	}
	return r.Cells[column].Estimate / sum
}

// Cell is how often a context reached a receiver.
type Cell struct {
	Least, Most int64   // what the counts allow
	Estimate    float64 // what samples make likely, if the table is estimated
}

// Margins says how the counts of the callers go with the counts of the site.
type Margins uint8

const (
	MarginsAgree   Margins = iota // within a tenth
	MarginsApart                  // the VM stopped to count them at different times
	MarginsRepeat                 // the method does not make the call once each time it is called
	MarginsUnknown                // no caller of the method has a count
)

var marginNames = [...]string{"agree", "frozen at different times", "the call is repeated or left out", "not counted"}

// String returns a few words for people, for example "agree".
func (m Margins) String() string { return marginNames[m] }

// agreement is the part of the larger count by which two counts of the same calls may
// differ.
const agreement = 0.1

func agree(a, b int64) bool {
	return math.Abs(float64(a)-float64(b)) <= agreement*float64(max(a, b))
}

const (
	maxRows    = 1 << 10 // of a table; longer contexts stay together
	maxCallers = 64      // of one method that have a row, the most frequent; the others are a rest
	start      = 0.5     // samples that are added to each cell, so that none is impossible
)

// Table joins the VM's counts of a site with its counts of up to depth callers. It returns
// false if the VM has no counts of the site.
//
//   - The columns are the receivers that the VM counted at the site.
//   - The rows are the calls that it counted at the callers, each in the caller's own
//     profile. They are comparable if the method makes the call once each time that it is
//     called. The method's entry count tells. Callers of callers are counted where each
//     caller makes its call once, too. Elsewhere samples alone tell them apart.
//   - Bounds are Fréchet's: a cell has at most the lesser of its margins, and at least what
//     the other cells cannot hold. Every table of these margins keeps them. If one side has
//     counted more calls than the other, the surplus is one more row or column, and the
//     bounds are of the calls that both counted.
//   - Estimates begin with the samples of each context, plus half a sample, and are scaled
//     until all margins are kept (iterative proportional fitting). Samples measure time, and
//     scaling removes that: it does not matter that one receiver takes longer, or that one
//     caller is hotter. There are estimates only if the margins agree.
func (a *Analysis) Table(s Site, depth int) (Table, bool) {
	if s.VM == nil || depth < 1 {
		return Table{}, false
	}
	j := joiner{a: a, site: s, table: Table{Depth: depth, Columns: columns(s.Calls.Mix)}}
	j.addRows(depth)
	j.bound()
	j.estimate()
	slices.SortFunc(j.table.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(b.Samples.Total().Weight, a.Samples.Total().Weight), slices.CompareFunc(a.Callers, b.Callers, compareFrames))
	})
	return j.table, true
}

// columns returns the targets of a mix, with the unnamed ones as one.
func columns(m Mix) []Target {
	list := slices.Clone(m.Targets)
	if m.Unnamed > 0 {
		list = append(list, Target{ccmap.NoMethod, Amount{m.Unnamed, m.Unnamed}})
	}
	return list
}

// joiner makes a table.
type joiner struct {
	a     *Analysis
	site  Site
	table Table
}

// group is the rows whose calls are known together only.
type group struct{ calls int64 }

// context is a row that may be divided further.
type context struct {
	Row
	node *tree // its samples; nil: there are none
}

// addRows divides the calls of the site, one caller more each time.
func (j *joiner) addRows(depth int) {
	whole := context{Row: Row{Calls: j.calls(), group: &group{j.calls()}}, node: j.a.sampledAt(j.site, depth)}
	j.table.Margins = j.margins(whole.node)
	contexts := []context{whole}
	for range depth {
		next := make([]context, 0, len(contexts))
		for _, c := range contexts {
			if parts := j.divide(c); len(parts) > 0 && len(next)+len(parts) <= maxRows {
				next = append(next, parts...)
			} else {
				next = append(next, c)
			}
		}
		contexts = next
	}
	for _, c := range contexts {
		if c.node != nil {
			c.Samples = c.node.mix()
		}
		c.Rest = c.Rest || len(c.Callers) == 0 // no caller is known
		j.table.Rows = append(j.table.Rows, c.Row)
	}
}

// calls returns how many calls the VM counted at the site.
func (j *joiner) calls() int64 { return j.site.Calls.Total().Seen }

// margins compares the counts of the site with the counts of its callers, and with what
// samples see now.
func (j *joiner) margins(samples *tree) Margins {
	callers, entries := j.a.vm.callers()[j.site.Caller], j.a.vm.entries[j.site.Caller]
	switch {
	case len(callers) == 0:
		return MarginsUnknown
	case entries > 0 && !agree(entries, j.calls()):
		return MarginsRepeat
	case !agree(sumOf(callers), j.calls()) || j.hasNewReceivers(samples):
		return MarginsApart
	}
	return MarginsAgree
}

// hasNewReceivers reports whether samples show receivers that the VM never counted, and
// which are not few: it stopped to count before they came.
func (j *joiner) hasNewReceivers(samples *tree) bool {
	if samples == nil {
		return false
	}
	unknown := int64(0)
	for method, a := range samples.targets {
		if j.table.column(method) < 0 {
			unknown = addSaturated(unknown, a.Seen)
		}
	}
	return float64(unknown) > agreement*float64(samples.total().Seen)
}

// column returns the column of a receiver, or the column of the others; −1 if there is
// none.
func (t *Table) column(method ccmap.MethodID) int {
	i := slices.IndexFunc(t.Columns, func(c Target) bool { return c.Method == method })
	if last := len(t.Columns) - 1; i < 0 && last >= 0 && t.Columns[last].Method == ccmap.NoMethod {
		return last
	}
	return i
}

func sumOf(callers []caller) int64 {
	sum := int64(0)
	for _, c := range callers {
		sum = addSaturated(sum, c.calls)
	}
	return sum
}

// divide divides a context by one caller more, by counts if they tell, or by samples. It
// returns nil if nothing is known of further callers.
func (j *joiner) divide(c context) []context {
	if c.Rest {
		return nil
	}
	if len(c.Callers) == 0 {
		if callers := j.a.vm.callers()[j.site.Caller]; len(callers) > 0 {
			return j.byCounts(c, callers)
		}
		return j.bySamples(c)
	}
	method := c.Callers[len(c.Callers)-1].Method
	callers := j.a.vm.callers()[method]
	if c.Calls >= 0 && j.table.Margins != MarginsRepeat && agree(j.a.vm.entries[method], c.Calls) && agree(sumOf(callers), c.Calls) {
		return j.byCounts(c, callers)
	}
	return j.bySamples(c)
}

// byCounts divides a context by the counts of the next callers.
func (j *joiner) byCounts(c context, callers []caller) []context {
	var parts []context
	left := c.Calls
	for _, from := range callers[:min(len(callers), maxCallers)] {
		row := Row{Callers: append(slices.Clip(c.Callers), from.at), Calls: from.calls, Frozen: from.frozen, group: &group{from.calls}}
		parts = append(parts, context{row, c.node.over(from.at)})
		left = max(left-from.calls, 0)
	}
	return c.withRest(parts, left, &group{left})
}

// bySamples divides a context by the next callers that were sampled.
func (j *joiner) bySamples(c context) []context {
	if c.node == nil || len(c.node.above) == 0 {
		return nil
	}
	var parts []context
	for _, at := range c.node.callers() {
		row := Row{Callers: append(slices.Clip(c.Callers), at), Calls: -1, group: c.group}
		parts = append(parts, context{row, c.node.over(at)})
	}
	return c.withRest(parts, -1, c.group)
}

// withRest adds to the parts of a context what the context has beyond them, if anything.
func (c context) withRest(parts []context, calls int64, g *group) []context {
	rest := context{Row: Row{Callers: c.Callers, Rest: true, Calls: calls, group: g}}
	if c.node != nil {
		var nodes []*tree
		for _, p := range parts {
			if p.node != nil {
				nodes = append(nodes, p.node)
			}
		}
		rest.node = &tree{tally: c.node.without(nodes)}
	}
	if calls <= 0 && (rest.node == nil || rest.node.total() == Amount{}) {
		return parts
	}
	return append(parts, rest)
}

// over returns the node with one more caller, nil if there is none.
func (t *tree) over(caller ccmap.Frame) *tree {
	if t == nil {
		return nil
	}
	return t.above[caller]
}

// callers returns the next callers with the most samples, in order.
func (t *tree) callers() []ccmap.Frame {
	list := slices.SortedFunc(maps.Keys(t.above), func(a, b ccmap.Frame) int {
		return cmp.Or(cmp.Compare(t.above[b].total().Seen, t.above[a].total().Seen), compareFrames(a, b))
	})
	return list[:min(len(list), maxCallers)]
}

// sampledAt returns all samples of a site by context, nil if there are none.
func (a *Analysis) sampledAt(s Site, depth int) *tree {
	m, _ := a.s.Method(s.Caller)
	for call := range m.CallSites() {
		if call.Offset() == s.Offset {
			return sampledTree(a, a.written(call, s.Calls), depth, func(*tree) bool { return true })
		}
	}
	return nil
}

// bound sets the bounds of all cells. They say nothing if the callers' counts are not of
// the same calls.
func (j *joiner) bound() {
	t := &j.table
	all := max(j.calls(), t.counted())
	comparable := t.Margins == MarginsAgree || t.Margins == MarginsApart
	for i := range t.Rows {
		row := &t.Rows[i]
		row.Cells = make([]Cell, len(t.Columns))
		for k, column := range t.Columns {
			cell := &row.Cells[k]
			cell.Most = column.Seen
			if !comparable {
				continue
			}
			cell.Most = min(column.Seen, row.group.calls)
			if row.Calls >= 0 {
				cell.Least = max(row.Calls-(all-column.Seen), 0)
			}
		}
	}
}

// groups returns the number of each row's group, and the calls of each group.
func (t *Table) groups() (numbers []int, calls []float64) {
	known := make(map[*group]int)
	for _, row := range t.Rows {
		n, found := known[row.group]
		if !found {
			n = len(calls)
			known[row.group] = n
			calls = append(calls, float64(row.group.calls))
		}
		numbers = append(numbers, n)
	}
	return numbers, calls
}

// counted returns the calls that were counted at the callers.
func (t *Table) counted() int64 {
	sum := int64(0)
	known := make(map[*group]bool)
	for _, row := range t.Rows {
		if !known[row.group] {
			known[row.group] = true
			sum = addSaturated(sum, row.group.calls)
		}
	}
	return sum
}

// estimate fits the samples to the counts.
func (j *joiner) estimate() {
	t := &j.table
	if t.Margins != MarginsAgree {
		return
	}
	cells := make([][]float64, len(t.Rows))
	for i, row := range t.Rows {
		cells[i] = make([]float64, len(t.Columns))
		for k := range cells[i] {
			cells[i][k] = start
		}
		for _, target := range row.Samples.Targets {
			if k := t.column(target.Method); k >= 0 {
				cells[i][k] += float64(target.Seen)
			}
		}
	}
	groups, rows := t.groups()
	wanted := make([]float64, len(t.Columns))
	for k, column := range t.Columns {
		wanted[k] = float64(column.Seen)
	}
	scale(rows, float64(j.calls())/total(rows))
	t.Estimated = fit(cells, groups, rows, wanted)
	if !t.Estimated {
		return
	}
	for i := range t.Rows {
		for k := range t.Columns {
			t.Rows[i].Cells[k].Estimate = cells[i][k]
		}
	}
}
