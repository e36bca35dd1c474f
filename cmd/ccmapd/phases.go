package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
)

const phasesHelp = `A program that begins to do something else, as the report and the profile say,
begins a phase. Caught calls are of all phases together; --phase N restricts them
to one, the first being 1, and --phase last to the latest. Where a profile had no
room for the points of all phases, the earlier ones became one, phase 1: a warning
says which.`

// phaseFlag is --phase: which phase of the program caught calls are read of.
type phaseFlag struct{ text string }

// lastPhase is the word for the latest phase of a profile.
const lastPhase = "last"

func (f *phaseFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.text, "phase", "", "read caught calls of phase `N` of the program, from 1, or of the last")
}

// apply restricts the caught calls of a profile. A window goes with the last phase.
func (f *phaseFlag) apply(p *profile) error {
	if f.text == "" && !p.isRecent() {
		return nil
	}
	phases := p.phases()
	if f.text == "" || f.text == lastPhase {
		if len(phases) > 0 {
			p.phase = &phases[len(phases)-1]
		}
		return nil
	}
	n, err := strconv.ParseUint(f.text, 10, 32)
	if err != nil || n == 0 {
		return usagef("--phase %q is neither a number from 1 nor %q", f.text, lastPhase)
	}
	i := slices.Index(phases, uint32(n-1))
	if i < 0 {
		return fmt.Errorf("%s has no caught calls of phase %d, but of %s", p.path, n, listPhases(phases))
	}
	p.phase = &phases[i]
	return nil
}

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

// phaseName counts phases from 1.
func phaseName(phase uint32) string { return strconv.FormatUint(uint64(phase)+1, 10) }

// isCaught reports whether a point is of caught calls.
func isCaught(q ccmap.Point) bool {
	return q.Origin == ccmap.OriginBurst && q.Kind == ccmap.PointCall
}

// phases returns the phases of the program that have caught calls, in order.
func (p *profile) phases() []uint32 {
	var phases []uint32
	for _, q := range p.Points() {
		if isCaught(q) {
			phases = append(phases, q.Phase)
		}
	}
	slices.Sort(phases)
	return slices.Compact(phases)
}

// countedPoints returns the points of a profile, with the caught calls of the chosen
// phase, or of all phases together.
func (p *profile) countedPoints() []ccmap.Point {
	points := p.Points()
	if p.phase != nil {
		points = slices.DeleteFunc(slices.Clone(points), func(q ccmap.Point) bool {
			return isCaught(q) && q.Phase != *p.phase
		})
	}
	return ccmap.SumPhases(points)
}

// ofPhase says which phases caught calls are of, where there are several.
func (p *profile) ofPhase() string {
	phases := p.phases()
	switch {
	case len(phases) < 2 && p.isRecent():
		return ", in the whole run"
	case len(phases) < 2:
		return ""
	case p.phase != nil:
		return fmt.Sprintf(", in phase %s of the program", phaseName(*p.phase))
	}
	return fmt.Sprintf(", in the phases %s of the program: --phase N has one of them", listPhases(phases))
}
