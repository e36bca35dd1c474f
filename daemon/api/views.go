package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

// views are the routes of one profile. A view has the defaults of the command of its name.
var views = map[string]func(*view.Profile, *params) (view.View, error){
	"top": func(p *view.Profile, q *params) (view.View, error) {
		by, l := q.text("by", byMethod), q.list(p, 20)
		if what, key, _ := strings.Cut(by, ":"); what == "label" {
			return checked(q, func() (view.View, error) { return view.NewLabels(p, l, key) })
		} else if by != byMethod {
			return nil, usageError("by=%s is not method, label or label:KEY", by)
		}
		return checked(q, func() (view.View, error) { return view.NewTop(p, l) })
	},
	"contexts": func(p *view.Profile, q *params) (view.View, error) {
		l, depth := q.list(p, 10), q.number("depth", 6)
		if l.Methods == nil && q.err == nil {
			return nil, usageError("contexts wants method=NAME or match=REGEXP")
		}
		return checked(q, func() (view.View, error) { return view.NewContexts(p, l, depth) })
	},
	"sites": func(p *view.Profile, q *params) (view.View, error) {
		l, callees := q.list(p, 20), q.number("callees", 5)
		return checked(q, func() (view.View, error) { return view.NewSites(p, l, callees) })
	},
	"receivers": func(p *view.Profile, q *params) (view.View, error) {
		l := view.ReceiversList{List: q.list(p, 20), All: q.flag("all"), Verdict: q.word("verdict", view.ReceiversVerdicts()),
			Depth: q.number("depth", ccmap.MaxPointCallers)}
		if l.Depth < 1 || l.Depth > mostReceiverDepth {
			return nil, usageError("depth must be 1 to %d", mostReceiverDepth)
		}
		q.phase(p)
		return checked(q, func() (view.View, error) { return view.NewReceivers(p, l) })
	},
	"points": func(p *view.Profile, q *params) (view.View, error) {
		l := view.PointsList{List: q.list(p, 20), Kind: q.word("kind", view.PointKinds()), Origin: q.word("origin", view.PointOrigins())}
		q.phase(p)
		return checked(q, func() (view.View, error) { return view.NewPoints(p, l) })
	},
	"query": func(p *view.Profile, q *params) (view.View, error) {
		text, isRegexp := q.text("path", ""), false
		if match := q.text("match", ""); match != "" {
			text, isRegexp = match, true
		}
		l := q.list(p, 10)
		path, err := query.ParsePath(text)
		if err != nil {
			return nil, &view.Error{Code: view.CodeUsage, Err: err}
		}
		return checked(q, func() (view.View, error) {
			found, err := query.New(p.Snapshot, path, finder(isRegexp))
			if err != nil {
				return nil, err
			}
			return view.NewQuery(p, found, l)
		})
	},
	"meta": func(p *view.Profile, q *params) (view.View, error) {
		return checked(q, func() (view.View, error) { return meta{p}, nil })
	},
}

const (
	byMethod          = "method"
	mostReceiverDepth = 8
)

// meta is the description of a profile alone.
type meta struct{ *view.Profile }

func (m meta) Text(w io.Writer, _ view.TextOptions) error { return terminal.WriteJSON(w, m.JSON()) }

// checked makes a view if all parameters are right.
func checked(q *params, make func() (view.View, error)) (view.View, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	return make()
}

// viewOfTarget answers the short form of a route.
func (c *call) viewOfTarget() error {
	return c.viewOf(liveKind+":"+c.PathValue("target"), c.PathValue("view"))
}

func (c *call) view() error { return c.viewOf(c.PathValue("ref"), c.PathValue("view")) }

func (c *call) viewOf(ref, name string) error {
	q := newParams(c.URL.Query())
	ref, err := c.onlyPID(ref, q)
	if err != nil {
		return err
	}
	switch name {
	case "profile.pb.gz":
		return c.pprof(ref, q)
	case "map.json":
		name = "map"
	}
	newView, ok := views[name]
	if !ok && name != "map" {
		return &view.Error{Code: view.CodeNoTarget, Err: fmt.Errorf("there is no view %q", name),
			Hint: "There are map, profile.pb.gz, " + strings.Join(slices.Sorted(maps.Keys(views)), ", ") + "."}
	}
	s, err := c.snapshot(ref)
	if err != nil {
		return err
	}
	a, err := c.shares.get(c.Context(), c.question(ref, name), [2]*ccmap.Snapshot{s}, func() (answer, error) {
		if name == "map" {
			return writeMap(ref, s, q)
		}
		return writeView(ref, s, q, newView)
	})
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, a)
}

