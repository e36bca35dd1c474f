package view

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

// SearchOptions say what a search looks for. The zero options find every method.
type SearchOptions struct {
	Text  string // a part of the name; without upper case letters it is found in any case. "": every name has it
	Match string // a regular expression (RE2) in place of Text; "": none
	Limit uint   // methods; 0: 50
}

// Search is the methods with a name that is looked for, the heaviest first, and the samples that have any of them.
type Search struct {
	profile *Profile
	rows    []searchRow // those to be shown
	total   ccmap.Counters
	found   int // methods
}

type searchRow struct {
	method ccmap.Method
	cum    ccmap.Counters
}

// Bounds of a search.
const (
	usualFound    = 50
	mostPattern   = 1 << 10 // bytes
	searchBudget  = 1 << 28 // instructions of the expression times bytes of names: about 3 s at worst
	worstFoldCost = 2       // instructions that a plain text counts as
)

// NewSearch finds methods among all that were sampled. The errors have the codes of [ErrorOf].
func NewSearch(p *Profile, o SearchOptions) (*Search, error) {
	m, err := o.matcher()
	if err != nil {
		return nil, err
	}
	found := make(query.Methods, p.Names().Len())
	v := &Search{profile: p}
	for id, cum := range p.Cumulative() {
		if cum.IsZero() {
			continue
		}
		method := p.Names().At(ccmap.MethodID(id))
		if found[id], err = m.finds(method); err != nil {
			return nil, err
		}
		if found[id] {
			v.rows = append(v.rows, searchRow{method, cum})
		}
	}
	slices.SortFunc(v.rows, func(a, b searchRow) int {
		return cmp.Or(p.measure.hotter(ByTime, a.cum, b.cum), cmp.Compare(a.method.Name, b.method.Name), cmp.Compare(a.method.Signature, b.method.Signature))
	})
	v.total, v.found = sumOnce(p.Snapshot, found, v.rows), len(v.rows)
	if o.Limit == 0 {
		o.Limit = usualFound
	}
	v.rows = cut(v.rows, o.Limit)
	return v, nil
}

// sumOnce counts each sample once that has any of the methods on its stack. A single method has its exact total also
// where contexts were pruned.
func sumOnce(s *ccmap.Snapshot, methods query.Methods, rows []searchRow) (sum ccmap.Counters) {
	if len(rows) == 1 {
		return rows[0].cum
	}
	for n := range query.Outermost(s, func(n ccmap.Node) bool { return methods.Has(n.Method) }) {
		sum = sum.Add(s.Inclusive(n.ID))
	}
	return sum
}

// matcher finds names within a budget.
type matcher struct {
	match func(string) bool
	cost  int // of a byte
	left  int
}

var errSearchBudget = &Error{Code: CodeTooLarge, Err: errors.New("the expression takes too long for so many names"), Hint: "Simplify it: without large counts as {1000}."}

func (o SearchOptions) matcher() (*matcher, error) {
	if len(o.Text) > mostPattern || len(o.Match) > mostPattern {
		return nil, &Error{Code: CodeUsage, Err: fmt.Errorf("more than %d bytes to look for", mostPattern)}
	}
	if o.Text != "" && o.Match != "" {
		return nil, &Error{Code: CodeUsage, Err: errors.New("a text and an expression to look for exclude each other")}
	}
	m := &matcher{cost: worstFoldCost, left: searchBudget}
	switch {
	case o.Match != "":
		re, err := regexp.Compile(o.Match)
		if err != nil {
			return nil, &Error{Code: CodeUsage, Err: err}
		}
		m.match, m.cost = re.MatchString, instructions(o.Match)
	case strings.ToLower(o.Text) == o.Text:
		m.match = func(name string) bool { return strings.Contains(strings.ToLower(name), o.Text) }
	default:
		m.match = func(name string) bool { return strings.Contains(name, o.Text) }
	}
	return m, nil
}

// instructions returns the length of the program of an expression that compiles.
func instructions(expr string) int {
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return searchBudget
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return searchBudget
	}
	return len(program.Inst)
}

// finds looks at the name and the title of a method.
func (m *matcher) finds(method ccmap.Method) (bool, error) {
	title := method.Title()
	for _, name := range []string{method.Name, title} {
		if m.left -= (len(name) + 1) * m.cost; m.left < 0 {
			return false, errSearchBudget
		}
		if m.match(name) {
			return true, nil
		}
		if name == title {
			break
		}
	}
	return false, nil
}

// mostNameJSON bounds a name in a list of names, bytes.
const mostNameJSON = 512

var searchColumns = columns[*Search]{
	counted("total", "samples with any of the methods on their stack, each once", func(v *Search) *ccmap.Counters { return &v.total }),
	col("", "found", "methods", func(v *Search) count { return count(v.found) }),
	array("methods", "the heaviest of them, by all that they called", searchRowColumns, func(_ *Profile, v *Search) []searchRow { return v.rows }),
}

var searchRowColumns = append(columns[searchRow]{
	col("", "method", "name of the method", func(r searchRow) string { return shortened(r.method.Name) }),
	col("", "signature,omitempty", "tells methods of one name apart", func(r searchRow) string { return shortened(r.method.Signature) }),
}, inline(amountColumns, func(_ *Profile, r searchRow) *ccmap.Counters { return &r.cum })...)

// shortened cuts a name that no person reads to its end.
func shortened(name string) string {
	if len(name) <= mostNameJSON {
		return name
	}
	cut := mostNameJSON
	for cut > mostNameJSON-utf8.UTFMax && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}

// JSON lists the methods, and the sum of their samples.
func (v *Search) JSON() any { return searchColumns.json(v.profile, v) }
