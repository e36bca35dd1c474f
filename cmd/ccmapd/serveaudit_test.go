package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

// TestServeAudit: without a flag, the log has the start, the targets that begin and end, who has attached and
// detached, reloads with their results, and a clean stop.
func TestServeAudit(t *testing.T) {
	t.Parallel()
	needEngine(t)
	s := startServed(t, "")
	log := filepath.Join(filepath.Dir(s.socket), "log")
	stderr, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	s.Stderr = stderr
	startHearing(t, s.Cmd)
	t.Cleanup(func() { s.Process.Kill(); s.Wait() })
	awaitLine := func(parts ...string) {
		t.Helper()
		var text []byte
		for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if text, err = os.ReadFile(log); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if hasAll(line, parts) {
					return
				}
			}
		}
		t.Fatalf("no line with %q:\n%s", parts, text)
	}
	awaitLine(`level=INFO msg="the daemon has started"`, "listens="+s.socket, "targets=1")
	configured := s.workload(t)
	s.await(t, "samples", func(st daemon.TargetStatus) bool { return st.Status.Samples > 0 })
	awaitLine(`msg="sampling begins" target=web`, fmt.Sprint("pid=", configured.Process.Pid), "executable="+s.program, "engine=")
	configured.Process.Kill()
	awaitLine(`msg="sampling has ended" target=web`, fmt.Sprint("pid=", configured.Process.Pid), "samples=", "reason=")

	other := startWorkloadAs(t, "/", nil)
	who := []string{fmt.Sprint("uid=", os.Getuid()), fmt.Sprint("gid=", os.Getgid()), "client="}
	if out, err := s.ask(t, "attach", "--daemon", fmt.Sprint(other)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	awaitLine(append(who, `msg="a client has attached"`, fmt.Sprint("pid=", other))...)

	if err := s.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitLine(`msg="a signal reloads the configuration" signal=SIGHUP`)
	awaitLine(`msg="configuration loaded" targets=1`)
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
	awaitLine(`msg="the daemon stops" cause=`, "terminated")
	awaitLine(`msg="sampling has ended"`, fmt.Sprint("pid=", other), "samples=", `reason="the daemon ends"`)
	awaitLine(`msg="the daemon has stopped`)
	if text, _ := os.ReadFile(log); strings.Contains(string(text), "set interval") {
		t.Errorf("details of sessions are there without --verbose:\n%s", text)
	}
}

func hasAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
