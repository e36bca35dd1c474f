package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
)

// asking is a command that asks a question about profiles.
type asking struct {
	*cobra.Command
	question view.Question
	form     *view.Form
	params   paramFlags
	methodFlags
	printing
	recency

	before func(args []string) error         // is called before the flags are taken; nil: nothing
	enrich func(view.About, view.View) error // is called before the answer is printed; nil: nothing
	beside func([]*view.Profile) error       // is called when the answer is printed; nil: nothing
	then   func(view.View) error             // is called after that; nil: nothing
}

// newAsking returns the command of a question.
func newAsking(env *environment, q view.Question) *asking {
	a := &asking{question: q, form: q.New()}
	a.Command = &cobra.Command{
		Use: q.Name + " " + string(q.Subject), Short: q.Short, Long: q.Long, Example: q.Example, GroupID: groupRead,
		RunE: func(_ *cobra.Command, args []string) error { return a.run(env, args) },
	}
	a.params.register(a.Command, a.form.Params)
	a.printing.register(a.Command, q.Layout)
	if !q.IsWhole {
		a.recency.register(a.Command)
		a.Flags().BoolVar(&a.withStored, withStoredFlag, false, "add what your store has of the same program and build")
		a.MarkFlagsMutuallyExclusive("recent", withStoredFlag)
	}
	if !q.Subject.Compares() {
		a.methodFlags.register(a.Command)
		a.ValidArgsFunction = completeMethods(env)
	}
	switch q.Subject {
	case view.OfMethods:
		a.Args = methodArgs(0, "a profile, and perhaps a method")
	case view.OfMethod:
		a.Args = methodArgs(1, "a profile and a method")
	case view.OfPath:
		a.Args = methodArgs(1, "a profile and a path")
	case view.OfTwo:
		a.Args = argCount(2, 2, "two profiles")
	case view.OfMany:
		a.Args = argCount(2, anyNumber, "two profiles or more")
	}
	return a
}

// subcommand returns the command with its rights: it reads profiles, and writes nothing.
func (a *asking) subcommand() subcommand {
	if a.question.Subject.Compares() {
		return subcommand{a.Command, reading(a.sources, flaggedPage)}
	}
	return subcommand{a.Command, reading(func(args []string) []string { return a.sources(firstProfile(args)) }, noOutputs)}
}

// sources returns where the profiles are that arguments name.
func (a *asking) sources(paths []string) []string {
	if !a.withStored {
		return paths
	}
	all := make([]string, len(paths))
	for i, path := range paths {
		all[i] = withBase(path)
	}
	return all
}

// newQuestionCmd returns the command of a question. Some have flags that are not of the question.
func newQuestionCmd(env *environment, q view.Question) subcommand {
	a := newAsking(env, q)
	switch q.Name {
	case "top":
		a.listLabels()
		a.follow(env)
	case "overlap":
		a.checkOverlap()
		a.writesPage()
	case "diff":
		a.writesPage()
	case "contexts":
		return a.besideShared(env)
	case "requests":
		return a.ofProcesses(env)
	}
	return a.subcommand()
}

// run asks the question and prints the answer.
func (a *asking) run(env *environment, args []string) error {
	if a.before != nil {
		if err := a.before(args); err != nil {
			return err
		}
	}
	if err := a.params.setParams(); err != nil {
		return err
	}
	about, paths, err := a.about(args)
	if err != nil {
		return err
	}
	for _, path := range a.sources(paths) {
		p, err := a.load(env, path)
		if err != nil {
			return err
		}
		about.Profiles = append(about.Profiles, p)
	}
	return a.answer(env, about)
}

// answer prints the answer about profiles.
func (a *asking) answer(env *environment, about view.About) error {
	v, err := a.form.Answer(about)
	if err != nil {
		return explainAnswer(err)
	}
	if a.enrich != nil {
		if err := a.enrich(about, v); err != nil {
			return err
		}
	}
	if err := env.show(v, a.printing); err != nil {
		return err
	}
	if a.beside != nil {
		if err := a.beside(about.Profiles); err != nil {
			return err
		}
	}
	if a.then == nil {
		return nil
	}
	return a.then(v)
}

// about returns what the arguments ask about, and the paths of its profiles.
func (a *asking) about(args []string) (about view.About, paths []string, err error) {
	if a.question.Subject.Compares() {
		return about, args, checkStdinOnce(args)
	}
	text, isRegexp := a.method(args)
	if a.question.Subject == view.OfPath {
		if _, err := query.ParsePath(text); err != nil {
			return about, nil, usage.Of(err) // before the profile is read
		}
	}
	return view.About{Text: text, Find: finder(isRegexp)}, args[:1], nil
}

// printing are the flags that say how a view is printed.
type printing struct {
	json    bool
	all     bool
	columns columnList
}

func (p *printing) register(cmd *cobra.Command, layout view.Layout) {
	p.columns.layout = layout
	flags := cmd.Flags()
	flags.BoolVarP(&p.all, "verbose", "v", false, "print all columns, and how the profile was taken")
	flags.Var(&p.columns, "columns", "print the columns of `LIST`, for example "+strings.Join(layout.First, ","))
	flags.BoolVar(&p.json, "json", false, "print JSON, which has every figure")
	usage.Complete(cmd, "columns", layout.All...)
	cmd.MarkFlagsMutuallyExclusive("json", "columns")
}

// show prints a view, as text or as JSON.
func (env *environment) show(v view.View, p printing) error {
	if p.json {
		return terminal.WriteJSON(env.stdout, v.JSON())
	}
	return v.Text(env.stdout, view.TextOptions{Columns: p.columns.names, All: p.all, Wide: env.wide})
}

// columnList is the value of --columns.
type columnList struct {
	names  []string
	layout view.Layout
}

func (c *columnList) String() string { return strings.Join(c.names, ",") }
func (c *columnList) Type() string   { return "list" }

func (c *columnList) Set(s string) (err error) {
	c.names, err = c.layout.Find(strings.Split(s, ","))
	return err
}

// hints say how the flags and commands help with the facts that a view tells.
var hints = map[view.Hint]string{
	view.HintRows:      "-n 0 lists all",
	view.HintSites:     "--all lists them",
	view.HintPhases:    "--phase N has one of them",
	view.HintCalls:     "'ccmapd attach' and 'ccmapd run' catch calls, unless with --hits 0\nor where the machine has no breakpoint free; pprof, XML and JSON keep them.",
	view.HintPoints:    "'attach' and 'run' count the methods that calls reach, 'convert --coverage' adds\ncounts of blocks and branches, and the formats xml and json keep them all",
	view.HintPath:      "'ccmapd contexts' lists who\ncalls a method, and from where.",
	view.HintChanges:   "'ccmapd diff' lists the methods and edges that changed.",
	view.HintContexts:  "--contexts lists them nevertheless",
	view.HintIntervals: "only --by time compares such profiles",
}
