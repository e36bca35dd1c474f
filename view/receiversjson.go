package view

import (
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// ReceiversSiteJSON is a call site in the JSON of [Receivers].
type ReceiversSiteJSON struct {
	Caller    NameJSON      `json:"caller"`
	Percent   float64       `json:"percent"` // of the whole profile, by time, or by samples where it has no time
	Verdict   string        `json:"verdict"`
	Decisive  string        `json:"decisive"` // "samples" or "calls"
	Entropy   float64       `json:"entropy_bits"`
	Gain      float64       `json:"gain_bits"`
	BySamples *EvidenceJSON `json:"by_samples,omitempty"`
	ByCalls   *EvidenceJSON `json:"by_calls,omitempty"`
}

// EvidenceJSON lists the receivers of a site that samples, or caught calls, have seen.
type EvidenceJSON struct {
	Seen   int64 `json:"seen"` // samples or calls; 0 if a profile does not count its samples
	TimeNS int64 `json:"time_ns,omitempty"`
	mixJSON
	Unseen float64     `json:"unseen_percent"`
	Splits []splitJSON `json:"splits,omitempty"`
}

// mixJSON lists the receivers of a site or of one of its contexts.
type mixJSON struct {
	Verdict   string         `json:"verdict"`
	Entropy   float64        `json:"entropy_bits"`
	Receivers []receiverJSON `json:"receivers"`
	Unnamed   int64          `json:"unnamed,omitempty"`
}

type receiverJSON struct {
	NameJSON
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
	Callers []NameJSON `json:"callers"` // innermost first
	Rest    bool       `json:"rest,omitempty"`
	partJSON
	mixJSON
}

// JSON describes the profile and lists the call sites, with all receivers and contexts.
func (v *Receivers) JSON() any {
	out := struct {
		Profile     ProfileJSON         `json:"profile"`
		CaughtCalls int64               `json:"caught_calls"`
		Phases      map[string]int64    `json:"phases,omitempty"` // caught calls of each, from 1
		Sites       []ReceiversSiteJSON `json:"sites"`
		Hidden      int                 `json:"hidden_sites"`
	}{v.Profile.JSON(), v.caught, v.callsByPhase(), make([]ReceiversSiteJSON, len(v.rows)), v.hidden}
	for i, row := range v.rows {
		out.Sites[i] = v.siteJSON(row)
	}
	return out
}

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

func (v *Receivers) siteJSON(row receiversRow) ReceiversSiteJSON {
	site := ReceiversSiteJSON{
		Caller:    callJSON(v.Names(), row.call()),
		Percent:   figure.Share(row.Samples.Total().Weight, v.measure.total),
		Verdict:   row.decisive.Verdict.String(),
		Decisive:  "samples",
		Entropy:   row.decisive.Entropy(),
		Gain:      row.gain(),
		BySamples: v.evidenceOf(row.Samples, v.sampledPart),
		ByCalls:   v.evidenceOf(row.Calls, caughtPart),
	}
	if row.byCalls {
		site.Decisive = "calls"
	}
	return site
}

// part returns an amount as a part of a whole: samples or calls.
type part func(a, whole pollution.Amount) partJSON

func (v *Receivers) sampledPart(a, whole pollution.Amount) partJSON {
	c := v.counters(a)
	return partJSON{c.Samples, c.Time, figure.Share(a.Weight, whole.Weight)}
}

func caughtPart(a, whole pollution.Amount) partJSON {
	return partJSON{Seen: a.Seen, SharePercent: figure.Share(a.Seen, whole.Seen)}
}

// evidenceOf returns nil where there is no evidence.
func (v *Receivers) evidenceOf(e pollution.Evidence, part part) *EvidenceJSON {
	total := e.Total()
	if total == (pollution.Amount{}) {
		return nil
	}
	whole := part(total, total)
	out := &EvidenceJSON{
		Seen: whole.Seen, TimeNS: whole.TimeNS,
		mixJSON: v.mixJSON(e.Mix, e.Verdict, part),
		Unseen:  100 * pollution.Unseen(whole.Seen),
	}
	for _, s := range e.Splits(int(v.list.Depth)) {
		split := splitJSON{s.Depth, s.Verdict.String(), s.Entropy, make([]receiversContextJSON, len(s.Contexts))}
		for i, c := range s.Contexts {
			split.Contexts[i] = receiversContextJSON{
				callersJSON(v.Names(), c.Callers), c.Rest, part(c.Total(), total), v.mixJSON(c.Mix, c.Verdict, part),
			}
		}
		out.Splits = append(out.Splits, split)
	}
	return out
}

func (v *Receivers) mixJSON(m pollution.Mix, verdict pollution.Verdict, part part) mixJSON {
	out := mixJSON{verdict.String(), m.Entropy(), make([]receiverJSON, len(m.Targets)), m.Unnamed}
	for i, t := range m.Targets {
		method := v.Names().At(t.Method)
		out.Receivers[i] = receiverJSON{nameJSON(method), method.Receiver, part(t.Amount, m.Total())}
	}
	return out
}
