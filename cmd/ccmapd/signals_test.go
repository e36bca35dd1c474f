package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// Programs that are ccmapd with an engine of these tests (see TestMain).
const (
	fakeName = "ccmapd-fake" // has fakeEngine
	waitName = "ccmapd-wait" // has fakeEngine, whose target goes on
	deafName = "ccmapd-deaf" // has deafEngine
	slowName = "ccmapd-slow" // has slowEngine
)

// mainWith returns the main function of ccmapd with one engine.
func mainWith(e engine.Engine) func() {
	return func() { os.Exit(runProcess([]engine.Engine{e})) }
}

// deafEngine has sources that do not stop when they are asked to. They print
// "asked" to standard error, and go on.
func deafEngine() engine.Engine {
	return engine.Engine{Name: "deaf", Open: func(_ context.Context, a sampler.ProcessOptions) (engine.Source, error) {
		return deafSource{&fakeSource{ProcessOptions: a}}, nil
	}}
}

type deafSource struct{ *fakeSource }

func (s deafSource) Run(ctx context.Context) (sampler.Ending, error) {
	<-ctx.Done()
	io.WriteString(os.Stderr, "asked\n")
	select {}
}

// slowEngine attaches until it is asked to stop. It prints "attaching" to standard error.
func slowEngine() engine.Engine {
	return engine.Engine{Name: "slow", Open: func(ctx context.Context, _ sampler.ProcessOptions) (engine.Source, error) {
		io.WriteString(os.Stderr, "attaching\n")
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
}

// TestInterruptWhileAttaching: run ends as the program would that it has not started, and
// attach fails.
func TestInterruptWhileAttaching(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for command, want := range map[string]int{"run -q -o a.json -- echo ran": 128 + int(sig), "attach 42 -o a.json": exitFailed} {
			t.Run(sig.String()+"/"+command, func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(slowName, strings.Fields(command)...)
				var out strings.Builder
				cmd.Dir, cmd.Stdout = t.TempDir(), &out
				lines := startWithLines(t, cmd)
				waitForLine(t, lines, "attaching")
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				for lines.Scan() {
				}
				cmd.Wait() // its state tells how it ended
				if got := cmd.ProcessState.ExitCode(); got != want || out.String() != "" {
					t.Errorf("%v, output %q; want exit code %d", cmd.ProcessState, &out, want)
				}
			})
		}
	}
}

// TestSecondInterruptEndsAttach: where the first one has no effect, the second
// one has, and no file is left behind.
func TestSecondInterruptEndsAttach(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.Command(deafName, "attach", "42", "-o", filepath.Join(dir, "a.json"))
			lines := startWithLines(t, cmd)
			waitForLine(t, lines, "Sampling 42")
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			waitForLine(t, lines, "asked")
			status := signalUntilEnd(cmd, sig)
			if !status.Signaled() || status.Signal() != sig {
				t.Errorf("ended with %v, want by %v", cmd.ProcessState, sig)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// startWithLines starts a program and returns the lines of its standard error.
func startWithLines(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	startHearing(t, cmd)
	killAtEnd(t, cmd)
	return bufio.NewScanner(stderr)
}

// startHearing starts a program that does not ignore signals, even where these tests do: a
// shell without job control makes what it starts in the background ignore SIGINT. A signal
// that this process catches has its default action in a program that it starts.
func startHearing(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(caught)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// waitForLine returns when a line that begins with prefix has been printed.
func waitForLine(t *testing.T, lines *bufio.Scanner, prefix string) {
	t.Helper()
	var seen []string
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), prefix) {
			return
		}
		seen = append(seen, lines.Text())
	}
	t.Fatalf("no line %q was printed, but %q", prefix, seen)
}

// signalUntilEnd sends a signal again and again, in case the program is still
// about to give up catching it, and returns how the program has ended.
func signalUntilEnd(cmd *exec.Cmd, sig os.Signal) syscall.WaitStatus {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	for {
		_ = cmd.Process.Signal(sig) // fails only if the program has ended
		select {
		case <-ended:
			return cmd.ProcessState.Sys().(syscall.WaitStatus)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// runUnread runs a program whose standard output and error nobody reads, and
// returns its exit code, -1 if a signal has ended it.
func runUnread(t *testing.T, args ...string) int {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = w, w
	_ = cmd.Run() // the exit code is what counts
	return cmd.ProcessState.ExitCode()
}

// TestNobodyReadsWhatIsSaid: the profile is written all the same, and run passes
// the exit code on.
func TestNobodyReadsWhatIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	attached, ran := filepath.Join(dir, "attached.json"), filepath.Join(dir, "ran.json")
	runUnread(t, fakeName, "attach", "42", "-v", "-o", attached)
	if code := runUnread(t, fakeName, "run", "-v", "-o", ran, "--", "/bin/sh", "-c", "exit 7"); code != 7 {
		t.Errorf("run exits with %d, want 7", code)
	}
	for _, file := range []string{attached, ran} {
		if _, _, err := export.ReadFile(file, export.ReadOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestRunLeavesIgnoredSignalsIgnored: under nohup(1), so is the program.
func TestRunLeavesIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.json")
	out, err := exec.Command("/bin/sh", "-c", "trap '' HUP INT; exec "+fakeName+
		" run -q -o '"+file+"' -- /bin/sh -c 'kill -HUP $$; kill -INT $$; echo alive'").CombinedOutput()
	if err != nil || string(out) != "alive\n" {
		t.Errorf("output %q, %v", out, err)
	}
}
