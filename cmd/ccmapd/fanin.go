package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const fanInLong = `Fanin says from how many places a method is called, how often it was sampled there, and
which places these are: up to 20, and the others as one. Compilers decide by it what to
inline. Without METHOD it lists the methods, those with the most calls sampled first.

PROFILE is any profile, a file that 'fanin store' wrote, or @hub/build:TARGET[@BUILD]:
then the fan-in of the whole build is got from the hub of the fleet, at once, and methods
are looked up in it here.

--shared has a second source, which for @NAME is what the daemon keeps of the fleet. The
one with more samples is used, method by method; of two that are about equal the profile's
own, which is fresher. Methods are the same if name, signature and code are, or without
the last where it is not known. A method that neither source knows is an error.`

const fanInExample = `  ccmapd fanin web.pb.gz runtime.mallocgc
  ccmapd fanin @hub/build:web                                the whole fleet's
  ccmapd fanin web.pb.gz --shared @hub/build:web main.parse  the better of two
  ccmapd fanin store web.fi monday.pb.gz tuesday.pb.gz       keep the best of each method`

// fanInFlags are the flags of fanin.
type fanInFlags struct {
	recency
	methodFlags
	shared sharedFlag
	limit  uint
	asJSON bool
}

// newFanInCmds returns the command and the one below it.
func newFanInCmds(env *environment) []subcommand {
	var f fanInFlags
	cmd := &cobra.Command{
		Use: "fanin PROFILE [METHOD]", Short: "Say from how many places methods are called", Long: fanInLong, Example: fanInExample,
		GroupID: groupRead, Args: methodArgs(0, "a profile, and perhaps a method"),
		PreRunE: func(_ *cobra.Command, args []string) error { return f.shared.check(args) },
		RunE:    func(_ *cobra.Command, args []string) error { return f.run(env, args) },
	}
	cmd.ValidArgsFunction = completeMethods(env)
	f.recency.register(cmd)
	f.methodFlags.register(cmd)
	f.shared.register(cmd)
	cmd.Flags().UintVarP(&f.limit, "limit", "n", 20, "list at most `N` methods; 0: all")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, which has every figure")
	store := newFanInStoreCmd(env)
	cmd.AddCommand(store.Command)
	own := func(args []string) []string { return slices.DeleteFunc(slices.Clone(firstProfile(args)), ofHub) }
	all := func(args []string) []string { return slices.Concat(firstProfile(args), f.shared.sources(args)) }
	return []subcommand{{cmd, f.oneAtHub(f.shared.fetched(env, all, reading(own, noOutputs)))}, store}
}

// oneAtHub returns rights that first ask a hub for one method, if that is all that is wanted.
func (f *fanInFlags) oneAtHub(then rights) rights {
	return func(env *environment, cmd *cobra.Command, args []string) error {
		if text, isRegexp := f.method(args); len(args) > 0 && ofHub(args[0]) && f.shared.where == "" && !isRegexp {
			if err := env.toFetch(cmd); err != nil {
				return err
			}
			if err := f.shared.files.fetch(cmd.Context(), env, args[0], text); err != nil {
				return err
			}
		}
		return then(env, cmd, args)
	}
}

func (f *fanInFlags) run(env *environment, args []string) error {
	own, err := f.shared.files.read(env, args[0], f.recency)
	if err != nil {
		return err
	}
	shared, err := f.shared.read(env, f.recency, own.build)
	if err != nil {
		return err
	}
	from := fanInFrom{own, shared}
	text, isRegexp := f.method(args)
	answer, err := from.answer(text, isRegexp, f.limit)
	switch {
	case err != nil:
		return err
	case f.asJSON:
		return terminal.WriteJSON(env.stdout, answer)
	}
	out := terminal.NewPrinter(env.stdout, env.wide)
	if text == "" {
		answer.list(out)
	} else {
		answer.explain(out)
	}
	return out.Err()
}

// fanInFrom is one's own source of fan-in, and perhaps a shared one.
type fanInFrom struct {
	own    fanInSource
	shared *fanInSource
}

// fanInAnswer is what fanin prints.
type fanInAnswer struct {
	Own     fanInOrigin   `json:"own"` // the source that was named
	Shared  *fanInOrigin  `json:"shared,omitempty"`
	Methods []fanInMethod `json:"methods"` // those with the most samples first
	More    int           `json:"more"`    // methods that were cut
}

// fanInOrigin is a source in JSON.
type fanInOrigin struct {
	Source  string `json:"source"`
	Methods int    `json:"methods"` // that it knows
}

