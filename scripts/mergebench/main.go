// Command mergebench compares ccmapd merge with go tool pprof -proto over the same
// profiles, in turns, and prints the figures in the format of Go benchmarks, for
// benchstat and docs/benchmarks.md.
//
//	go build ./cmd/ccmapd && go run ./scripts/mergebench -ccmapd ./ccmapd
//
// The profiles are of one program on many machines (fleet.go), always the same. Each
// round gives ratios of wall time, CPU time and peak memory, as the kernel counts them
// for the process (wait4). A machine may be noisy, but the ratio of two neighbouring runs
// usually is not.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

type config struct {
	ccmapd   string
	dir      string
	files    int
	both     int
	contexts int
	program  int
	rounds   int
}

func main() {
	var c config
	flag.StringVar(&c.ccmapd, "ccmapd", "./ccmapd", "the command to measure")
	flag.StringVar(&c.dir, "dir", "", "keep the profiles in this directory, and use those that are there; default: a temporary one")
	flag.IntVar(&c.files, "files", 1000, "profiles")
	flag.IntVar(&c.both, "both", 0, "profiles that pprof merges as well, if it does not survive all; 0: all")
	flag.IntVar(&c.contexts, "contexts", 10_000, "contexts of a profile")
	flag.IntVar(&c.program, "program", 100_000, "contexts of the program, the union of many profiles")
	flag.IntVar(&c.rounds, "rounds", 3, "runs of each")
	flag.Parse()

	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "mergebench:", err)
		os.Exit(1)
	}
}

func run(c config) error {
	work, err := os.MkdirTemp("", "mergebench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if c.dir == "" {
		c.dir = work
	}
	paths, err := newFleet(c.program, c.contexts).write(c.dir, c.files)
	if err != nil {
		return fmt.Errorf("write profiles: %w", err)
	}
	pprof, err := findPprof()
	if err != nil {
		return err
	}
	both := paths
	if c.both > 0 {
		both = paths[:min(c.both, len(paths))]
	}
	tools := rivals{
		ours: tool{path: c.ccmapd, args: []string{"merge", "-o"}, output: filepath.Join(work, "ours.pb.gz")},
		peer: tool{path: pprof, args: []string{"-proto", "-symbolize=none", "-output"}, output: filepath.Join(work, "peer.pb.gz")},
	}
	for range c.rounds {
		if err := tools.race(both, c.contexts); err != nil {
			return err
		}
	}
	if len(both) == len(paths) {
		return nil
	}
	alone, err := tools.ours.merge(paths)
	if err == nil {
		fmt.Printf("BenchmarkMergeAlone/files=%d 1 %s\n", len(paths), alone.figures("ccmapd", len(paths)*c.contexts))
	}
	return err
}
