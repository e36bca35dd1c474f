package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

// Routes that are no questions, but for programs: the description of a profile alone, and the methods whose names are
// looked for.
const (
	metaName    = "meta"
	methodsName = "methods"
	momentsName = "moments"

	requestsName = "requests" // a question
)

// viewOfTarget answers the short form of a route.
func (c *call) viewOfTarget() error {
	return c.viewOf(liveKind+":"+c.PathValue("target"), c.PathValue("view"))
}

func (c *call) view() error { return c.viewOf(c.PathValue("ref"), c.PathValue("view")) }

func (c *call) viewOf(ref, name string) error {
	q := newParams(c.asked())
	ref, err := c.onlyPID(ref, q)
	if err != nil {
		return err
	}
	switch name {
	case "profile.pb.gz":
		return c.pprof(ref, q)
	case pgoName:
		return c.pgo(ref, q)
	case fanInName:
		return c.fanIn(ref, q)
	case "map.json":
		name = "map"
	}
	if name != "map" && name != momentsName && !slices.Contains(viewNames(), name) {
		return &view.Error{Code: view.CodeNoTarget, Err: fmt.Errorf("there is no view %q", name),
			Hint: "There are map, moments, profile.pb.gz, default.pgo, fanin, " + strings.Join(viewNames(), ", ") + "."}
	}
	s, err := c.snapshot(ref, q.text("event", c.eventOf(ref, name)))
	if err != nil {
		return err
	}
	a, err := c.shares.get(c.Context(), c.question(ref, name), [2]*ccmap.Snapshot{s}, func() (answer, error) {
		switch name {
		case "map":
			return writeMap(ref, s, q)
		case momentsName:
			return writeMoments(s, q)
		}
		return writeView(ref, s, q, name)
	})
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, a)
}

// eventOf returns the event that a view is of where the client names none: requests are in the profile of waits.
func (c *call) eventOf(ref, name string) string {
	kind, rest, _ := strings.Cut(ref, ":")
	if name != requestsName || kind != liveKind {
		return ""
	}
	if t, _, err := c.process(rest); err == nil && t.Waits != nil {
		return t.Waits.Event
	}
	return ""
}

// question names an answer: equal questions about the same snapshots have equal answers.
func (c *call) question(ref, name string) string {
	return strings.Join([]string{name, ref, c.asked().Encode()}, "\x00")
}

// leastShared is the least width of a flame graph that is rounded.
const leastShared = 512

// asked returns the parameters of a request. The width of a flame graph, which pages ask for in pixels, is rounded up
// to leastShared times a power of two: or else no two windows would share an answer.
func (c *call) asked() url.Values {
	values := c.URL.Query()
	if n, err := strconv.ParseUint(values.Get("width"), 10, 20); err == nil && n > leastShared {
		values.Set("width", strconv.Itoa(leastShared<<bits.Len64((n-1)/leastShared)))
	}
	return values
}

// viewNames returns the names of the views of one profile, in order.
func viewNames() []string {
	names := []string{metaName, methodsName}
	for _, q := range view.Questions() {
		if !q.Subject.Compares() {
			names = append(names, q.Name)
		}
	}
	slices.Sort(names)
	return names
}

// writeView returns a view as the JSON that the command of its name prints, with the
// reference.
func writeView(ref string, s *ccmap.Snapshot, q *params, name string) (answer, error) {
	p, err := q.choose(view.New(ref, s))
	if err != nil {
		return answer{}, err
	}
	question, ok := view.QuestionNamed(name)
	switch {
	case name == methodsName:
		return q.search(p, ref)
	case !ok:
		if err := q.check(); err != nil {
			return answer{}, err
		}
		return writeJSON(p.JSON(), ref)
	}
	v, err := q.ask(question, p)
	if err != nil {
		return answer{}, err
	}
	return writeJSON(v.JSON(), ref)
}

