package view

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// profileColumns describe a profile in the JSON of all views. Unknown members are left out.
var profileColumns = columns[Profile]{
	ofProfile("file", "path that the profile was read from or written to", func(p *Profile) string { return p.Path }),
	ofMeta("executable,omitempty", "path of the program", func(m ccmap.Meta) string { return m.Target.Executable }),
	ofMeta("pid,omitempty", "its process id", func(m ccmap.Meta) int { return m.Target.PID }),
	ofMeta("runtime,omitempty", "its runtime, for example go1.26.8", func(m ccmap.Meta) string { return m.Target.Runtime }),
	ofMeta("build_id,omitempty", "its Go or GNU build id, or a hash of its code", func(m ccmap.Meta) string { return m.Target.BuildID }),
	ofMeta("commit,omitempty", "when its source was committed", func(m ccmap.Meta) time.Time { return m.Target.Commit }),
	ofMeta("engine,omitempty", "source of the samples", func(m ccmap.Meta) string { return m.Engine }),
	ofMeta("start,omitempty", "of sampling", func(m ccmap.Meta) time.Time { return m.Start }),
	ofMeta("duration_ns,omitempty", "wall time sampled", func(m ccmap.Meta) time.Duration { return m.Duration }),
	ofMeta("ended,omitempty", "why sampling ended", func(m ccmap.Meta) string { return m.Ended }),
	ofMeta("interval_ns,omitempty", "all settings of the interval, in their order", intervalSettings),
	ofProfile("unit", "of all time_ns, for example cpu/nanoseconds or alloc_space/bytes", func(p *Profile) string { return p.measure.unit.String() }),
	ofProfile("samples", "of the whole profile", func(p *Profile) samples { return samples(p.Total().Samples) }),
	ofProfile("time_ns", "of the whole profile", func(p *Profile) weight { return weight(p.Total()) }),
	ofProfile("activations", "of the whole profile", func(p *Profile) activations { return activations(p.Total().Activations) }),
	ofProfile("activations_exact", "activations are numbers, not lower bounds", func(p *Profile) bool { return p.ActivationsExact() }),
	ofProfile("held,omitempty", "which budget has kept the session from more samples", (*Profile).held),
	ofProfile("warnings,omitempty", "why the profile is not the whole truth", (*Profile).Warnings),
	ofMeta("lost_samples", "samples that were lost", func(m ccmap.Meta) uint64 { return m.Loss.Samples() }),
	ofMeta("throttled", "times that the kernel held sampling up", func(m ccmap.Meta) uint64 { return m.Loss.Throttled }),
	ofMeta("clock_ns,omitempty", "CPU time by the program's own clock", func(m ccmap.Meta) time.Duration { return m.Loss.Clock }),
	ofMeta("unaccounted_ns,omitempty", "part of clock_ns that no sample stands for", func(m ccmap.Meta) *time.Duration { return given(m.Loss.Unaccounted, m.Loss.Clock > 0) }),
	ofMeta("repetitions_known", "samples with a verdict", func(m ccmap.Meta) uint64 { return m.Known }),
	ofMeta("repetitions_repeated", "samples that found the same activation again", func(m ccmap.Meta) uint64 { return m.Repeated }),
	ofProfile("window_ns,omitempty", "time constant of the window", func(p *Profile) time.Duration { return p.whole.Meta().Window }),
	object("recent,omitempty", "all of the window; percent: of the whole run", amountColumns, (*Profile).recentTotal),
	ofProfile("only_recent,omitempty", "the figures are of the window", func(p *Profile) bool { return p.isRecent() }),
	object("settled,omitempty", "overlap of two halves of the samples", settledColumns, func(p *Profile, _ Profile) *ccmap.Settled { return given(p.Meta().Settled, p.saysSettled()) }),
	object("pruned,omitempty", "contexts that were given up for memory", prunedColumns, func(p *Profile, _ Profile) *ccmap.PruneStats { return given(p.Meta().Pruned, p.IsPruned()) }),
	object("elided,omitempty", "frames that [frames elided] stands for", elidedColumns, func(p *Profile, _ Profile) *ccmap.Elided { return given(p.Meta().Elided, p.Meta().Elided.Samples > 0) }),
	object("blind,omitempty", "code that could not be attributed", blindColumns, func(p *Profile, _ Profile) *ccmap.Blind { return given(p.Blind(), p.Blind() != (ccmap.Blind{})) }),
}

