package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/usage"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

const receiversLong = `Receivers lists the calls that may reach several methods, the hottest first: which
receiver types they have (→), how often, by samples and by caught calls, and from
which callers (←, innermost first) they have fewer. Listed are calls that were caught,
and calls that reach several methods of one name; with --all every call site. A JVM
counts its calls itself: which of its counts are proven, estimated or frozen is said.

METHOD restricts the list to calls made by it: a name, or as much of its end as is
unique. docs/receivers.md explains columns, verdicts and phases, docs/formats.md JSON.`

const receiversExample = `  ccmapd receivers web.pb.gz
  ccmapd receivers web.pb.gz Server.handle
  ccmapd receivers --sort gain web.pb.gz           where callers tell most
  ccmapd receivers --verdict megamorphic web.pb.gz
  ccmapd receivers --json web.pb.gz | jq '.sites[] | .by_calls.receivers'`

// receiversFlags say which call sites are listed, and how much of each.
type receiversFlags struct {
	listing
	phase phaseFlag
	rows  view.ReceiversList
	only  usage.Choice // verdict
}

// maxReceiverDepth bounds the work of a split, and the size of JSON, which has the splits
// of every depth: stacks are thousands of frames deep.
const maxReceiverDepth = 8

func newReceiversCmd(env *environment) subcommand {
	var flags receiversFlags
	cmd := flags.command(env, &cobra.Command{
		Use:     "receivers FILE [METHOD]",
		Short:   "List calls of many receiver types, and which callers tell the type",
		Long:    receiversLong,
		Example: receiversExample,
		PreRunE: func(*cobra.Command, []string) error {
			if flags.rows.Depth < 1 || flags.rows.Depth > maxReceiverDepth {
				return usage.Errorf("--depth must be 1 to %d", maxReceiverDepth)
			}
			return nil
		},
	}, 0, func(p *view.Profile, rows view.List) (view.View, error) {
		flags.rows.List, flags.rows.Verdict = rows, flags.only.Value
		if err := flags.phase.apply(p); err != nil {
			return nil, err
		}
		return view.NewReceivers(p, flags.rows)
	})
	flags.register(cmd)
	return subcommand{cmd, reading(firstProfile, noOutputs)}
}

func (f *receiversFlags) register(cmd *cobra.Command) {
	f.listing.register(cmd, 20, view.ReceiversLayout())
	f.only.From = view.ReceiversVerdicts()
	f.only.Register(cmd, "verdict", "list only what is `V`: "+terminal.OrList(f.only.From))
	f.phase.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.rows.All, "all", false, "list all call sites, also of one receiver")
	flags.UintVar(&f.rows.Depth, "depth", ccmap.MaxPointCallers, "tell contexts of caught calls and of samples apart by up to `N` callers; calls that a JVM counts as far as it takes")
	flags.UintVar(&f.rows.Types, "types", 5, "list at most `N` receivers of a site, and the others as one; 0: all")
	flags.UintVar(&f.rows.Contexts, "contexts", 5, "list at most `N` callers of a site; 0: all")
}

// phaseFlag is --phase: the phase of the program whose caught calls are read.
type phaseFlag struct{ text string }

// lastPhase is the word for the latest phase of a profile.
const lastPhase = "last"

func (f *phaseFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "phase", "", "read caught calls of phase `N` of the program, from 1, or of the last")
}

// apply restricts the caught calls of a profile. A window goes with the last phase.
func (f *phaseFlag) apply(p *view.Profile) error {
	switch f.text {
	case "":
		p.UsePhaseOfWindow()
		return nil
	case lastPhase:
		p.UseLastPhase()
		return nil
	}
	n, err := strconv.ParseUint(f.text, 10, 32)
	if err != nil || n == 0 {
		return usage.Errorf("--phase %q is neither a number from 1 nor %q", f.text, lastPhase)
	}
	return p.UsePhase(uint32(n))
}
