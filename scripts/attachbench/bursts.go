package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// budgets are flags for how many calls to catch: ccmapd's own budget, which is to
// cost no more than half a percent, and one that costs enough to tell the price of
// a hit.
var budgets = []struct {
	name  string
	flags []string
}{
	{"default", nil},
	{"5000", []string{"--hits=5000"}},
}

// measureBursts measures what it costs a target that its calls are caught.
func measureBursts(c config) error {
	t, err := startTarget(c.cpus, "calls")
	if err != nil {
		return err
	}
	defer t.stop()
	for range c.bursts {
		for _, budget := range budgets {
			with, err := measureSeries(c, t, budget.flags...)
			if err != nil {
				return err
			}
			without, err := measureSeries(c, t, "--hits=0")
			if err != nil {
				return err
			}
			printBursts(c, budget.name, with, without)
		}
	}
	return nil
}

const (
	// burstInterval is ccmapd's own interval between samples.
	burstInterval = 10 * time.Millisecond
	// A series has so many windows of that length in which ccmapd runs, and as
	// many in which it is stopped.
	seriesWindows = 30
	seriesWindow  = 50 * time.Millisecond
)

// series is what the target did in alternating windows with ccmapd running and
// ccmapd stopped. A stopped one keeps the target sampled, but sets no breakpoints.
// It is added up: a burst is rare, and most windows have none.
type series struct {
	running, stopped reading
	hits             uint64
}

func measureSeries(c config, t *target, flags ...string) (s series, err error) {
	dir, err := os.MkdirTemp("", "attachbench")
	if err != nil {
		return series{}, err
	}
	defer os.RemoveAll(dir)
	d, err := attach(c, t, burstInterval, filepath.Join(dir, "profile.pb.gz"), flags...)
	if err != nil {
		return series{}, err
	}
	time.Sleep(settle)
	for range seriesWindows {
		if err := s.addPair(d, t); err != nil {
			return series{}, err
		}
	}
	r, err := d.detach()
	s.hits = r.Source.Hits
	return s, err
}

// addPair adds a window with ccmapd running, and one with ccmapd stopped.
func (s *series) addPair(d *daemon, t *target) error {
	if err := s.running.add(t); err != nil {
		return err
	}
	if err := d.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := s.stopped.add(t); err != nil {
		return err
	}
	return d.Process.Signal(syscall.SIGCONT)
}

// add adds a window.
func (r *reading) add(t *target) error {
	w, err := t.work(seriesWindow)
	*r = reading{r.ops + w.ops, r.cpu + w.cpu, r.at + w.at}
	return err
}

// ratio is the throughput with ccmapd running ÷ stopped, by CPU time.
func (s series) ratio() float64 { return s.running.rate().perCPUSecond / s.stopped.rate().perCPUSecond }

// printBursts prints what hits cost, and how many there were, by the time in which
// ccmapd could catch any.
func printBursts(c config, budget string, with, without series) {
	ratio := with.ratio() / without.ratio()
	on := settle + with.running.at
	hits := float64(with.hits) / on.Seconds()
	busy := with.running.cpu.Seconds() / with.running.at.Seconds()
	fmt.Printf("BenchmarkBursts/hits=%s/cpus=%d 1 %.5f bursts/none %.0f hits/s %.2f µs/hit\n",
		budget, c.cpus, ratio, hits, 1e6*(1-ratio)*busy/max(hits, 1))
}