func ofProfile[V any](key, doc string, get func(*Profile) V) column[Profile] {
	return colIn("", key, doc, func(p *Profile, _ Profile) V { return get(p) })
}

func ofMeta[V any](key, doc string, get func(ccmap.Meta) V) column[Profile] {
	return ofProfile(key, doc, func(p *Profile) V { return get(p.Meta()) })
}

func intervalSettings(m ccmap.Meta) []time.Duration {
	var all []time.Duration
	for _, change := range m.Interval {
		all = append(all, change.Interval)
	}
	return all
}

func (p *Profile) recentTotal(Profile) *ccmap.Counters {
	window, ok := p.Recent()
	if !ok {
		return nil
	}
	return given(window.Total(), true)
}

var settledColumns = columns[ccmap.Settled]{
	col("", "methods", "of methods", func(s ccmap.Settled) percent { return percent(s.Methods) }),
	col("", "edges", "of edges", func(s ccmap.Settled) percent { return percent(s.Edges) }),
	col("", "contexts", "of contexts", func(s ccmap.Settled) percent { return percent(s.Contexts) }),
	col("", "samples", "in both halves", func(s ccmap.Settled) samples { return samples(s.Samples) }),
}

var prunedColumns = append(append(columns[ccmap.PruneStats]{
	col("", "times", "prunings", func(s ccmap.PruneStats) count { return count(s.Times) }),
	col("", "nodes", "contexts that were removed", func(s ccmap.PruneStats) count { return count(s.Nodes) }),
}, inline(amountColumns, func(p *Profile, _ ccmap.PruneStats) *ccmap.Counters { return given(p.PrunedTotal(), true) })...), colIn("", "exact_totals", "methods and edges are exact all the same", func(p *Profile, _ ccmap.PruneStats) bool { return p.keepsTotals() }))

var elidedColumns = columns[ccmap.Elided]{
	col("", "samples", "samples with such a frame", func(e ccmap.Elided) count { return count(e.Samples) }),
	col("", "least", "frames in the stack that lacks the fewest; 0: not known", func(e ccmap.Elided) count { return count(e.Least) }),
	col("", "most", "frames in the stack that lacks the most", func(e ccmap.Elided) count { return count(e.Most) }),
	col("", "uncounted", "samples that lack more than was counted", func(e ccmap.Elided) count { return count(e.Uncounted) }),
}

var blindColumns = columns[ccmap.Blind]{
	col("", "unknown", "part of the time in code without a name", func(b ccmap.Blind) percent { return percent(b.Unknown) }),
	col("", "truncated", "part of the time below cut stacks", func(b ccmap.Blind) percent { return percent(b.Truncated) }),
	col("", "misleads", "one of them is over 10", func(b ccmap.Blind) bool { return b.Misleads() }),
	colIn("", "warning,omitempty", "causes and cures", func(p *Profile, _ ccmap.Blind) string { return p.caution() }),
}

// metaColumns describe a profile alone: they have what takes longer to find out.
var metaColumns = append(profileColumns[:len(profileColumns):len(profileColumns)],
	ofProfile("judgement,omitempty", "how far its figures can be trusted", (*Profile).judgement),
	ofProfile("points,omitempty", "profile points that were counted, beside samples", func(p *Profile) count { return count(len(p.Points())) }))

// JSON returns the description of the profile for encoding/json.
func (p *Profile) JSON() any { return metaColumns.json(p, *p) }

// profileMember declares the profile in the JSON of a view.
func profileMember[R any](of func(R) *Profile) column[R] {
	return object("profile", "the profile", profileColumns, func(_ *Profile, r R) *Profile { return of(r) })
}
