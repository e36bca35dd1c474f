package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/internal/signals"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// runningModule is a module that ccmapd runs in another process. Its standard input
// stays open, and nothing comes from there.
type runningModule struct {
	cmd     *exec.Cmd
	lines   *bufio.Scanner // of standard error
	profile string
}

// startModule starts ccmapd with a module, and returns when the session has begun.
func startModule(t *testing.T, path string, flags ...string) *runningModule {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "a.json")
	cmd := exec.Command("ccmapd", append(append([]string{"run", "-v", "-o", profile}, flags...), path)...)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	r := &runningModule{cmd, startWithLines(t, cmd), profile}
	r.waitFor(t, `msg="set interval"`)
	return r
}

// waitFor returns the first line with one of some texts that is printed from now on.
func (r *runningModule) waitFor(t *testing.T, texts ...string) string {
	t.Helper()
	var seen []string
	for r.lines.Scan() {
		line := r.lines.Text()
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			return line
		}
		seen = append(seen, line)
	}
	t.Fatalf("nothing with one of %q was printed, but %q", texts, seen)
	return ""
}

// awaitReading returns when a thread of ccmapd waits in read of standard input: until
// then the module comes to a safe point, at which a signal ends it.
func (r *runningModule) awaitReading(t *testing.T) {
	t.Helper()
	reading := fmt.Sprintf("%d 0x0 ", unix.SYS_READ)
	for {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", r.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if len(threads) == 0 {
			t.Fatal("ccmapd has ended")
		}
		for _, path := range threads {
			if call, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(call), reading) {
				return // a thread may have ended since: no error
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// signal sends a signal, and returns the exit code then, -1 of a signal.
func (r *runningModule) signal(t *testing.T, sig syscall.Signal) int {
	t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	for r.lines.Scan() { // to its end
	}
	_ = r.cmd.Wait() // the exit code is what counts
	return r.cmd.ProcessState.ExitCode()
}

func (r *runningModule) snapshot(t *testing.T) *ccmap.Snapshot {
	t.Helper()
	m, _, err := export.ReadFile(r.profile, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Snapshot()
}

// TestSignalEndsComputingModule: one that never calls the system, too.
func TestSignalEndsComputingModule(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "endless.wasm", guests.Endless)
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			r := startModule(t, path)
			if got := r.signal(t, sig); got != want {
				t.Errorf("exit code %d, want %d", got, want)
			}
			name := signals.Error{Signal: sig}.Error()
			if got := r.snapshot(t).Meta().Ended; got != "module was ended by "+name {
				t.Errorf("ended: %q", got)
			}
		})
	}
}

// TestSignalEndsWaitingModule: it reads standard input, and cannot be asked to end.
func TestSignalEndsWaitingModule(t *testing.T) {
	t.Parallel()
	r := startModule(t, writeGuest(t, "hello"))
	r.awaitReading(t)
	if got := r.signal(t, syscall.SIGINT); got != 130 {
		t.Errorf("exit code %d, want 130", got)
	}
	if got := r.snapshot(t).Meta().Ended; got != "stopped: SIGINT" {
		t.Errorf("ended: %q", got)
	}
}

// TestModuleGoesOnAfterItsSession, which is written meanwhile; a signal still ends it.
func TestModuleGoesOnAfterItsSession(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "endless.wasm", guests.Endless)
	for _, flag := range []string{"--tune=false", "--exact"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			r := startModule(t, path, flag, "-d", "1s") // time to begin, also where all else is busy
			r.waitFor(t, "Written: "+r.profile)
			s := r.snapshot(t)
			if s.Meta().Ended != "stopped: duration is over" || s.Total().Samples == 0 {
				t.Errorf("%d samples, ended: %q", s.Total().Samples, s.Meta().Ended)
			}
			if got := r.signal(t, syscall.SIGTERM); got != 143 {
				t.Errorf("exit code %d, want 143", got)
			}
		})
	}
}

// TestSecondSignalEndsModule at once, without a profile if there is none yet.
func TestSecondSignalEndsModule(t *testing.T) {
	t.Parallel()
	r := startModule(t, writeGuest(t, "hello"))
	if status := signalUntilEnd(r.cmd, syscall.SIGINT); !status.Signaled() && status.ExitStatus() != 130 {
		t.Errorf("ended with %v", r.cmd.ProcessState)
	}
}

// TestModulesAreTuned without a flag, as processes are: an endless loop is one activation, so the
// interval becomes longer. A fixed one stays until the session ends.
func TestModulesAreTuned(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "endless.wasm", guests.Endless)
	for _, c := range []struct {
		flags []string
		tuned bool
	}{
		{[]string{"-d", "1m"}, true}, // the first change ends the wait
		{[]string{"-d", "3s", "--tune=false"}, false},
	} {
		t.Run(fmt.Sprint(c.tuned), func(t *testing.T) {
			t.Parallel()
			if !c.tuned {
				testrun.Full(t, testrun.Minutes)
			}
			r := startModule(t, path, append(c.flags, "-i", "100us")...)
			line := r.waitFor(t, `msg="set interval"`, "Written: "+r.profile)
			if got := strings.Contains(line, "set interval"); got != c.tuned {
				t.Errorf("tuned: %t, want %t; first line %s", got, c.tuned, line)
			}
			if got := r.signal(t, syscall.SIGTERM); got != 143 {
				t.Errorf("exit code %d, want 143", got)
			}
			if changes := r.snapshot(t).Meta().Interval; len(changes) > 1 != c.tuned {
				t.Errorf("tuned: %t, want %t; intervals %v", !c.tuned, c.tuned, changes)
			}
		})
	}
}
