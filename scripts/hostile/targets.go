package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ccmapd/ccmapd/scripts/report"
	targets "github.com/ccmapd/ccmapd/testdata/hostile"
)

// targetsCampaign attaches to programs made to exhaust the reader of their symbols, which
// belong to a user without privileges.
var targetsCampaign = kind{
	name:  "targets",
	about: "attach to programs whose symbols are made to exhaust ccmapd",
	example: `  go -C scripts run ./hostile targets           all kinds, some minutes
  go -C scripts run ./hostile targets -only '*names*' -o ''
                                             some, and print the table`,
	head: []string{"target, and engine", "result", "`attach -d 1s` takes", "most memory", "slowest end after one SIGINT"},
	run:  runTargets,
}

// Bounds of a session with a hostile target. With other load on the machine (-quick)
// times get tenfold bounds, which a hang still exceeds.
const (
	targetMemory  = 256 << 20       // bytes
	targetTime    = 6 * time.Second // the load, and a second of sampling
	interruptTime = time.Second
	targetAddress = 4 << 30 // RLIMIT_AS, bytes
)

// onlooker is the targets' user, without privileges (on Debian: nobody).
const onlooker = 65534

func runTargets(ctx context.Context, h *hostile) error {
	folder := h.Path("targets")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	maker, err := h.build(ctx, "targets/make", "./testdata/hostile/make")
	if err != nil {
		return err
	}
	engines := []string{"bpf", "perf"}
	if h.Quick {
		engines = []string{"auto"}
	}
	for _, kind := range targets.All() {
		for _, engine := range engines {
			name := kind.Name + ", " + engine
			if !h.wants(kind.Name, name) {
				continue
			}
			if err := h.target(ctx, maker, kind.Name, engine, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// target attaches to one kind by an engine: once for a second, and then until it is interrupted, at
// several moments. Another process makes the target: this one's memory would count as
// ccmapd's, which is forked from it.
func (h *hostile) target(ctx context.Context, maker, kind, engine, name string) error {
	file := h.Path("targets", "target")
	if out, err := exec.CommandContext(ctx, maker, kind, file).CombinedOutput(); err != nil {
		return fmt.Errorf("make it: %w\n%s", err, out)
	}
	defer os.Remove(file)
	cmd := exec.CommandContext(ctx, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: onlooker, Gid: onlooker}}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	slack := time.Duration(1)
	if h.Quick {
		slack = 10
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	profile := h.Path("targets", "profile.json")
	long := time.Second
	if h.Quick {
		long /= 5
	}
	o, err := h.child(ctx, limits{memory: targetAddress, time: 10 * targetTime}, h.Ccmapd, "attach", pid, "--engine", engine, "-d", long.String(), "-o", profile)
	if err != nil {
		return err
	}
	o.stderr = strings.NewReplacer(fmt.Sprintf("/proc/%s/exe", pid), "it", file, "it").Replace(o.stderr)
	r := row{cells: []string{name, o.result(), report.Seconds(o.took.Seconds()), fmt.Sprintf("%d MiB", o.rss>>20)}}
	if o.timedOut || o.took > slack*targetTime {
		r.late("it took %v", o.took)
	}
	if o.rss > targetMemory {
		r.miss("it had %d MiB", o.rss>>20)
	}
	if o.panicked() || o.signal != 0 {
		r.miss("%s: %s", o.how(), tail(o.stderr))
	}
	moments := []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second}
	if h.Quick {
		moments = moments[1:2]
	}
	slowest := neverInterrupted
	for _, moment := range moments {
		took, err := h.interrupt(ctx, cmd.Process.Pid, profile, engine, moment)
		if err != nil {
			return err
		}
		slowest = max(slowest, took)
	}
	r.cells = append(r.cells, endCell(slowest))
	if slowest > slack*interruptTime {
		r.late("it ended %v after SIGINT", slowest)
	}
	h.add(r)
	return nil
}

// neverInterrupted stands for the end of sessions that all ended before their
// interruption.
const neverInterrupted time.Duration = -1

// endCell prints the time that the slowest session went on after SIGINT.
func endCell(slowest time.Duration) string {
	if slowest == neverInterrupted {
		return "–"
	}
	return report.Seconds(slowest.Seconds())
}

// interrupt attaches, sends one SIGINT after some time, and returns the time that ccmapd
// went on from then, or neverInterrupted.
func (h *hostile) interrupt(ctx context.Context, pid int, profile, engine string, after time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*targetTime)
	defer cancel()
	s, err := h.attach(ctx, "prlimit --as="+strconv.Itoa(targetAddress), pid, profile, "--engine", engine)
	if err != nil {
		return 0, err
	}
	select {
	case <-s.ended: // the target's symbols cannot be loaded, or it has replaced itself
		return neverInterrupted, nil
	case <-time.After(after):
	}
	began := time.Now()
	s.signal(syscall.SIGINT)
	<-s.ended
	return time.Since(began), nil
}

// isHint reports whether a line says what to do about the error before it.
func isHint(line string) bool { return strings.HasPrefix(line, "  ") }

// result describes the outcome of a session: its error, or the reason that it is not whole.
func (o outcome) result() string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(o.stderr), "\n"), isHint)
	last := lines[len(lines)-1]
	switch {
	case o.timedOut || o.signal != 0 || o.panicked():
		return o.how()
	case o.code != 0:
		_, reason, _ := strings.Cut(last, "attach to process ")
		_, reason, _ = strings.Cut(reason, ": ")
		if reason == "" {
			reason = last
		}
		return "error: " + reason
	}
	for _, line := range lines {
		if _, reason, warns := strings.Cut(line, " reason="); warns {
			return "profile, and a warning: " + strings.Trim(reason, `"`)
		}
	}
	return "profile"
}
