package family

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

// Child is a child in the report.
type Child struct {
	PID     int           `json:"pid"`
	Parent  int           `json:"parent"`
	Program string        `json:"program"` // foreign
	Outcome Outcome       `json:"outcome"`
	Reason  string        `json:"reason,omitempty"` // why it was refused, or what went wrong
	Samples int64         `json:"samples"`
	CPU     time.Duration `json:"cpu_ns"` // that its samples stand for
}

// Outcome is how it went with a child.
type Outcome string

// The outcomes.
const (
	Sampled  Outcome = "sampled"
	Missed   Outcome = "missed"    // it ended before it could be attached to
	Stranger Outcome = "unmanaged" // neither a Go program nor a JVM
	Refused  Outcome = "refused"   // with a reason
)

// words name outcomes other than Sampled, for people, in the order that they are reported in.
var words = []struct {
	outcome Outcome
	text    string
}{
	{Missed, "Ended before they were attached to"},
	{Stranger, "Neither Go programs nor JVMs"},
	{Refused, "Refused"},
}

// tally counts children. The latest are kept each by itself, and all by their programs.
type tally struct {
	all      map[Outcome]int64
	names    map[Outcome]map[string]int64 // of programs that were not sampled
	children []Child
}

const (
	// mostChildren bounds the children that a report lists in JSON, mostNames the programs.
	mostChildren, mostNames = 10_000, 1000
	// mostListed bounds the children that a text lists, mostNamed the programs of an outcome.
	mostListed, mostNamed = 20, 5
)

func newTally() tally {
	return tally{all: make(map[Outcome]int64), names: make(map[Outcome]map[string]int64)}
}

func (t *tally) add(c Child) {
	t.all[c.Outcome]++
	if len(t.children) < mostChildren {
		t.children = append(t.children, c)
	}
	if c.Outcome == Sampled {
		return
	}
	names := t.names[c.Outcome]
	if names == nil {
		names = make(map[string]int64)
		t.names[c.Outcome] = names
	}
	if _, known := names[c.Program]; known || len(names) < mostNames {
		names[c.Program]++
	}
}

// count returns the number of children.
func (t *tally) count() (n int64) {
	for _, k := range t.all {
		n += k
	}
	return n
}

// Text is part of [session.Children].
func (f *Family) Text(w io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.tally
	n := t.count()
	if n == 0 {
		fmt.Fprintln(w, "\nChildren: none.")
		return
	}
	fmt.Fprintf(w, "\nChildren: %s, %s sampled.\n", figure.PluralOf(n, "process", "processes"), figure.Count(t.all[Sampled]))
	f.listSampled(w)
	for _, o := range words {
		if k := t.all[o.outcome]; k > 0 {
			fmt.Fprintf(w, "%s: %s (%s).\n", o.text, figure.Count(k), t.namesOf(o.outcome))
		}
	}
	for _, c := range t.children {
		if c.Outcome == Refused {
			fmt.Fprintf(w, "Process %d: %s.\n", c.PID, terminal.Reason(c.Reason))
			break // others have the same reason, as a rule
		}
	}
}

// listSampled lists the children with most samples.
func (f *Family) listSampled(w io.Writer) {
	var sampled []Child
	for _, c := range f.tally.children {
		if c.Outcome == Sampled {
			sampled = append(sampled, c)
		}
	}
	slices.SortStableFunc(sampled, func(a, b Child) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.PID, b.PID))
	})
	table := terminal.Table{Columns: []terminal.Column{
		{Title: "PID", Right: true}, {Title: "samples", Right: true}, {Title: "CPU time", Right: true},
		{Title: "program", Shorten: terminal.ShortenMiddle, Least: 20}, {Title: "profile", Shorten: terminal.ShortenMiddle, Least: 20},
	}}
	for _, c := range sampled[:min(len(sampled), mostListed)] {
		table.Add(strconv.Itoa(c.PID), figure.Count(c.Samples), figure.Time(int64(c.CPU)), c.Program, f.profileOf(c))
	}
	if len(sampled) == 0 {
		return
	}
	terminal.NewPrinter(w, false).Table("", &table)
	if more := f.tally.all[Sampled] - int64(len(table.Rows)); more > 0 {
		fmt.Fprintf(w, "… and %s more\n", figure.Count(more))
	}
}

// profileOf says where the profile of a child is.
func (f *Family) profileOf(c Child) string {
	i := slices.IndexFunc(f.programs, func(p *program) bool { return p.target.Executable == c.Program })
	switch {
	case c.Samples == 0 || i < 0:
		return ""
	case f.programs[i] == f.target:
		return "the program's own"
	}
	return strings.Join(f.programs[i].files, ", ")
}

// namesOf lists the programs of an outcome, the most frequent first.
func (t *tally) namesOf(o Outcome) string {
	counts := t.names[o]
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(len(names), mostNamed)] {
		part := cmp.Or(terminal.Printable(name), "the program itself")
		if counts[name] > 1 {
			part += fmt.Sprintf(" (%s)", figure.Count(counts[name]))
		}
		parts = append(parts, part)
	}
	if len(names) > mostNamed {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}

// childrenJSON is the report in JSON.
type childrenJSON struct {
	Processes int64         `json:"processes"`
	Sampled   int64         `json:"sampled"`
	Missed    int64         `json:"missed"`
	Unmanaged int64         `json:"unmanaged"`
	Refused   int64         `json:"refused"`
	Programs  []programJSON `json:"programs"` // of sampled children
	Each      []Child       `json:"each"`     // at most 10,000
}

type programJSON struct {
	Program string   `json:"program"`
	BuildID string   `json:"build_id,omitempty"`
	Samples int64    `json:"samples"`
	Own     bool     `json:"own"`     // the target's: its profile has them
	Written []string `json:"written"` // files with these samples alone
}

// JSON is part of [session.Children].
func (f *Family) JSON() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.tally
	out := childrenJSON{
		Processes: t.count(), Sampled: t.all[Sampled], Missed: t.all[Missed], Unmanaged: t.all[Stranger], Refused: t.all[Refused],
		Programs: []programJSON{}, Each: append([]Child{}, t.children...),
	}
	for _, p := range f.programs {
		out.Programs = append(out.Programs, programJSON{
			Program: p.target.Executable, BuildID: p.target.BuildID, Samples: p.profile.Snapshot().Total().Samples,
			Own: p == f.target, Written: append([]string{}, p.files...),
		})
	}
	return out
}
