package view

import (
	"encoding"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Questions returns all questions about profiles. Commands, routes, the schema of JSON and tests are made from
// the list.
func Questions() []Question {
	return []Question{
		topQuestion, contextsQuestion, sitesQuestion, receiversQuestion, pointsQuestion, queryQuestion, linesQuestion, flameQuestion, heatQuestion,
		requestsQuestion, overlapQuestion, diffQuestion, flameDiffQuestion,
	}
}

// QuestionNamed returns the question of a name.
func QuestionNamed(name string) (Question, bool) {
	all := Questions()
	i := slices.IndexFunc(all, func(q Question) bool { return q.Name == name })
	if i < 0 {
		return Question{}, false
	}
	return all[i], true
}

// Question is a question about profiles: a command and a route of the same name. It must not be changed.
type Question struct {
	Name    string // of the command, and of the route
	Subject Subject
	Short   string // help: one line, without a period
	Long    string // help: lines of at most 90 columns
	Example string // help: command lines
	Layout  Layout
	ByLabel Layout // of the answer where the parameter by is label; empty: there is none
	IsWhole bool   // the answer is of the whole run; the window of recent samples has none

	New func() *Form // returns a form with the defaults
}

// Subject says what a question is about. Its value is the arguments of a command line.
type Subject string

// The subjects.
const (
	OfMethods Subject = "FILE [METHOD]" // of a profile: all methods, or those of a name
	OfMethod  Subject = "FILE METHOD"
	OfPath    Subject = "FILE PATH"
	OfTwo     Subject = "A B" // profiles
	OfMany    Subject = "A B..."
)

// Compares reports whether the question is about several profiles.
func (s Subject) Compares() bool { return s == OfTwo || s == OfMany }

// Form is a question that is being asked: whoever asks it sets the parameters, gets the profiles, and asks for
// the answer. One goroutine may use it, once.
type Form struct {
	Params []Param

	// Answer returns the view that answers the question. Its errors have the codes of [ErrorOf].
	Answer func(About) (View, error)
}

// Param is a parameter of a question: a flag, or a parameter of a URL.
type Param struct {
	Name   string
	Letter string // of the flag; empty: none
	Help   string // says what the value does, and has a word for the value in back quotes

	// Value holds the default, until it is set: a *bool, *uint, *float64 or *string, or a [Value].
	Value any

	Words       []string // that the value may be; nil: any. An empty value stands for the default
	Open        bool     // the answer takes other words, too
	Least, Most float64  // of a number; a *uint may be any if Most is 0
	Over        bool     // a flag must be over Least; in a URL, 0 stands for the default
	Unit        string   // of Least and Most

	OnlyText bool // JSON does not depend on it
}

// Value is a value with a form of its own.
type Value interface {
	fmt.Stringer
	encoding.TextUnmarshaler
}

// About is what a question is about.
type About struct {
	Profiles []*Profile   // two or more for a comparison, else one
	Text     string       // a name, a regular expression or a path; empty: all methods
	Find     query.Finder // finds the methods of Text, or of an element of the path
}

// listParams are the parameters of a list: its order, its limit, and others.
func listParams(l *List, limit uint, layout Layout, others ...Param) []Param {
	l.Order, l.Limit = layout.Orders[0], limit
	return append([]Param{
		{Name: "sort", Value: &l.Order, Words: layout.Orders, Open: true, Help: "order `BY` " + terminal.OrList(layout.Orders)},
		{Name: "limit", Letter: "n", Value: &l.Limit, Help: "list at most `N`; 0: all"},
	}, others...)
}

// ofMethods answers a question about methods of a profile, once they are found.
func ofMethods(l *List, answer func(*Profile) (View, error)) func(About) (View, error) {
	return func(a About) (v View, err error) {
		if a.Text != "" {
			l.Methods, err = a.Find(a.Profiles[0].Names(), a.Text)
		}
		if err != nil {
			return nil, err
		}
		return answer(a.Profiles[0])
	}
}

// comparison is how profiles are compared.
type comparison struct {
	by     compare.Weight
	absorb regexp.Regexp
}

// params are the parameters of a comparison by one of some weights, and others.
func (c *comparison) params(weights []compare.Weight, others ...Param) []Param {
	words := make([]string, len(weights))
	for i, w := range weights {
		words[i] = w.String()
	}
	return append([]Param{
		{Name: "by", Value: &c.by, Words: words, Help: "weigh `BY` " + terminal.OrList(words)},
		{Name: "absorb", Value: &c.absorb, Help: "count methods that match `REGEXP`, and what they call, for their callers"},
	}, others...)
}

// absorbs returns which methods count for their callers; nil: none.
func (c *comparison) absorbs() func(ccmap.Method) bool {
	if c.absorb.String() == "" {
		return nil
	}
	return func(m ccmap.Method) bool { return c.absorb.MatchString(m.Name) || c.absorb.MatchString(m.Title()) }
}

// phase chooses the phase of the program whose caught calls are read. The zero phase is all of them, or of a
// window the last.
type phase struct {
	number uint32 // from 1
	last   bool
}

const lastPhase = "last"

func phaseParam(p *phase) Param {
	return Param{Name: "phase", Value: p, Help: "read caught calls of phase `N` of the program, from 1, or of the last"}
}

func (f *phase) String() string {
	switch {
	case f.last:
		return lastPhase
	case f.number > 0:
		return strconv.FormatUint(uint64(f.number), 10)
	}
	return ""
}

// UnmarshalText accepts a number from 1, and "last".
func (f *phase) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 32)
	if *f = (phase{uint32(n), string(text) == lastPhase}); !f.last && (err != nil || n == 0) {
		return fmt.Errorf("%q is neither a number from 1 nor %q", text, lastPhase)
	}
	return nil
}

// use restricts the caught calls of a profile.
func (f *phase) use(p *Profile) error {
	switch {
	case f.last:
		p.useLastPhase()
	case f.number > 0:
		return p.UsePhase(f.number)
	case p.isRecent(): // which has no caught calls of its own
		p.useLastPhase()
	}
	return nil
}
