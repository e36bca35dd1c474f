package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestWaitsWithoutPerf: where perf events are refused, as in a container or by perf_event_paranoid 4, an ordinary user
// is offered --event wall for a process of their own, by doctor and by attach, and it works. Where Yama lets users trace
// their children alone, run does.
func TestWaitsWithoutPerf(t *testing.T) {
	t.Parallel()
	needRoot(t)
	self, err := exec.LookPath(lessName)
	if err != nil {
		t.Fatal(err)
	}
	less, dir := programtest.Copy(t, self, lessName), programtest.PublicDir(t, 0o777)
	ccmapd := programtest.Copy(t, self, "ccmapd")
	as := func(args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "CCMAPD_SOCKET="+filepath.Join(dir, "none"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd
	}
	withoutPerf := func(args ...string) (string, error) {
		out, err := as(append([]string{less, fmt.Sprint("call=", unix.SYS_PERF_EVENT_OPEN)}, args...)...).CombinedOutput()
		return string(out), err
	}
	pid := startAsNobody(t, ccmapd)
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if mayAttach := len(scope) == 0 || scope[0] == '0'; mayAttach {
		out, _ := withoutPerf("doctor", pid)
		if !strings.Contains(out, "--event wait, wall") {
			t.Errorf("doctor offers no waits:\n%s", out)
		}
		out, err = withoutPerf("attach", pid, "-d", "100ms", "-o", "cpu.json")
		if err == nil || !strings.Contains(out, "--event wall samples what its goroutines or threads do") {
			t.Errorf("attach offers no waits: %v\n%s", err, out)
		}
		out, err = withoutPerf("attach", pid, "--event", "wall", "-d", "500ms", "-o", "wall.json")
		hasWaits(t, filepath.Join(dir, "wall.json"), engine.Wall, out, err)
	}
	out, err := withoutPerf("run", "--event", "wait", "-o", "wait.json", "--", ccmapd, "demo-workload", "-d", "1s", "-rest", "5ms")
	hasWaits(t, filepath.Join(dir, "wait.json"), engine.Wait, out, err)
}

// startAsNobody starts the demo's workload as an ordinary user, and returns its process.
func startAsNobody(t *testing.T, ccmapd string) string {
	t.Helper()
	target := exec.Command(ccmapd, "demo-workload", "-d", "10m", "-rest", "5ms")
	target.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	said, err := target.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, target)
	if _, err := bufio.NewReader(said).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(target.Process.Pid)
}

// TestWaitsOfOwnJVM: an ordinary user sees what virtual threads of a JVM of their own wait for, by stuck and by attach. Where
// the kernel refuses to read its memory, as Yama's scope 1 does, and of another user's JVM, they are told so.
func TestWaitsOfOwnJVM(t *testing.T) {
	t.Parallel()
	needRoot(t)
	jdks := jvmtest.JDKs(t)
	jdk := jdks[len(jdks)-1]
	if jdk.Name != "25" {
		testrun.Lacks(t, "no JDK 25")
	}
	self, err := exec.LookPath(lessName)
	if err != nil {
		t.Fatal(err)
	}
	less, ccmapd := programtest.Copy(t, self, lessName), programtest.Copy(t, self, "ccmapd")
	own, others := fmt.Sprint(jdk.StartAs(t, nobody, "Rests", "80").PID), fmt.Sprint(jdk.StartAs(t, javaUser, "Rests", "8").PID)
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if mayAttach := len(scope) == 0 || scope[0] == '0'; mayAttach {
		r := runAsNobody(t, ccmapd, "stuck", own, "--longer", "300ms", "--json")
		var s engine.Stuck
		if err := json.Unmarshal([]byte(r.stdout), &s); err != nil || r.code != 0 || s.VirtualUnknown != "" || s.LocksUnknown != "" {
			t.Fatalf("%v: %+v", err, r)
		}
		virtual := 0
		for _, g := range s.Groups {
			if g.Some[0].Virtual {
				virtual += g.Tasks
			}
		}
		if virtual < 80 || len(s.Deadlocks) != 1 {
			t.Errorf("%d virtual threads, %d deadlocks", virtual, len(s.Deadlocks))
		}
		r = runAsNobody(t, ccmapd, "attach", own, "--event", "wall", "-d", "500ms", "-o", "-")
		if r.code != 0 || !strings.Contains(r.stdout, "Rests.parks") {
			t.Errorf("attach: %d\n%s", r.code, r.stderr)
		}
	}
	refused := fmt.Sprint("call=", unix.SYS_PROCESS_VM_READV)
	for what, line := range map[string][]string{
		"stuck, refused": {less, refused, "stuck", own, "--longer", "300ms"}, "attach, refused": {less, refused, "attach", own, "--event", "wall", "-d", "1s"},
		"stuck, another's": {ccmapd, "stuck", others, "--longer", "300ms"}, "attach, another's": {ccmapd, "attach", others, "--event", "wall", "-d", "1s"},
	} {
		r := runAsNobody(t, line[0], line[1:]...)
		t.Logf("%s: %d %s", what, r.code, r.stderr)
		if r.code != exitPermission || strings.Contains(r.stdout, "Rests") {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// TestServedWaits: a daemon samples the waits of a target beside its CPU time, into another map, which views and formats have
// by its event, and requests without. The target's CPU profile is what it was.
func TestServedWaits(t *testing.T) {
	t.Parallel()
	needEngine(t)
	s := startServed(t, "waits = \"wall\"\n")
	s.workload(t)
	s.listen(t)
	s.awaitTarget(t, "web", "samples of both", func(st daemon.TargetStatus) bool {
		return st.Status.Samples > 0 && st.Waits != nil && st.Waits.Event == "wall" && st.Waits.Samples > 10 && st.Waits.Goroutines > 0
	})
	for event, unit := range map[string]ccmap.Unit{"wall": engine.Wall, "cpu": ccmap.CPUTime} {
		file := filepath.Join(t.TempDir(), event+".json")
		out, err := s.ask(t, "convert", "--event", event, "@web", file)
		if err != nil {
			t.Fatalf("%s: %v\n%s", event, err, out)
		}
		m, _, err := export.ReadFile(file, export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p := m.Snapshot(); p.Meta().Unit != unit || p.Total().Samples == 0 {
			t.Errorf("%s: %d samples of %v", event, p.Total().Samples, p.Meta().Unit)
		}
	}
	if out, err := s.ask(t, "requests", "@web"); err != nil || !strings.Contains(out, "of wall") {
		t.Errorf("requests: %v\n%s", err, out)
	}
	if out, err := s.ask(t, "top", "--event", "wait", "@web"); err == nil {
		t.Errorf("another event: %v\n%s", err, out)
	}
}

// hasWaits checks the profile that a command has written.
func hasWaits(t *testing.T, file string, unit ccmap.Unit, out string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		return
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, _, err := export.Read(f, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Snapshot(); s.Meta().Unit != unit || s.Total().Samples == 0 || s.Meta().Engine != engine.Memory {
		t.Errorf("%s: %d samples of %v by %s\n%s", file, s.Total().Samples, s.Meta().Unit, s.Meta().Engine, out)
	}
}
