package view

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/figure"
)

var heatQuestion = Question{
	Name:    "heat",
	Subject: OfMethods,
	Layout:  heatLayout,
	IsWhole: true,
	Short:   "Show when samples were taken: the heat map of a time",
	Long: `Heat shows how busy a program was over a time, and with METHOD how much of that was in
it and what it calls: METHOD may be a path, 'A > B > C'. JSON has 60 cells to a column,
so a day has cells of a second, and a minute of 17 ms; text has a line for some columns.

FILE is a time that the daemon has moments of, 'moments' in [store]: @span:web is the
last 24 hours, @span:web@2026-11-20 a day, and
@span:web@2026-11-20T10:30..2026-11-20T10:45 any time. All commands read such a time:
'flame' shows it, and 'diff' compares it with another one.
docs/store.md explains moments, docs/formats.md the JSON.`,
	Example: `  ccmapd heat @span:web
  ccmapd heat @span:web@yesterday 'Server.handle > json.Marshal'
  ccmapd heat --json @span:web@2026-11-20T10 runtime.gcBgMarkWorker`,
	New: func() *Form {
		return &Form{
			Answer: func(a About) (v View, err error) {
				var o HeatOptions
				if a.Text != "" {
					if o.Focus, err = focusOf(a); err != nil {
						return nil, err
					}
				}
				return NewHeat(a.Profiles[0], o)
			},
		}
	},
}

// HeatOptions say what a heat map shows. The zero options are useful.
type HeatOptions struct {
	Focus *query.Query // made for the snapshot of the profile: its part of the cells; nil: none
}

// Heat is when samples were taken: cells of equal times, in columns.
type Heat struct {
	From   time.Time     // of the first cell
	Column time.Duration // of heatRows cells

	profile *Profile
	options HeatOptions
	cells   []ccmap.Counters
	focused []ccmap.Counters // of the focus, by cell; nil: there is none
}

// heatRows is the number of cells in a column.
const heatRows = 60

// mostColumns bounds the columns: a day of minutes, and one for the beginning.
const mostColumns = 24*60 + 1

// columnTimes are the times that columns may have.
var columnTimes = []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

// errNoMoments says that a profile does not know when its samples were taken.
var errNoMoments = &Error{
	Code: CodeUsage, Err: errors.New("the profile does not say when its samples were taken"),
	Hint: "Ask the daemon for a time: @span:NAME, or @span:NAME@2026-11-20T10.",
}

// NewHeat counts the moments of a profile. The errors have the codes of [ErrorOf].
func NewHeat(p *Profile, o HeatOptions) (*Heat, error) {
	moments, meta := p.Moments(), p.Meta()
	if moments == nil {
		return nil, errNoMoments
	}
	v := &Heat{profile: p, options: o}
	columns := v.lay(meta.Start, max(meta.Duration, 1))
	v.cells = make([]ccmap.Counters, columns*heatRows)
	var inFocus map[uint64]bool
	if o.Focus != nil {
		v.focused, inFocus = make([]ccmap.Counters, len(v.cells)), idsBelow(p.Snapshot, o.Focus)
	}
	from := v.From.UnixNano()
	for m := range moments {
		i := v.cellOf(m.Time - from)
		if i < 0 {
			continue
		}
		c := ccmap.Counters{Samples: 1, Time: m.Weight}
		v.cells[i] = v.cells[i].Add(c)
		if inFocus[m.Path] {
			v.focused[i] = v.focused[i].Add(c)
		}
	}
	return v, nil
}

// lay chooses the columns, and returns how many there are.
func (v *Heat) lay(start time.Time, duration time.Duration) int {
	if start.IsZero() {
		start = time.Unix(0, 0) // as the moments have it
	}
	for _, column := range append(columnTimes, duration) {
		v.Column, v.From = column, start.UTC().Truncate(column)
		if n := (start.Add(duration).Sub(v.From) + column - 1) / column; n <= mostColumns {
			return int(n)
		}
	}
	return 1
}

// cellOf returns the cell of a time since the first one, -1 if there is none.
func (v *Heat) cellOf(at int64) int {
	if at < 0 {
		return -1
	}
	column, rest := at/int64(v.Column), at%int64(v.Column)
	if column >= int64(len(v.cells)/heatRows) {
		return -1
	}
	row := rest / max(int64(v.Column)/heatRows, 1)
	if v.Column <= 24*time.Hour { // of which a cell may be no whole number of ns
		row = rest * heatRows / int64(v.Column)
	}
	return int(column)*heatRows + int(min(row, heatRows-1))
}

