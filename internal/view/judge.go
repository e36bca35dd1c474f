package view

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

const (
	trusted     = 90      // percent that two halves of the samples must overlap
	mostHalved  = 1 << 18 // nodes of a profile that is halved to be judged: it takes under a second
	mostAdvised = 30 * 24 * time.Hour
)

// judgement says in a sentence how far the figures can be trusted, and how much more must
// be sampled to trust all: "" if that is not known.
func (p *Profile) judgement() string {
	switch {
	case p.measure.total == 0:
		return ""
	case p.Blind().Misleads():
		return "Do not trust these figures: too much of the profile has no name or no callers."
	case p.isExact():
		return "Every call was counted: the figures are exact."
	case !p.countsSamples():
		return "How far to trust these figures is not known: the profile does not say how many samples it has."
	case !p.samplesWeighAlike():
		return ""
	}
	halves := p.halves()
	if halves == (ccmap.Settled{}) {
		return ""
	}
	return p.judge(halves)
}

// isExact reports whether the figures were counted, and not sampled.
func (p *Profile) isExact() bool { return p.Meta().Engine == engineWasmExact }

// samplesWeighAlike reports whether the number of samples tells how sure the figures are. One sample of allocations
// may weigh more than all others.
func (p *Profile) samplesWeighAlike() bool {
	return p.measure.unit == ccmap.CPUTime || p.measure.unit == ccmap.SampleCount
}

// halves returns the overlap of two halves of the samples, from the profile if it knows.
func (p *Profile) halves() ccmap.Settled {
	if s := p.Meta().Settled; s != (ccmap.Settled{}) && !p.isRecent() {
		return s
	}
	if p.Len() > mostHalved {
		return ccmap.Settled{}
	}
	f, err := compare.Floors(p.Snapshot, compare.Options{Weight: p.measure.by()})
	if err != nil {
		return ccmap.Settled{} // too few samples to halve
	}
	return ccmap.Settled{Methods: f.Methods, Edges: f.Edges, Contexts: f.Contexts, Samples: f.Samples}
}

// held says which budget has kept the session from more samples: "" if none has. Of a merge it
// says how many sessions that were.
func (p *Profile) held() string {
	var all []string
	for _, c := range p.Meta().Comments {
		if sentence, ok := strings.CutPrefix(c, ccmap.CommentHeld); ok {
			all = append(all, sentence)
		}
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return terminal.Printable(all[0])
	}
	return "Budgets have kept " + figure.Count(int64(len(all))) + " sessions or more from more samples."
}

// judge names the counters that can be trusted: a profile of methods settles first, and
// one of contexts last.
func (p *Profile) judge(s ccmap.Settled) string {
	names, overlaps := []string{"methods", "call sites", "contexts"}, []float64{s.Methods, s.Edges, s.Contexts}
	if p.IsPruned() {
		names, overlaps = names[:2], overlaps[:2] // the kept contexts say nothing about the others
	}
	enough := 0
	for enough < len(names) && s.Samples >= enoughSamples && overlaps[enough] >= trusted {
		enough++
	}
	last := len(names) - 1
	all := p.moreFor(overlaps[last], s.Samples)
	switch enough {
	case len(names):
		return fmt.Sprintf("Enough samples to trust %s and %s.", strings.Join(names[:last], ", "), names[last])
	case 0:
		if first := p.moreFor(overlaps[0], s.Samples); first != "" && all != "" && first != all {
			all = fmt.Sprintf(": %s more for methods, %s for all", first, all)
		} else if all != "" {
			all = ": " + all + " more"
		}
		return fmt.Sprintf("Too few samples to trust %s or %s%s.", strings.Join(names[:last], ", "), names[last], all)
	}
	if all != "" {
		all = ": " + all + " more"
	}
	return fmt.Sprintf("Enough samples to trust %s, not %s%s.", strings.Join(names[:enough], " and "), strings.Join(names[enough:], " or "), all)
}

// moreFor says how long to go on sampling until two halves overlap enough: "" if the
// profile cannot tell. The part that does not overlap falls with the root of the samples.
func (p *Profile) moreFor(overlap float64, samples int64) string {
	missing := max((100-overlap)/(100-trusted), 1)
	wanted := max(float64(samples)*missing*missing, enoughSamples)
	more := wanted/float64(samples) - 1
	wait := time.Duration(math.Min(more*float64(p.Meta().Duration), math.MaxInt64/2))
	switch {
	case p.isRecent() || overlap <= 0 || wait > mostAdvised:
		return ""
	case wait > 0:
		return roundUp(wait)
	}
	return figure.Count(int64(math.Ceil(more*float64(samples)/100))*100) + " samples"
}

// roundUp prints a time to wait, in the words of people.
func roundUp(wait time.Duration) string {
	for _, unit := range []struct {
		is, step, most time.Duration
		noun           string
	}{
		{time.Second, 10 * time.Second, 50 * time.Second, "second"},
		{time.Minute, time.Minute, 90 * time.Minute, "minute"},
		{time.Hour, time.Hour, 36 * time.Hour, "hour"},
		{24 * time.Hour, 24 * time.Hour, math.MaxInt64, "day"},
	} {
		if up := (wait + unit.step - 1) / unit.step * unit.step; up <= unit.most {
			return figure.Plural(int64(up/unit.is), unit.noun)
		}
	}
	return ""
}
