package view

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// describe returns lines about the samples, and warnings. With all, it adds the interval,
// losses, and how settled the profile is. It leaves out unknown facts.
func (p *Profile) describe(all bool) string {
	var lines []string
	if warning := p.caution(); warning != "" && !p.cautioned {
		lines = append(lines, warning)
	}
	if all {
		text := p.Path
		if origin := origin(p.Meta()); origin != "" {
			text += ": " + origin
		}
		lines = append(lines, terminal.Printable(text), p.Extent())
	} else {
		lines = append(lines, terminal.Printable(p.headline()))
	}
	for _, warning := range p.Warnings() {
		lines = append(lines, ccmap.CommentWarning+warning)
	}
	if trust := p.trust(); all && trust != "" {
		lines = append(lines, trust)
	}
	if lost := p.lostTotals(); lost != "" {
		lines = append(lines, lost)
	}
	return strings.Join(lines, "\n")
}

// headline describes the samples in a line: "web.pb.gz: 616 samples, 6.11s of CPU time, of fortio
// (pid 9543, go1.26.8), for 15s".
func (p *Profile) headline() string {
	meta := p.Meta()
	text := p.Path + ": " + p.taken()
	if name := cmp.Or(target(meta.Target), parts(meta)); name != "" {
		text += ", of " + name
	}
	if meta.Duration > 0 {
		text += ", for " + figure.Time(int64(meta.Duration))
	}
	if p.only != "" {
		text += ", with " + p.only
	}
	return text
}

// taken says how much was sampled, and how many samples are missing.
func (p *Profile) taken() string {
	lost := int64(p.Meta().Loss.Samples())
	if lost == 0 {
		return p.amount()
	}
	return p.amount() + ", " + figure.Plural(lost, "sample") + " lost"
}

// trust says in a line how settled a profile is, and in another how much of it was
// pruned: "settled: methods 99.5%, edges 98.1%, kept contexts 93.0%", "4.2% of the time is
// [pruned]". A profile of all calls has nothing to settle, and one that misleads says no
// more.
func (p *Profile) trust() string {
	var parts []string
	if p.saysSettled() && p.measure.unit != ccmap.Instructions {
		s, contexts := p.Meta().Settled, "contexts"
		if p.IsPruned() {
			contexts = "kept contexts" // a larger part of these is settled
		}
		parts = append(parts, fmt.Sprintf("settled: methods %s, edges %s, %s %s",
			figure.Percent(s.Methods), figure.Percent(s.Edges), contexts, figure.Percent(s.Contexts)))
	}
	if p.IsPruned() {
		parts = append(parts, p.measure.share(p.PrunedTotal())+" of the "+p.measure.noun()+" is [pruned]"+pruneStats(p.Meta().Pruned))
	}
	if e := p.Meta().Elided; e.Samples > 0 {
		parts = append(parts, elided(e))
	}
	return strings.Join(parts, "\n")
}

// elided prints how many frames deep stacks lack: "39 samples lack 7,952 to 98,016 frames each: [frames elided]
// stands for them".
func elided(e ccmap.Elided) string {
	frames := figure.Count(int64(e.Least)) + " to " + figure.Count(int64(e.Most))
	switch {
	case e.Uncounted == e.Samples:
		frames = "up to " + figure.Count(int64(e.Most)) + " or more"
	case e.Uncounted > 0:
		frames += ", or more,"
	}
	return figure.Plural(int64(e.Samples), "sample") + " lack " + frames + " frames each: [frames elided] stands for them"
}

// saysSettled reports whether it is known, and means anything, how settled the profile is.
func (p *Profile) saysSettled() bool {
	return p.Meta().Settled != (ccmap.Settled{}) && !p.isRecent() && !p.Blind().Misleads()
}

// pruneStats prints how much was pruned, and how often: "" if that is unknown.
func pruneStats(s ccmap.PruneStats) string {
	if s.Times == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s, %s)", figure.Plural(int64(s.Nodes), "context"), figure.Plural(int64(s.Times), "time"))
}

