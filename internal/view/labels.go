package view

import (
	"cmp"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Labels lists the labels of a profile's samples: their sets, or the values of one key.
type Labels struct {
	Rows    []LabelRow // those to be shown
	More    int        // rows that were cut
	profile *Profile
}

// LabelRow are the samples with some labels.
type LabelRow struct {
	Text   string        // for people
	Labels []ccmap.Label // nil: no labels, other labels, or not this key
	Total  ccmap.Counters
}

// Rows of samples that have no labels that could be listed.
const (
	noLabels    = "(no labels)"
	otherLabels = "(other labels)"
)

var labelsColumns = columns[*Labels]{
	profileMember(func(v *Labels) *Profile { return v.profile }),
	array("labels", "sets of labels, or values of a key", labelColumns, func(_ *Profile, v *Labels) []LabelRow { return v.Rows }),
}

var labelColumns = append(
	inline(amountColumns, func(_ *Profile, r LabelRow) *ccmap.Counters { return &r.Total }),
	col("labels", "text", "the labels, or why there are none", func(r LabelRow) string { return r.Text }),
	col("", "values,omitempty", "of the labels, by key", func(r LabelRow) map[string]string { return r.values() }),
)

func (r LabelRow) values() map[string]string {
	if r.Labels == nil {
		return nil
	}
	values := make(map[string]string)
	for _, l := range r.Labels {
		values[l.Key] = l.Value
	}
	return values
}

var labelsLayout = layout("cum of-all samples labels", "cum of-all samples labels", labelsColumns.list(""), ByTime, BySamples, ByName)

// NewLabels lists the sets of labels of a profile or, unless key is empty, the values of a
// key. The totals add up to the profile's. The error says that there is no such order.
func NewLabels(p *Profile, l List, key string) (*Labels, error) {
	order, err := labelsLayout.order(l)
	if err != nil {
		return nil, err
	}
	rows := p.labelRows(key)
	slices.SortFunc(rows, func(a, b LabelRow) int {
		if order != ByName {
			if c := p.measure.hotter(order, a.Total, b.Total); c != 0 {
				return c
			}
		}
		return cmp.Compare(a.Text, b.Text)
	})
	shown := cut(rows, l.Limit)
	return &Labels{shown, len(rows) - len(shown), p}, nil
}

// labelRows returns the samples of each set of labels, or of each value of a key. The rest
// has no labels.
func (p *Profile) labelRows(key string) []LabelRow {
	at := map[string]int{}
	var rows []LabelRow
	add := func(r LabelRow) {
		i, known := at[r.Text]
		if !known {
			i, at[r.Text] = len(rows), len(rows)
			rows = append(rows, LabelRow{Text: r.Text, Labels: r.Labels})
		}
		rows[i].Total = rows[i].Total.Add(r.Total)
	}
	rest := p.Total()
	rest.Activations = 0
	for set := range p.Labelled().LabelSets() {
		add(labelRow(set, key))
		rest.Samples -= set.Total.Samples
		rest.Time -= set.Total.Time
	}
	if rest.Samples > 0 || rest.Time > 0 {
		add(LabelRow{Text: withoutKey(key), Total: rest})
	}
	return rows
}

// Labelled returns the snapshot with its labels, which all others of the profile lack.
func (p *Profile) Labelled() *ccmap.Snapshot {
	if window, ok := p.labelled.Recent(); ok && p.isRecent() {
		return window
	}
	return p.labelled
}

// labelRow returns the row of a set: the whole set, or the label with a key.
func labelRow(set ccmap.LabelSet, key string) LabelRow {
	labels := set.Labels
	if value, found := ccmap.Value(labels, key); found && key != "" {
		labels = []ccmap.Label{{Key: key, Value: value}}
	} else if key != "" && labels != nil {
		return LabelRow{Text: withoutKey(key), Total: set.Total}
	}
	if labels == nil {
		return LabelRow{Text: otherLabels, Total: set.Total}
	}
	return LabelRow{Text: ccmap.LabelsMethod(labels).Signature, Labels: labels, Total: set.Total}
}

func withoutKey(key string) string {
	if key == "" {
		return noLabels
	}
	return "(no " + key + ")"
}

// WithLabels returns the samples of a profile that have all of some labels, as a profile.
// It has no samples if none match.
func (p *Profile) WithLabels(wanted []ccmap.Label) *Profile {
	only := *p
	only.labelled = p.labelled.WithLabels(func(labels []ccmap.Label) bool {
		return !slices.ContainsFunc(wanted, func(l ccmap.Label) bool { return !slices.Contains(labels, l) })
	})
	only.Snapshot, only.whole = only.labelled, only.labelled
	only.measure = measureOf(only.Snapshot)
	only.only = ccmap.LabelsMethod(wanted).Signature
	return &only
}

// Text prints a table of labels.
func (v *Labels) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, labelsLayout, o)
	for _, r := range v.Rows {
		addRow(s, labelColumns, r)
	}
	return s.print(w, v.More)
}

// JSON describes the profile and lists its labels.
func (v *Labels) JSON() any { return labelsColumns.json(v.profile, v) }
