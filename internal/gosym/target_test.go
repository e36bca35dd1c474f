package gosym

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

// build is one way to build a program of testdata.
type build struct {
	program string // folder
	cgo     string // CGO_ENABLED
	flags   []string
}

var (
	plain       = build{"target", "0", nil}
	strippedPIE = build{"target", "0", []string{"-buildmode=pie", "-ldflags=-s -w"}}
	withCgo     = build{"cgotarget", "1", nil}
	cgoPIE      = build{"cgotarget", "1", []string{"-buildmode=pie", "-ldflags=-s -w"}}
)

// binaries holds each build of this test run.
var binaries = struct {
	sync.Mutex
	dir  string
	made map[string]func() (string, error)
}{made: map[string]func() (string, error){}}

func TestMain(m *testing.M) {
	tests := testrun.Guard(m)
	dir, err := os.MkdirTemp("", "gosym")
	if err != nil {
		panic(err)
	}
	binaries.dir = dir
	code := tests.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// binary builds a program once per test run and returns its path.
func (b build) binary(tb testing.TB) string {
	tb.Helper()
	if testing.Short() && b.cgo == "1" {
		tb.Skip("links with the C compiler")
	}
	if b.cgo == "1" {
		if _, err := exec.LookPath("gcc"); err != nil {
			testrun.Lacks(tb, "no C compiler: install gcc and libc6-dev")
		}
	}
	path, err := b.once()()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

func (b build) once() func() (string, error) {
	binaries.Lock()
	defer binaries.Unlock()
	name := b.program + filepath.Base(filepath.Join(append([]string{"-"}, b.flags...)...))
	if binaries.made[name] == nil {
		binaries.made[name] = sync.OnceValues(func() (string, error) { return b.make(name) })
	}
	return binaries.made[name]
}

func (b build) make(name string) (string, error) {
	out := filepath.Join(binaries.dir, name)
	args := append([]string{"build", "-buildvcs=false", "-o", out}, b.flags...)
	cmd := exec.Command("go", append(args, "./testdata/"+b.program)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+b.cgo)
	cmd.Stderr = os.Stderr
	return out, cmd.Run()
}

// target is a program that runs.
type target struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start runs a program until the test ends.
func start(tb testing.TB, path string, args ...string) *target {
	tb.Helper()
	p := &target{Cmd: exec.Command(path, args...)}
	in, err := p.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	tb.Cleanup(func() { p.stop() })
	return p
}

// stop ends the process and waits for it. It may be called twice.
func (p *target) stop() {
	p.in.Close()
	p.Process.Kill()
	p.Wait()
}

// read decodes the next line that the process prints.
func (p *target) read(tb testing.TB, into any) {
	tb.Helper()
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, into)
	}
	if err != nil {
		tb.Fatalf("read the target's report: %v", err)
	}
}

// open opens the process, and closes the table at the end of the test.
func (p *target) open(tb testing.TB) *Table {
	tb.Helper()
	return openProcess(tb, p.Process.Pid)
}

// reported starts a program, and returns its process, its report and its table.
func reported[R any](t *testing.T, b build) (p *target, report R, table *Table) {
	t.Helper()
	p = start(t, b.binary(t))
	p.read(t, &report)
	return p, report, p.open(t)
}

// openProcess opens a process, and closes the table at the end of the test.
func openProcess(tb testing.TB, pid int) *Table {
	tb.Helper()
	table, err := Open(context.Background(), pid, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := table.Close(); err != nil {
			tb.Error(err)
		}
	})
	return table
}
