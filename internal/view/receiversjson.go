package view

import (
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

var receiversColumns = columns[*Receivers]{
	profileMember(func(v *Receivers) *Profile { return v.Profile }),
	col("", "caught_calls", "calls that were caught, in the chosen phases", func(v *Receivers) count { return count(v.Caught) }),
	col("", "counted_calls,omitempty", "calls that the program's VM counted itself", func(v *Receivers) count { return count(v.Counted) }),
	colIn("", "phases,omitempty", "caught calls of each phase, from 1", func(p *Profile, _ *Receivers) map[string]int64 { return p.callsByPhase() }),
	array("sites", "call sites", receiversSiteColumns, func(_ *Profile, v *Receivers) []ReceiversRow { return v.Rows }),
	array("nulls,omitempty", "checks that have met null, with --nulls", nullSiteColumns, func(_ *Profile, v *Receivers) []nullSite { return v.nulls }),
	col("", "hidden_sites", "call sites of one receiver, which are not listed", func(v *Receivers) count { return count(v.Hidden) }),
}

var receiversSiteColumns = columns[ReceiversRow]{
	object("caller", "the method that calls, at its call", placeColumns.named("call-site", "", "location"),
		func(p *Profile, r ReceiversRow) *place { return calledAt(p.Names(), r.call()) }),
	colIn("", "percent", "share of the whole profile, by time, or by samples where it has no time", func(p *Profile, r ReceiversRow) percent {
		return percent(figure.Share(r.Samples.Total().Weight, p.measure.total))
	}),
	col("verdict", "verdict", "number of receivers, and its meaning; in text, also for each caller", func(r ReceiversRow) string { return r.Decisive.Verdict.String() }).
		printed(func(_ *Profile, r ReceiversRow) string { return r.verdict() }),
	col("", "decisive", "evidence that the verdict is of: samples or calls", func(r ReceiversRow) string {
		if r.ByCalls {
			return "calls"
		}
		return "samples"
	}),
	col("bits", "entropy_bits", "entropy of the receivers; in text, also the rest of it when callers are known", func(r ReceiversRow) bits { return bits(r.Decisive.Entropy()) }).
		printed(func(_ *Profile, r ReceiversRow) string { return r.bits() }),
	col("", "gain_bits", "entropy that callers take away", func(r ReceiversRow) bits { return bits(r.gain()) }),
	object("by_samples,omitempty", "receivers that samples have seen", evidenceColumns, func(p *Profile, r ReceiversRow) *evidence { return evidenceOf(r.Samples, p.sampled, r.depth) }),
	object("by_calls,omitempty", "receivers of caught calls, or of the calls that the VM counted", evidenceColumns, func(_ *Profile, r ReceiversRow) *evidence { return evidenceOf(r.Calls, caught, r.depth) }),
	object("vm,omitempty", "what the VM's counts say of callers, if it has counted several receivers", vmColumns, func(_ *Profile, r ReceiversRow) *vmRow { return r.vm }),
}

// evidence lists the receivers of a site that samples, or caught calls, have seen.
type evidence struct {
	pollution.Evidence
	unit  unitOfEvidence
	depth int
}

// evidenceOf returns nil where there is no evidence.
func evidenceOf(e pollution.Evidence, unit unitOfEvidence, depth int) *evidence {
	return given(evidence{e, unit, depth}, e.Total() != (pollution.Amount{}))
}

// unitOfEvidence returns an amount as a part of a whole: samples or calls.
type unitOfEvidence func(a, whole pollution.Amount) portion

// portion is a part of a site, or of a context of it.
type portion struct {
	seen, time int64
	share      float64
}

func (p *Profile) sampled(a, whole pollution.Amount) portion {
	c := p.counters(a)
	return portion{c.Samples, c.Time, figure.Share(a.Weight, whole.Weight)}
}

func caught(a, whole pollution.Amount) portion {
	return portion{seen: a.Seen, share: figure.Share(a.Seen, whole.Seen)}
}

var (
	seenColumn = col("", "seen", "samples or calls; 0 if a profile does not count its samples", func(a portion) count { return count(a.seen) })
	timeColumn = col("", "time_ns,omitempty", "weight of the samples", func(a portion) int64 { return a.time })

	portionColumns = columns[portion]{seenColumn, timeColumn, col("", "share_percent", "of the site", func(a portion) percent { return percent(a.share) })}
)

// mix lists the receivers of a site or of one of its contexts.
type mix struct {
	pollution.Mix
	verdict pollution.Verdict
	unit    unitOfEvidence
}

type receiver struct {
	pollution.Target
	portion
}

func (m mix) receivers(*Profile) []receiver {
	list := make([]receiver, len(m.Targets))
	for i, t := range m.Targets {
		list[i] = receiver{t, m.unit(t.Amount, m.Total())}
	}
	return list
}

var mixColumns = columns[mix]{
	col("", "verdict", "number of receivers, in a word", func(m mix) string { return m.verdict.String() }),
	col("", "entropy_bits", "entropy of the receivers", func(m mix) bits { return bits(m.Entropy()) }),
	array("receivers", "the methods that were reached", receiverColumns, func(p *Profile, m mix) []receiver { return m.receivers(p) }),
	col("", "unnamed,omitempty", "calls of receivers that were not kept apart", func(m mix) count { return count(m.Unnamed) }),
}

var receiverColumns = append(append(
	inline(placeColumns, func(p *Profile, r receiver) *place { return declaredAt(p.Names().At(r.Method)) }),
	colIn("", "receiver,omitempty", "type of the receiver", func(p *Profile, r receiver) string { return p.Names().At(r.Method).Receiver })),
	inline(portionColumns, func(_ *Profile, r receiver) *portion { return &r.portion })...)

var evidenceColumns = append(append(
	inline(columns[portion]{seenColumn, timeColumn}, func(_ *Profile, e evidence) *portion { return given(e.unit(e.Total(), e.Total()), true) }),
	inline(mixColumns, func(_ *Profile, e evidence) *mix { return &mix{e.Mix, e.Verdict, e.unit} })...),
	col("", "unseen_percent", "largest share that a receiver may have and stay unseen, with 95 % confidence", func(e evidence) percent {
		return percent(100 * pollution.Unseen(e.unit(e.Total(), e.Total()).seen))
	}),
	array("splits,omitempty", "by callers, one level more each", splitColumns, func(_ *Profile, e evidence) []split { return e.splits() }),
)

// split tells the contexts of a site apart by some callers.
type split struct {
	pollution.Split
	of evidence
}

func (e evidence) splits() []split {
	var list []split
	for _, s := range e.Splits(e.depth) {
		list = append(list, split{s, e})
	}
	return list
}

// splitContext is a context of a split.
type splitContext struct {
	pollution.Context
	of evidence
}

func (s split) contexts() []splitContext {
	list := make([]splitContext, len(s.Contexts))
	for i, c := range s.Contexts {
		list[i] = splitContext{c, s.of}
	}
	return list
}

var splitColumns = columns[split]{
	col("", "depth", "callers that tell contexts apart", func(s split) int { return s.Depth }),
	col("", "verdict", "that each context has", func(s split) string { return s.Verdict.String() }),
	col("", "entropy_bits", "entropy that is left", func(s split) bits { return bits(s.Entropy) }),
	array("contexts", "the callers, and the receivers that each has", splitContextColumns, func(_ *Profile, s split) []splitContext { return s.contexts() }),
}

var splitContextColumns = append(append(columns[splitContext]{
	array("callers", "innermost first, each at its call", placeColumns, func(p *Profile, c splitContext) []place { return chainOf(p.Names(), c.Callers) }),
	col("", "rest,omitempty", "all callers that are not listed", func(c splitContext) bool { return c.Rest }),
},
	inline(portionColumns, func(_ *Profile, c splitContext) *portion { return given(c.of.unit(c.Total(), c.of.Total()), true) })...),
	inline(mixColumns, func(_ *Profile, c splitContext) *mix { return &mix{c.Mix, c.Verdict, c.of.unit} })...,
)

// JSON describes the profile and lists the call sites, with all receivers and contexts.
func (v *Receivers) JSON() any { return receiversColumns.json(v.Profile, v) }

// callsByPhase returns the caught calls of each phase by its number, nil if there is one
// phase.
func (p *Profile) callsByPhase() map[string]int64 {
	if len(p.phases()) < 2 {
		return nil
	}
	calls := make(map[string]int64)
	for _, q := range p.Points() {
		if isCaught(q) && q.Callers == nil {
			calls[phaseName(q.Phase)] += q.Count
		}
	}
	return calls
}
