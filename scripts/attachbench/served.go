package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// served is the name of the way that samples all processes of a workload by one daemon.
const served = "`ccmapd serve`"

// serve starts a daemon that has each process as a target, with the best engine.
func (b *bench) serve(ctx context.Context, t *target) (w watch, err error) {
	d := daemon{command: b.Ccmapd, socket: b.Path("serve.sock")}
	file := b.Path("serve.toml")
	if err := os.WriteFile(file, []byte(d.configuration(t.pids())), 0o600); err != nil {
		return w, err
	}
	before, began := t.cpu(), time.Now()
	d.process, err = campaign.Launch{Command: []string{b.Ccmapd, "serve", "--config", file}}.Start(ctx)
	if err != nil {
		return w, err
	}
	w.end = func() error { return d.end(t.cpu() - before) }
	for sampling := 0; sampling < len(t.processes); time.Sleep(10 * time.Millisecond) {
		if err := ctx.Err(); err != nil {
			return w, errors.Join(err, w.end())
		}
		if sampling, _, err = d.targets(ctx); err != nil && time.Since(began) > campaignPatience {
			return w, errors.Join(err, w.end())
		}
	}
	w.processes, w.attach = []*campaign.Process{d.process}, time.Since(began)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.process.PID()))
	if err != nil {
		return w, errors.Join(err, w.end())
	}
	w.descriptors = len(open)
	return w, nil
}

// campaignPatience is how long a daemon may take to answer.
const campaignPatience = 30 * time.Second

// daemon is a running 'ccmapd serve'.
type daemon struct {
	command, socket string
	process         *campaign.Process
}

// configuration has a target for each process.
func (d *daemon) configuration(pids []string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "[listen]\nsocket = %q\ngroup = \"\"\n", d.socket)
	for _, pid := range pids {
		fmt.Fprintf(&s, "[[target]]\nname = \"t%s\"\nmatch = { pid = %s }\n", pid, pid)
	}
	return s.String()
}

// targets asks the daemon how many targets it samples, and how many samples it has.
func (d *daemon) targets(ctx context.Context) (sampling int, samples uint64, err error) {
	cmd := exec.CommandContext(ctx, d.command, "targets", "--json")
	cmd.Env = append(os.Environ(), "CCMAPD_SOCKET="+d.socket)
	text, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("ask the daemon for its targets: %w", err)
	}
	var list struct {
		Targets []struct {
			State  string
			Status struct{ Samples uint64 }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, 0, fmt.Errorf("read the daemon's targets: %w", err)
	}
	for _, t := range list.Targets {
		samples += t.Status.Samples
		if t.State == "sampling" {
			sampling++
		}
	}
	return sampling, samples, nil
}

// end ends the daemon. It is an error if the daemon has no sample of a time that no profiler
// can miss.
func (d *daemon) end(used time.Duration) error {
	_, samples, err := d.targets(context.Background())
	d.process.Cmd.Process.Signal(syscall.SIGTERM) // if it has ended, Wait says why
	if err := errors.Join(err, d.process.Wait()); err != nil {
		return err
	}
	if samples == 0 && used > sampleable {
		return errors.New("the daemon has taken no sample")
	}
	return nil
}
