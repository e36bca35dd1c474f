package attach

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

const patient = time.Minute // for machines that are busy

// startJVM starts a JVM that waits, and returns its process.
func startJVM(t *testing.T, java string, flags ...string) *os.Process {
	t.Helper()
	cmd := exec.Command(java, append(flags, "-Djava.io.tmpdir="+t.TempDir(), "-cp", jvmtest.Classes(t), "Wait")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(unix.SIGCONT)
		in.Close()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the JVM says %q, %v", line, err)
	}
	return cmd.Process
}

// javas finds the JVMs of the versions that are tried.
func javas(t *testing.T) []string {
	t.Helper()
	testrun.Full(t, testrun.JDK)
	var all []string
	for _, version := range []string{"17", "25"} {
		found, _ := filepath.Glob("/usr/lib/jvm/*" + version + "*/bin/java")
		if len(found) == 0 {
			t.Logf("there is no JDK %s", version)
			continue
		}
		all = append(all, found[0])
	}
	if len(all) == 0 {
		testrun.Lacks(t, "no JDK is installed: install openjdk-17-jdk-headless")
	}
	return all
}

func open(t *testing.T, pid int) *Target {
	t.Helper()
	target, err := Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	return target
}

// A JVM answers, says no to what it does not know, and is left as it was.
func TestJVM(t *testing.T) {
	t.Parallel()
	for _, java := range javas(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(java))), func(t *testing.T) {
			t.Parallel()
			jvm := startJVM(t, java)
			target := open(t, jvm.Pid)
			for range 2 {
				if answer, err := target.Jcmd(t.Context(), patient, "VM.version"); err != nil || !strings.Contains(answer, "JDK") {
					t.Fatalf("VM.version: %q, %v", answer, err)
				}
			}
			var refusal *StatusError
			if answer, err := target.Command(t.Context(), patient, "nonsense"); !errors.As(err, &refusal) {
				t.Errorf("an unknown command: %q, %v", answer, err)
			}
			if answer, err := target.Jcmd(t.Context(), patient, "No.such"); !errors.As(err, &refusal) {
				t.Errorf("an unknown diagnostic command: %q, %v", answer, err)
			}
			if _, err := os.Lstat("/tmp/.attach_pid" + strconv.Itoa(jvm.Pid)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the attach file is left: %v", err)
			}
			checkLeft(t, target, jvm.Pid)
			checkFile(t, target)
			checkStopped(t, target, jvm)
			checkFrozen(t, target, jvm)
			checkKilled(t, target, jvm)
		})
	}
}

// checkLeft checks that the file of a tool which was killed before it could signal is in nobody's
// way, and goes.
func checkLeft(t *testing.T, target *Target, pid int) {
	t.Helper()
	file := "/tmp/.attach_pid" + strconv.Itoa(pid)
	for _, listens := range []bool{true, false} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if !listens {
			if err := os.Remove("/tmp/.java_pid" + strconv.Itoa(pid)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := target.Jcmd(t.Context(), patient, "VM.version"); err != nil {
			t.Errorf("the JVM listens: %t, and a file is left: %v", listens, err)
		}
		if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the JVM listens: %t, and the file stays: %v", listens, err)
		}
	}
}

// checkFile checks that the JVM reads a file of ours, which is gone then.
func checkFile(t *testing.T, target *Target) {
	t.Helper()
	var file string
	err := target.WithFile([]byte(`[{"match": ["a/B.c"], "c2": {"inline": ["+d/E.f"]}}]`), func(path string) error {
		file = path
		answer, err := target.Jcmd(t.Context(), patient, "Compiler.directives_add "+path)
		if !strings.Contains(answer, "1 compiler directives added") {
			t.Errorf("the answer is %q", answer)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", file, err)
	}
}

// checkStopped checks that a JVM which does not run is an error.
func checkStopped(t *testing.T, target *Target, jvm *os.Process) {
	t.Helper()
	if err := jvm.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, jvm.Pid)
	if answer, err := target.Jcmd(t.Context(), 100*time.Millisecond, "VM.version"); !errors.Is(err, ErrSilent) {
		t.Errorf("a stopped JVM: %q, %v", answer, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if answer, err := target.Jcmd(ctx, patient, "VM.version"); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped JVM, given up: %q, %v", answer, err)
	}
	if err := jvm.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := target.Jcmd(t.Context(), patient, "VM.version"); err != nil {
		t.Errorf("after it goes on: %v", err)
	}
}

// checkFrozen checks that a JVM in a freezer is an error, as far as there are freezers here.
func checkFrozen(t *testing.T, target *Target, jvm *os.Process) {
	t.Helper()
	group := "/sys/fs/cgroup/freezer/ccmapd-test-" + strconv.Itoa(jvm.Pid)
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Logf("nothing is frozen: %v", err)
		return
	}
	write := func(file, text string) { check(t, os.WriteFile(filepath.Join(group, file), []byte(text), 0)) }
	defer func() {
		write("../cgroup.procs", strconv.Itoa(jvm.Pid))
		check(t, os.Remove(group))
	}()
	write("cgroup.procs", strconv.Itoa(jvm.Pid))
	write("freezer.state", "FROZEN")
	if answer, err := target.Jcmd(t.Context(), 100*time.Millisecond, "VM.version"); !errors.Is(err, ErrSilent) {
		t.Errorf("a frozen JVM: %q, %v", answer, err)
	}
	write("freezer.state", "THAWED")
	if _, err := target.Jcmd(t.Context(), patient, "VM.version"); err != nil {
		t.Errorf("after it goes on: %v", err)
	}
}

// checkKilled checks that a JVM which is killed before it has answered, as one that takes too
// much memory is, ends the wait.
func checkKilled(t *testing.T, target *Target, jvm *os.Process) {
	t.Helper()
	check(t, jvm.Signal(unix.SIGSTOP))
	awaitStopped(t, jvm.Pid)
	time.AfterFunc(50*time.Millisecond, func() { jvm.Kill() })
	const long = 1000 * patient
	if answer, err := target.Jcmd(t.Context(), long, "VM.version"); err == nil || errors.Is(err, ErrSilent) {
		t.Errorf("a killed JVM: %q, %v", answer, err)
	}
	if answer, err := target.Jcmd(t.Context(), long, "VM.version"); err == nil {
		t.Errorf("a JVM that is no more: %q", answer)
	}
	os.Remove("/tmp/.java_pid" + strconv.Itoa(jvm.Pid)) // only a JVM that ends by itself removes it
}

// awaitStopped waits until all threads have stopped.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	err := poll(t.Context(), patient, errors.New("it runs on"), func() (bool, error) {
		files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/status")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil && !strings.Contains(string(text), "State:\tT") {
				return false, nil
			}
		}
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A JVM that takes no commands gets no signal.
func TestDisabledJVM(t *testing.T) {
	t.Parallel()
	jvm := startJVM(t, javas(t)[0], disabling)
	if target, err := Open(jvm.Pid); !errors.Is(err, ErrDisabled) {
		t.Errorf("%+v, %v", target, err)
	}
	if err := jvm.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the JVM has ended: %v", err)
	}
}

// A JVM that leaves SIGQUIT to the kernel has its socket from the beginning.
func TestReducedSignals(t *testing.T) {
	t.Parallel()
	target := open(t, startJVM(t, javas(t)[0], "-Xrs").Pid)
	if target.quits {
		t.Error("it handles SIGQUIT")
	}
	if _, err := target.Jcmd(t.Context(), patient, "VM.version"); err != nil {
		t.Error(err)
	}
}
