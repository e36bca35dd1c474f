package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/view"
)

const topLong = `Top lists the methods of a profile, the hottest first.

  flat, flat%  CPU time in the method itself, and its share of the whole
  cum, cum%    CPU time in the method and all it called
  recent%      share of the recent CPU time: hot now, beside hot ever
  samples      samples with the method on their stack
  activations  calls of the method that were seen; ≥ marks a lower bound

FILE is a profile in any format, '-' for standard input, a URL or, of a daemon, @NAME;
the first line names its unit. METHOD is a name, or as much of its end as is unique.
docs/reading-profiles.md explains columns, --recent and [pruned], docs/formats.md JSON.`

const topExample = `  ccmapd top web.pb.gz
  ccmapd top -n 50 --sort cum --columns cum%,method web.pb.gz
  ccmapd top web.pb.gz --match '^encoding/json\.'
  ccmapd top -f @web                         of a running target, redrawn once a second
  ccmapd top --by label:route web.pb.gz      labels of goroutines (pprof.Do), by value
  ccmapd top --json web.xml | jq '.methods[0]'`

func newTopCmd(env *environment) subcommand {
	var list listing
	by := grouping{text: byMethod}
	var live bool
	cmd := list.command(env, &cobra.Command{
		Use:     "top FILE [METHOD]",
		Short:   "List the hottest methods of a profile",
		Long:    topLong,
		Example: topExample,
	}, 0, func(p *view.Profile, rows view.List) (view.View, error) {
		if by.text != byMethod {
			return by.labels(p, rows)
		}
		top, err := view.NewTop(p, rows)
		return top, explainWindow(err)
	})
	list.register(cmd, 20, view.TopLayout())
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if live {
			return followTop(cmd.Context(), env, &list, args)
		}
		return once(cmd, args)
	}
	cmd.Flags().BoolVarP(&live, followFlag, "f", false, "redraw once a second; keys: s sort, r recent, / filter, q quit")
	cmd.Flags().Var(&by, "by", "list `WHAT`: method, label, or label:KEY for the values of one key")
	cmd.MarkFlagsMutuallyExclusive("by", "columns")
	cmd.MarkFlagsMutuallyExclusive("by", "match")
	cmd.MarkFlagsMutuallyExclusive(followFlag, "json")
	cmd.MarkFlagsMutuallyExclusive(followFlag, "by")
	return subcommand{cmd, reading(firstProfile, noOutputs)}
}

const (
	byMethod = "method"
	byLabel  = "label"
)

// grouping is the value of --by.
type grouping struct{ text, key string }

func (g *grouping) String() string { return g.text }
func (g *grouping) Type() string   { return "word" }

func (g *grouping) Set(s string) error {
	what, key, keyed := strings.Cut(s, ":")
	if what != byLabel && s != byMethod || keyed && key == "" {
		return errors.New("must be method, label or label:KEY")
	}
	g.text, g.key = what, key
	return nil
}

// labels lists the labels of a profile. All time of a label is in the methods below it, so
// flat and cum give one order.
func (g *grouping) labels(p *view.Profile, rows view.List) (view.View, error) {
	if rows.Methods != nil {
		return nil, usage.Errorf("--by %s lists labels, which no method restricts", g.text)
	}
	if rows.Order == view.ByFlat || rows.Order == view.ByCum {
		rows.Order = view.ByTime
	}
	labels, err := view.NewLabels(p, rows, g.key)
	if err != nil {
		return nil, usage.Of(err)
	}
	return labels, nil
}
