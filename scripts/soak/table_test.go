package soak

import (
	"fmt"
	"io"
	"time"
)

// table prints the checkpoints, a line a day, and a summary.
type table struct {
	w       io.Writer
	started time.Time
	day     []checkpoint // since the last line
	all     []checkpoint
}

func newTable(w io.Writer) *table {
	fmt.Fprintf(w, "%3s %11s %7s %13s %9s %6s %9s %8s %8s %7s %6s %9s %8s\n", "day", "samples",
		"prunes", "nodes pruned", "nodes", "MiB", "[pruned]", "tau=0.1", "top 100", "mean", "right", "heap MiB", "elapsed")
	return &table{w: w, started: time.Now()}
}

// add takes a checkpoint, and prints a line at the end of each day.
func (t *table) add(c checkpoint) {
	t.day, t.all = append(t.day, c), append(t.all, c)
	if c.at%(24*time.Hour) == 0 {
		t.line(fmt.Sprintf("%3.0f", c.at.Hours()/24), t.day)
		t.day = nil
	}
}

// line prints the last of some checkpoints and the least coverage of all.
func (t *table) line(name string, some []checkpoint) {
	last := some[len(some)-1]
	hot, top, right := some[0].coverage.hot, some[0].coverage.top, some[0].coverage.right
	mean := 0.0
	for _, c := range some {
		hot, top, right = min(hot, c.coverage.hot), min(top, c.coverage.top), min(right, c.coverage.right)
		mean += c.coverage.top / float64(len(some))
	}
	fmt.Fprintf(t.w, "%3s %11d %7d %13d %9d %6.1f %8.1f%% %7.1f%% %7.1f%% %6.1f%% %5.1f%% %9.1f %8v\n",
		name, last.folded, last.prunes.Times, last.prunes.Nodes, last.nodes, mebi(last.bytes), 100*last.pruned,
		100*hot, 100*top, 100*mean, 100*right, mebi(last.heap), time.Since(t.started).Round(time.Second))
}

// end prints the summary of the run.
func (t *table) end() {
	if len(t.all) == 0 {
		return
	}
	t.line("all", t.all)
	if t.all[len(t.all)-1].prunes.Times == 0 {
		fmt.Fprintln(t.w, "nothing was pruned, so that says little: choose a smaller -memory, or more -days")
	}
}

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }
