package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// What rows can be of.
const (
	byMethod = "method"
	byLabel  = "label"
)

var topQuestion = Question{
	Name:    "top",
	Subject: OfMethods,
	Layout:  topLayout,
	ByLabel: labelsLayout,
	Short:   "List the hottest methods of a profile",
	Long: `Top lists the methods of a profile, the hottest first.

  flat, flat%  CPU time in the method itself, and its share of the whole
  cum, cum%    CPU time in the method and all it called
  recent%      share of the recent CPU time: hot now, beside hot ever
  samples      samples with the method on their stack
  activations  calls of the method that were seen; ≥ marks a lower bound

FILE is a profile in any format, '-' for standard input, a URL or, of a daemon, @NAME;
the first line names its unit. METHOD is a name, or as much of its end as is unique.
docs/reading-profiles.md explains columns, --recent and [pruned], docs/formats.md JSON.`,
	Example: `  ccmapd top web.pb.gz
  ccmapd top -n 50 --sort cum --columns cum%,method web.pb.gz
  ccmapd top web.pb.gz --match '^encoding/json\.'
  ccmapd top -f @web                         of a running target, redrawn once a second
  ccmapd top --by label:route web.pb.gz      labels of goroutines (pprof.Do), by value
  ccmapd top --json web.xml | jq '.methods[0]'`,
	New: func() *Form {
		var l List
		by := byMethod
		return &Form{
			Params: listParams(&l, 20, topLayout,
				Param{Name: "by", Value: &by, Help: "list `WHAT`: method, label, or label:KEY for the values of one key"}),
			Answer: ofMethods(&l, func(p *Profile) (View, error) {
				if what, key, _ := strings.Cut(by, ":"); what == byLabel {
					return NewLabels(p, l, key)
				} else if by != byMethod {
					return nil, &Error{Code: CodeUsage, Err: fmt.Errorf("by=%s is not method, label or label:KEY", by)}
				}
				return NewTop(p, l)
			}),
		}
	},
}

// Orders of the methods in [Top].
const (
	ByFlat   = "flat"
	ByCum    = "cum"
	ByRecent = "recent" // by what is hot now
)

// Top lists the methods of a profile.
type Top struct {
	Rows    []MethodRow // those to be shown
	More    int         // rows that were cut
	ties    []tie       // nil: not known
	profile *Profile
}

// MethodRow is a method that was sampled.
type MethodRow struct {
	Method ccmap.Method
	Amounts
	Recent Amounts // in the window; zero without one
}

// Amounts are the counters of a method itself, and of it with all that it called.
type Amounts struct{ Flat, Cum ccmap.Counters }

func amountsOf(m ccmap.MethodProfile) Amounts { return Amounts{m.Self(), m.Cumulative()} }

var topColumns = columns[*Top]{
	profileMember(func(v *Top) *Profile { return v.profile }),
	array("methods", "the methods that were sampled", methodColumns, func(_ *Profile, v *Top) []MethodRow { return v.Rows }),
	array("ties,omitempty", "neighbours among the first five by flat time that their samples do not tell apart", tieColumns, func(_ *Profile, v *Top) []tie { return v.ties }),
}

var methodColumns = slices.Concat(
	inline(placeColumns.named("method", "", "location"), func(_ *Profile, r MethodRow) *place { return declaredAt(r.Method) }),
	columns[MethodRow]{
		object("flat", "in the method itself", slices.Concat(counterColumns.named("", "flat", "flat%", ""), intervalColumns),
			func(_ *Profile, r MethodRow) *ccmap.Counters { return &r.Flat }),
		object("cum", "in the method and in all that it called", slices.Concat(counterColumns.named("samples", "cum", "cum%", "activations"), intervalColumns),
			func(_ *Profile, r MethodRow) *ccmap.Counters { return &r.Cum }),
		object("recent,omitempty", "in the window, if there is one", recentColumns, func(p *Profile, r MethodRow) *Amounts {
			_, windowed := p.Recent()
			return given(r.Recent, windowed)
		}),
	},
)

var recentColumns = columns[Amounts]{
	object("flat", "in the method itself", windowColumns.named("", "", "recent%"), func(_ *Profile, a Amounts) *ccmap.Counters { return &a.Flat }),
	object("cum", "in the method and in all that it called", windowColumns.named("", "", ""), func(_ *Profile, a Amounts) *ccmap.Counters { return &a.Cum }),
}

// windowColumns are counters of the window.
var windowColumns = append(amountColumns[:2:2], colIn("", "percent", "share of all of the window", func(p *Profile, c ccmap.Counters) percent {
	window, _ := p.window()
	now := measureOf(window)
	return percent(figure.Share(now.of(c), now.total))
}))

var topLayout = layout("flat cum method",
	"flat flat% cum cum% recent% samples activations method location", topColumns.list(""), ByFlat, ByCum, ByRecent, BySamples, ByActivations, ByName)

// NewTop lists the methods of a profile that were sampled. The error is ErrNoWindow for the
// order ByRecent if the profile has no window, or says that there is no such order.
func NewTop(p *Profile, l List) (*Top, error) {
	order, err := topLayout.order(l)
	window, windowed := p.window()
	switch {
	case err != nil:
		return nil, err
	case !windowed && order == ByRecent:
		return nil, p.noWindow()
	}
	var rows []MethodRow
	for m := range p.Methods() {
		if l.Methods != nil && !l.Methods.Has(m.ID()) || m.Total().IsZero() {
			continue
		}
		row := MethodRow{Method: m.Method(), Amounts: amountsOf(m)}
		if windowed {
			now, _ := window.Method(m.ID())
			row.Recent = amountsOf(now)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b MethodRow) int {
		return cmp.Or(
			p.measure.compareMethods(order, a, b),
			cmp.Compare(a.Method.Name, b.Method.Name),
			cmp.Compare(a.Method.Signature, b.Method.Signature),
		)
	})
	shown := cut(rows, l.Limit)
	top := &Top{Rows: shown, More: len(rows) - len(shown), profile: p}
	if order == ByFlat {
		top.ties = p.ties(shown)
	}
	return top, nil
}

func (m measure) compareMethods(by string, a, b MethodRow) int {
	switch by {
	case ByName:
		return 0
	case ByRecent:
		return m.compareAmounts(a.Recent, b.Recent)
	case ByFlat:
		return m.compareAmounts(a.Amounts, b.Amounts)
	case ByCum:
		return cmp.Or(cmp.Compare(m.of(b.Cum), m.of(a.Cum)), cmp.Compare(m.of(b.Flat), m.of(a.Flat)))
	}
	return m.hotter(by, a.Cum, b.Cum)
}

// compareAmounts orders by the time in the methods themselves.
func (m measure) compareAmounts(a, b Amounts) int {
	return cmp.Or(cmp.Compare(m.of(b.Flat), m.of(a.Flat)), cmp.Compare(m.of(b.Cum), m.of(a.Cum)))
}

// Text prints a table of methods.
func (v *Top) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, topLayout, o)
	for _, r := range v.Rows {
		addRow(s, methodColumns, r)
	}
	s.closing = v.tied()
	return s.print(w, v.More)
}

// JSON describes the profile and lists its methods.
func (v *Top) JSON() any { return topColumns.json(v.profile, v) }

// MethodsJSON lists the methods alone.
func (v *Top) MethodsJSON() any { return methodColumns.jsonOf(v.profile, v.Rows) }
