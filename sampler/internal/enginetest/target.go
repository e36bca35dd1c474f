// Package enginetest holds engines that sample Go processes from outside against programs
// whose work is known. [Run] has the tests that every engine must pass; the other
// functions start programs and sample them, for tests of one engine.
package enginetest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// Source is a source of an engine.
type Source interface {
	sampler.Source
	sampler.Tunable
	Close() error
}

// Open opens a source of an engine.
type Open func(context.Context, sampler.ProcessOptions) (Source, error)

// Main runs the tests of a package, and finds goroutines that are left.
func Main(m *testing.M) {
	goleak.VerifyTestMain(testrun.Guard(m), goleak.Cleanup(func(code int) {
		if binaries.dir != "" {
			os.RemoveAll(binaries.dir)
		}
		jvmtest.Clean()
		os.Exit(code)
	}))
}

// programs is the package path of the workloads.
const programs = "github.com/ccmapd/ccmapd/sampler/internal/perf/testdata/"

// BuiltEnv names a directory of workloads, for test processes that share them, and for those that
// are not allowed to build. What it lacks is built there.
const BuiltEnv = "CCMAPD_TEST_BINARIES"

// binaries are the workloads, each built once.
var binaries struct {
	sync.Mutex
	dir string // of this process; empty: none, or BuiltEnv names another
}

// Build compiles a program below testdata with more flags of go build.
func Build(t testing.TB, program string, flags ...string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	dir := cmp.Or(os.Getenv(BuiltEnv), binaries.dir)
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "engine"); err != nil {
			t.Fatal(err)
		}
		os.Chmod(dir, 0o755) // a test runs a workload as another user
		binaries.dir = dir
	}
	path := filepath.Join(dir, strings.NewReplacer("=", "", " ", "").Replace(program+strings.Join(flags, "")))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	made := fmt.Sprintf("%s.%d", path, os.Getpid()) // another process may want it, too
	args := append([]string{"build", "-o", made}, flags...)
	if out, err := exec.Command("go", append(args, programs+program)...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, out)
	}
	if err := os.Rename(made, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Target is a workload that has been started and waits for go.
type Target struct {
	Cmd *exec.Cmd
	in  io.WriteCloser
	Out *bufio.Reader
}

// Start starts a workload, which then waits for Proceed.
func Start(t testing.TB, path string, args ...string) *Target {
	t.Helper()
	return StartCommand(t, exec.Command(path, args...))
}

// StartCommand starts a workload as a command says.
func StartCommand(t testing.TB, cmd *exec.Cmd) *Target {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	g := &Target{Cmd: cmd, in: in, Out: bufio.NewReader(out)}
	hung := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() }) // what waits for it then ends, too
	t.Cleanup(func() {
		hung.Stop()
		g.Cmd.Process.Kill()
		g.Cmd.Wait()
	})
	if line := g.Line(t); line != "ready" {
		t.Fatalf("the workload says %q", line)
	}
	return g
}

func (g *Target) Line(t testing.TB) string {
	t.Helper()
	line, err := g.Out.ReadString('\n')
	if err != nil {
		t.Fatalf("read from workload: %v", err)
	}
	return strings.TrimSpace(line)
}

func (g *Target) PID() int { return g.Cmd.Process.Pid }

// Proceed lets the workload begin.
func (g *Target) Proceed(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(g.in, "\n"); err != nil {
		t.Fatal(err)
	}
}

// Attach opens a source on a process. Options that o does not set have their defaults, but
// for the overhead of the host, which has no limit.
func Attach[S Source](t testing.TB, open func(context.Context, sampler.ProcessOptions) (S, error), pid int, o sampler.ProcessOptions) (S, sampler.Sink) {
	t.Helper()
	o.PID, o.MaxHostOverhead = pid, cmp.Or(o.MaxHostOverhead, -1)
	o.Sink = sampler.Sink{Queue: queue.New(queue.Options{RingWords: 1 << 20}), Names: ccmap.NewNames()}
	s, err := open(context.Background(), o)
	if err != nil {
		SkipUnlessPermitted(t, err)
		t.Fatal(err)
	}
	return s, o.Sink
}

