package view

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

var contextsQuestion = Question{
	Name:    "contexts",
	Subject: OfMethod,
	Layout:  contextsLayout,
	Short:   "List the hottest calling contexts of a method",
	Long: `Contexts lists the chains of callers that lead to a method, the hottest first.

  cum          CPU time in the method and all it called, when called this way
  share        of all contexts of the method; 'of all': of the whole profile
  samples      samples taken in this context
  activations  calls of the method in this context; ≥ marks a lower bound

Below the method stand its callers, each with the line of its call. A last line '…' means
that the chain goes on: see --depth. A sample counts once, by the outermost frame of the
method on its stack; so a recursive method shows its first caller, and the shares add up
to 100 %. Contexts of a pruned profile are lower bounds: '(pruned contexts)' has the rest.

METHOD is a name, or as much of its end as is unique ('Server.handle').
docs/reading-profiles.md explains --recent, docs/formats.md the JSON.`,
	Example: `  ccmapd contexts web.pb.gz runtime.mallocgc
  ccmapd contexts -n 3 --label route=/api web.pb.gz Server.handle
  ccmapd contexts web.pb.gz --match '^encoding/json\..*[dD]ecode'`,
	New: func() *Form {
		var l List
		depth := uint(6)
		return &Form{
			Params: listParams(&l, 10, contextsLayout,
				Param{Name: "depth", Value: &depth, Help: "tell contexts apart by `N` callers; 0: by all, up to the outermost"}),
			Answer: ofMethods(&l, func(p *Profile) (View, error) {
				if l.Methods == nil {
					return nil, &Error{Code: CodeUsage, Err: errors.New("contexts wants method=NAME or match=REGEXP")}
				}
				return NewContexts(p, l, depth)
			}),
		}
	},
}

// Contexts lists the chains of callers that lead to some methods.
type Contexts struct {
	query.ContextList                // those to be shown
	More              int            // contexts that were cut
	Shared            []fanin.Called // from where the methods are called, if a shared source knows it better
	profile           *Profile
}

var contextsColumns = columns[*Contexts]{
	profileMember(func(v *Contexts) *Profile { return v.profile }),
	counted("total", "the methods, in all contexts", func(v *Contexts) *ccmap.Counters { return &v.Total }),
	array("contexts", "the contexts of the methods", contextColumns, func(_ *Profile, v *Contexts) []contextRow { return v.rows() }),
	counted("pruned,omitempty", "part of total that no context has", func(v *Contexts) *ccmap.Counters { return given(v.Pruned, !v.Pruned.IsZero()) }),
	colIn("", "lower_bounds,omitempty", "contexts were pruned", func(p *Profile, _ *Contexts) bool { return p.IsPruned() }),
	array("shared,omitempty", "from where the methods are called, if a shared source knows it better", sharedColumns, func(_ *Profile, v *Contexts) []fanin.Called { return v.Shared }),
}

var sharedColumns = columns[fanin.Called]{
	col("", "method", "that is called", func(c fanin.Called) string { return c.Method }),
	col("", "signature,omitempty", "tells methods of one name apart", func(c fanin.Called) string { return c.Signature }),
	col("", "places", "that call it; 21: more than 20", func(c fanin.Called) uint32 { return c.Places }),
	col("", "samples", "of its calls, in the shared source", func(c fanin.Called) uint64 { return c.Samples }),
	col("", "own_samples", "of its calls, in the profile", func(c fanin.Called) uint64 { return c.Own }),
	col("", "source", "the shared one", func(c fanin.Called) string { return c.Source }),
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

var contextsLayout = layout("cum share context location",
	"cum share of-all samples activations context location", contextsColumns.list(""), ByTime, BySamples, ByActivations)

// NewContexts lists the contexts of the methods of a list, told apart by up to depth
// callers; by all of them if depth is 0. The error says that there is no such order.
func NewContexts(p *Profile, l List, depth uint) (*Contexts, error) {
	order, err := contextsLayout.order(l)
	if err != nil {
		return nil, err
	}
	list := query.Contexts(p.Snapshot, l.Methods, depth)
	all := list.Contexts
	slices.SortStableFunc(all, func(a, b query.Context) int { return p.measure.hotter(order, a.Total, b.Total) })
	list.Contexts = cut(all, l.Limit)
	return &Contexts{ContextList: list, More: len(all) - len(list.Contexts), profile: p}, nil
}

// Text prints a table of contexts, the callers below each.
func (v *Contexts) Text(w io.Writer, o TextOptions) error {
	s := newSheet(v.profile, contextsLayout, o)
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
	return s.print(w, v.More, slices.Concat(v.profile.lowerBounds("Contexts"), v.sharedNotes())...)
}

// sharedNotes say what a shared source knows better than the profile.
func (v *Contexts) sharedNotes() (notes []string) {
	for _, c := range v.Shared {
		notes = append(notes, fmt.Sprintf("%s is %s: of its calls that has %s, and this profile %s.",
			c.Method, c, figure.Plural(int64(c.Samples), "sample"), figure.Count(int64(c.Own))))
	}
	return notes
}

// JSON describes the profile and lists the contexts.
func (v *Contexts) JSON() any { return contextsColumns.json(v.profile, v) }
