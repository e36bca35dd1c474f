package main

import (
	"fmt"
	"io"
	"math"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// applyReport says what became of hints.
type applyReport struct {
	pid     int
	results []hotspot.Result
	lost    uint64  // bytes of events
	effect  *effect // nil: not sampled
	kept    bool
}

// effect is the CPU time before and after.
type effect struct {
	diff    compare.Diff
	changes []compare.Change // of the roots of hints
}

// newEffect compares the roots of hints in two profiles. Nil: there are none.
func newEffect(before, after *ccmap.Snapshot, hints []hotspot.Hint) (*effect, error) {
	if before == nil || after == nil {
		return nil, nil
	}
	diff, err := compare.Differences(before, after, compare.DiffOptions{All: true})
	if err != nil {
		return nil, err
	}
	e := &effect{diff: diff}
	for _, root := range hotspot.Roots(hints) {
		for _, c := range diff.Methods.List {
			if m := c.Path[0]; m.Method+m.Signature == root.String() {
				e.changes = append(e.changes, c)
			}
		}
	}
	return e, nil
}

func (r *applyReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return terminal.WriteJSON(w, r.json())
	}
	out := terminal.NewPrinter(w, false)
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "outcome"}, {Title: "hint", Shorten: terminal.ShortenMiddle, Least: 24},
		{Title: "in", Shorten: terminal.ShortenMethod, Least: 12}, {Title: "C2 says"},
	}}
	became := make(map[hotspot.Outcome]int)
	for _, x := range r.results {
		became[x.Outcome]++
		t.Add(string(x.Outcome), fmt.Sprintf("%s %s at %s:%d", x.Action, x.Callee.Short(), x.Caller.Short(), x.Bytecode), x.Root.Short(), saysOf(x))
	}
	notNeeded := ""
	if n := became[hotspot.NotNeeded]; n > 0 {
		notNeeded = fmt.Sprintf(", %d not needed", n)
	}
	out.Line("%d of %s taken%s.", became[hotspot.Taken], figure.PluralOf(int64(len(r.results)), "hint was", "hints were"), notNeeded)
	out.Table("", t)
	r.effect.print(out)
	out.Line("")
	out.Line("%s", r.end())
	if r.lost > 0 {
		out.Line("The JVM has lost %s of events: outcomes may be missing.", figure.Bytes(int64(min(r.lost, math.MaxInt64))))
	}
	return out.Err()
}

// saysOf returns what C2 says of a hint.
func saysOf(x hotspot.Result) string {
	switch {
	case x.Withdrawn:
		return fmt.Sprintf("withdrawn: compiled code was thrown away %d times", x.ThrownBefore+x.Thrown)
	case x.Words == "":
		return terminal.Unknown
	}
	return x.Words
}

func (r *applyReport) end() string {
	if r.kept {
		return "The directives stay in the JVM, until it ends or 'ccmapd apply' comes again."
	}
	return "The directives are removed. Compiled code stays as it is, until the JVM compiles the method again."
}

func (e *effect) print(out *terminal.Printer) {
	if e == nil {
		return
	}
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "method", Shorten: terminal.ShortenMethod, Least: 24}, {Title: "before", Right: true}, {Title: "after", Right: true},
		{Title: "points", Right: true}, {Title: ""},
	}}
	for _, c := range e.changes {
		word := "within noise"
		if c.Significant {
			word = fmt.Sprintf("p = %.2g", c.P)
		}
		m := c.Path[0]
		t.Add(m.Method, figure.Percent(c.ShareA), figure.Percent(c.ShareB), fmt.Sprintf("%+.1f", c.Points), word)
	}
	out.Table("Share of the CPU time, with all callees:", t)
	out.Line("Of a method that has 10 %%, changes from %.1f points are seen nine times in ten.", e.diff.Methods.Detectable)
	out.Line("In all %s of CPU time in %.1f s before, and %s in %.1f s after.",
		figure.Time(e.diff.A.Weight), e.diff.A.Duration.Seconds(), figure.Time(e.diff.B.Weight), e.diff.B.Duration.Seconds())
}

// appliedJSON is the JSON of apply.
type appliedJSON struct {
	PID   int              `json:"pid"`
	Hints []hotspot.Result `json:"hints"`
	CPU   *cpuJSON         `json:"cpu"` // null: nothing was sampled, or nothing that can be compared
	Kept  bool             `json:"kept"`
	Lost  uint64           `json:"lost_bytes"` // of the JVM's events
}

// cpuJSON is the CPU time before and after.
type cpuJSON struct {
	Before     int64         `json:"before_ns"`
	After      int64         `json:"after_ns"`
	BeforeWall int64         `json:"before_wall_ns"`
	AfterWall  int64         `json:"after_wall_ns"`
	Detectable float64       `json:"detectable_points"` // as detectable of diff
	Methods    []changedJSON `json:"methods"`           // the roots
}

type changedJSON struct {
	Method      string  `json:"method"`
	Before      float64 `json:"before_percent"`
	After       float64 `json:"after_percent"`
	Points      float64 `json:"points"`
	P           float64 `json:"p"`
	Significant bool    `json:"significant"`
}

func (r *applyReport) json() any {
	return appliedJSON{r.pid, r.results, r.effect.json(), r.kept, r.lost}
}

func (e *effect) json() *cpuJSON {
	if e == nil {
		return nil
	}
	cpu := &cpuJSON{
		Before: e.diff.A.Weight, After: e.diff.B.Weight, Detectable: e.diff.Methods.Detectable, Methods: []changedJSON{},
		BeforeWall: e.diff.A.Duration.Nanoseconds(), AfterWall: e.diff.B.Duration.Nanoseconds(),
	}
	for _, c := range e.changes {
		m := c.Path[0]
		cpu.Methods = append(cpu.Methods, changedJSON{m.Method + m.Signature, c.ShareA, c.ShareB, c.Points, c.P, c.Significant})
	}
	return cpu
}
