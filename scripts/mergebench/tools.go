package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// findPprof returns the path of pprof itself, so that the go command is not measured.
func findPprof() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "pprof").Output()
	if err != nil {
		return "", fmt.Errorf("find go tool pprof: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// tool is a command that merges profiles: PATH ARGS OUTPUT FILES.
type tool struct {
	path   string
	args   []string
	output string
}

// cost is the cost of a command's run.
type cost struct {
	wall, cpu time.Duration
	peak      int64 // bytes of memory
}

func (t tool) merge(paths []string) (cost, error) {
	args := append(append(append([]string{}, t.args...), t.output), paths...)
	cmd := exec.Command(t.path, args...)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	start := time.Now()
	err := cmd.Run()
	c := cost{wall: time.Since(start)}
	if err != nil {
		return c, fmt.Errorf("%s: %w\n%s", t.path, err, messages.Bytes())
	}
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	c.peak = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10 // kB
	return c, nil
}

// total returns the totals of a tool's output.
func (t tool) total() (ccmap.Counters, error) {
	m, _, err := export.ReadFile(t.output, export.ReadOptions{})
	if err != nil {
		return ccmap.Counters{}, err
	}
	return m.Snapshot().Total(), nil
}

// figures prints a cost in pairs of value and unit.
func (c cost) figures(name string, samples int) string {
	return fmt.Sprintf("%.3f %s-s %.3f %s-cpu-s %.0f %s-peak-MB %.1f %s-cpu-ns/sample",
		c.wall.Seconds(), name, c.cpu.Seconds(), name, float64(c.peak)/1e6, name,
		float64(c.cpu.Nanoseconds())/float64(samples), name)
}

// rivals are the two tools.
type rivals struct{ ours, peer tool }

// race runs both tools in turn, prints the line of a benchmark's run, and checks that
// their outputs are equal.
func (r rivals) race(paths []string, contexts int) error {
	peer, err := r.peer.merge(paths)
	if err != nil {
		return err
	}
	ours, err := r.ours.merge(paths)
	if err != nil {
		return err
	}
	samples := len(paths) * contexts
	fmt.Printf("BenchmarkMerge/files=%d 1 %.1f pprof/ccmapd %.1f pprof/ccmapd-cpu %.1f pprof/ccmapd-peak %s %s\n", len(paths),
		peer.wall.Seconds()/ours.wall.Seconds(), peer.cpu.Seconds()/ours.cpu.Seconds(), float64(peer.peak)/float64(ours.peak),
		ours.figures("ccmapd", samples), peer.figures("pprof", samples))
	return r.compare()
}

func (r rivals) compare() error {
	want, err := r.peer.total()
	if err != nil {
		return err
	}
	got, err := r.ours.total()
	if err == nil && got != want {
		err = fmt.Errorf("the merged profiles differ: ccmapd has %+v, pprof %+v", got, want)
	}
	return err
}
