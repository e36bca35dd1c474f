package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// pair is one attached and one plain window of the same target.
type pair struct {
	attached, plain rate
	daemonCPU       float64 // of one core, while attached
	report          report
}

// report is ccmapd's report on its own work, from attach --json.
type report struct {
	Source struct {
		Samples, Repaired, Rooted, Truncated, Foreign, Probed, Hits uint64
	}
}

// settle gives a new attachment time to load symbols, before it is measured.
const settle = 700 * time.Millisecond

func measurePair(c config, t *target, interval time.Duration) (p pair, err error) {
	dir, err := os.MkdirTemp("", "attachbench")
	if err != nil {
		return pair{}, err
	}
	defer os.RemoveAll(dir)
	d, err := attach(c, t, interval, filepath.Join(dir, "profile.pb.gz"))
	if err != nil {
		return pair{}, err
	}
	time.Sleep(settle)
	before, err := cpuTime(d.Process.Pid)
	if err != nil {
		return pair{}, err
	}
	if p.attached, err = t.rate(c.window); err != nil {
		return pair{}, err
	}
	after, err := cpuTime(d.Process.Pid)
	if err != nil {
		return pair{}, err
	}
	p.daemonCPU = (after - before).Seconds() / c.window.Seconds()
	if p.report, err = d.detach(); err != nil {
		return pair{}, err
	}
	p.plain, err = t.rate(c.window)
	return p, err
}

// daemon is a ccmapd that samples the target.
type daemon struct {
	*exec.Cmd
	stdout bytes.Buffer
}

func attach(c config, t *target, interval time.Duration, output string, flags ...string) (*daemon, error) {
	args := append([]string{"attach", fmt.Sprint(t.cmd.Process.Pid), "--json",
		"--tune=false", "--interval", interval.String(), "--output", output}, flags...)
	d := &daemon{Cmd: exec.Command(c.ccmapd, args...)}
	d.Stdout = &d.stdout
	if err := d.Start(); err != nil {
		return nil, fmt.Errorf("start ccmapd: %w", err)
	}
	return d, nil
}

// detach ends the sampling and returns ccmapd's report.
func (d *daemon) detach() (report, error) {
	var r report
	if err := d.Process.Signal(syscall.SIGINT); err != nil {
		return r, fmt.Errorf("stop ccmapd: %w", err)
	}
	if err := d.Wait(); err != nil {
		return r, fmt.Errorf("wait for ccmapd: %w", err)
	}
	if err := json.Unmarshal(d.stdout.Bytes(), &r); err != nil {
		return r, fmt.Errorf("read ccmapd's report: %w", err)
	}
	return r, nil
}

// cpuTime returns the CPU time of a process's living threads, to the
// nanosecond: /proc/PID/stat counts in ticks of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return 0, fmt.Errorf("list threads: %w", err)
	}
	var total time.Duration
	for _, thread := range threads {
		stat, err := thread.Schedstat()
		if err != nil {
			continue // ended
		}
		total += time.Duration(stat.RunningNanoseconds)
	}
	return total, nil
}
