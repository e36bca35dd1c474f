// Command attachbench measures the cost of attaching to a target, and the agreement of
// its profile with the target's own. It prints the figures in the format of Go
// benchmarks, for benchstat and docs/benchmarks.md.
//
//	go run ./scripts/attachbench -ccmapd ./ccmapd
//
// The target is this program again, so that it can count its own operations. Every figure
// is paired: attached and unattached windows of one running target alternate, and a pair
// gives one ratio. The machine may be noisy, but the ratio of two neighbouring windows
// usually is not. Caught calls cost less, so their windows are short and many.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

type config struct {
	ccmapd string
	pairs  int
	bursts int
	window time.Duration
	cpus   int
}

func main() {
	if os.Getenv(targetVariable) != "" {
		runTarget(os.Args[1], os.Stdin, os.Stdout)
		return
	}
	var c config
	flag.StringVar(&c.ccmapd, "ccmapd", "./ccmapd", "the command to measure")
	flag.IntVar(&c.pairs, "pairs", 10, "attached and unattached windows of each rate")
	flag.IntVar(&c.bursts, "bursts", 10, "series of windows with and without bursts, of each budget")
	flag.DurationVar(&c.window, "window", 2*time.Second, "length of a window")
	flag.IntVar(&c.cpus, "cpus", 1, "GOMAXPROCS of the target; leave ccmapd a core to measure the target's loss alone")
	agreement := flag.Duration("agreement", 20*time.Second, "length of the window that is compared with runtime/pprof; 0: none")
	flag.Parse()

	if err := measure(c, *agreement); err != nil {
		fmt.Fprintln(os.Stderr, "attachbench:", err)
		os.Exit(1)
	}
}

// print writes the line of a benchmark's run.
func (p pair) print(interval time.Duration, cpus int) {
	s := p.report.Source
	percent := func(n uint64) float64 { return 100 * float64(n) / float64(max(s.Samples, 1)) }
	fmt.Printf("BenchmarkAttach/hz=%d/cpus=%d 1 %.5f attached/plain %.5f attached/plain-wall %.3f daemon-%%core"+
		" %.2f rooted-%% %.2f repaired-%% %.2f truncated-%%\n",
		time.Second/interval, cpus, p.attached.perCPUSecond/p.plain.perCPUSecond, p.attached.perSecond/p.plain.perSecond,
		100*p.daemonCPU,
		percent(s.Rooted), percent(s.Repaired), percent(s.Truncated))
}

func measure(c config, agreement time.Duration) error {
	if err := measureBursts(c); err != nil {
		return err
	}
	t, err := startTarget(c.cpus, "service")
	if err != nil {
		return err
	}
	defer t.stop()
	for _, interval := range []time.Duration{10 * time.Millisecond, time.Millisecond, 200 * time.Microsecond} {
		for range c.pairs {
			p, err := measurePair(c, t, interval)
			if err != nil {
				return err
			}
			p.print(interval, c.cpus)
		}
	}
	if agreement == 0 {
		return nil
	}
	return measureAgreement(c, t, agreement)
}
