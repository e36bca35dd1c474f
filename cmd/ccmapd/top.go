package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/view"
)

// follow adds the flag by which top follows a target.
func (a *asking) follow(env *environment) {
	var live bool
	a.Flags().BoolVarP(&live, followFlag, "f", false, "redraw once a second; keys: s sort, r recent, / filter, q quit")
	a.MarkFlagsMutuallyExclusive(followFlag, "json")
	a.MarkFlagsMutuallyExclusive(followFlag, "by")
	once := a.RunE
	a.RunE = func(cmd *cobra.Command, args []string) error {
		if live {
			return followTop(cmd.Context(), env, a, args)
		}
		return once(cmd, args)
	}
}

// listLabels checks the flag by which top lists labels. All time of a label is in the methods below it, so flat
// and cum give one order.
func (a *asking) listLabels() {
	by, sort := a.Flag("by"), a.Flag("sort").Value.(*usage.Choice)
	by.Value = grouping{by.Value}
	a.MarkFlagsMutuallyExclusive("by", "columns")
	a.MarkFlagsMutuallyExclusive("by", "match")
	a.before = func(args []string) error {
		switch {
		case by.Value.String() == byMethod:
		case len(args) > 1:
			return usage.Errorf("--by %s lists labels, which no method restricts", byLabel)
		case sort.Value == view.ByFlat, sort.Value == view.ByCum:
			sort.Value = view.ByTime
		}
		return nil
	}
}

const (
	byMethod = "method"
	byLabel  = "label"
)

// grouping is the value of --by.
type grouping struct{ pflag.Value }

func (grouping) Type() string { return "word" }

func (g grouping) Set(s string) error {
	what, key, keyed := strings.Cut(s, ":")
	if what != byLabel && s != byMethod || keyed && key == "" {
		return errors.New("must be method, label or label:KEY")
	}
	return g.Value.Set(s)
}
