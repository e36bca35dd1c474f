package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

// listing are the flags of all commands that list what is in a profile.
type listing struct {
	limit uint // rows; 0: all
	sort  choice
	json  bool
	methodFlags
	recency
}

// register adds the flags; the first of the orders is the default.
func (l *listing) register(cmd *cobra.Command, limit uint, orders []string) {
	l.sort = newChoice(orders)
	flags := cmd.Flags()
	flags.UintVarP(&l.limit, "limit", "n", limit, "list at most `N`; 0: all")
	registerChoice(cmd, &l.sort, "sort", "order `BY` "+terminal.OrList(orders))
	l.methodFlags.register(cmd)
	l.recency.register(cmd)
	flags.BoolVar(&l.json, "json", false, "print JSON")
}

// rows returns which rows of some methods the flags ask for; nil means of all methods.
func (l *listing) rows(methods query.Methods) view.List {
	return view.List{Methods: methods, Order: l.sort.value, Limit: l.limit}
}

// show prints a view, as text or as JSON.
func (env *environment) show(v view.View, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(env.stdout, v.JSON())
	}
	return v.Text(env.stdout, env.wide)
}

// choice is the value of a flag that takes one of a few words.
type choice struct {
	value string
	from  []string
}

// newChoice returns a choice of some words; the first is the default.
func newChoice(from []string) choice { return choice{value: from[0], from: from} }

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "word" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.from, s) {
		return fmt.Errorf("must be %s", terminal.OrList(c.from))
	}
	c.value = s
	return nil
}

func registerChoice(cmd *cobra.Command, c *choice, name, usage string) {
	cmd.Flags().Var(c, name, usage)
	// The only error is that there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.from, cobra.ShellCompDirectiveNoFileComp))
}