// origin says where a profile came from, for example "server (pid 42, go1.26.8), by perf,
// 2026-11-21 00:10:00 UTC, for 10s".
func origin(meta ccmap.Meta) string {
	var parts []string
	if name := target(meta.Target); name != "" {
		parts = append(parts, name)
	}
	if meta.Engine != "" {
		parts = append(parts, "by "+meta.Engine)
	}
	if !meta.Start.IsZero() {
		parts = append(parts, meta.Start.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if meta.Duration > 0 {
		parts = append(parts, "for "+figure.Time(int64(meta.Duration)))
	}
	return strings.Join(parts, ", ")
}

// parts names the programs of a merge, "" if it has one.
func parts(meta ccmap.Meta) string {
	for _, c := range meta.Comments {
		if names, is := strings.CutPrefix(c, ccmap.CommentParts); is {
			return names
		}
	}
	return ""
}

func target(t ccmap.Target) string {
	var details []string
	if t.PID != 0 {
		details = append(details, fmt.Sprintf("pid %d", t.PID))
	}
	if t.Runtime != "" {
		details = append(details, t.Runtime)
	}
	name := "a program" // a sum of many machines has no path
	if t.Executable != "" {
		name = path.Base(t.Executable)
	}
	switch {
	case len(details) > 0:
		return fmt.Sprintf("%s (%s)", name, strings.Join(details, ", "))
	case t.Executable == "":
		return ""
	}
	return name
}

// Extent says how much was sampled, how, and what is missing, for example
// "1,234 samples, 12.3s of CPU time; interval 10ms; no loss; 12.3% repetitions".
func (p *Profile) Extent() string {
	meta := p.Meta()
	parts := []string{p.amount()}
	if interval := intervals(meta.Interval); interval != "" {
		parts = append(parts, interval)
	}
	parts = append(parts, loss(meta, p.whole.Total())...)
	if meta.Known > 0 {
		parts = append(parts, fmt.Sprintf("repetitions %s of %s known",
			figure.Percent(figure.Share(int64(meta.Repeated), int64(meta.Known))), figure.Count(int64(meta.Known))))
	}
	return strings.Join(parts, "; ")
}

func (p *Profile) amount() string {
	if !p.isRecent() {
		return p.amountOf(p.Total())
	}
	return fmt.Sprintf("recent (window %s): %s, of %s in all", figure.Time(int64(p.whole.Meta().Window)),
		p.amountOf(p.Total()), p.amountOf(p.whole.Total()))
}

func (p *Profile) amountOf(total ccmap.Counters) string {
	switch {
	case p.measure.of(total) == 0:
		return "no samples"
	case !p.countsSamples():
		return p.measure.amount(total) + " in an unknown number of samples"
	case p.measure.countsSame(total):
		return p.measure.amount(total)
	}
	return figure.Plural(total.Samples, "sample") + ", " + p.measure.amount(total)
}

// intervals prints the range of the settings of the sampling interval, "" if there were
// no settings.
func intervals(changes []ccmap.IntervalChange) string {
	if len(changes) == 0 {
		return ""
	}
	shortest, longest := changes[0].Interval, changes[0].Interval
	for _, c := range changes {
		shortest, longest = min(shortest, c.Interval), max(longest, c.Interval)
	}
	switch {
	case longest == 0:
		return ""
	case shortest == longest:
		return "interval " + figure.Time(int64(shortest))
	}
	return fmt.Sprintf("interval %s to %s", figure.Time(int64(shortest)), figure.Time(int64(longest)))
}

// loss says which samples are missing, and how much time if the clock of the program
// tells. It says that nothing is missing only if an engine of ours counted.
func loss(meta ccmap.Meta, total ccmap.Counters) []string {
	var parts []string
	samples := total.Samples
	l := meta.Loss
	_, clocked := l.UnaccountedShare()
	if lost := int64(l.Samples()); lost > 0 {
		parts = append(parts, fmt.Sprintf("%s lost (%s)", figure.Plural(lost, "sample"), figure.Percent(figure.Share(lost, lost+samples))))
	} else if clocked {
		parts = append(parts, "none lost")
	} else if meta.Engine != "" {
		parts = append(parts, "no sample lost")
	}
	if clocked {
		parts[len(parts)-1] += ", " + Unaccounted(l, meanWeight(total, meta.Interval))
	}
	if l.Throttled > 0 {
		parts = append(parts, "throttled "+figure.Plural(int64(l.Throttled), "time"))
	}
	return parts
}

// Unaccounted prints the share of the CPU time of a program that no sample stands for,
// for example "0.3% unaccounted": "" if the program has no clock. Samples that stand for a weight on
// average, and by chance for more than the clock, leave none.
func Unaccounted(l ccmap.Loss, weight time.Duration) string {
	share, known := l.UnaccountedShare()
	switch {
	case !known:
		return ""
	case l.ExceedsByChance(weight):
		return "none unaccounted"
	}
	percent := figure.Percent(100 * share)
	if percent == "-0.0%" {
		percent = "0.0%"
	}
	return percent + " unaccounted"
}

// mostWarnings bounds the warnings that are printed for a merge of many profiles.
const mostWarnings = 4

// Warnings say why the profile is not the whole truth, as far as it knows. Each is a line.
func (p *Profile) Warnings() []string {
	var all []string
	if missing := p.unaccounted(); missing != "" {
		all = append(all, missing)
	}
	for _, c := range p.Meta().Comments {
		if warning, ok := strings.CutPrefix(c, ccmap.CommentWarning); ok {
			all = append(all, terminal.Reason(warning))
		}
	}
	if more := len(all) - mostWarnings; more > 0 {
		all = append(all[:mostWarnings], "and "+figure.Count(int64(more))+" more")
	}
	return all
}

// unaccounted warns of a profile that misses time, or has too much of it: "" if it does
// neither.
func (p *Profile) unaccounted() string {
	meta := p.Meta()
	l := meta.Loss
	if !l.Misses(meanWeight(p.whole.Total(), meta.Interval)) {
		return ""
	}
	share, _ := l.UnaccountedShare()
	if share < 0 {
		return fmt.Sprintf("samples stand for %s more CPU time than the program used (%s)",
			figure.Percent(-100*share), figure.Time(int64(l.Clock)))
	}
	why := "threads were shorter than the interval or not sampled, or ccmapd or the machine was held up"
	if meta.Engine == ownProfiler {
		why = "the program's own profiler rests most of the time, so that others can use it"
	}
	if known := p.comment(ccmap.CommentUnaccounted); known != "" {
		why = terminal.Reason(known)
	}
	return fmt.Sprintf("no sample stands for %s of the CPU time (%s of %s): %s",
		figure.Percent(100*share), figure.Time(int64(l.Unaccounted)), figure.Time(int64(l.Clock)), why)
}

// comment returns the rest of the first comment that begins with a prefix; "" without one.
func (p *Profile) comment(prefix string) string {
	for _, c := range p.Meta().Comments {
		if rest, ok := strings.CutPrefix(c, prefix); ok {
			return rest
		}
	}
	return ""
}

// ownProfiler is the engine that takes profiles of a program's own profiler.
const ownProfiler = "pprofhttp"

// meanWeight returns the CPU time that a sample stands for on average. Without samples it
// is the last interval.
func meanWeight(total ccmap.Counters, changes []ccmap.IntervalChange) time.Duration {
	if total.Samples > 0 {
		return time.Duration(total.Time / total.Samples)
	}
	var last ccmap.IntervalChange
	if len(changes) > 0 {
		last = changes[len(changes)-1]
	}
	return cmp.Or(last.Interval, time.Millisecond)
}

// IsPruned reports whether contexts are missing. Folded stacks show it by their frames
// alone.
func (p *Profile) IsPruned() bool { return p.Pruned() || !p.PrunedTotal().IsZero() }

// keepsTotals reports whether methods and edges are exact although contexts were pruned.
// XML and JSON alone keep the evicted counters. Their sum shows that they were kept: each
// sample was taken in some method. Merged weights are rounded a little.
func (p *Profile) keepsTotals() bool {
	var known ccmap.Counters
	for m := range p.whole.PrunedMethods() {
		known = known.Add(m.Self)
	}
	const rounding = 0.99
	m := measureOf(p.whole)
	return float64(m.of(known)) >= rounding*float64(m.of(p.whole.PrunedTotal()))
}

// lostTotals says that even methods and edges are lower bounds, "" if they are exact.
func (p *Profile) lostTotals() string {
	if !p.IsPruned() || p.keepsTotals() {
		return ""
	}
	return "All figures are lower bounds: contexts were pruned, and what they had counted is\n" +
		"kept by method and edge in XML and JSON only."
}

// lowerBounds returns a note that some figures are lower bounds, if the profile was
// pruned. There is no such note if all figures are.
func (p *Profile) lowerBounds(what string) []string {
	if !p.IsPruned() || p.lostTotals() != "" {
		return nil
	}
	return []string{what + " are lower bounds, as some were pruned; methods and edges are exact."}
}

// prunedCaveat says how far pruning spoils a comparison, "" without pruning.
func (p *Profile) prunedCaveat() string {
	switch {
	case !p.IsPruned():
		return ""
	case p.keepsTotals():
		return p.Path + " was pruned: methods and edges are exact, contexts are the kept ones."
	}
	return p.Path + " was pruned, and is of a format that lost totals of methods and edges: compare XML or JSON."
}
