package family

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
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
	sampled  time.Duration // CPU time in profiles
}

const (
	// mostChildren bounds the children that a report lists in JSON, mostNames the programs.
	mostChildren, mostNames = 10_000, 1000
	// mostListed bounds the programs that a text lists, mostNamed the programs of an outcome.
	mostListed, mostNamed = 20, 5
)

func newTally() tally {
	return tally{all: make(map[Outcome]int64), names: make(map[Outcome]map[string]int64)}
}

func (t *tally) add(c Child) {
	t.all[c.Outcome]++
	t.sampled += c.CPU
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
	f.listPrograms(w)
	unsampled := n - t.all[Sampled]
	fmt.Fprintf(w, "\nChildren: %s, %s sampled, %s without samples%s.\n",
		figure.PluralOf(n, "process", "processes"), figure.Count(n-unsampled), figure.Count(unsampled), f.timeOfChildren())
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

// timeOfChildren compares the CPU time that the kernel has counted of children with that in profiles, "" if it has not
// counted any.
func (f *Family) timeOfChildren() string {
	used := f.reaped.time()
	if used <= 0 {
		return ""
	}
	return fmt.Sprintf("; those that have ended used %s of CPU time, and profiles have %s", figure.Time(int64(used)), figure.Time(int64(f.tally.sampled)))
}

// ran is a program of the tree: the target's, or one that children run.
type ran struct {
	name      string
	total     ccmap.Counters
	processes int64
	files     []string
	profile   *ccmap.Snapshot
}

// tree returns all programs with samples, the one with the most CPU time first. The caller holds mu.
func (f *Family) tree() []ran {
	var all []ran
	own := ran{name: f.own.Executable, processes: 1, profile: f.merged}
	for _, p := range f.programs {
		if p == f.target {
			own.processes += p.processes
			continue
		}
		all = append(all, ran{p.target.Executable, ccmap.Counters{}, p.processes, p.files, p.profile.Snapshot()})
	}
	if f.merged != nil {
		all = append(all, own)
	}
	for i := range all {
		all[i].total = all[i].profile.Total()
	}
	all = slices.DeleteFunc(all, func(r ran) bool { return r.total.IsZero() })
	slices.SortStableFunc(all, func(a, b ran) int { return cmp.Compare(b.total.Time, a.total.Time) })
	return all
}

// listPrograms lists the programs of the tree.
func (f *Family) listPrograms(w io.Writer) {
	all := f.tree()
	table := terminal.Table{Columns: []terminal.Column{
		{Title: "CPU time", Right: true}, {Title: "samples", Right: true}, {Title: "processes", Right: true},
		{Title: "program", Shorten: terminal.ShortenMiddle, Least: 20}, {Title: "profile", Shorten: terminal.ShortenMiddle, Least: 20},
	}}
	for _, r := range all[:min(len(all), mostListed)] {
		files := strings.Join(r.files, ", ")
		if r.profile == f.merged {
			files = "the program's own"
		}
		table.Add(figure.Time(r.total.Time), figure.Count(r.total.Samples), figure.Count(r.processes), r.name, files)
	}
	if len(all) == 0 {
		return
	}
	terminal.NewPrinter(w, false).Table("", &table)
	if more := len(all) - len(table.Rows); more > 0 {
		fmt.Fprintf(w, "… and %s more\n", figure.Count(int64(more)))
	}
}

// Heaviest is part of [session.Children].
func (f *Family) Heaviest() (file string, s *ccmap.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.tree()
	if len(all) == 0 || all[0].profile == f.merged {
		return "", nil
	}
	return cmp.Or(strings.Join(all[0].files[:min(len(all[0].files), 1)], ""), "not written"), all[0].profile
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
	Used      time.Duration `json:"cpu_ns"`   // of children that have ended, as the kernel counts it
	Programs  []programJSON `json:"programs"` // of sampled children
	Each      []Child       `json:"each"`     // at most 10,000
}

type programJSON struct {
	Program   string   `json:"program"`
	BuildID   string   `json:"build_id,omitempty"`
	Samples   int64    `json:"samples"`
	CPU       int64    `json:"cpu_ns"` // that the samples stand for
	Processes int64    `json:"processes"`
	Own       bool     `json:"own"`     // the target's: its profile has them
	Written   []string `json:"written"` // files with these samples alone
}

// JSON is part of [session.Children].
func (f *Family) JSON() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &f.tally
	out := childrenJSON{
		Processes: t.count(), Sampled: t.all[Sampled], Missed: t.all[Missed], Unmanaged: t.all[Stranger], Refused: t.all[Refused],
		Used: f.reaped.time(), Programs: []programJSON{}, Each: append([]Child{}, t.children...),
	}
	for _, p := range f.programs {
		total := p.profile.Snapshot().Total()
		out.Programs = append(out.Programs, programJSON{
			Program: p.target.Executable, BuildID: p.target.BuildID, Samples: total.Samples, CPU: total.Time, Processes: p.processes,
			Own: p == f.target, Written: append([]string{}, p.files...),
		})
	}
	return out
}
