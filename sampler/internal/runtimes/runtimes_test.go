package runtimes

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

func open(pid int) error {
	r, err := Open(context.Background(), sampler.ProcessOptions{PID: pid, Logger: slog.New(slog.DiscardHandler)}, nil)
	if err == nil {
		r.Close()
	}
	return err
}

// TestOpen opens this process, then with a library mapped that makes it look like a JVM.
func TestOpen(t *testing.T) {
	if err := open(os.Getpid()); err != nil {
		t.Fatalf("this process: %v", err)
	}
	mapLibrary(t, "libj9vm29.so")
	if err := open(os.Getpid()); !errors.Is(err, sampler.ErrUnsupported) || !strings.Contains(err.Error(), "OpenJ9") {
		t.Errorf("with OpenJ9's library: %v", err)
	}
}

// mapLibrary maps a file of a name as code until the test ends.
func mapLibrary(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(code) })
}

// TestOpenRefuses opens processes that are neither Go programs nor JVMs.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	native := programtest.Copy(t, sleep, "native")
	if out, err := exec.Command("objcopy", "--add-section", ".svm_heap=/dev/null", native).CombinedOutput(); err != nil {
		testrun.Lacks(t, "run objcopy: %v\n%s", err, out)
	}
	for _, c := range []struct {
		program string
		kind    error
		text    string
	}{
		{sleep, sampler.ErrNotManaged, ": neither a Go program nor a JVM"},
		{native, sampler.ErrUnsupported, "native image of GraalVM"},
	} {
		cmd := exec.Command(c.program, "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		err := open(cmd.Process.Pid)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.program, err, c.kind, c.text)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
}
