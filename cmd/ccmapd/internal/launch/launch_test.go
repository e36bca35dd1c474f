package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// startForTest holds a program, or skips the test where ptrace is not permitted.
func startForTest(t *testing.T, stdout *strings.Builder, args ...string) *Program {
	t.Helper()
	p, err := Start(func() *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout = stdout
		return cmd
	})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Held {
		p.Cmd.Wait()
		testrun.Lacks(t, "ptrace is not permitted")
	}
	return p
}

func TestHeldProgramRunsAfterRelease(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := startForTest(t, &out, "/bin/echo", "done")
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if err := p.Cmd.Wait(); err != nil || out.String() != "done\n" {
		t.Errorf("output %q, %v", out.String(), err)
	}
}

// A program goes on after the thread that started it has ended, although it would
// have died with that thread before it was held.
func TestReleasedProgramOutlivesItsThread(t *testing.T) {
	t.Parallel()
	in, line, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out strings.Builder
	var p *Program
	thread := make(chan int)
	go onThreadThatEnds(func() {
		p, err = Start(func() *exec.Cmd {
			cmd := exec.Command("/bin/cat")
			cmd.Stdin, cmd.Stdout = in, &out
			return cmd
		})
		if err == nil {
			err = p.Release()
		}
		thread <- unix.Gettid()
	})
	for task := fmt.Sprintf("/proc/self/task/%d", <-thread); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(task); err != nil || t.Context().Err() != nil {
			break
		}
	}
	io.WriteString(line, "goes on\n")
	line.Close()
	if err := errors.Join(err, p.Cmd.Wait()); err != nil || out.String() != "goes on\n" {
		t.Errorf("output %q, %v", out.String(), err)
	}
}

// onThreadThatEnds calls f on a thread that ends with the goroutine, as the main
// thread does not.
func onThreadThatEnds(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		f()
		return
	}
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		onThreadThatEnds(f)
	}()
	<-done
}

// dynamicWorkload builds the workload as a program that has a dynamic loader.
func dynamicWorkload(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a program")
	}
	file := filepath.Join(t.TempDir(), "workload")
	build := exec.Command("go", "build", "-buildmode=pie", "-o", file, "../demo/main")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build workload: %v\n%s", err, out)
	}
	return file
}

func TestHeldProgramHasLeftItsLoader(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := startForTest(t, &out, dynamicWorkload(t), "-requests", "1")
	pid := p.Cmd.Process.Pid
	if base, err := loaderBase(pid); err != nil || base == 0 {
		t.Errorf("loader at %#x, %v", base, err)
	}
	if inLoader, err := callsFromLoader(pid); err != nil || inLoader {
		t.Errorf("held in its loader: %v, %v", inLoader, err)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if err := p.Cmd.Wait(); err != nil || out.String() != "ready\n" {
		t.Errorf("output %q, %v", out.String(), err)
	}
}

func TestHeldProgramIsKilledUnrun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := startForTest(t, &out, "/bin/echo", "done")
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if out.Len() > 0 {
		t.Errorf("the program has printed %q", out.String())
	}
	if err := unix.Kill(p.Cmd.Process.Pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the program is still there: %v", err)
	}
}

// TestProgramThatEndsInItsLoader makes the loader print a help and end: nothing can be
// held, and the error has the exit code of the program.
func TestProgramThatEndsInItsLoader(t *testing.T) {
	t.Parallel()
	file := dynamicWorkload(t)
	p, err := Start(func() *exec.Cmd {
		cmd := exec.Command(file, "-requests", "1")
		cmd.Env = []string{"LD_DEBUG=help"} // ld.so(8)
		return cmd
	})
	if err == nil {
		p.Release()
		p.Cmd.Wait()
		t.Skip("the loader is not glibc's, or ptrace is not permitted")
	}
	var ended EndedError
	if !errors.As(err, &ended) || !ended.Status.Exited() || ended.Status.ExitStatus() != 0 {
		t.Errorf("error %v", err)
	}
}

func TestAuxBase(t *testing.T) {
	t.Parallel()
	words := func(w ...uint64) (aux []byte) {
		for _, v := range w {
			aux = binary.NativeEndian.AppendUint64(aux, v)
		}
		return aux
	}
	for _, test := range []struct {
		aux  []byte
		want uintptr
	}{
		{words(3, 64, 7, 0x7f00, 9, 1, 0, 0), 0x7f00},
		{words(3, 7, 9, 7, 0, 0), 0}, // 7 as a value
		{words(7), 0},
		{nil, 0},
	} {
		if got := auxBase(test.aux); got != test.want {
			t.Errorf("base in %x is %#x, want %#x", test.aux, got, test.want)
		}
	}
}

func FuzzAuxBase(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 7), 42))
	f.Fuzz(func(t *testing.T, aux []byte) {
		if auxBase(aux) != 0 && len(aux) < 16 {
			t.Errorf("a base in %d bytes", len(aux))
		}
	})
}

func TestMappedFile(t *testing.T) {
	t.Parallel()
	if file, err := mappedFile(os.Getpid(), 1); file != "" || err != nil {
		t.Errorf("file at address 1: %q, %v", file, err)
	}
	if _, err := mappedFile(1<<31-2, 1); err == nil {
		t.Error("no error for a process that there is not")
	}
}
