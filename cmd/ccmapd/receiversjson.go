package main

import (
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

type receiversSiteJSON struct {
	Caller    methodNameJSON `json:"caller"`
	Percent   float64        `json:"percent"` // of the whole profile, by time, or by samples where it has no time
	Verdict   string         `json:"verdict"`
	Decisive  string         `json:"decisive"` // "samples" or "calls"
	Entropy   float64        `json:"entropy_bits"`
	Gain      float64        `json:"gain_bits"`
	BySamples *evidenceJSON  `json:"by_samples,omitempty"`
	ByCalls   *evidenceJSON  `json:"by_calls,omitempty"`
}

type evidenceJSON struct {
	Seen   int64 `json:"seen"` // samples or calls; 0 where a profile does not count its samples
	TimeNS int64 `json:"time_ns,omitempty"`
	mixJSON
	Unseen float64     `json:"unseen_percent"`
	Splits []splitJSON `json:"splits,omitempty"`
}

// mixJSON is what a site or one of its contexts has called.
type mixJSON struct {
	Verdict   string         `json:"verdict"`
	Entropy   float64        `json:"entropy_bits"`
	Receivers []receiverJSON `json:"receivers"`
	Unnamed   int64          `json:"unnamed,omitempty"`
}

type receiverJSON struct {
	methodNameJSON
	Receiver string `json:"receiver,omitempty"`
	partJSON
}

// partJSON is a part of a site, or of a context of it.
type partJSON struct {
	Seen         int64   `json:"seen"`
	TimeNS       int64   `json:"time_ns,omitempty"`
	SharePercent float64 `json:"share_percent"`
}

type splitJSON struct {
	Depth    int                    `json:"depth"`
	Verdict  string                 `json:"verdict"`
	Entropy  float64                `json:"entropy_bits"`
	Contexts []receiversContextJSON `json:"contexts"`
}

type receiversContextJSON struct {
	Callers []methodNameJSON `json:"callers"` // innermost first
	Rest    bool             `json:"rest,omitempty"`
	partJSON
	mixJSON
}

func receiversJSON(r receiverList, shown []receiversRow) any {
	out := struct {
		Profile     profileJSON         `json:"profile"`
		CaughtCalls int64               `json:"caught_calls"`
		Phases      map[string]int64    `json:"phases,omitempty"` // caught calls of each, from 1
		Sites       []receiversSiteJSON `json:"sites"`
		Hidden      int                 `json:"hidden_sites"`
	}{describeJSON(r.profile), r.caught, r.callsByPhase(), make([]receiversSiteJSON, len(shown)), r.hidden}
	for i, row := range shown {
		out.Sites[i] = r.siteJSON(row)
	}
	return out
}

// callsByPhase returns the caught calls of each phase of the program, by its number,
// where there are several.
func (p *profile) callsByPhase() map[string]int64 {
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

func (r receiverList) siteJSON(row receiversRow) receiversSiteJSON {
	site := receiversSiteJSON{
		Caller:    callJSON(r.Names(), row.call()),
		Percent:   percent(row.Samples.Total().Weight, r.measure.total),
		Verdict:   row.decisive.Verdict.String(),
		Decisive:  "samples",
		Entropy:   row.decisive.Entropy(),
		Gain:      row.gain(),
		BySamples: r.evidenceJSON(row.Samples, r.sampledPart),
		ByCalls:   r.evidenceJSON(row.Calls, caughtPart),
	}
	if row.byCalls {
		site.Decisive = "calls"
	}
	return site
}

// part prints an amount as a part of a whole: of samples or of calls.
type part func(a, whole pollution.Amount) partJSON

func (r receiverList) sampledPart(a, whole pollution.Amount) partJSON {
	c := r.counters(a)
	return partJSON{c.Samples, c.Time, percent(a.Weight, whole.Weight)}
}

func caughtPart(a, whole pollution.Amount) partJSON {
	return partJSON{Seen: a.Seen, SharePercent: percent(a.Seen, whole.Seen)}
}

// evidenceJSON returns nil where there is no evidence.
func (r receiverList) evidenceJSON(e pollution.Evidence, part part) *evidenceJSON {
	total := e.Total()
	if total == (pollution.Amount{}) {
		return nil
	}
	whole := part(total, total)
	out := &evidenceJSON{
		Seen: whole.Seen, TimeNS: whole.TimeNS,
		mixJSON: r.mixJSON(e.Mix, e.Verdict, part),
		Unseen:  100 * pollution.Unseen(whole.Seen),
	}
	for _, s := range e.Splits(int(r.flags.depth)) {
		split := splitJSON{s.Depth, s.Verdict.String(), s.Entropy, make([]receiversContextJSON, len(s.Contexts))}
		for i, c := range s.Contexts {
			split.Contexts[i] = receiversContextJSON{
				callersJSON(r.Names(), c.Callers), c.Rest, part(c.Total(), total), r.mixJSON(c.Mix, c.Verdict, part),
			}
		}
		out.Splits = append(out.Splits, split)
	}
	return out
}

func (r receiverList) mixJSON(m pollution.Mix, v pollution.Verdict, part part) mixJSON {
	out := mixJSON{v.String(), m.Entropy(), make([]receiverJSON, len(m.Targets)), m.Unnamed}
	for i, t := range m.Targets {
		method := r.Names().At(t.Method)
		out.Receivers[i] = receiverJSON{nameJSON(method), method.Receiver, part(t.Amount, m.Total())}
	}
	return out
}
