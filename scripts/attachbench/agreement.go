package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// measureAgreement profiles one window three times over: twice by ccmapd, whose
// agreement with itself is the floor, and once by the target's runtime/pprof.
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