// question names an answer: equal questions about the same snapshots have equal answers.
func (c *call) question(ref, name string) string {
	return strings.Join([]string{name, ref, c.URL.Query().Encode()}, "\x00")
}

// writeView returns a view as the JSON that the command of its name prints, with the
// reference.
func writeView(ref string, s *ccmap.Snapshot, q *params, newView func(*view.Profile, *params) (view.View, error)) (answer, error) {
	p, err := q.choose(view.New(ref, s))
	if err != nil {
		return answer{}, err
	}
	v, err := newView(p, q)
	if err != nil {
		return answer{}, err
	}
	return writeJSON(v.JSON(), ref)
}

// writeJSON returns an object as JSON, after a member with its reference if there is one.
func writeJSON(v any, ref string) (answer, error) {
	var b boundedBuffer
	if err := terminal.WriteJSON(&b, v); err != nil {
		return answer{}, err
	}
	text := b.Bytes()
	if rest, ok := bytes.CutPrefix(text, []byte("{\n")); ok && ref != "" {
		name, _ := json.Marshal(ref) // a string
		text = slices.Concat([]byte("{\n  \"ref\": "), name, []byte(",\n"), rest)
	}
	return answer{contentType: typeJSON, body: text}, nil
}

// compared returns the two profiles of a comparison.
func (c *call) compared(q *params) (refs [2]string, of [2]*ccmap.Snapshot, err error) {
	for i, name := range []string{"a", "b"} {
		if refs[i] = q.text(name, ""); refs[i] == "" {
			return refs, of, usageError("a comparison wants two profiles: a=REF and b=REF")
		}
		if of[i], err = c.snapshot(refs[i]); err != nil {
			return refs, of, err
		}
	}
	return refs, of, nil
}

// compare answers with a comparison of two profiles.
func (c *call) compare(name string, newView func(a, b *view.Profile, q *params) (view.View, error)) error {
	q := newParams(c.URL.Query())
	refs, of, err := c.compared(q)
	if err != nil {
		return err
	}
	a, err := c.shares.get(c.Context(), c.question("", name), of, func() (answer, error) {
		var profiles [2]*view.Profile
		choice := q.choice()
		for i := range profiles {
			if profiles[i], err = choice.of(view.New(refs[i], of[i])); err != nil {
				return answer{}, err
			}
		}
		v, err := newView(profiles[0], profiles[1], q)
		if err != nil {
			return answer{}, err
		}
		return writeJSON(v.JSON(), "")
	})
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, a)
}

func (c *call) overlap() error {
	return c.compare("overlap", func(a, b *view.Profile, q *params) (view.View, error) {
		o := compare.Options{
			Weight: q.weight(), Absorb: q.absorb(), Tau: q.fraction("tau", compare.DefaultTau, 1), Seed: 1,
			Tolerance: q.fraction("tolerance", compare.DefaultTolerance, 100), AnyUnit: q.flag("any-unit"),
		}
		return checked(q, func() (view.View, error) { return view.NewOverlap([]*view.Profile{a, b}, o) })
	})
}

func (c *call) diff() error {
	return c.compare("diff", func(a, b *view.Profile, q *params) (view.View, error) {
		lists := view.DiffLists{Methods: q.flag("methods"), Edges: q.flag("edges"), Contexts: q.flag("contexts")}
		o := compare.DiffOptions{Weight: q.weight(), Absorb: q.absorb(), Least: q.fraction("least", 0, 100), All: q.flag("all"), Limit: int(q.number("limit", 10))}
		return checked(q, func() (view.View, error) { return view.NewDiff(a, b, lists, o) })
	})
}

// params are the parameters of a request. The first mistake is kept.
type params struct {
	values url.Values // that were not asked for yet
	err    error
}

func newParams(values url.Values) *params { return &params{values: values} }

func usageError(format string, args ...any) error {
	return &view.Error{Code: view.CodeUsage, Err: fmt.Errorf(format, args...)}
}

func (p *params) wrong(format string, args ...any) {
	if p.err == nil {
		p.err = usageError(format, args...)
	}
}

