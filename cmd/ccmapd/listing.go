package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

// listing are the flags of all commands that list what is in a profile.
type listing struct {
	limit uint // rows; 0: all
	sort  usage.Choice
	printing
	methodFlags
	recency
}

// register adds the flags; the first of the orders is the default.
func (l *listing) register(cmd *cobra.Command, limit uint, layout view.Layout) {
	l.registerRows(cmd, limit, layout)
	l.recency.register(cmd)
}

// registerRows adds the flags of a command that reads whole runs only.
func (l *listing) registerRows(cmd *cobra.Command, limit uint, layout view.Layout) {
	l.sort = usage.NewChoice(layout.Orders)
	cmd.Flags().UintVarP(&l.limit, "limit", "n", limit, "list at most `N`; 0: all")
	l.sort.Register(cmd, "sort", "order `BY` "+terminal.OrList(layout.Orders))
	l.methodFlags.register(cmd)
	l.printing.register(cmd, layout)
}

// command completes a command FILE [METHOD] that lists rows of a profile. METHOD may be
// missing if least is 0.
func (l *listing) command(env *environment, cmd *cobra.Command, least int, rows func(*view.Profile, view.List) (view.View, error)) *cobra.Command {
	wanted := "a profile and a method"
	if least == 0 {
		wanted = "a profile, and perhaps a method"
	}
	cmd.GroupID, cmd.Args, cmd.ValidArgsFunction = groupRead, methodArgs(least, wanted), completeMethods(env)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		p, list, err := l.loadWithMethods(env, args)
		if err != nil {
			return err
		}
		v, err := rows(p, list)
		if err != nil {
			return err
		}
		return env.show(v, l.printing)
	}
	return cmd
}

// rows returns which rows of some methods the flags ask for; nil means of all methods.
func (l *listing) rows(methods query.Methods) view.List {
	return view.List{Methods: methods, Order: l.sort.Value, Limit: l.limit}
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
	// The only error is that there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc("columns", cobra.FixedCompletions(layout.All, cobra.ShellCompDirectiveNoFileComp))
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
