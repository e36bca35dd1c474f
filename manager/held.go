package manager

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

// BudgetNames name the settings that bound the cost of sampling, as the user knows them: flags of a
// command, or keys of a configuration. An empty name stands for the option of the Go package.
type BudgetNames struct {
	Target string // part of the target's CPU time that sampling may cost
	Host   string // part of each CPU that timers may take
	Own    string // CPU time of this process
}

// held says which budget keeps the target from more samples.
type held struct {
	by       string        // name of the budget; empty: none does
	interval time.Duration // in force; 0: it is not the interval that is held
	wanted   time.Duration // without the budget
	sampled  float64       // part of the time that is sampled
}

// lookHeld finds the budget that holds the interval, or else the time that is sampled.
func (m *Manager) lookHeld(s sampler.Stats) held {
	names, o := m.config.Budgets, s.Overhead
	target := cmp.Or(names.Target, "tuning.Config.MaxOverhead")
	if 0 < o.Sampled && o.Sampled < 1 {
		return held{by: target, sampled: o.Sampled}
	}
	by, wanted := m.config.Tuner.Held()
	h := held{interval: s.Interval, wanted: wanted}
	switch {
	case wanted < s.Interval && s.Interval == o.Least:
		h.by = cmp.Or(names.Host, "bpf.HostOptions.MaxOverhead")
	case by == tuning.TargetOverhead:
		h.by = target
	case by == tuning.DaemonCPU:
		h.by = cmp.Or(names.Own, "tuning.Config.MaxDaemonCPU")
	default:
		return held{}
	}
	return h
}

// String is a sentence for people, empty if no budget holds anything.
func (h held) String() string {
	switch {
	case h.by == "":
		return ""
	case h.interval == 0:
		return fmt.Sprintf("%s permits sampling in %.1f %% of the time: a larger budget gives more samples.", h.by, 100*h.sampled)
	}
	return fmt.Sprintf("%s holds the interval at %v, where %v was wanted: a larger budget gives more samples.", h.by, h.interval, h.wanted)
}

// comment is the sentence for the metadata.
func (h held) comment() string {
	if h.by == "" {
		return ""
	}
	return ccmap.CommentHeld + h.String()
}