// check returns the first mistake, or names a parameter that there is not.
func (p *params) check() error {
	if p.err == nil && len(p.values) > 0 {
		p.wrong("there is no parameter %q here", slices.Min(slices.Collect(maps.Keys(p.values))))
	}
	return p.err
}

func (p *params) text(name, byDefault string) string {
	values, given := p.values[name]
	delete(p.values, name)
	if !given {
		return byDefault
	}
	if len(values) > 1 {
		p.wrong("%s is given twice", name)
	}
	return values[0]
}

func (p *params) number(name string, byDefault uint) uint {
	text := p.text(name, "")
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		p.wrong("%s=%s is not a whole number from 0", name, text)
	}
	return uint(n)
}

func (p *params) fraction(name string, byDefault, most float64) float64 {
	text := p.text(name, "")
	if text == "" {
		return byDefault
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= most) {
		p.wrong("%s=%s is not a number from 0 to %v", name, text, most)
	}
	return f
}

// flag returns a parameter that is true, false or empty, which is true.
func (p *params) flag(name string) bool {
	if _, given := p.values[name]; !given {
		return false
	}
	text := p.text(name, "")
	is, err := strconv.ParseBool(text)
	if text != "" && err != nil {
		p.wrong("%s=%s is neither true nor false", name, text)
	}
	return text == "" || is
}

// word returns a parameter that is one of some words; "" if it is missing.
func (p *params) word(name string, from []string) string {
	text := p.text(name, "")
	if text != "" && !slices.Contains(from, text) {
		p.wrong("%s=%s is not %s", name, text, terminal.OrList(from))
	}
	return text
}

// list returns which rows are asked for.
func (p *params) list(of *view.Profile, limit uint) view.List {
	l := view.List{Order: p.text("sort", ""), Limit: p.number("limit", limit)}
	name, match := p.text("method", ""), p.text("match", "")
	var err error
	switch {
	case name != "" && match != "":
		p.wrong("method and match exclude each other")
	case match != "":
		l.Methods, err = finder(true)(of.Names(), match)
	case name != "":
		l.Methods, err = finder(false)(of.Names(), name)
	}
	if p.err == nil {
		p.err = err
	}
	return l
}

// finder returns a function that finds the methods of a name or of a regular expression.
func finder(isRegexp bool) query.Finder {
	return func(names *ccmap.Names, text string) (query.Methods, error) {
		if !isRegexp {
			return query.Named(names, text)
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, &view.Error{Code: view.CodeUsage, Err: err}
		}
		return query.Matching(names, re)
	}
}

func (p *params) weight() (w compare.Weight) {
	if text := p.text("by", ""); text != "" {
		if err := w.UnmarshalText([]byte(text)); err != nil {
			p.wrong("by: %w", err)
		}
	}
	return w
}

func (p *params) absorb() func(ccmap.Method) bool {
	text := p.text("absorb", "")
	if text == "" {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		p.wrong("absorb: %w", err)
		return nil
	}
	return func(m ccmap.Method) bool { return re.MatchString(m.Name) || re.MatchString(m.Title()) }
}

// phase restricts the caught calls of a profile, as --phase does.
func (p *params) phase(of *view.Profile) {
	switch text := p.text("phase", ""); text {
	case "":
		of.UsePhaseOfWindow()
	case "last":
		of.UseLastPhase()
	default:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			p.wrong("phase=%s is neither a number from 1 nor last", text)
		} else if err := of.UsePhase(uint32(n)); p.err == nil {
			p.err = err
		}
	}
}

// choice says which part of a profile is looked at.
type choice struct {
	recent bool
	labels []ccmap.Label
	err    error
}

func (p *params) choice() (c choice) {
	for _, text := range p.values["label"] {
		key, value, found := strings.Cut(text, "=")
		if !found {
			c.err = usageError("label=%s is not KEY=VALUE", text)
		}
		c.labels = append(c.labels, ccmap.Label{Key: key, Value: value})
	}
	delete(p.values, "label")
	c.recent = p.flag("recent")
	return c
}

func (c choice) of(p *view.Profile) (*view.Profile, error) {
	if c.err != nil {
		return nil, c.err
	}
	if len(c.labels) > 0 {
		p = p.WithLabels(c.labels)
	}
	if c.recent {
		return p.RecentOnly()
	}
	return p, nil
}

// choose returns the part of a profile that is asked for.
func (p *params) choose(of *view.Profile) (*view.Profile, error) { return p.choice().of(of) }
