// Command wasmbench measures the cost of sampling WebAssembly guests from inside. It
// prints the figures in the format of Go benchmarks, for benchstat and
// docs/benchmarks.md, and then a table of the medians.
//
//	go run ./scripts/wasmbench
//	go run ./scripts/wasmbench -quick                        30 s
//	go run ./scripts/wasmbench -guests sqlite,go-json -pairs 40
//
// The guests are real programs (package guests) and two small ones, one that hardly calls
// and one that hardly does anything else. Every figure is paired: a run on plain wazero
// and a run in another way alternate in this process, and a pair gives one ratio. The
// ways are
//
//   - polls: rewritten, with nothing but polls, whose mark is never set;
//   - sampled at 50, 10 and 1 ms: the sampler, with exact activations and caught calls,
//     and a session that folds its samples into a map, as in an embedder;
//   - listener: plain, with a listener on every function that does nothing.
//
// Runs are measured twice: by the CPU time of the guest's own thread, which other
// processes hardly disturb, and by wall time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

type config struct {
	guests    []string      // none: all
	pairs     int           // of each way, per guest
	listeners int           // pairs with listeners, which take long
	length    time.Duration // of a plain run
}

func main() {
	c := config{}
	names := flag.String("guests", "", "comma-separated names of the guests to measure; none: all")
	flag.IntVar(&c.pairs, "pairs", 12, "plain and other runs of each way")
	flag.IntVar(&c.listeners, "listeners", 4, "plain and other runs with listeners")
	flag.DurationVar(&c.length, "length", 120*time.Millisecond, "processor time of a plain run")
	short := flag.Bool("quick", false, "measure few guests, few times")
	flag.Parse()
	if *names != "" {
		c.guests = strings.Split(*names, ",")
	}
	if *short {
		c = config{guests: quick, pairs: 5, listeners: 1, length: 60 * time.Millisecond}
	}
	if err := run(context.Background(), c); err != nil {
		fmt.Fprintln(os.Stderr, "wasmbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	programs, err := loadPrograms(ctx, c.guests)
	if err != nil {
		return err
	}
	var rows []row
	for _, p := range programs {
		r, err := measureProgram(ctx, c, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		rows = append(rows, r)
	}
	printTable(os.Stdout, rows)
	return nil
}
