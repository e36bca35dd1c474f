package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/launch"
)

func TestStartError(t *testing.T) {
	t.Parallel()
	notExecutable := t.TempDir() + "/file"
	if err := os.WriteFile(notExecutable, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"no-such-program": exitNotFound, "./no-such-program": exitNotFound, notExecutable: exitCannotRun,
	} {
		_, err := launch.Start(func() *exec.Cmd { return exec.Command(name) })
		if got := exitCode(startError(err)); got != want {
			t.Errorf("exit code of %s (%v) is %d, want %d", name, err, got, want)
		}
	}
}

// TestExitOfALoader: a program that ended while it was loaded has given its own exit code.
func TestExitOfALoader(t *testing.T) {
	t.Parallel()
	err := startError(launch.EndedError{Status: syscall.WaitStatus(7 << 8)})
	if code := exitCode(err); code != 7 || err.Error() != "program ended while it was loaded" {
		t.Errorf("exit code %d, %v", code, err)
	}
}

func TestExitOf(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 128 + 15, "kill -KILL $$": 128 + 9} {
		if got := exitCode(exitOf(exec.Command("/bin/sh", "-c", script).Run())); got != want {
			t.Errorf("exit code of %q is %d, want %d", script, got, want)
		}
	}
}
