package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/terminal/terminaltest"
)

// onScreen starts a command on a terminal of its own, and waits until it shows a text.
func onScreen(t *testing.T, cmd *exec.Cmd, text string) (screen *os.File, rest func() string) {
	t.Helper()
	screen, tty := terminaltest.Open(t, 100)
	cmd.Stdin, cmd.Stdout = tty, tty
	startHearing(t, cmd)
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	tty.Close()
	timeout := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer timeout.Stop()
	var shown strings.Builder
	b := make([]byte, 4096)
	for !strings.Contains(shown.String(), text) {
		n, err := screen.Read(b)
		shown.Write(b[:n])
		if err != nil {
			t.Fatalf("%v shows %q, and never %q", cmd.Args, &shown, text)
		}
	}
	return screen, func() string { return terminaltest.Read(screen) }
}

// screenClosed is what a terminal gets when its old content returns.
const screenClosed = "\x1b[?1049l"

// TestTopFollows: top -f shows the methods of a target until q is typed or a signal comes, and leaves
// the terminal as it was.
func TestTopFollows(t *testing.T) {
	t.Parallel()
	socket, file := serveProfile(t)
	for _, end := range []func(*exec.Cmd, *os.File) error{
		func(_ *exec.Cmd, screen *os.File) error { _, err := io.WriteString(screen, "q"); return err },
		func(cmd *exec.Cmd, _ *os.File) error { return cmd.Process.Signal(syscall.SIGTERM) },
	} {
		cmd := exec.Command("ccmapd", "top", "-f", "@web")
		cmd.Env = append(os.Environ(), "CCMAPD_SOCKET="+socket)
		screen, rest := onScreen(t, cmd, "2,000 samples")
		if err := end(cmd, screen); err != nil {
			t.Fatal(err)
		}
		if text := rest(); !strings.Contains(text, screenClosed) {
			t.Errorf("the screen stays open: %q", text)
		}
		if state, err := cmd.Process.Wait(); err == nil && state.ExitCode() != exitOK {
			t.Errorf("exit code %d", state.ExitCode())
		}
	}
	if got := ccmapdAt(t, socket, "top", "-f", file); got.code != exitUsage || !strings.Contains(got.stderr, "a target of a daemon") {
		t.Errorf("of a file: exit code %d, %s", got.code, got.stderr)
	}
	if got := ccmapdAt(t, socket, "top", "-f", "@web"); got.code != exitUsage || !strings.Contains(got.stderr, "not a terminal") {
		t.Errorf("in a pipe: exit code %d, %s", got.code, got.stderr)
	}
}

// TestAttachLive: attach --live shows the methods, and writes the profile when it is told to quit.
func TestAttachLive(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "web.json")
	cmd := exec.Command(waitName, "attach", "42", "--live", "-o", file)
	screen, rest := onScreen(t, cmd, "main.work")
	if _, err := io.WriteString(screen, "q"); err != nil {
		t.Fatal(err)
	}
	if text := rest(); !strings.Contains(text, screenClosed) || !strings.Contains(text, "as asked for") {
		t.Errorf("the terminal shows %q", text)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