// fanInMethod is the fan-in of a method, from the better source.
type fanInMethod struct {
	fanInName
	From    string        `json:"from"`    // own or shared
	Places  uint32        `json:"places"`  // that call it; 21: more than 20
	Samples uint64        `json:"samples"` // of its calls
	Other   uint64        `json:"other"`   // of these, from callers that are not listed
	Callers []fanInCaller `json:"callers"` // the most frequent first, at most 20

	OwnSamples    *uint64 `json:"own_samples,omitempty"`    // absent: the source does not know the method
	SharedSamples *uint64 `json:"shared_samples,omitempty"` // likewise
}

// fanInName is a method in JSON.
type fanInName struct {
	Method    string `json:"method"`
	Signature string `json:"signature,omitempty"`
	Body      string `json:"body,omitempty"` // hash of its code, in hex; absent: not known
}

// fanInCaller is a place that calls a method.
type fanInCaller struct {
	fanInName
	Offset  *uint32 `json:"offset,omitempty"` // of the call: lines from the declaration, or bytes; absent: not known
	File    string  `json:"file,omitempty"`
	Line    int32   `json:"line,omitempty"`
	Samples uint64  `json:"samples"`

	location string // for people
}

// answer looks up the methods of a name or, if isRegexp, of a regular expression; without a text, all.
func (from fanInFrom) answer(text string, isRegexp bool, limit uint) (a fanInAnswer, err error) {
	a.Own = fanInOrigin{client.Name(from.own.where), from.own.methods}
	var shared fanin.List
	if from.shared != nil {
		shared = from.shared.List
		a.Shared = &fanInOrigin{client.Name(from.shared.where), from.shared.methods}
	}
	keys := fanin.Methods(from.own.List, shared)
	if text != "" {
		if keys, err = named(keys, text, isRegexp); err != nil {
			return a, err
		}
		limit = 0
	}
	all := make([]fanin.Choice, len(keys))
	for i, k := range keys {
		all[i], _ = fanin.Choose(k, from.own.List, shared)
	}
	slices.SortStableFunc(all, func(a, b fanin.Choice) int { return cmp.Compare(b.Samples, a.Samples) })
	if limit > 0 && uint(len(all)) > limit {
		a.More, all = len(all)-int(limit), all[:limit]
	}
	a.Methods = []fanInMethod{}
	for _, c := range all {
		a.Methods = append(a.Methods, methodOf(c, from.own.names))
	}
	return a, nil
}

// named returns the methods of a name, or of a regular expression.
func named(all []fanin.Key, text string, isRegexp bool) (found []fanin.Key, err error) {
	names := ccmap.NewNames()
	ids := make([]ccmap.MethodID, len(all))
	for i, k := range all {
		ids[i] = names.Intern(ccmap.Method{Name: k.Name, Signature: k.Signature, Coordinate: ccmap.CoordinateBytecode})
	}
	set, err := finder(isRegexp)(names, text)
	for i, k := range all {
		if err == nil && set.Has(ids[i]) {
			found = append(found, k)
		}
	}
	return found, err
}

func methodOf(c fanin.Choice, names *ccmap.Names) fanInMethod {
	m := fanInMethod{
		fanInName: nameOf(c.Key), From: "own", Places: c.Callers, Samples: c.Samples, Other: c.Other,
		OwnSamples: c.OwnSamples, SharedSamples: c.SharedSamples, Callers: []fanInCaller{},
	}
	if c.Shared {
		m.From = "shared"
	}
	for _, caller := range c.Listed {
		m.Callers = append(m.Callers, callerOf(caller, names))
	}
	return m
}

func nameOf(k fanin.Key) fanInName {
	n := fanInName{Method: k.Name, Signature: k.Signature}
	if k.Body != 0 && k.Body != fanin.Mixed {
		n.Body = fmt.Sprintf("%08x", k.Body)
	}
	return n
}

// callerOf returns a caller with its line, if the names of a profile have the same code; nil: there is no profile.
func callerOf(c fanin.Caller, names *ccmap.Names) fanInCaller {
	is := fanInCaller{fanInName: nameOf(c.Key), Samples: c.Samples}
	if c.Offset == ccmap.NoOffset {
		return is
	}
	is.Offset, is.location = &c.Offset, fmt.Sprintf("+%d", c.Offset)
	if names == nil {
		return is
	}
	id, known := names.Lookup(c.Name, c.Signature)
	if !known {
		return is
	}
	if m := names.At(id); fanin.BodyOf(m.Body) == c.Body {
		is.File, is.Line = m.File, names.Line(ccmap.Frame{Method: id, Offset: c.Offset})
		is.location = m.File + m.Coordinate.Format(c.Offset)
	}
	if is.File != "" && is.Line != 0 {
		is.location = fmt.Sprintf("%s:%d", is.File, is.Line)
	}
	return is
}