// idsBelow returns the contexts that have a path on their stacks.
func idsBelow(s *ccmap.Snapshot, q *query.Query) map[uint64]bool {
	below := make([]bool, s.Len())
	for _, end := range q.Outermost() {
		below[end.ID] = true
	}
	ids, found := s.PathIDs(), make(map[uint64]bool)
	for n := range s.Nodes() {
		if below[n.ID] = below[n.ID] || below[n.Parent]; below[n.ID] && n.Self.Samples > 0 {
			found[ids[n.ID]] = true
		}
	}
	return found
}

var heatColumns = columns[*Heat]{
	profileMember(func(v *Heat) *Profile { return v.profile }),
	col("", "focus,omitempty", "the method or path whose part is told", func(v *Heat) string {
		return FlameOptions{Focus: v.options.Focus}.focus()
	}),
	col("time", "from", "beginning of the first cell", func(v *Heat) time.Time { return v.From }),
	col("", "column_ns", "time of a column", func(v *Heat) time.Duration { return v.Column }),
	col("", "rows", "cells in a column", func(*Heat) count { return heatRows }),
	col("value", "values", "of all samples in a cell, in the profile's unit or samples, column by column", func(v *Heat) []int64 { return v.values(v.cells) }),
	col("of-focus", "focus_values,omitempty", "of the samples that have the focus on their stacks", func(v *Heat) []int64 { return v.values(v.focused) }),
	col("samples", "samples", "of all", func(v *Heat) int64 { return sumOfCells(v.cells).Samples }),
	col("share", "", "of the focus", func(*Heat) percent { return 0 }),
	col("busiest", "", "the cell with the most", func(*Heat) string { return "" }),
}

var heatLayout = layout("time value of-focus share busiest", "time value of-focus share samples busiest", heatColumns.list(""))

func (v *Heat) values(of []ccmap.Counters) []int64 { return list(of, v.profile.measure.of) }

func sumOfCells(all []ccmap.Counters) (sum ccmap.Counters) {
	for _, c := range all {
		sum = sum.Add(c)
	}
	return sum
}

// mostHeatLines bounds the lines of text.
const mostHeatLines = 48

// Text prints the columns from the first with samples to the last, some a line; lines without samples are left out.
func (v *Heat) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, heatLayout, o)
	isBusy := func(c ccmap.Counters) bool { return !c.IsZero() }
	begin := max(slices.IndexFunc(v.cells, isBusy), 0) / heatRows
	end := len(v.cells) / heatRows
	for end > begin+1 && !slices.ContainsFunc(v.cells[(end-1)*heatRows:end*heatRows], isBusy) {
		end--
	}
	step := (end - begin + mostHeatLines - 1) / mostHeatLines
	for first := begin; first < end; first += step {
		from, to := first*heatRows, min(first+step, end)*heatRows
		if sum := sumOfCells(v.cells[from:to]); !sum.IsZero() {
			s.add(v.line(from, to, sum))
		}
	}
	return s.print(w, 0)
}

// line has the cells from one to another.
func (v *Heat) line(from, to int, sum ccmap.Counters) cells {
	m := v.profile.measure
	row := cells{"time": v.timeOf(from), "value": m.format(sum), "samples": v.profile.formatSamples(sum.Samples)}
	if v.focused != nil {
		of := sumOfCells(v.focused[from:to])
		row["of-focus"], row["share"] = m.format(of), figure.Percent(figure.Share(m.of(of), m.of(sum)))
	}
	all := v.values(v.cells[from:to])
	if most := slices.Max(all); most > 0 {
		row["busiest"] = v.timeOf(from + slices.Index(all, most))
	}
	return row
}

// timeOf returns the beginning of a cell.
func (v *Heat) timeOf(cell int) string {
	at := v.From.Add(time.Duration(float64(cell) * float64(v.Column) / heatRows))
	if v.Column < time.Minute {
		return at.Format("2006-01-02 15:04:05.000")
	}
	return at.Format(time.DateTime)
}

// JSON describes the profile, and lists the cells.
func (v *Heat) JSON() any { return heatColumns.json(v.profile, v) }
