package view

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/valueprof/pollution"
)

// Profile is a profile as people look at it: a snapshot, and the measure of hot code in
// it.
type Profile struct {
	*ccmap.Snapshot                 // the whole run, or its window of recent samples
	Path            string          // the file that it was read from or written to
	Hints           map[Hint]string // advice about some facts; a missing hint is left out

	whole     *ccmap.Snapshot // the whole run
	labelled  *ccmap.Snapshot // the whole run, with its labels
	only      string          // labels of all samples, which the others were left out for
	measure   measure
	cautioned bool    // the caution has been printed
	phase     *uint32 // the phase whose caught calls are shown; nil: all

	declared map[string]int // how many methods have a name; nil: not counted yet
}

// New returns a snapshot as a profile, with the samples of all labels together. The path
// names it in text and JSON.
func New(path string, s *ccmap.Snapshot) *Profile {
	all := s.WithoutLabels()
	return &Profile{Snapshot: all, whole: all, labelled: s, Path: path, measure: measureOf(all)}
}

// ErrNoWindow means that a profile has no window of recent samples.
var ErrNoWindow = errors.New("no window of recent samples")

// RecentOnly returns the window of recent samples as a profile, with the chosen phase. The
// error is ErrNoWindow.
func (p *Profile) RecentOnly() (*Profile, error) {
	window, ok := p.Recent()
	if !ok {
		return nil, p.noWindow()
	}
	recent := *p
	recent.Snapshot, recent.measure = window, measureOf(window)
	return &recent, nil
}

func (p *Profile) noWindow() error { return fmt.Errorf("%s has %w", p.Path, ErrNoWindow) }

// isRecent reports whether the figures are of the window.
func (p *Profile) isRecent() bool { return p.whole != p.Snapshot }

// window returns the window, also if the profile is the window.
func (p *Profile) window() (*ccmap.Snapshot, bool) {
	if p.isRecent() {
		return p.Snapshot, true
	}
	return p.Recent()
}

// countsSamples reports whether the profile says how many samples it was made of. Folded
// stacks hold one figure, and it is another one.
func (p *Profile) countsSamples() bool {
	total := p.Total()
	return total.Samples > 0 || total.Time == 0
}

// measure is how hot code is measured in one profile: by weight or, if nothing has any,
// by samples.
type measure struct {
	total    int64 // weight, samples or calls
	weighted bool
	calls    bool       // activations count, and not samples
	unit     ccmap.Unit // of total
}

func measureOf(s *ccmap.Snapshot) measure {
	total := s.Total()
	if total.Time == 0 {
		return measure{total: total.Samples, unit: ccmap.SampleCount}
	}
	return measure{total: total.Time, weighted: true, unit: s.Meta().Unit}
}

// by returns the weight that package compare has for the measure.
func (m measure) by() compare.Weight {
	if m.weighted {
		return compare.ByTime
	}
	return compare.BySamples
}

func (m measure) of(c ccmap.Counters) int64 {
	switch {
	case m.calls:
		return c.Activations
	case m.weighted:
		return c.Time
	}
	return c.Samples
}

func (m measure) format(c ccmap.Counters) string { return inColumn(m.of(c), m.unit) }

// amount prints a figure with its unit.
func (m measure) amount(c ccmap.Counters) string { return amountOf(m.of(c), m.unit) }

// share prints c as a part of the whole profile.
func (m measure) share(c ccmap.Counters) string {
	return figure.Percent(figure.Share(m.of(c), m.total))
}

// countsSame reports whether the weight is nothing but the number of samples.
func (m measure) countsSame(total ccmap.Counters) bool {
	return m.unit.Base() == ccmap.SampleCount.Base() && m.of(total) == total.Samples
}

// noun names the measure in a few letters.
func (m measure) noun() string {
	if m.unit == ccmap.CPUTime {
		return "time"
	}
	return UnitName(m.unit)
}

func (p *Profile) formatSamples(n int64) string {
	if !p.countsSamples() {
		return terminal.Unknown
	}
	return figure.Count(n)
}

// formatActivations marks a lower bound.
func (p *Profile) formatActivations(n int64) string {
	switch {
	case p.isRecent():
		return terminal.Unknown
	case p.ActivationsExact():
		return figure.Count(n)
	case p.Total().Activations == 0:
		return terminal.Unknown
	}
	return "≥" + figure.Count(n)
}

// UsePhase restricts the caught calls of a profile to a phase of its program. Phases
// count from 1.
func (p *Profile) UsePhase(n uint32) error {
	phases := p.phases()
	i := slices.Index(phases, n-1)
	if n == 0 || i < 0 {
		return fmt.Errorf("%s has no caught calls of phase %d, but of %s", p.Path, n, listPhases(phases))
	}
	p.phase = &phases[i]
	return nil
}

// useLastPhase restricts the caught calls of a profile to the last phase that has any.
func (p *Profile) useLastPhase() {
	if phases := p.phases(); len(phases) > 0 {
		p.phase = &phases[len(phases)-1]
	}
}

// phases returns the phases of the program that have caught calls, in order.
func (p *Profile) phases() []uint32 {
	var phases []uint32
	for _, q := range p.Points() {
		if isCaught(q) {
			phases = append(phases, q.Phase)
		}
	}
	slices.Sort(phases)
	return slices.Compact(phases)
}

// phaseName prints the number of a phase. People count from 1.
func phaseName(phase uint32) string { return strconv.FormatUint(uint64(phase)+1, 10) }

// listPhases names phases for people.
func listPhases(phases []uint32) string {
	if len(phases) == 0 {
		return "none"
	}
	var numbers []string
	for _, phase := range phases {
		numbers = append(numbers, phaseName(phase))
	}
	return strings.Join(numbers, ", ")
}

// ofPhase says which phases caught calls belong to, if there are several.
func (p *Profile) ofPhase() string {
	phases := p.phases()
	switch {
	case len(phases) < 2 && p.isRecent():
		return ", in the whole run"
	case len(phases) < 2:
		return ""
	case p.phase != nil:
		return fmt.Sprintf(", in phase %s of the program", phaseName(*p.phase))
	}
	return ", in the phases " + listPhases(phases) + " of the program" + p.hint(HintPhases, ": ")
}

// isCaught reports whether a point is of caught calls.
func isCaught(q ccmap.Point) bool {
	return q.Origin == ccmap.OriginBurst && q.Kind == ccmap.PointCall
}

// countedPoints returns the points of a profile, with the caught calls of the chosen
// phase, or of all phases together.
func (p *Profile) countedPoints() []ccmap.Point {
	points := p.Points()
	if p.phase != nil {
		points = slices.DeleteFunc(slices.Clone(points), func(q ccmap.Point) bool {
			return isCaught(q) && q.Phase != *p.phase
		})
	}
	return ccmap.SumPhases(points)
}

// pollution returns the analysis of the receivers in the profile.
func (p *Profile) pollution() *pollution.Analysis {
	return pollution.New(p.Snapshot, pollution.Options{Weight: p.measure.of, Points: p.countedPoints()})
}

// counters returns an amount of samples as the counters of the profile have it.
func (p *Profile) counters(a pollution.Amount) ccmap.Counters {
	var c ccmap.Counters
	if p.countsSamples() {
		c.Samples = a.Seen
	}
	if p.measure.weighted {
		c.Time = a.Weight
	}
	return c
}
