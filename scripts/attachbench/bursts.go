package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// budgets are flags for the number of caught calls: ccmapd's own budget, which should
// cost no more than half a percent, and a budget that costs enough to show the price of a
// caught call.
var budgets = []struct {
	name  string
	flags []string
}{
	{"default", nil},
	{"5000", []string{"--hits=5000"}},
}

// measureBursts measures the cost of caught calls for a target.
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
	// A series has this number of windows with ccmapd running, and as many with ccmapd
	// stopped.
	seriesWindows = 30
	seriesWindow  = 50 * time.Millisecond
)

// series is the target's work in alternating windows with ccmapd running and ccmapd
// stopped. A stopped ccmapd keeps sampling the target, but sets no breakpoints. The
// windows are added up: a burst is rare, and most windows have none.
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

// printBursts prints the cost of caught calls, and their number, by the time that
// ccmapd had to catch them.
func printBursts(c config, budget string, with, without series) {
	ratio := with.ratio() / without.ratio()
	on := settle + with.running.at
	hits := float64(with.hits) / on.Seconds()
	busy := with.running.cpu.Seconds() / with.running.at.Seconds()
	fmt.Printf("BenchmarkBursts/hits=%s/cpus=%d 1 %.5f bursts/none %.0f hits/s %.2f µs/hit\n",
		budget, c.cpus, ratio, hits, 1e6*(1-ratio)*busy/max(hits, 1))
}

// measureAgreement profiles one window three times: twice by ccmapd, whose agreement with
// itself is the floor, and once by the target's runtime/pprof.
func measureAgreement(c config, t *target, window time.Duration) error {
	dir, err := os.MkdirTemp("", "attachbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	first, second, own := filepath.Join(dir, "1.pb.gz"), filepath.Join(dir, "2.pb.gz"), filepath.Join(dir, "own.pb.gz")

	var daemons []*daemon
	for _, output := range []string{first, second} {
		d, err := attach(c, t, 10*time.Millisecond, output)
		if err != nil {
			return err
		}
		daemons = append(daemons, d)
	}
	time.Sleep(settle)
	if answer, err := t.ask(fmt.Sprintf("profile %s %s", own, window)); err != nil || answer != "done" {
		return fmt.Errorf("profile target by itself: %s %w", answer, err)
	}
	for _, d := range daemons {
		if _, err := d.detach(); err != nil {
			return err
		}
	}
	floor, err := overlap(c, first, second)
	if err != nil {
		return err
	}
	agreement, err := overlap(c, first, own)
	if err != nil {
		return err
	}
	fmt.Printf("BenchmarkAgreement/with=ccmapd/cpus=%d 1 %.2f contexts-%% %.2f edges-%% %.2f methods-%%\n",
		c.cpus, floor.Contexts.Percent, floor.Edges.Percent, floor.Methods.Percent)
	fmt.Printf("BenchmarkAgreement/with=runtime-pprof/cpus=%d 1 %.2f contexts-%% %.2f edges-%% %.2f methods-%%\n",
		c.cpus, agreement.Contexts.Percent, agreement.Edges.Percent, agreement.Methods.Percent)
	return nil
}

type overlaps struct {
	Contexts, Edges, Methods struct{ Percent float64 }
}

// unseen are methods that runtime/pprof counts for their callers: the kernel
// and the vDSO.
const unseen = `^\[kernel\]$|clock_gettime$|^\[vdso\]`

func overlap(c config, a, b string) (overlaps, error) {
	out, err := exec.Command(c.ccmapd, "overlap", "--json", "--absorb", unseen, a, b).Output()
	if err != nil {
		return overlaps{}, fmt.Errorf("compare profiles: %w", err)
	}
	var report struct{ Pairs []overlaps }
	if err := json.Unmarshal(out, &report); err != nil {
		return overlaps{}, fmt.Errorf("read overlap: %w", err)
	}
	if len(report.Pairs) != 1 {
		return overlaps{}, fmt.Errorf("read overlap: %d pairs of two profiles", len(report.Pairs))
	}
	return report.Pairs[0], nil
}
