// Command soak lets months pass for a map in minutes. It folds the samples of a
// synthetic program, whose hot contexts drift and which makes new ones all the
// time, and those of recorded programs, into a map with a budget of memory and a
// window, as many as a daemon takes in some days at 100 Hz:
//
//	go run ./scripts/soak -days 30
//
// The clock is that of the samples, so 30 days take minutes. It checks that
//
//   - the map stays inside its budget, after every second of the program;
//   - every total of a method, an edge and a line is exact, against arithmetic of
//     its own, however often the map was pruned;
//   - of each window's top 100 contexts, and of those with at least a tenth of
//     the hottest one's time, 95 % are there, against a map never pruned;
//   - a reader finds the snapshot that it has held for an hour unchanged;
//   - the map is valid, and neither the heap nor the goroutines grow.
//
// It prints a line a day, and ends with status 1 at the first thing that does
// not hold. The same seed gives the same samples.
package main

import (
	"flag"
	"fmt"
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
