package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
)

// trusted is the percentage to which contexts settle until a report asks for no more samples. The sentence below the
// hottest methods judges by the same (package view).
const trusted = 90

// nextSteps says what to do next with a profile that has not settled, or has labels.
func nextSteps(p *view.Profile, r manager.Report) []string {
	return slices.DeleteFunc([]string{settlingAdvice(p, r.Reached), labelAdvice(p, r.Written)}, func(s string) bool { return s == "" })
}

// next adds to the next steps the interval that an earlier run gave, and the earlier runs that are stored.
func (s *Session) next(p *view.Profile, r manager.Report) []string {
	steps := nextSteps(p, r)
	if s.Resumed != 0 {
		steps = append(steps, fmt.Sprintf("The interval began at %v, where the last run of this build had settled.", s.Resumed))
	}
	if s.config.Earlier != nil {
		if text := s.config.Earlier(); text != "" {
			steps = append(steps, text)
		}
	}
	return steps
}

// settlingAdvice says how to go on sampling until the profile can be trusted, unless it can, or was to settle to a
// goal that it reached.
func settlingAdvice(p *view.Profile, reached bool) string {
	s := p.Meta().Settled
	if s == (ccmap.Settled{}) || reached || p.Blind().Misleads() || p.Meta().Unit != ccmap.CPUTime {
		return ""
	}
	goal, settled := fmt.Sprintf("contexts:%d%%", trusted), s.Contexts
	if p.IsPruned() {
		goal, settled = fmt.Sprintf("edges:%d%%", trusted), s.Edges
	}
	if settled >= trusted {
		return ""
	}
	return fmt.Sprintf("Settled: methods %s, edges %s, contexts %s. '--until %s' samples until all can be trusted.",
		figure.Percent(s.Methods), figure.Percent(s.Edges), figure.Percent(s.Contexts), goal)
}

// mostKeys bounds the keys of labels that a report names.
const mostKeys = 5

// labelAdvice says that the samples have labels of the program, and how to list by them.
func labelAdvice(p *view.Profile, written []string) string {
	keys, share := labelsOf(p.Labelled())
	if len(keys) == 0 {
		return ""
	}
	list := strings.Join(keys[:min(len(keys), mostKeys)], ", ")
	if len(keys) > mostKeys {
		list += ", " + terminal.Ellipsis
	}
	see := ""
	if i := slices.IndexFunc(named(written), func(f string) bool { return formatOf(f) != export.Folded }); i >= 0 {
		see = fmt.Sprintf(": see 'ccmapd top --by label %s'", terminal.ShellQuote(named(written)[i]))
	}
	return fmt.Sprintf("Labels (pprof.Do): %s of the samples have %s%s.", figure.Percent(share), terminal.Printable(list), see)
}

// labelsOf returns the keys of a profile's labels, sorted, and the percentage of the samples that have any.
func labelsOf(s *ccmap.Snapshot) (keys []string, share float64) {
	var samples int64
	for set := range s.LabelSets() {
		samples += set.Total.Samples
		for _, l := range set.Labels {
			keys = append(keys, l.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), 100 * float64(samples) / float64(max(s.Total().Samples, 1))
}
