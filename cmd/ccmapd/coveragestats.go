package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof/gocover"
)

// coverageStats say what became of the functions of coverage files.
type coverageStats struct {
	modes     []string // in their order, each once
	runs      int
	functions int // that have counters
	executed  int
	untold    int // executed, and their source was not found
	matched   int // in the profile already
	added     int // function literals count
	conflicts []string
	points    [ccmap.PointSwitch + 1]int
}

func (s *coverageStats) addProgram(p *gocover.Program) {
	if mode := p.Mode.String(); !slices.Contains(s.modes, mode) {
		s.modes = append(s.modes, mode)
	}
	s.runs += p.Runs
}

func (s *coverageStats) conflict(symbol string) {
	if !slices.Contains(s.conflicts, symbol) {
		s.conflicts = append(s.conflicts, symbol)
	}
}

// report tells people what was imported, and what was not and why.
func (s *coverageStats) report(w io.Writer) error {
	lines := []string{
		fmt.Sprintf("coverage: %s in mode %s: %s of %s executed; with function literals, %s in the profile, %s added",
			plural(int64(s.runs), "run"), orList(s.modes), formatCount(int64(s.executed)),
			plural(int64(s.functions), "function"), formatCount(int64(s.matched)), formatCount(int64(s.added))),
		fmt.Sprintf("coverage: points of %s, %s, %s", plural(int64(s.points[ccmap.PointBlock]), "block"),
			pluralOf(s.points[ccmap.PointBranch], "branch", "branches"), pluralOf(s.points[ccmap.PointSwitch], "switch", "switches")),
	}
	if slices.Contains(s.modes, gocover.ModeSet.String()) {
		lines = append(lines, "coverage: in mode set, 1 means executed, and there are no branches: build with -covermode=atomic")
	}
	if s.matched == 0 {
		lines = append(lines, "coverage: none of these functions is in the profile: it may be one of another program")
	}
	if s.untold > 0 {
		lines = append(lines, fmt.Sprintf("coverage: blocks alone of %s, whose source is not where the profile says, or was edited:"+
			" --source DIR is the directory of go.mod", plural(int64(s.untold), "function")))
	}
	if len(s.conflicts) > 0 {
		lines = append(lines, fmt.Sprintf("coverage: left out %s, of whose name there is another one, of another file or line: %s",
			plural(int64(len(s.conflicts)), "function"), listNames(s.conflicts)))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, printable(line)); err != nil {
			return err
		}
	}
	return nil
}

// maxIgnored is how many files are named that were left out: a directory may be full
// of them.
const maxIgnored = 10

// reportIgnored tells people which files of coverage were left out, and why.
func reportIgnored(w io.Writer, ignored []error) error {
	for _, file := range ignored[:min(len(ignored), maxIgnored)] {
		if _, err := fmt.Fprintln(w, "coverage:", printable(file.Error())); err != nil {
			return err
		}
	}
	if more := len(ignored) - maxIgnored; more > 0 {
		_, err := fmt.Fprintf(w, "coverage: %s more files are ignored\n", formatCount(int64(more)))
		return err
	}
	return nil
}

func pluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(int64(n)) + " " + many
}
