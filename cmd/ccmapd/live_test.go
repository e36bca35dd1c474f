package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// needEngine skips a test where no engine is permitted.
func needEngine(t *testing.T) {
	t.Helper()
	if err := engine.All()[0].Diagnose(t.Context(), os.Getpid(), 0).Err; err != nil {
		testrun.Lacks(t, "sampling is not possible: %v", err)
	}
}

// TestLive runs the scripts of testdata/live, which sample real processes.
func TestLive(t *testing.T) {
	t.Parallel()
	needEngine(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/live", Setup: shareGoCaches})
}

// TestLiveInFull runs those that build and sample programs for seconds.
func TestLiveInFull(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	needEngine(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/live/full", Setup: shareGoCaches})
}

// shareGoCaches lets the go command of a script use what has been built before;
// scripts have a home directory of their own.
func shareGoCaches(e *testscript.Env) error {
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOFLAGS"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			return fmt.Errorf("ask go for %s: %w", name, err)
		}
		e.Setenv(name, strings.TrimSpace(string(value)))
	}
	e.Setenv(testrun.MarkEnv, os.Getenv(testrun.MarkEnv))
	here, err := os.Getwd()
	e.Setenv("MODULE", filepath.Dir(filepath.Dir(here)))
	return err
}

// held is a workload that waits for release before it begins, so that a profile
// can have all that it does.
type held struct {
	*exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

func holdWorkload(t *testing.T, args ...string) *held {
	t.Helper()
	cmd := exec.Command("ccmapd", append([]string{demo.Command, "-hold", "-truth"}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	w := &held{cmd, stdin, bufio.NewReader(stdout)}
	if _, err := w.stdout.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *held) pid() string { return fmt.Sprint(w.Process.Pid) }

// end waits for the end of a released workload and returns what it did and the
// CPU time that took.
func (w *held) end(t *testing.T) (demo.Truth, time.Duration) {
	t.Helper()
	var truth demo.Truth
	if err := json.NewDecoder(w.stdout).Decode(&truth); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err != nil {
		t.Fatal(err)
	}
	return truth, w.ProcessState.UserTime() + w.ProcessState.SystemTime()
}

// attached is a ccmapd that has attached to a process.
type attached struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer // complete after Wait
	log            io.Reader
}

// attachTo starts ccmapd attach and returns when it is about to sample.
func attachTo(t *testing.T, args ...string) *attached {
	t.Helper()
	a := &attached{Cmd: exec.Command("ccmapd", append([]string{"attach", "--max-host-overhead=0"}, args...)...)}
	a.Cmd.Stdout = &a.stdout
	stderr, err := a.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, a.Cmd)
	log := bufio.NewReader(io.TeeReader(stderr, &a.stderr))
	if line, err := log.ReadString('\n'); err != nil || !strings.HasPrefix(line, "Sampling") {
		t.Fatalf("ccmapd attach says %q, %v", &a.stderr, err)
	}
	a.log = log
	return a
}

// end waits for the end of ccmapd and reads the profile that it has written.
func (a *attached) end(t *testing.T, file string) *ccmap.Snapshot {
	t.Helper()
	if _, err := io.Copy(io.Discard, a.log); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err != nil {
		t.Fatalf("ccmapd attach: %v\n%s%s", err, &a.stdout, &a.stderr)
	}
	m, _, err := export.ReadFile(file, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Snapshot()
}

// methodNamed returns the profile of the workload's function of this name.
func methodNamed(t *testing.T, s *ccmap.Snapshot, name string) ccmap.MethodProfile {
	t.Helper()
	id, ok := s.Names().Lookup("github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo."+name, "")
	m, sampled := s.Method(id)
	if !ok || !sampled {
		t.Fatalf("%s was not sampled", name)
	}
	return m
}

// TestAttachSeesAllThatAProcessDoes compares a profile with what the process
// itself and the kernel say of it, over a change of the interval: from 1 ms the
// budget for the overhead leads to a longer one after a second.
func TestAttachSeesAllThatAProcessDoes(t *testing.T) {
	t.Parallel()
	needEngine(t)
	file := filepath.Join(t.TempDir(), "a.xml")
	w := holdWorkload(t, "-mode", "spin", "-spin", "50ms", "-requests", "40")
	a := attachTo(t, w.pid(), "-i", "1ms", "-o", file)
	stolen := testrun.Stolen(t)
	w.stdin.Close()
	truth, cpu := w.end(t)
	s := a.end(t, file)
	stolen = testrun.Stolen(t) - stolen

	got := time.Duration(s.Total().Time)
	if off := (got - cpu).Abs() - stolen; off > cpu/4 {
		t.Errorf("%v sampled of a process that took %v; %v were stolen from the machine", got, cpu, stolen)
	}
	burn := methodNamed(t, s, "burn")
	if share := float64(burn.Self().Time) / float64(s.Total().Time); share < 0.8 {
		t.Errorf("%.0f %% of the time are in burn, want nearly all", 100*share)
	}
	const calibration = 3
	called := truth.Activations["github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo.burn"] + calibration
	if got := burn.Total().Activations; got > called || got < 1 {
		t.Errorf("%d activations of burn were seen, and it was called %d times", got, called)
	}
	meta := s.Meta()
	if n := len(meta.Interval); n < 2 {
		t.Errorf("interval history %+v, want the initial one and a longer one", meta.Interval)
	}
	if !strings.HasPrefix(meta.Ended, "target exited") || meta.Target.PID != w.Process.Pid {
		t.Errorf("metadata %+v", meta)
	}
}

func TestAttachInterrupted(t *testing.T) {
	t.Parallel()
	needEngine(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "a.json")
			w := holdWorkload(t)
			a := attachTo(t, w.pid(), "-o", file)
			w.stdin.Close()
			waitForCPU(t, w.Process.Pid, 300*time.Millisecond)
			if err := a.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			s := a.end(t, file)
			if s.Total().Samples == 0 || !strings.HasPrefix(s.Meta().Ended, "stopped: "+signal.String()) {
				t.Errorf("%d samples, ended: %s", s.Total().Samples, s.Meta().Ended)
			}
		})
	}
}

