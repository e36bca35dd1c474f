// Command soak lets months pass for a map in minutes. It folds samples into a map with a
// memory budget and a window, as many as a daemon takes in some days at 100 Hz. The
// samples are from a synthetic program, whose hot contexts drift and which makes new ones
// all the time, and from recorded programs:
//
//	go run ./scripts/soak -days 30
//
// Time passes by the samples' clock, so 30 days take minutes. It checks that
//
//   - the map stays inside its budget, after every second of the program;
//   - every total of a method, an edge and a line is exact, against arithmetic of
//     its own, after any number of prunes;
//   - 95 % of each window's top 100 contexts, and of those with at least a tenth of
//     the hottest one's time, are there, against a map never pruned;
//   - a reader finds the snapshot that it has held for an hour unchanged;
//   - the map is valid, and neither the heap nor the goroutines grow.
//
// It prints a line a day, and ends with status 1 at the first failed check. The same seed
// gives the same samples.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	c := config{every: 6 * time.Hour, window: 15 * time.Minute}
	days := flag.Float64("days", 30, "days of the program's clock; a checkpoint every six hours, or at the end of fewer")
	mebibytes := flag.Int64("memory", 64, "budget of the map, MiB")
	flag.DurationVar(&c.window, "window", c.window, "time constant of the recent counters")
	flag.Uint64Var(&c.seed, "seed", 1, "of the samples and of the map's hash")
	flag.Parse()
	c.span = time.Duration(*days * 24 * float64(time.Hour)).Round(time.Minute)
	c.every = min(c.every, c.span) // or nothing would be checked
	c.memory = *mebibytes << 20

	t := newTable(os.Stdout)
	c.report = t.add
	s, err := newSoak(c)
	if err == nil {
		err = s.run()
	}
	t.end()
	if err != nil {
		fmt.Fprintf(os.Stderr, "soak: seed %d: %v\n", c.seed, err)
		os.Exit(1)
	}
}

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