// SkipUnlessPermitted skips a test that this system does not permit. A full run must permit it.
func SkipUnlessPermitted(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, sampler.ErrPermission) && !errors.Is(err, sampler.ErrUnsupported) {
		return
	}
	testrun.Lacks(t, "perf events are not available: %v", err)
}

// NeedsBreakpoints skips a test on a machine where hardware breakpoints never fire. See [testrun.Breakpoints].
func NeedsBreakpoints(t testing.TB) {
	t.Helper()
	testrun.Breakpoints(t, perfevent.Silent())
}

// Sample is a copy of a sample with names in place of methods.
type Sample struct {
	ccmap.Sample
	Names     []string
	Innermost ccmap.Method
	Labels    ccmap.Method // that stands for the labels, if there are any
}

func (s Sample) Has(name string) bool {
	for _, n := range s.Names {
		if n == name {
			return true
		}
	}
	return false
}

// Collect runs a source to its end and returns all that it has sampled.
func Collect(t testing.TB, s Source, sink sampler.Sink) ([]Sample, sampler.Ending) {
	t.Helper()
	ending, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return Drained(sink), ending
}

func Drained(sink sampler.Sink) []Sample {
	samples, _ := DrainedAll(sink)
	return samples
}

// DrainedAll returns the samples and the calls that bursts have caught.
func DrainedAll(sink sampler.Sink) (samples, hits []Sample) {
	sink.Queue.Drain(func(s *ccmap.Sample) {
		c := Sample{Sample: *s}
		c.Frames = append([]ccmap.Frame(nil), s.Frames...)
		for _, f := range s.Frames {
			c.Names = append(c.Names, sink.Names.At(f.Method).Name)
		}
		c.Innermost = sink.Names.At(s.Frames[0].Method)
		if m := sink.Names.At(s.Frames[len(s.Frames)-1].Method); m.IsLabels() {
			c.Labels = m
		}
		if c.Hit {
			hits = append(hits, c)
		} else {
			samples = append(samples, c)
		}
	})
	return samples, hits
}

// SampleWhole starts a workload, attaches to it, lets it run to its end and
// returns its samples.
func (open Open) SampleWhole(t testing.TB, o sampler.ProcessOptions, path string, args ...string) ([]Sample, Source) {
	t.Helper()
	return Whole(t, open, Start(t, path, args...), o)
}

// Whole attaches to a workload, lets it run to its end and returns its samples.
func Whole[S Source](t testing.TB, open func(context.Context, sampler.ProcessOptions) (S, error), g *Target, o sampler.ProcessOptions) ([]Sample, S) {
	t.Helper()
	s, sink := Attach(t, open, g.PID(), o)
	g.Proceed(t)
	samples, ending := Collect(t, s, sink)
	if !ending.Exited {
		t.Errorf("the workload ended, but the source says %+v", ending)
	}
	g.Wait(t)
	if len(samples) == 0 {
		t.Fatal("nothing was sampled")
	}
	return samples, s
}

// CPUTime returns the CPU time that the threads of a process have used.
func CPUTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var ns int64
		if _, err = fmt.Sscan(string(text), &ns); err != nil {
			t.Fatal(err)
		}
		sum += ns
	}
	return time.Duration(sum)
}

// Pin keeps the threads of the workload on the first CPU. An event counts the
// time of a thread on one CPU, so two samples of a thread that moves to and fro
// can be closer than the interval.
func (g *Target) Pin(t testing.TB) {
	t.Helper()
	cpus, err := process.OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	g.PinTo(t, cpus[:1])
}

// PinTo keeps the threads of the workload on some CPUs.
func (g *Target) PinTo(t testing.TB, cpus []int) {
	t.Helper()
	tids, err := process.Threads(g.PID())
	if err != nil {
		t.Fatal(err)
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	for _, tid := range tids {
		if err := unix.SchedSetaffinity(int(tid), &set); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}

// Wait waits for the workload to exit and returns its CPU time.
func (g *Target) Wait(t testing.TB) time.Duration {
	t.Helper()
	if err := g.Cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return g.Cmd.ProcessState.SystemTime() + g.Cmd.ProcessState.UserTime()
}