// TestAttachToAKilledProcess: what was sampled before is kept.
func TestAttachToAKilledProcess(t *testing.T) {
	t.Parallel()
	needEngine(t)
	file := filepath.Join(t.TempDir(), "a.json")
	w := holdWorkload(t)
	a := attachTo(t, w.pid(), "-o", file)
	w.stdin.Close()
	waitForCPU(t, w.Process.Pid, 300*time.Millisecond)
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s := a.end(t, file)
	w.Wait() // not before: a process that was waited for has no status to ask for
	if s.Total().Samples == 0 || !strings.Contains(s.Meta().Ended, "killed") {
		t.Errorf("%d samples, ended: %s", s.Total().Samples, s.Meta().Ended)
	}
}

// waitForCPU returns when a process has used some CPU time.
func waitForCPU(t *testing.T, pid int, d time.Duration) {
	t.Helper()
	for {
		used, err := cpuOf(pid)
		if err != nil {
			t.Fatal(err)
		}
		if used >= d {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the process did nothing")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// cpuOf returns the CPU time of a process in user mode: the 14th field of
// /proc/PID/stat (proc_pid_stat(5)), in ticks of 10 ms. A process that has ended is an error.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var ticks int64
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if fields[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended, and uses no more", pid)
	}
	_, err = fmt.Sscan(fields[11], &ticks)
	return time.Duration(ticks) * 10 * time.Millisecond, err
}

// TestRunForwardsSignals: the program decides what a signal means, here to end
// in good order, and its profile is written.
func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	needEngine(t)
	file := filepath.Join(t.TempDir(), "a.json")
	cmd := exec.Command("ccmapd", "run", "-q", "-o", file, "--", "ccmapd", demo.Command, "-truth")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	stdout := bufio.NewReader(out)
	if line, err := stdout.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("output %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var truth demo.Truth
	if err := json.NewDecoder(stdout).Decode(&truth); err != nil {
		t.Errorf("the program did not end in good order: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, _, err := export.ReadFile(file, export.ReadOptions{}); err != nil {
		t.Error(err)
	}
}

// TestAttachToManyOfEverything samples programs at the limits of what a stack, a
// scheduler and a table of file descriptors usually hold.
func TestAttachToManyOfEverything(t *testing.T) {
	t.Parallel()
	needEngine(t)
	for _, c := range []struct {
		mode, n string
		limit   []string
		check   func(*testing.T, *ccmap.Snapshot)
	}{
		{"goroutines", "10000", []string{"-d", "1s"}, nil},
		// So much work, not time, that threads use some intervals on any machine.
		{"threads", "1000", []string{"-requests", "6000"}, nil},
		{"deep", "1000", []string{"-d", "1s"}, checkDeep},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			if c.mode == "threads" {
				testrun.Full(t, testrun.Minutes)
			}
			file := filepath.Join(t.TempDir(), "a.json")
			w := holdWorkload(t, append(c.limit, "-mode", c.mode, "-n", c.n)...)
			a := attachTo(t, w.pid(), "-i", "500us", "--tune=false", "-o", file)
			before := cpuTimeOf(t, w.Process.Pid)
			w.stdin.Close()
			_, cpu := w.end(t)
			cpu -= before
			s := a.end(t, file)
			// What starts a thread and ends it is seen only in part; most must be.
			if got := time.Duration(s.Total().Time); got < cpu/3 {
				t.Errorf("%v sampled of %v", got, cpu)
			}
			if meta := s.Meta(); !strings.HasPrefix(meta.Ended, "target exited") { // its code is gone once it was waited for
				t.Errorf("ended: %s, loss %+v", meta.Ended, meta.Loss)
			}
			if c.check != nil {
				c.check(t, s)
			}
		})
	}
}

// cpuTimeOf returns the CPU time of a process so far.
func cpuTimeOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	now, err := process.ReadCPUTimes(pid)
	if err != nil {
		t.Fatal(err)
	}
	return now.All
}

