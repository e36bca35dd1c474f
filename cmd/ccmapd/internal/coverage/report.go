package coverage

import (
	"fmt"
	"io"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/gocover"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Stats say how much of the coverage files was imported.
type Stats struct {
	modes     []string // in their order, each once
	runs      int
	functions int // that have counters
	executed  int
	untold    int // executed, but their source was not found
	matched   int // in the profile already
	added     int // function literals count
	conflicts []string
	points    [ccmap.PointSwitch + 1]int
}

func (s *Stats) addProgram(p *gocover.Program) {
	if mode := p.Mode.String(); !slices.Contains(s.modes, mode) {
		s.modes = append(s.modes, mode)
	}
	s.runs += p.Runs
}

func (s *Stats) conflict(symbol string) {
	if !slices.Contains(s.conflicts, symbol) {
		s.conflicts = append(s.conflicts, symbol)
	}
}

// Report tells people how much was imported, and why the rest was not.
func (s *Stats) Report(w io.Writer) error {
	lines := []string{
		fmt.Sprintf("coverage: %s in mode %s: %s of %s executed; with function literals, %s in the profile, %s added",
			figure.Plural(int64(s.runs), "run"), terminal.OrList(s.modes), figure.Count(int64(s.executed)),
			figure.Plural(int64(s.functions), "function"), figure.Count(int64(s.matched)), figure.Count(int64(s.added))),
		fmt.Sprintf("coverage: points of %s, %s, %s", figure.Plural(int64(s.points[ccmap.PointBlock]), "block"),
			figure.PluralOf(int64(s.points[ccmap.PointBranch]), "branch", "branches"), figure.PluralOf(int64(s.points[ccmap.PointSwitch]), "switch", "switches")),
	}
	if slices.Contains(s.modes, gocover.ModeSet.String()) {
		lines = append(lines, "coverage: in mode set, 1 means executed, and there are no branches: build with -covermode=atomic")
	}
	if s.matched == 0 {
		lines = append(lines, "coverage: none of these functions is in the profile: it may be one of another program")
	}
	if s.untold > 0 {
		lines = append(lines, fmt.Sprintf("coverage: blocks alone of %s, whose source is not where the profile says, or was edited:"+
			" --source DIR is the directory of go.mod", figure.Plural(int64(s.untold), "function")))
	}
	if len(s.conflicts) > 0 {
		lines = append(lines, fmt.Sprintf("coverage: left out %s, of whose name there is another one, of another file or line: %s",
			figure.Plural(int64(len(s.conflicts)), "function"), terminal.ListNames(s.conflicts)))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, terminal.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

// maxIgnored bounds the ignored files that are named: a directory may be full of them.
const maxIgnored = 10

// ReportIgnored tells people which coverage files were left out, and why.
func ReportIgnored(w io.Writer, ignored []error) error {
	for _, file := range ignored[:min(len(ignored), maxIgnored)] {
		if _, err := fmt.Fprintln(w, "coverage:", terminal.Printable(file.Error())); err != nil {
			return err
		}
	}
	if more := len(ignored) - maxIgnored; more > 0 {
		_, err := fmt.Fprintf(w, "coverage: %s more files are ignored\n", figure.Count(int64(more)))
		return err
	}
	return nil
}