// title prints a method: one that shares its name with another one has its signature, too.
func (n fanInName) title(all []fanInMethod) string {
	same := 0
	for _, m := range all {
		if m.Method == n.Method {
			same++
		}
	}
	if same > 1 {
		return n.Method + n.Signature
	}
	return n.Method
}

// list prints a line a method.
func (a fanInAnswer) list(out *terminal.Printer) {
	out.Line("%s: fan-in of %s", a.Own.Source, figure.Plural(int64(a.Own.Methods), "method"))
	if a.Shared != nil {
		out.Line("%s: shared, of %s", a.Shared.Source, figure.Plural(int64(a.Shared.Methods), "method"))
	}
	t := &terminal.Table{Columns: []terminal.Column{{Title: "samples", Right: true}, {Title: "places", Right: true}}}
	if a.Shared != nil {
		t.Columns = append(t.Columns, terminal.Column{Title: "from"})
	}
	t.Columns = append(t.Columns, terminal.Column{Title: "method", Shorten: terminal.ShortenMethod, Least: 24})
	for _, m := range a.Methods {
		row := []string{figure.Count(int64(m.Samples)), placesInColumn(m.Places)}
		if a.Shared != nil {
			row = append(row, m.From)
		}
		t.Add(append(row, m.title(a.Methods))...)
	}
	if len(t.Rows) > 0 {
		out.Table("", t)
	}
	if a.More > 0 {
		out.Line("… and %s more: -n 0 lists all", figure.Count(int64(a.More)))
	}
}

func placesInColumn(n uint32) string {
	if n > fanin.MostCallers {
		return fmt.Sprintf(">%d", fanin.MostCallers)
	}
	return fmt.Sprint(n)
}

// explain prints the callers of each method, and which source has said so.
func (a fanInAnswer) explain(out *terminal.Printer) {
	for i, m := range a.Methods {
		if i > 0 {
			out.Line("")
		}
		if m.Places == 0 {
			out.Line("%s: %s is called from nowhere: it begins all stacks that it is on.", a.source(m), m.title(a.Methods))
		} else {
			out.Line("%s: %s is called from %s, in %s.", a.source(m), m.title(a.Methods), fanin.PlacesText(m.Places), figure.Plural(int64(m.Samples), "sample"))
		}
		if a.Shared != nil {
			out.Line("%s", m.why())
		}
		m.table(out)
	}
}

func (a fanInAnswer) source(m fanInMethod) string {
	if m.From == "shared" {
		return a.Shared.Source
	}
	return a.Own.Source
}

// why says which of two sources was used, and for which reason.
func (m fanInMethod) why() string {
	switch {
	case m.OwnSamples == nil:
		return fmt.Sprintf("Shared: %s, own: none. The shared source alone knows the method.", figure.Plural(int64(*m.SharedSamples), "sample"))
	case m.SharedSamples == nil:
		return fmt.Sprintf("Shared: none, own: %s. The shared source does not know the method.", figure.Plural(int64(*m.OwnSamples), "sample"))
	}
	reason := "The own source is used: it has more."
	switch {
	case m.From == "shared":
		reason = "The shared source is used: it has more."
	case fanin.Better(fanin.FanIn{Samples: *m.SharedSamples}, fanin.FanIn{Samples: *m.OwnSamples}) < 0:
		reason = "The own source is used: they are about equal, and it is fresher."
	}
	return fmt.Sprintf("Shared: %s, own: %s. %s", figure.Plural(int64(*m.SharedSamples), "sample"), figure.Count(int64(*m.OwnSamples)), reason)
}

// table prints the callers.
func (m fanInMethod) table(out *terminal.Printer) {
	if m.Places == 0 {
		return
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "samples", Right: true}, {Title: "share", Right: true},
		{Title: "caller", Shorten: terminal.ShortenMethod, Least: 24}, {Title: "location", Shorten: terminal.ShortenMiddle, Least: 12},
	}}
	add := func(samples uint64, caller, location string) {
		t.Add(figure.Count(int64(samples)), figure.Percent(figure.Share(int64(samples), int64(m.Samples))), caller, location)
	}
	for _, c := range m.Callers {
		add(c.Samples, c.Method, c.location)
	}
	if m.Other > 0 {
		add(m.Other, "(other callers)", "")
	}
	out.Table("", t)
}
