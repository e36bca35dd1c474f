package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// javaUser is the user of JVMs that root's commands talk to.
const javaUser = 65530

// othersJVM starts a JVM of another user, which has no socket yet.
func othersJVM(t *testing.T) *jvmtest.JVM {
	t.Helper()
	needRoot(t)
	return jvmtest.JDKs(t)[0].StartAs(t, javaUser, "Spin", "rests")
}

// listens reports whether a JVM has its socket for commands.
func listens(t *testing.T, jvm *jvmtest.JVM) bool {
	t.Helper()
	_, err := os.Lstat("/tmp/.java_pid" + strconv.Itoa(jvm.PID))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestRootRecordsOthersJVM: root's engine jfr wakes a JVM of another user, for which CAP_KILL is in effect in
// one call alone.
func TestRootRecordsOthersJVM(t *testing.T) {
	t.Parallel()
	jvm := othersJVM(t)
	cmd := exec.Command("ccmapd", "attach", strconv.Itoa(jvm.PID), "--engine", engine.JFR, "-o", "a.json")
	cmd.Dir = t.TempDir()
	waitForLine(t, startWithLines(t, cmd), "Sampling ")
	const kill = 1 << unix.CAP_KILL
	for key, want := range map[string]uint64{"CapPrm": kill, "CapEff": 0} {
		for text, threads := range threadStatus(t, cmd.Process.Pid, key) {
			if set, err := strconv.ParseUint(text, 16, 64); err != nil || set&kill != want {
				t.Errorf("%s of threads %s is %s", key, threads, text)
			}
		}
	}
	if err := cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("attach ended with %v", err)
	}
	profile, _, err := export.ReadFile(filepath.Join(cmd.Dir, "a.json"), export.ReadOptions{})
	if err != nil || profile.Meta().Engine != engine.JFR {
		t.Errorf("the profile: %v", err)
	}
}

// TestRootAppliesToOthersJVM: root gives hints to a JVM of another user that nobody has attached to before.
func TestRootAppliesToOthersJVM(t *testing.T) {
	t.Parallel()
	jvm := othersJVM(t)
	hints := filepath.Join(t.TempDir(), "hints.json")
	text := `{"format": "ccmapd-hints", "version": 1, "hints": [{"action": "inline", "root": "Spin.work()V", "caller": "Spin.work()V", "callee": "Spin.leaf(I)I"}]}`
	if err := os.WriteFile(hints, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ccmapd", "apply", hints, strconv.Itoa(jvm.PID), "-d", "0", "--wait", "1s").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Spin.leaf") {
		t.Errorf("apply: %v\n%s", err, out)
	}
}

// TestDoctorOfOthersJVM: without CAP_KILL, doctor wakes no JVM of another user, starts no recording, and says how
// its user does. Afterwards, and with CAP_KILL, it says that it has started one.
func TestDoctorOfOthersJVM(t *testing.T) {
	t.Parallel()
	jvm := othersJVM(t)
	self, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	less := programtest.Copy(t, self, lessName)
	without := func(args ...string) *exec.Cmd {
		return exec.Command(less, append([]string{fmt.Sprintf("cap=%d", unix.CAP_KILL)}, args...)...)
	}
	pid := strconv.Itoa(jvm.PID)
	refused := diagnosisOf(t, without("doctor", "--json", pid))
	cure := fmt.Sprintf("sudo -u '#%d' jcmd %s VM.version", javaUser, pid)
	if refused.Permitted || !strings.Contains(refused.Note, "no recording") || !strings.Contains(refused.Cure, cure) || listens(t, jvm) {
		t.Errorf("without CAP_KILL: %+v", refused)
	}
	attach := without("attach", pid, "--engine", engine.JFR, "-d", "1s", "-o", "a.json")
	attach.Dir = t.TempDir()
	if out, _ := attach.CombinedOutput(); attach.ProcessState.ExitCode() != exitPermission || !strings.Contains(string(out), "CAP_KILL") {
		t.Errorf("attach: %v: %s", attach.ProcessState, out)
	}
	if out, err := exec.Command("ccmapd", "doctor", pid).CombinedOutput(); err != nil || !strings.Contains(string(out), "note: it has started a recording in the JVM, and stopped it") {
		t.Errorf("with CAP_KILL: %v\n%s", err, out)
	}
	if woken := diagnosisOf(t, without("doctor", "--json", pid)); !woken.Permitted || !strings.Contains(woken.Note, "has started a recording") {
		t.Errorf("of a JVM that listens: %+v", woken)
	}
}

// diagnosisOf returns what a report says of engine jfr.
func diagnosisOf(t *testing.T, cmd *exec.Cmd) engine.Diagnosis {
	t.Helper()
	out, _ := cmd.Output() // another engine decides on the exit code
	var r engine.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("doctor prints %q, %v", out, err)
	}
	i := slices.IndexFunc(r.Engines, func(d engine.Diagnosis) bool { return d.Engine == engine.JFR })
	if i < 0 {
		t.Fatalf("nothing of engine jfr: %s", out)
	}
	return r.Engines[i]
}