// checkDeep looks for a stack with all the frames of the recursion.
func checkDeep(t *testing.T, s *ccmap.Snapshot) {
	t.Helper()
	depth := make([]int, s.Len())
	deepest := 0
	for n := range s.Nodes() {
		depth[n.ID] = depth[n.Parent]
		if n.Method != ccmap.NoMethod && strings.HasSuffix(s.Names().At(n.Method).Name, ".descend") {
			depth[n.ID]++
		}
		deepest = max(deepest, depth[n.ID])
	}
	if deepest < 1000 {
		t.Errorf("the deepest stack has %d frames of descend, want 1000", deepest)
	}
}

// TestAttachUntilSettled: the session ends by itself, and not before it has the
// samples that this takes.
func TestAttachUntilSettled(t *testing.T) {
	t.Parallel()
	if testing.Short() { // as under the race detector, whose C in a test binary is [unknown]: such a profile misleads, and never settles
		t.Skip("needs a workload without the race detector")
	}
	needEngine(t)
	file := filepath.Join(t.TempDir(), "a.json")
	w := holdWorkload(t)
	a := attachTo(t, w.pid(), "-i", "1ms", "--tune=false", "--until", "methods:85%", "-o", file)
	w.stdin.Close()
	meta := a.end(t, file).Meta()
	if !strings.HasPrefix(meta.Ended, "stopped: methods are settled to ") {
		t.Errorf("ended: %s", meta.Ended)
	}
	if s := meta.Settled; s.Methods < 84 || s.Samples < 1000 {
		t.Errorf("settled %+v", s)
	}
}

