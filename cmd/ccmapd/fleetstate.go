package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// newFleetNearestCmd returns the command that says which profiles of other builds still hold.
func newFleetNearestCmd(env *environment, f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "nearest TARGET[@BUILD]", Short: "Say how much of other builds' profiles holds in a build", Example: "  ccmapd fleet nearest web",
		Long: `Nearest lists the other builds of a target, at most 16, and how much of their profiles holds
in a build, by default in the one that was updated last: for 'go build -pgo', an old profile
is as good as what holds of it.

  holds  the part of the weight in methods whose name, signature and code the build has

'ccmapd pgo check PROFILE BINARY' tells it call by call, and 'ccmapd pgo report' what the
compiler did: both need the binary, which the hub does not have.`,
		Args: argCount(1, 1, "a target"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := f.hub().nearest(cmd.Context(), args[0], f.event)
			if err != nil {
				return err
			}
			if f.asJSON {
				return terminal.WriteJSON(env.stdout, list)
			}
			t := &terminal.Table{Columns: []terminal.Column{{Title: "holds", Right: true}, {Title: "build"}, {Title: "samples", Right: true}, {Title: "updated"}}}
			for _, n := range list {
				t.Add(figure.Percent(n.Kept), store.BuildName(n.Build.Build), figure.Count(n.Samples), dateOf(n.Updated))
			}
			return printTable(env, t, "The hub has no other build of it.")
		},
	}
}

// newFleetStatusCmd returns the command that says how far a hub is behind.
func newFleetStatusCmd(env *environment, f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say how far the hub is behind, and what it has refused", Example: "  ccmapd fleet status",
		Long: `Status says how many contributions wait to be merged, and for how long, in the bucket that
all hubs share; and how many the hub that answers has taken and refused since its start. The
token must permit all targets.`,
		Args: argCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.hub().status(cmd.Context())
			if err != nil {
				return err
			}
			if f.asJSON {
				return terminal.WriteJSON(env.stdout, s)
			}
			out := terminal.NewPrinter(env.stdout, env.wide)
			printFleetStatus(out, s)
			return out.Err()
		},
	}
}

func printFleetStatus(out *terminal.Printer, s fleet.Status) {
	if s.Waiting == 0 {
		out.Line("All that was sent is merged.")
	} else {
		out.Line("%s to be merged, the oldest for %s.", figure.PluralOf(int64(s.Waiting), "contribution waits", "contributions wait"), figure.Time(int64(s.Lag)))
	}
	refused, parts := uint64(0), []string{}
	for _, status := range slices.Sorted(maps.Keys(s.Refused)) {
		refused += s.Refused[status]
		parts = append(parts, fmt.Sprintf("%s with %s", figure.Count(int64(s.Refused[status])), terminal.Printable(status)))
	}
	text := "Since " + dateOf(s.Since) + " this hub has taken " + figure.Plural(int64(s.Accepted), "contribution") + " and refused " + figure.Count(int64(refused))
	if refused > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	out.Line("%s.", text)
}
