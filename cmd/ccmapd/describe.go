package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// print writes what a profile is, notes on what is in it, a table of that, and
// how many more rows there would be.
func (p *profile) print(env *environment, t *table, more int, notes ...string) error {
	out := newPrinter(env)
	out.text(p.describe())
	for _, note := range notes {
		out.text(note)
	}
	if len(t.rows) > 0 {
		out.table("", t)
	}
	if more > 0 {
		out.line("%s and %s more: -n 0 lists all", ellipsis, formatCount(int64(more)))
	}
	return out.err
}

// describe returns lines: what was sampled when, how much of it was seen, and
// how far it can be trusted. What is unknown is left out.
func (p *profile) describe() string {
	text := p.path
	if origin := origin(p.Meta()); origin != "" {
		text += ": " + origin
	}
	lines := []string{printable(text), p.extent()}
	if warning := p.caution(); warning != "" && !p.cautioned {
		lines = append([]string{warning}, lines...)
	}
	for _, warning := range p.warnings() {
		lines = append(lines, ccmap.CommentWarning+warning)
	}
	for _, line := range []string{p.trust(), p.lostTotals()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// trust says in a line each how settled a profile is, unless it is no sample but the
// whole or misleads, and what was pruned of it:
// "settled: methods 99.5%, edges 98.1%, kept contexts 93.0%", "4.2% of the time is
// [pruned]".
func (p *profile) trust() string {
	var parts []string
	if s := p.Meta().Settled; s != (ccmap.Settled{}) && !p.isRecent() && !p.Blind().Misleads() && p.measure.unit != ccmap.Instructions {
		contexts := "contexts"
		if p.isPruned() {
			contexts = "kept contexts" // of which more are settled than of all
		}
		parts = append(parts, fmt.Sprintf("settled: methods %s, edges %s, %s %s",
			formatPercent(s.Methods), formatPercent(s.Edges), contexts, formatPercent(s.Contexts)))
	}
	if p.isPruned() {
		parts = append(parts, p.measure.share(p.PrunedTotal())+" of the "+p.measure.noun()+" is [pruned]"+pruneStats(p.Meta().Pruned))
	}
	return strings.Join(parts, "\n")
}

// pruneStats prints how much was pruned, and how often: "" where that is unknown.
func pruneStats(s ccmap.PruneStats) string {
	if s.Times == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s, %s)", plural(int64(s.Nodes), "context"), plural(int64(s.Times), "time"))
}

// origin says where a profile came from, for example "server (pid 42,
// go1.26.8), by perf, 2026-11-21 00:10:00 UTC, for 10s".
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
		parts = append(parts, "for "+formatTime(int64(meta.Duration)))
	}
	return strings.Join(parts, ", ")
}

func target(t ccmap.Target) string {
	var details []string
	if t.PID != 0 {
		details = append(details, fmt.Sprintf("pid %d", t.PID))
	}
	if t.Runtime != "" {
		details = append(details, t.Runtime)
	}
	name := ""
	if t.Executable != "" {
		name = path.Base(t.Executable)
	}
	if len(details) == 0 {
		return name
	}
	return strings.TrimSpace(fmt.Sprintf("%s (%s)", name, strings.Join(details, ", ")))
}

// extent says how much was sampled, how, and what is missing, for example
// "1,234 samples, 12.3s of CPU time; interval 10ms; no loss; 12.3% repetitions".
func (p *profile) extent() string {
	meta := p.Meta()
	parts := []string{p.amount()}
	if interval := intervals(meta.Interval); interval != "" {
		parts = append(parts, interval)
	}
	parts = append(parts, loss(meta, p.whole.Total().Samples)...)
	if meta.Known > 0 {
		parts = append(parts, fmt.Sprintf("repetitions %s of %s known",
			formatPercent(percent(int64(meta.Repeated), int64(meta.Known))), formatCount(int64(meta.Known))))
	}
	return strings.Join(parts, "; ")
}

func (p *profile) amount() string {
	if !p.isRecent() {
		return p.amountOf(p.Total())
	}
	return fmt.Sprintf("recent (window %s): %s, of %s in all", formatTime(int64(p.whole.Meta().Window)),
		p.amountOf(p.Total()), p.amountOf(p.whole.Total()))
}

func (p *profile) amountOf(total ccmap.Counters) string {
	switch {
	case p.measure.of(total) == 0:
		return "no samples"
	case !p.countsSamples():
		return p.measure.amount(total) + " in an unknown number of samples"
	case p.measure.countsSame(total):
		return p.measure.amount(total)
	}
	return plural(total.Samples, "sample") + ", " + p.measure.amount(total)
}

// countsSame reports whether the weight is nothing but the number of samples.
func (m measure) countsSame(total ccmap.Counters) bool {
	return m.unit.Base() == ccmap.SampleCount.Base() && m.of(total) == total.Samples
}

// noun returns what is measured, in a few letters.
func (m measure) noun() string {
	if m.unit == ccmap.CPUTime {
		return "time"
	}
	return unitName(m.unit)
}

// intervals prints the range of the sampling interval's settings, "" where there was
// none.
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
		return "interval " + formatTime(int64(shortest))
	}
	return fmt.Sprintf("interval %s to %s", formatTime(int64(shortest)), formatTime(int64(longest)))
}
