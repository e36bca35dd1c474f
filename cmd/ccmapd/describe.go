package main

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// profileJSON describes a profile in the JSON of all commands. Fields that are
// not known are left out.
type profileJSON struct {
	File             string    `json:"file"`
	Executable       string    `json:"executable,omitempty"`
	PID              int       `json:"pid,omitempty"`
	Runtime          string    `json:"runtime,omitempty"`
	BuildID          string    `json:"build_id,omitempty"`
	Engine           string    `json:"engine,omitempty"`
	Start            time.Time `json:"start,omitzero"`
	DurationNS       int64     `json:"duration_ns,omitempty"`
	Ended            string    `json:"ended,omitempty"`
	IntervalNS       []int64   `json:"interval_ns,omitempty"` // all settings, in their order
	Samples          int64     `json:"samples"`
	TimeNS           int64     `json:"time_ns"`
	Activations      int64     `json:"activations"`
	ActivationsExact bool      `json:"activations_exact"`
	LostSamples      uint64    `json:"lost_samples"`
	Throttled        uint64    `json:"throttled"`
	Known            uint64    `json:"repetitions_known"`
	Repeated         uint64    `json:"repetitions_repeated"`
}

func describeJSON(p *profile) profileJSON {
	meta, total := p.Meta(), p.Total()
	d := profileJSON{
		File:             p.path,
		Executable:       meta.Target.Executable,
		PID:              meta.Target.PID,
		Runtime:          meta.Target.Runtime,
		BuildID:          meta.Target.BuildID,
		Engine:           meta.Engine,
		Start:            meta.Start,
		DurationNS:       int64(meta.Duration),
		Ended:            meta.Ended,
		Samples:          total.Samples,
		TimeNS:           total.Time,
		Activations:      total.Activations,
		ActivationsExact: p.ActivationsExact(),
		LostSamples:      meta.Loss.Samples(),
		Throttled:        meta.Loss.Throttled,
		Known:            meta.Known,
		Repeated:         meta.Repeated,
	}
	for _, change := range meta.Interval {
		d.IntervalNS = append(d.IntervalNS, int64(change.Interval))
	}
	return d
}

// print writes what a profile is, a table of what is in it, and how many more
// rows there would be.
func (p *profile) print(env *environment, t *table, more int) error {
	out := newPrinter(env)
	out.line("%s", p.describe())
	if len(t.rows) > 0 {
		out.table("", t)
	}
	if more > 0 {
		out.line("%s and %s more: -n 0 lists all", ellipsis, formatCount(int64(more)))
	}
	return out.err
}

// describe returns two lines: what was sampled when, and how much of it was
// seen. What is unknown is left out.
func (p *profile) describe() string {
	text := p.path
	if origin := origin(p.Meta()); origin != "" {
		text += ": " + origin
	}
	return printable(text) + "\n" + p.extent()
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
	parts = append(parts, loss(meta, p.Total().Samples)...)
	if meta.Known > 0 {
		parts = append(parts, fmt.Sprintf("repetitions %s of %s known",
			formatPercent(percent(int64(meta.Repeated), int64(meta.Known))), formatCount(int64(meta.Known))))
	}
	return strings.Join(parts, "; ")
}

func (p *profile) amount() string {
	total := p.Total()
	switch {
	case p.measure.total == 0:
		return "no samples"
	case !p.countsSamples():
		return formatTime(total.Time) + " of CPU time in an unknown number of samples"
	case !p.measure.timed:
		return plural(total.Samples, "sample")
	}
	return plural(total.Samples, "sample") + ", " + formatTime(total.Time) + " of CPU time"
}

// intervals prints the range of the sampling interval's settings.
func intervals(changes []ccmap.IntervalChange) string {
	if len(changes) == 0 {
		return ""
	}
	shortest, longest := changes[0].Interval, changes[0].Interval
	for _, c := range changes {
		shortest, longest = min(shortest, c.Interval), max(longest, c.Interval)
	}
	if shortest == longest {
		return "interval " + formatTime(int64(shortest))
	}
	return fmt.Sprintf("interval %s to %s", formatTime(int64(shortest)), formatTime(int64(longest)))
}

// loss prints what is missing, or that nothing is where an engine of ours kept
// watch.
func loss(meta ccmap.Meta, samples int64) []string {
	var parts []string
	l := meta.Loss
	if lost := int64(l.Samples()); lost > 0 {
		parts = append(parts, fmt.Sprintf("%s lost (%s)", plural(lost, "sample"), formatPercent(percent(lost, lost+samples))))
	} else if meta.Engine != "" {
		parts = append(parts, "none lost")
	}
	if l.Throttled > 0 {
		parts = append(parts, "throttled "+plural(int64(l.Throttled), "time"))
	}
	return parts
}

// methodNameJSON identifies a method in the JSON of all commands.
type methodNameJSON struct {
	Method    string `json:"method"`
	Signature string `json:"signature,omitempty"`
	File      string `json:"file,omitempty"`
	Line      int32  `json:"line,omitempty"` // of the declaration or, in a call, of the call
}

func nameJSON(m ccmap.Method) methodNameJSON {
	return methodNameJSON{m.Name, m.Signature, m.File, m.StartLine}
}

// callJSON identifies the place of a call in its caller.
func callJSON(m ccmap.Method, offset uint32) methodNameJSON {
	return methodNameJSON{m.Name, m.Signature, m.File, lineOf(m, offset)}
}