// TestAttachWithinMemory: a map that was pruned many times has all samples and
// the methods that they were taken in, exactly.
func TestAttachWithinMemory(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	needEngine(t)
	file := filepath.Join(t.TempDir(), "a.xml")
	w := holdWorkload(t, "-mode", "deep", "-n", "1500", "-d", "1s")
	a := attachTo(t, w.pid(), "-i", "1ms", "--tune=false", "--max-memory", "64KiB", "-o", file)
	before := cpuTimeOf(t, w.Process.Pid)
	w.stdin.Close()
	_, cpu := w.end(t)
	cpu -= before
	s := a.end(t, file)
	if err := s.CheckValid(); err != nil {
		t.Error(err)
	}
	if !s.Pruned() || s.Meta().Pruned.Times == 0 || s.PrunedTotal().IsZero() {
		t.Fatalf("nothing was pruned: %+v", s.Meta().Pruned)
	}
	var self ccmap.Counters
	for m := range s.Methods() {
		self = self.Add(m.Self())
	}
	if total := s.Total(); self.Samples != total.Samples || self.Time != total.Time {
		t.Errorf("methods have %+v of %+v", self, total)
	}
	if got := time.Duration(s.Total().Time); got < cpu/2 {
		t.Errorf("%v sampled of %v: %+v", got, cpu, s.Meta().Loss)
	}
	// Most contexts of the recursion were pruned, none of its time.
	if got := methodNamed(t, s, "descend").Cumulative().Time; got < s.Total().Time/2 {
		t.Errorf("%v are in descend, want most of %v", time.Duration(got), time.Duration(s.Total().Time))
	}
}

// TestTuneOnUnmodifiedBinary: a loop of 32 ms is on top at most samples, and the interval
// becomes longer. A function of 8 ms is new at every sample of each 16 ms, and the
// interval becomes shorter. The thresholds are far from 0 there, and the window is short,
// because to be sure of a rate under 1 % takes 660 verdicts, which the engine bpf has after
// minutes. A profile that settles must not lengthen the interval before, and no budget
// shorten the way: on a slow machine ccmapd costs too much, and what is affordable again
// decides instead of repetitions.
func TestTuneOnUnmodifiedBinary(t *testing.T) {
	testrun.Full(t, testrun.Quiet)
	testrun.Breakpoints(t, perfevent.Silent()) // verdicts decide
	t.Parallel()
	needEngine(t)
	for _, c := range []struct {
		name, spin string
		flags      []string
		right      func(time.Duration) bool
	}{
		{"32ms", "32ms", []string{"-i", "12ms"}, func(d time.Duration) bool { return d > 12*time.Millisecond }},
		{"8ms", "8ms", []string{"-i", "16ms", "--tune-low", "25", "--tune-high", "60"}, func(d time.Duration) bool { return d < 16*time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := holdWorkload(t, "-mode", "spin", "-spin", c.spin, "-d", "3m")
			args := append([]string{"attach", w.pid(), "-v", "--tune-window", "20", "--tune-settled", "0", "--max-overhead", "0", "-o", t.TempDir() + "/a.json"}, c.flags...)
			cmd := exec.Command("ccmapd", args...)
			log, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			start(t, cmd)
			w.stdin.Close()
			awaitInterval(t, bufio.NewScanner(log), c.right)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		})
	}
}

var intervalSet = regexp.MustCompile(`msg="set interval" to=(\S+) .*reason=(.*)`)

// awaitInterval reads a verbose log until repetitions have made the interval right.
func awaitInterval(t *testing.T, log *bufio.Scanner, right func(time.Duration) bool) {
	t.Helper()
	last := ""
	for log.Scan() {
		last = log.Text()
		m := intervalSet.FindStringSubmatch(last)
		if m == nil {
			continue
		}
		t.Log(m[1], m[2])
		d, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m[2], "repetitions") && right(d) {
			return
		}
	}
	t.Fatalf("the log ended before the interval was right, with %q: %v", last, log.Err())
}
