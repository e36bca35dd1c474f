package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// loss prints what is missing, and that nothing is where an engine of ours kept
// watch: of samples, and of time where the program's clock tells.
func loss(meta ccmap.Meta, samples int64) []string {
	var parts []string
	l := meta.Loss
	_, clocked := l.UnaccountedShare()
	if lost := int64(l.Samples()); lost > 0 {
		parts = append(parts, fmt.Sprintf("%s lost (%s)", plural(lost, "sample"), formatPercent(percent(lost, lost+samples))))
	} else if clocked {
		parts = append(parts, "none lost")
	} else if meta.Engine != "" {
		parts = append(parts, "no sample lost")
	}
	if clocked {
		parts[len(parts)-1] += ", " + formatUnaccounted(l)
	}
	if l.Throttled > 0 {
		parts = append(parts, "throttled "+plural(int64(l.Throttled), "time"))
	}
	return parts
}

// formatUnaccounted prints the share of the program's CPU time that no sample stands
// for, for example "0.3% unaccounted": "" where it has no clock.
func formatUnaccounted(l ccmap.Loss) string {
	share, known := l.UnaccountedShare()
	if !known {
		return ""
	}
	percent := formatPercent(100 * share)
	if percent == "-0.0%" {
		percent = "0.0%"
	}
	return percent + " unaccounted"
}

// mostWarnings bounds what is printed of a merge of many profiles.
const mostWarnings = 4

// warnings say why a profile is not the whole truth, as far as it knows.
func (p *profile) warnings() []string {
	var all []string
	if missing := p.unaccounted(); missing != "" {
		all = append(all, missing)
	}
	for _, c := range p.Meta().Comments {
		if warning, ok := strings.CutPrefix(c, ccmap.CommentWarning); ok {
			all = append(all, printable(warning))
		}
	}
	if more := len(all) - mostWarnings; more > 0 {
		all = append(all[:mostWarnings], "and "+formatCount(int64(more))+" more")
	}
	return all
}

// unaccounted warns of a profile that misses time, or has too much of it: "" if it
// does not.
func (p *profile) unaccounted() string {
	meta := p.Meta()
	l := meta.Loss
	if !l.Misses(meanWeight(p.whole.Total(), meta.Interval)) {
		return ""
	}
	share, _ := l.UnaccountedShare()
	if share < 0 {
		return fmt.Sprintf("samples stand for %s more CPU time than the program used (%s)",
			formatPercent(-100*share), formatTime(int64(l.Clock)))
	}
	return fmt.Sprintf("no sample stands for %s of the CPU time (%s of %s): threads were shorter than the interval "+
		"or not sampled, or ccmapd or the machine was held up",
		formatPercent(100*share), formatTime(int64(l.Unaccounted)), formatTime(int64(l.Clock)))
}

// meanWeight returns the CPU time that a sample stands for on average: the last
// interval where there is none.
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
