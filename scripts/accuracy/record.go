package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// recorded describes a run. It is written after the profile, so a run with this file is
// complete.
type recorded struct {
	Rounds    int
	TargetCPU time.Duration // ns; 0: not known
	DaemonCPU time.Duration // ns; 0: not sampled
	Wall      time.Duration // ns
	Load      float64       // of the machine at the beginning, average of a minute
}

// profilePath and factsPath name the files of a run.
func profilePath(c config, p program, m mode, run int) string {
	return c.Path("runs", p.name, fmt.Sprintf("%s-%d.json.gz", m.name, run))
}

func factsPath(c config, p program, m mode, run int) string {
	return c.Path("runs", p.name, fmt.Sprintf("%s-%d.run", m.name, run))
}

// recordAll makes the missing runs. The modes take turns, so that other load on the
// machine affects all of them.
func recordAll(ctx context.Context, c config) error {
	if err := build(ctx, &c); err != nil {
		return err
	}
	rounds, err := calibrate(ctx, c)
	if err != nil {
		return err
	}
	for i := range c.runs {
		for _, p := range programs(c) {
			for _, m := range modes(c) {
				if i >= m.times(c.runs) || !m.applies(p) {
					continue
				}
				if err := recordRun(ctx, c, p, m, i, rounds[p.name]); err != nil {
					return fmt.Errorf("%s, %s, run %d: %w", p.name, m.name, i, err)
				}
			}
		}
		c.Say("run %d of %d", i+1, c.runs)
	}
	return nil
}

// recordRun makes one run unless it exists.
func recordRun(ctx context.Context, c config, p program, m mode, run, rounds int) error {
	facts := factsPath(c, p, m, run)
	if _, err := os.Stat(facts); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(facts), 0o755); err != nil {
		return err
	}
	begin, load := time.Now(), report.LoadAverage()
	r, err := sample(ctx, c, p, m, profilePath(c, p, m, run), max(int(m.share*float64(rounds)), 1))
	if err != nil {
		return err
	}
	r.Wall, r.Load = time.Since(begin), load
	return campaign.WriteJSON(facts, r)
}

// sample runs a program once and leaves its profile in a file.
func sample(ctx context.Context, c config, p program, m mode, file string, rounds int) (recorded, error) {
	if p.command == nil {
		return sampleServer(ctx, c, m, file, rounds)
	}
	command, err := p.command(c, rounds)
	if err != nil {
		return recorded{}, err
	}
	if m.sampling != nil {
		flags := append([]string{c.Ccmapd, "run", "--json", "-o", file}, m.sampling...)
		command = append(append(flags, "--"), command...)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return recorded{}, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, &stderr)
	}
	r := recorded{Rounds: rounds}
	if m.sampling != nil {
		said, err := campaign.ParseReport(stderr.Bytes())
		if err != nil {
			return r, err
		}
		r.DaemonCPU = said.CPU
	}
	if p.isWorkload() {
		r.TargetCPU, err = targetCPU(stdout.Bytes())
	}
	return r, err
}

// targetCPU reads a workload's output.
func targetCPU(printed []byte) (time.Duration, error) {
	var r struct{ CPU time.Duration }
	if err := json.Unmarshal(printed, &r); err != nil {
		return 0, fmt.Errorf("read the workload's CPU time: %w\n%s", err, printed)
	}
	return r.CPU, nil
}

// calibrate finds the number of each workload's rounds that take the requested CPU time,
// and keeps it: all campaigns in a work folder use the same rounds. The number is given for
// foreign programs, which not every campaign runs.
func calibrate(ctx context.Context, c config) (map[string]int, error) {
	file := c.Path("rounds.json")
	rounds := make(map[string]int)
	if err := campaign.ReadJSON(file, &rounds); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, p := range programs(c) {
		if p.rounds != 0 {
			rounds[p.name] = p.rounds
		}
		if rounds[p.name] != 0 {
			continue
		}
		const tried = 1000
		r, err := sample(ctx, c, p, mode{name: alone}, "", tried)
		if err != nil {
			return nil, err
		}
		rounds[p.name] = max(int(tried*c.cpu.Seconds()/r.TargetCPU.Seconds()), 1)
	}
	return rounds, campaign.WriteJSON(file, rounds)
}
