package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/testdata/hostile"
)

// What a session with a hostile target may take, in tests that share the machine: thirty
// times the time that it takes alone, which is what a hang exceeds; and addresses. A Go
// program reserves 1.5 GB of them that it does not use, and with cgo 72 MB for each thread.
const (
	hostileTime    = 3 * time.Minute
	hostileAddress = 9 << 28 // RLIMIT_AS, bytes
)

// TestHostilePrograms attaches to programs whose symbols are made to exhaust ccmapd.
// Each session ends by itself, with a profile or an error that says why; and another
// by one SIGINT.
func TestHostilePrograms(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	needEngine(t)
	if testing.Short() {
		t.Skip("samples each kind for a second")
	}
	for _, kind := range hostile.All() {
		t.Run(kind.Name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "target")
			if err := kind.Make().Write(path); err != nil {
				t.Fatal(err)
			}
			target := exec.Command(path)
			start(t, target)
			sampleHostile(t, target.Process.Pid, false)
			sampleHostile(t, target.Process.Pid, true)
		})
	}
}

// TestLargeProgram attaches to a program with larger tables than are held, and names its
// functions.
func TestLargeProgram(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	needEngine(t)
	if testing.Short() {
		t.Skip("writes 130 MB")
	}
	all := hostile.All()
	path := filepath.Join(t.TempDir(), "target")
	if err := all[slices.IndexFunc(all, func(k hostile.Target) bool { return k.Name == hostile.Large })].Make().Write(path); err != nil {
		t.Fatal(err)
	}
	target, file := exec.Command(path), filepath.Join(t.TempDir(), "a.json")
	start(t, target)
	a := attachTo(t, strconv.Itoa(target.Process.Pid), "-i", "1ms", "--tune=false", "-o", file)
	used, err := cpuOf(target.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	waitForCPU(t, target.Process.Pid, used+300*time.Millisecond)
	s := a.interrupt(t, file)
	named := int64(0)
	for m := range s.Methods() {
		if strings.HasPrefix(m.Method().Name, "main.f") {
			named += m.Self().Samples
		}
	}
	if total := s.Total().Samples; total < 50 || named < total*8/10 {
		t.Errorf("%d of %d samples are in functions with names", named, total)
	}
}

// sampleHostile attaches for a second or, if it is to be interrupted, until it is, once
// it has begun to sample.
func sampleHostile(t *testing.T, pid int, interrupt bool) {
	t.Helper()
	cmd := exec.Command("ccmapd", "attach", strconv.Itoa(pid), "-o", filepath.Join(t.TempDir(), "profile.json"))
	if !interrupt {
		cmd.Args = append(cmd.Args, "-d", "1s")
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	limit := unix.Rlimit{Cur: hostileAddress, Max: hostileAddress}
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_AS, &limit, nil); err != nil {
		t.Error(err)
	}
	hung := time.AfterFunc(hostileTime, func() { cmd.Process.Kill() })
	said := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said += lines.Text() + "\n"
		if interrupt && strings.HasPrefix(lines.Text(), "Sampling ") {
			cmd.Process.Signal(unix.SIGINT)
		}
	}
	cmd.Wait() // its state tells how it ended
	if !hung.Stop() {
		t.Errorf("it had not ended after %v", hostileTime)
	}
	code := cmd.ProcessState.ExitCode()
	if code != exitOK && (code != exitFailed || !strings.HasPrefix(said, "ccmapd: attach to process ")) {
		t.Errorf("exit code %d: %.2000s", code, said)
	}
}