// search answers with the methods whose names are looked for.
func (p *params) search(of *view.Profile, ref string) (answer, error) {
	o := view.SearchOptions{Text: p.text("q", ""), Match: p.text("match", ""), Limit: p.number("limit", 0)}
	if err := p.check(); err != nil {
		return answer{}, err
	}
	found, err := view.NewSearch(of, o)
	if err != nil {
		return answer{}, err
	}
	return writeJSON(found.JSON(), ref)
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
	event := q.text("event", "")
	for i, name := range []string{"a", "b"} {
		if refs[i] = q.text(name, ""); refs[i] == "" {
			return refs, of, usageError("a comparison wants two profiles: a=REF and b=REF")
		}
		if of[i], err = c.snapshot(refs[i], event); err != nil {
			return refs, of, err
		}
	}
	return refs, of, nil
}

// compare answers a question about two profiles.
func (c *call) compare(question view.Question) error {
	q := newParams(c.asked())
	refs, of, err := c.compared(q)
	if err != nil {
		return err
	}
	a, err := c.shares.get(c.Context(), c.question("", question.Name), of, func() (answer, error) {
		var profiles [2]*view.Profile
		choice := q.choice()
		for i := range profiles {
			if profiles[i], err = choice.of(view.New(refs[i], of[i])); err != nil {
				return answer{}, err
			}
		}
		v, err := q.ask(question, profiles[:]...)
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
	return p.numberOf(view.Param{Name: name}, byDefault)
}

func (p *params) numberOf(of view.Param, byDefault uint) uint {
	text := p.text(of.Name, "")
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case of.Most > 0 && (err != nil || float64(n) < of.Least || float64(n) > of.Most):
		p.wrong("%s must be %v to %v", of.Name, of.Least, of.Most)
	case err != nil:
		p.wrong("%s=%s is not a whole number from 0", of.Name, text)
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
func (p *params) word(of view.Param) string {
	text := p.text(of.Name, "")
	if text != "" && !of.Open && !slices.Contains(of.Words, text) {
		p.wrong("%s=%s is not %s", of.Name, text, terminal.OrList(of.Words))
	}
	return text
}

// ask asks a question, with the parameters of the request.
func (p *params) ask(question view.Question, profiles ...*view.Profile) (view.View, error) {
	form := question.New()
	for _, of := range form.Params {
		if !of.OnlyText {
			p.set(of)
		}
	}
	about := view.About{Profiles: profiles}
	if !question.Subject.Compares() {
		about.Text, about.Find = p.wanted(question.Subject)
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return form.Answer(about)
}

// set sets a parameter of a question, unless it is missing.
func (p *params) set(of view.Param) {
	switch v := of.Value.(type) {
	case *bool:
		*v = p.flag(of.Name)
	case *uint:
		*v = p.numberOf(of, *v)
	case *float64:
		*v = p.fraction(of.Name, *v, of.Most)
	case *string:
		if of.Words == nil {
			*v = p.text(of.Name, *v)
		} else {
			*v = p.word(of)
		}
	case view.Value:
		p.setValue(of.Name, v)
	}
}

func (p *params) setValue(name string, v view.Value) {
	text := p.text(name, "")
	if text == "" {
		return
	}
	switch err := v.UnmarshalText([]byte(text)); {
	case err == nil:
	case name == "phase":
		p.wrong("%s=%s is neither a number from 1 nor last", name, text)
	default:
		p.wrong("%s: %w", name, err)
	}
}

// wanted returns the methods or the path that are asked for, and how to find them.
func (p *params) wanted(subject view.Subject) (string, query.Finder) {
	name, match := p.text("method", ""), p.text("match", "")
	if subject == view.OfPath {
		name = p.text("path", "")
	} else if name != "" && match != "" {
		p.wrong("method and match exclude each other")
	}
	if match != "" {
		return match, finder(true)
	}
	return name, finder(false)
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
