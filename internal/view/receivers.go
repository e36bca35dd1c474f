package view

import (
	"cmp"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

var receiversQuestion = Question{
	Name:    "receivers",
	Subject: OfMethods,
	Layout:  receiversLayout,
	Short:   "List calls of many receiver types, and which callers tell the type",
	Long: `Receivers lists the calls that may reach several methods, the hottest first: which
receiver types they have (→), how often, by samples and by caught calls, and from
which callers (←, innermost first) they have fewer. --all lists every call site, --nulls
what has met null: checks of a JVM, and points of other VMs. A JVM counts its calls
itself: which of its counts are proven, estimated or frozen is said.

METHOD restricts the list to calls made by it: a name, or as much of its end as is
unique. docs/receivers.md explains columns, verdicts and phases, docs/formats.md JSON.`,
	Example: `  ccmapd receivers web.pb.gz
  ccmapd receivers --sort gain web.pb.gz parse     where callers tell most
  ccmapd receivers --nulls app.json                which callers pass null
  ccmapd receivers --json web.pb.gz | jq '.sites[] | .by_calls.receivers'`,
	New: func() *Form {
		l := ReceiversList{Depth: ccmap.MaxPointCallers, Types: 5, Contexts: 5}
		var only phase
		return &Form{
			Params: listParams(&l.List, 20, receiversLayout,
				Param{Name: "all", Value: &l.All, Help: "list all call sites, also of one receiver"},
				Param{Name: "nulls", Value: &l.Nulls, Help: "list what has met null, in place of calls by receiver"},
				Param{Name: "verdict", Value: &l.Verdict, Words: receiversVerdicts(), Help: "list only what is `V`: " + terminal.OrList(receiversVerdicts())},
				Param{Name: "depth", Value: &l.Depth, Least: 1, Most: pollution.MostCallers,
					Help: "tell contexts of caught calls and of samples apart by up to `N` callers; calls that a JVM counts as far as it takes"},
				Param{Name: "types", Value: &l.Types, OnlyText: true, Help: "list at most `N` receivers of a site, and the others as one; 0: all"},
				Param{Name: "contexts", Value: &l.Contexts, OnlyText: true, Help: "list at most `N` callers of a site; 0: all"},
				phaseParam(&only)),
			Answer: ofMethods(&l.List, func(p *Profile) (View, error) {
				if err := only.use(p); err != nil {
					return nil, err
				}
				return NewReceivers(p, l)
			}),
		}
	},
}

// Orders of the call sites in [Receivers].
const (
	ByCalls   = "calls"
	ByEntropy = "entropy"
	ByGain    = "gain" // by the entropy that callers take away
)

var receiversLayout = layout("cum share of-calls call-site verdict",
	"cum share of-all samples calls of-calls bits call-site location verdict", receiversColumns.list(""), ByTime, ByCalls, ByEntropy, ByGain, ByName)

// receiversVerdicts has the words for ReceiversList.Verdict.
func receiversVerdicts() []string {
	var words []string
	for _, v := range []pollution.Verdict{
		pollution.Monomorphic, pollution.Bimorphic, pollution.Megamorphic, pollution.Mixed, pollution.Unknown,
	} {
		words = append(words, v.String())
	}
	return words
}

// ReceiversList says which call sites are listed, and how much of each.
type ReceiversList struct {
	List
	All      bool   // also sites of one receiver
	Nulls    bool   // what has met null, in place of call sites
	Verdict  string // only sites of this verdict; empty: of any
	Depth    uint   // callers that tell contexts apart; 0: none, so there are no contexts
	Types    uint   // receivers of a site in text; 0: all
	Contexts uint   // callers of a site in text; 0: all
}

// has reports whether a verdict is listed. A site whose line is unknown is unknown.
func (l ReceiversList) has(v pollution.Verdict) bool {
	if v == pollution.LineUnknown {
		v = pollution.Unknown
	}
	return l.Verdict == "" || l.Verdict == v.String()
}

// Receivers lists calls that may reach several methods: their receiver types, and the
// callers that tell the type.
type Receivers struct {
	*Profile
	Rows   []ReceiversRow // those to be shown
	More   int            // rows that were cut
	Hidden int            // sites that All would list
	Caught int64          // calls, in all chosen phases
	// Counted is the calls that the program's VM counted itself.
	Counted int64
	nulls   []nullSite // of ReceiversList.Nulls; then there are no Rows
	list    ReceiversList
}

// ReceiversRow is a call site with the evidence that decides about it.
type ReceiversRow struct {
	pollution.Site
	Decisive pollution.Evidence
	ByCalls  bool              // Decisive is Calls, not Samples
	Splits   []pollution.Split // of Decisive
	caller   ccmap.Method
	depth    int    // of splits
	vm       *vmRow // nil: its VM does not count it
}

// call is where the site is.
func (r ReceiversRow) call() ccmap.Frame { return ccmap.Frame{Method: r.Caller, Offset: r.Offset} }

// NewReceivers lists the call sites in the methods of a list. The error says that there is
// no such order.
func NewReceivers(p *Profile, l ReceiversList) (*Receivers, error) {
	order, err := receiversLayout.order(l.List)
	if err != nil {
		return nil, err
	}
	points := p.countedPoints()
	v := &Receivers{Profile: p, list: l, Caught: caughtCalls(points), Counted: countedCalls(points)}
	if l.Nulls {
		v.listNulls(points, order)
		return v, nil
	}
	var wanted func(ccmap.MethodID) bool
	if l.Methods != nil {
		wanted = l.Methods.Has
	}
	var rows []ReceiversRow
	analysis := p.pollution()
	for _, site := range analysis.Sites(wanted) {
		switch {
		case !l.has(site.Decisive().Verdict):
		case !l.All && !site.MaybeDynamic():
			v.Hidden++
		default:
			rows = append(rows, newReceiversRow(p, site, int(l.Depth)))
		}
	}
	slices.SortFunc(rows, func(a, b ReceiversRow) int {
		return cmp.Or(
			compareReceivers(order, a, b),
			cmp.Compare(a.caller.Name, b.caller.Name),
			cmp.Compare(a.caller.Signature, b.caller.Signature),
			cmp.Compare(int32(a.Offset), int32(b.Offset)),
		)
	})
	v.Rows = cut(rows, l.Limit)
	v.More = len(rows) - len(v.Rows)
	for i := range v.Rows {
		v.Rows[i].join(analysis)
	}
	return v, nil
}

// newReceiversRow finds the evidence that decides about a site. Caught calls may decide
// and be too few to tell callers apart: then samples that agree with them may do that.
func newReceiversRow(p *Profile, site pollution.Site, depth int) ReceiversRow {
	row := ReceiversRow{Site: site, Decisive: site.Decisive(), ByCalls: site.CallsDecide(), caller: p.Names().At(site.Caller), depth: depth}
	row.Splits = row.Decisive.Splits(depth)
	if _, settles := row.Decisive.Least(row.Splits); settles || !row.ByCalls || !site.Agree() {
		return row
	}
	splits := site.Samples.Splits(depth)
	if _, settles := site.Samples.Least(splits); settles {
		row.Decisive, row.ByCalls, row.Splits = site.Samples, false, splits
	}
	return row
}

// caughtCalls returns how many calls the points have.
func caughtCalls(points []ccmap.Point) int64 {
	n := int64(0)
	for _, q := range points {
		if isCaught(q) && q.Callers == nil {
			n += q.Count
		}
	}
	return n
}

// compareReceivers compares in one of the orders, the higher first; equal ones by time.
func compareReceivers(by string, a, b ReceiversRow) int {
	hotter := cmp.Compare(b.Samples.Total().Weight, a.Samples.Total().Weight)
	switch by {
	case ByName:
		return 0
	case ByCalls:
		return cmp.Or(cmp.Compare(b.Calls.Total().Seen, a.Calls.Total().Seen), hotter)
	case ByEntropy:
		return cmp.Or(cmp.Compare(b.Decisive.Entropy(), a.Decisive.Entropy()), hotter)
	case ByGain:
		return cmp.Or(cmp.Compare(b.gain(), a.gain()), hotter)
	}
	return hotter
}

// gain returns the entropy that the callers take away, in bits.
func (r ReceiversRow) gain() float64 { return r.Decisive.Entropy() - r.remaining() }

// remaining returns the entropy that is left when the callers are known.
func (r ReceiversRow) remaining() float64 {
	if len(r.Splits) == 0 {
		return r.Decisive.Entropy()
	}
	return r.Splits[len(r.Splits)-1].Entropy
}

// telling returns the split to be shown: the one that settles the verdict on the site, or
// else the first split with a context that has fewer receivers than the site.
func (r ReceiversRow) telling() (split pollution.Split, settles bool) {
	if s, ok := r.Decisive.Least(r.Splits); ok {
		return s, true
	}
	for _, s := range r.Splits {
		if slices.ContainsFunc(s.Contexts, r.isBetter) {
			return s, false
		}
	}
	return pollution.Split{}, false
}

// isBetter reports whether a context is known to have fewer receivers than its site.
func (r ReceiversRow) isBetter(c pollution.Context) bool {
	return c.Verdict >= pollution.Monomorphic && c.Verdict < min(r.Decisive.Verdict, pollution.Megamorphic)
}
