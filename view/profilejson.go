package view

import (
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
)

// ProfileJSON describes a profile in the JSON of all views. It leaves out unknown fields.
type ProfileJSON struct {
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
	Unit             string    `json:"unit"`                  // of all time_ns, for example "cpu/nanoseconds", "alloc_space/bytes"
	Samples          int64     `json:"samples"`
	TimeNS           int64     `json:"time_ns"`
	Activations      int64     `json:"activations"`
	ActivationsExact bool      `json:"activations_exact"`
	LostSamples      uint64    `json:"lost_samples"`
	Throttled        uint64    `json:"throttled"`
	ClockNS          int64     `json:"clock_ns,omitempty"`       // CPU time by the program's own clock
	UnaccountedNS    *int64    `json:"unaccounted_ns,omitempty"` // of clock_ns
	Known            uint64    `json:"repetitions_known"`
	Repeated         uint64    `json:"repetitions_repeated"`

	WindowNS   int64        `json:"window_ns,omitempty"`
	Recent     *AmountJSON  `json:"recent,omitempty"`      // all of the window; percent: of the whole run
	OnlyRecent bool         `json:"only_recent,omitempty"` // the figures are of the window
	Settled    *settledJSON `json:"settled,omitempty"`
	Pruned     *prunedJSON  `json:"pruned,omitempty"`
	Blind      *blindJSON   `json:"blind,omitempty"`
}

// settledJSON has the fields of ccmap.Settled: percentages, and samples.
type settledJSON struct {
	Methods  float64 `json:"methods"`
	Edges    float64 `json:"edges"`
	Contexts float64 `json:"contexts"`
	Samples  int64   `json:"samples"`
}

// prunedJSON says how much of a profile has lost its contexts, and whether methods and
// edges are exact all the same.
type prunedJSON struct {
	Times uint64 `json:"times"`
	Nodes uint64 `json:"nodes"`
	AmountJSON
	ExactTotals bool `json:"exact_totals"`
}

// JSON describes the profile.
func (p *Profile) JSON() ProfileJSON {
	meta, total := p.Meta(), p.Total()
	d := ProfileJSON{
		File:             p.Path,
		Executable:       meta.Target.Executable,
		PID:              meta.Target.PID,
		Runtime:          meta.Target.Runtime,
		BuildID:          meta.Target.BuildID,
		Engine:           meta.Engine,
		Start:            meta.Start,
		DurationNS:       int64(meta.Duration),
		Ended:            meta.Ended,
		Unit:             p.measure.unit.String(),
		Samples:          total.Samples,
		TimeNS:           total.Time,
		Activations:      total.Activations,
		ActivationsExact: p.ActivationsExact(),
		LostSamples:      meta.Loss.Samples(),
		Throttled:        meta.Loss.Throttled,
		ClockNS:          int64(meta.Loss.Clock),
		Known:            meta.Known,
		Repeated:         meta.Repeated,
		WindowNS:         int64(p.whole.Meta().Window),
		OnlyRecent:       p.isRecent(),
	}
	if meta.Loss.Clock > 0 {
		d.UnaccountedNS = (*int64)(&meta.Loss.Unaccounted)
	}
	p.describeMapJSON(&d)
	for _, change := range meta.Interval {
		d.IntervalNS = append(d.IntervalNS, int64(change.Interval))
	}
	return d
}

// describeMapJSON adds the parts that only some maps have.
func (p *Profile) describeMapJSON(d *ProfileJSON) {
	if window, ok := p.Recent(); ok {
		recent := p.measure.amountJSON(window.Total())
		d.Recent = &recent
	}
	d.Blind = p.blindJSON()
	if settled := p.Meta().Settled; p.saysSettled() {
		d.Settled = (*settledJSON)(&settled)
	}
	if p.IsPruned() {
		stats := p.Meta().Pruned
		d.Pruned = &prunedJSON{stats.Times, stats.Nodes, p.measure.amountJSON(p.PrunedTotal()), p.keepsTotals()}
	}
}

// blindJSON says how much of a profile cannot be attributed.
type blindJSON struct {
	Unknown   float64 `json:"unknown"`   // percent of the time
	Truncated float64 `json:"truncated"` // percent of the time
	Misleads  bool    `json:"misleads"`  // one of them is over 10
	Warning   string  `json:"warning,omitempty"`
}

// blindJSON returns nil where everything is attributed.
func (p *Profile) blindJSON() *blindJSON {
	b := p.Blind()
	if b == (ccmap.Blind{}) {
		return nil
	}
	return &blindJSON{b.Unknown, b.Truncated, b.Misleads(), p.caution()}
}

// CountersJSON has counters, in the JSON of all views.
type CountersJSON struct {
	AmountJSON
	Activations int64 `json:"activations"`
}

// AmountJSON has counters without activations.
type AmountJSON struct {
	Samples int64   `json:"samples"`
	TimeNS  int64   `json:"time_ns"`
	Percent float64 `json:"percent"` // of the whole profile, by time, or by samples where it has no time
}

func (m measure) json(c ccmap.Counters) CountersJSON {
	return CountersJSON{m.amountJSON(c), c.Activations}
}

func (m measure) amountJSON(c ccmap.Counters) AmountJSON {
	return AmountJSON{c.Samples, c.Time, figure.Share(m.of(c), m.total)}
}
