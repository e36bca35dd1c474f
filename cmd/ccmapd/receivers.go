package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
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

// receiversFlags are what the list of receivers is to have.
type receiversFlags struct {
	listing
	phase    phaseFlag
	all      bool
	verdict  choice
	depth    uint
	types    uint // receivers of a site; 0: all
	contexts uint // of a site; 0: all
}

// maxReceiverDepth bounds the work of a split, and JSON, which has those of every depth:
// stacks are thousands of frames deep.
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
			if flags.depth < 1 || flags.depth > maxReceiverDepth {
				return usagef("--depth must be 1 to %d", maxReceiverDepth)
			}
			p, callers, err := flags.loadWithMethods(env, args)
			if err == nil {
				err = flags.phase.apply(p)
			}
			if err != nil {
				return err
			}
			return printReceivers(env, newReceivers(p, callers, flags))
		},
	}
	flags.register(cmd)
	return cmd
}

// The words of --sort that are about receivers.
const (
	sortCalls   = "calls"
	sortEntropy = "entropy"
	sortGain    = "gain"
)

func (f *receiversFlags) register(cmd *cobra.Command) {
	f.listing.register(cmd, 20, sortTime, sortCalls, sortEntropy, sortGain, sortName)
	f.verdict.from = verdictWords()
	registerChoice(cmd, &f.verdict, "verdict", "list only what is `V`: "+orList(f.verdict.from))
	f.phase.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "list all call sites, also of one receiver")
	flags.UintVar(&f.depth, "depth", ccmap.MaxPointCallers, "tell contexts apart by up to `N` callers, of which caught calls have 3")
	flags.UintVar(&f.types, "types", 5, "list at most `N` receivers of a site, and the others as one; 0: all")
	flags.UintVar(&f.contexts, "contexts", 5, "list at most `N` callers of a site; 0: all")
}

func verdictWords() []string {
	var words []string
	for _, v := range []pollution.Verdict{
		pollution.Monomorphic, pollution.Bimorphic, pollution.Megamorphic, pollution.Mixed, pollution.Unknown,
	} {
		words = append(words, v.String())
	}
	return words
}

// has reports whether a verdict is listed. A line that is unknown makes one unknown.
func (f *receiversFlags) has(v pollution.Verdict) bool {
	if v == pollution.LineUnknown {
		v = pollution.Unknown
	}
	return f.verdict.value == "" || f.verdict.value == v.String()
}

// receiverList are the call sites of a profile that are listed.
type receiverList struct {
	*profile
	flags  receiversFlags
	rows   []receiversRow
	hidden int   // sites that --all would list
	caught int64 // calls, in all of the chosen phases
}

// receiversRow is a call site with what decides about it.
type receiversRow struct {
	pollution.Site
	caller   ccmap.Method
	decisive pollution.Evidence
	byCalls  bool              // whether that is of caught calls
	splits   []pollution.Split // of it
}

// call is where the site is.
func (r receiversRow) call() ccmap.Frame { return ccmap.Frame{Method: r.Caller, Offset: r.Offset} }

// newReceivers finds the sites of some callers, in order; nil means of all.
func newReceivers(p *profile, callers query.Methods, flags receiversFlags) receiverList {
	r := receiverList{profile: p, flags: flags, caught: caughtCalls(p.countedPoints())}
	var wanted func(ccmap.MethodID) bool
	if callers != nil {
		wanted = callers.Has
	}
	for _, site := range p.pollution().Sites(wanted) {
		switch {
		case !flags.has(site.Decisive().Verdict):
		case !flags.all && !site.MaybeDynamic():
			r.hidden++
		default:
			r.rows = append(r.rows, newReceiversRow(p, site, int(flags.depth)))
		}
	}
	slices.SortFunc(r.rows, func(a, b receiversRow) int {
		return cmp.Or(
			compareReceivers(flags.sort.value, a, b),
			cmp.Compare(a.caller.Name, b.caller.Name),
			cmp.Compare(a.caller.Signature, b.caller.Signature),
			cmp.Compare(int32(a.Offset), int32(b.Offset)),
		)
	})
	return r
}

// newReceiversRow finds what decides about a site. If that is caught calls, and too
// few to tell anything of callers, samples that agree with them may tell it.
func newReceiversRow(p *profile, site pollution.Site, depth int) receiversRow {
	row := receiversRow{Site: site, caller: p.Names().At(site.Caller), decisive: site.Decisive(), byCalls: site.CallsDecide()}
	row.splits = row.decisive.Splits(depth)
	if _, settles := row.decisive.Least(row.splits); settles || !row.byCalls || !site.Agree() {
		return row
	}
	splits := site.Samples.Splits(depth)
	if _, settles := site.Samples.Least(splits); settles {
		row.decisive, row.byCalls, row.splits = site.Samples, false, splits
	}
	return row
}

// pollution returns the analysis of the receivers in the profile.
func (p *profile) pollution() *pollution.Analysis {
	return pollution.New(p.Snapshot, pollution.Options{Weight: p.measure.of, Points: p.countedPoints()})
}

// caughtCalls returns how many calls the points have.
func caughtCalls(points []ccmap.Point) int64 {
	n := int64(0)
	for _, q := range points {
		if isCaught(q) && q.Callers == nil {
			n += q.Count
		}
	}
	return n
}

// compareReceivers compares by one of the words, the higher first, and what is equal
// by time.
func compareReceivers(by string, a, b receiversRow) int {
	hotter := cmp.Compare(b.Samples.Total().Weight, a.Samples.Total().Weight)
	switch by {
	case sortName:
		return 0
	case sortCalls:
		return cmp.Or(cmp.Compare(b.Calls.Total().Seen, a.Calls.Total().Seen), hotter)
	case sortEntropy:
		return cmp.Or(cmp.Compare(b.decisive.Entropy(), a.decisive.Entropy()), hotter)
	case sortGain:
		return cmp.Or(cmp.Compare(b.gain(), a.gain()), hotter)
	}
	return hotter
}

// gain returns the entropy that the callers take away, in bits.
func (r receiversRow) gain() float64 { return r.decisive.Entropy() - r.remaining() }

// remaining returns the entropy that is left when the callers are known.
func (r receiversRow) remaining() float64 {
	if len(r.splits) == 0 {
		return r.decisive.Entropy()
	}
	return r.splits[len(r.splits)-1].Entropy
}

// telling returns the split to be shown: the one that settles what the site is, or
// else the first in which any context is known to have fewer receiverList.
func (r receiversRow) telling() (split pollution.Split, settles bool) {
	if s, ok := r.decisive.Least(r.splits); ok {
		return s, true
	}
	for _, s := range r.splits {
		if slices.ContainsFunc(s.Contexts, r.isBetter) {
			return s, false
		}
	}
	return pollution.Split{}, false
}

// isBetter reports whether a context is known to have fewer receiverList than its site.
func (r receiversRow) isBetter(c pollution.Context) bool {
	return c.Verdict >= pollution.Monomorphic && c.Verdict < min(r.decisive.Verdict, pollution.Megamorphic)
}
