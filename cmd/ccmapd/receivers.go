package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/view"
)

const receiversLong = `Receivers lists the calls that may reach several methods, the hottest first: which
receiver types they have, how often, and whether the caller tells which.

  cum       CPU time in the receivers of a call, or in one of them
  share     of a receiver in the CPU time of its call site
  of all    of the whole profile
  samples   samples with this call on their stack, one for every occurrence
  calls     calls that were caught, in bursts: a few of all
  of calls  of a receiver in those. That is not its share of the time: a rare
            receiver may take long
  bits      entropy of the receivers: 0 for one, 1 for two that are as frequent, and
            what is left of it when callers are known
  verdict   number of receivers, ≥ if not all are known, and what that means:
    monomorphic  one: may be called directly, or inlined
    bimorphic    two types: may be called behind one test
    megamorphic  three types or more
    mixed        methods of different names: a function value, or several calls
                 on one line, which are one call site in Go
    line unknown several methods, but the profile does not say on which lines
    unknown      under 30 samples, and under 128 calls: they come in bursts, up to
                 32 in a row on each of two threads, which may say little

Below a site stand its receivers (→), and the callers (←, innermost first, each with
the line of its call) from which it has fewer. 'monomorphic by 2 callers' says: nine
tenths of the site are, if two callers are told apart, and not if only one is. A
context counts as unknown if it has too few samples or calls, or if one case of 20
would look like it by chance.

Types are those in the names of methods. CPU samples name the type that declares a
method, which may be embedded in the one that was called. Caught calls name that
one, with a star also where the interface holds a value. [go.shape.int] stands for
all type arguments that are an int underneath: they share the code.

Verdict, bits and callers are those of the caught calls, if there are enough; else of
the samples, and also where these have the same receivers and only they tell of
callers. Listed are calls that were caught, and those that reach several methods of
one name; with --all every call site. METHOD restricts the list to calls made by it:
a name, or as much of its end as is unique.

` + recentHelp + `
Caught calls are then of the last phase.

` + phasesHelp + `

With --json: profile {as in top}, caught_calls, phases {number: calls} where there
are several, sites [{caller {method, signature, file, line and position of the
call, see query}, percent, verdict, decisive ("samples" or "calls"), entropy_bits,
gain_bits, by_samples {…}, by_calls {…}}], hidden_sites. Of each kind of evidence:
seen (samples or calls), time_ns, verdict, entropy_bits, unseen_percent (the
largest share that a receiver may have and not be seen, with 95 % confidence),
receivers [{method, receiver, signature, file, line, seen, time_ns,
share_percent}], unnamed (calls of receivers that were not kept apart), splits
[{depth, verdict (of nine tenths), entropy_bits, contexts [{callers [{…, line and
position}], rest, seen, time_ns, share_percent (of the site), verdict,
entropy_bits, receivers, unnamed}]}]. Callers are innermost first. A rest is what
is from there and in no other context.`

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
	only  choice // verdict
}

// maxReceiverDepth bounds the work of a split, and the size of JSON, which has the splits
// of every depth: stacks are thousands of frames deep.
const maxReceiverDepth = 8

func newReceiversCmd(env *environment) *cobra.Command {
	var flags receiversFlags
	cmd := &cobra.Command{
		Use:               "receivers FILE [METHOD]",
		Short:             "List calls of many receiver types, and which callers tell the type",
		Long:              receiversLong,
		Example:           receiversExample,
		GroupID:           groupRead,
		Args:              methodArgs(0, "a profile, and perhaps a method"),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			if flags.rows.Depth < 1 || flags.rows.Depth > maxReceiverDepth {
				return usagef("--depth must be 1 to %d", maxReceiverDepth)
			}
			p, rows, err := flags.loadWithMethods(env, args)
			if err == nil {
				err = flags.phase.apply(p)
			}
			if err != nil {
				return err
			}
			flags.rows.List, flags.rows.Verdict = rows, flags.only.value
			return env.show(view.NewReceivers(p, flags.rows), flags.json)
		},
	}
	flags.register(cmd)
	return cmd
}

func (f *receiversFlags) register(cmd *cobra.Command) {
	f.listing.register(cmd, 20, view.ReceiversOrders())
	f.only.from = view.ReceiversVerdicts()
	registerChoice(cmd, &f.only, "verdict", "list only what is `V`: "+terminal.OrList(f.only.from))
	f.phase.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.rows.All, "all", false, "list all call sites, also of one receiver")
	flags.UintVar(&f.rows.Depth, "depth", ccmap.MaxPointCallers, "tell contexts apart by up to `N` callers, of which caught calls have 3")
	flags.UintVar(&f.rows.Types, "types", 5, "list at most `N` receivers of a site, and the others as one; 0: all")
	flags.UintVar(&f.rows.Contexts, "contexts", 5, "list at most `N` callers of a site; 0: all")
}

const phasesHelp = `A program that begins to do something else, as the report and the profile say,
begins a phase. Caught calls are of all phases together; --phase N restricts them
to one, the first being 1, and --phase last to the latest. Where a profile had no
room for the points of all phases, the earlier ones became one, phase 1: a warning
says which.`

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
		return usagef("--phase %q is neither a number from 1 nor %q", f.text, lastPhase)
	}
	return p.UsePhase(uint32(n))
}
