package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/prometheus/procfs"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if binaries.dir != "" {
			os.RemoveAll(binaries.dir)
		}
		os.Exit(code)
	}))
}

// builtEnv names a directory with the workloads, for test processes that are
// not allowed to build.
const builtEnv = "CCMAPD_TEST_BINARIES"

// binaries are the workloads, each built once.
var binaries struct {
	sync.Mutex
	dir   string
	built map[string]string
}

// build compiles a program below testdata with more flags of go build.
func build(t testing.TB, program string, flags ...string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	key := program + strings.Join(flags, "")
	if dir := os.Getenv(builtEnv); dir != "" {
		return filepath.Join(dir, key)
	}
	if path, ok := binaries.built[key]; ok {
		return path
	}
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "perf")
		if err != nil {
			t.Fatal(err)
		}
		os.Chmod(dir, 0o755) // a test runs a workload as another user
		binaries.dir, binaries.built = dir, make(map[string]string)
	}
	path := filepath.Join(binaries.dir, strings.NewReplacer("=", "", " ", "").Replace(key))
	args := append([]string{"build", "-o", path}, flags...)
	if out, err := exec.Command("go", append(args, "./testdata/"+program)...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, out)
	}
	binaries.built[key] = path
	return path
}

// target is a workload that has been started and waits for go.
type target struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t testing.TB, path string, args ...string) *target {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	g := &target{cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		g.cmd.Process.Kill()
		g.cmd.Wait()
	})
	if line := g.line(t); line != "ready" {
		t.Fatalf("the workload says %q", line)
	}
	return g
}

func (g *target) line(t testing.TB) string {
	t.Helper()
	line, err := g.out.ReadString('\n')
	if err != nil {
		t.Fatalf("read from workload: %v", err)
	}
	return strings.TrimSpace(line)
}

func (g *target) pid() int { return g.cmd.Process.Pid }

// proceed lets the workload begin.
func (g *target) proceed(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(g.in, "\n"); err != nil {
		t.Fatal(err)
	}
}

// attach opens a source on a process, with whatever of o is set.
func attach(t testing.TB, pid int, o Options) (*Source, sampler.Sink) {
	t.Helper()
	o.PID = pid
	o.Sink = sampler.Sink{Queue: queue.New(queue.Options{RingWords: 1 << 20}), Names: ccmap.NewNames()}
	s, err := Open(context.Background(), o)
	if err != nil {
		skipUnlessPermitted(t, err)
		t.Fatal(err)
	}
	return s, o.Sink
}

// skipUnlessPermitted skips a test that this system does not permit, unless
// CCMAPD_REQUIRE_ENGINE says that it must.
func skipUnlessPermitted(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, sampler.ErrPermission) && !errors.Is(err, sampler.ErrUnsupported) {
		return
	}
	if os.Getenv("CCMAPD_REQUIRE_ENGINE") == "1" {
		t.Fatalf("perf events are required: %v", err)
	}
	t.Skipf("perf events are not available: %v", err)
}

// stackSample is a copy of a sample with names in place of methods.
type stackSample struct {
	ccmap.Sample
	names []string
}

func (s stackSample) has(name string) bool {
	for _, n := range s.names {
		if n == name {
			return true
		}
	}
	return false
}

// collect runs a source to its end and returns all that it has sampled.
func collect(t testing.TB, s *Source, sink sampler.Sink) ([]stackSample, sampler.Ending) {
	t.Helper()
	ending, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return drained(sink), ending
}

func drained(sink sampler.Sink) []stackSample {
	samples, _ := drainedAll(sink)
	return samples
}

// drainedAll returns the samples and the calls that bursts have caught.
func drainedAll(sink sampler.Sink) (samples, hits []stackSample) {
	sink.Queue.Drain(func(s *ccmap.Sample) {
		c := stackSample{Sample: *s}
		c.Frames = append([]ccmap.Frame(nil), s.Frames...)
		for _, f := range s.Frames {
			c.names = append(c.names, sink.Names.At(f.Method).Name)
		}
		if c.Hit {
			hits = append(hits, c)
		} else {
			samples = append(samples, c)
		}
	})
	return samples, hits
}

// sampleWhole starts a workload, attaches to it, lets it run to its end and
// returns what was sampled.
func sampleWhole(t testing.TB, o Options, path string, args ...string) ([]stackSample, *Source) {
	t.Helper()
	return start(t, path, args...).sample(t, o)
}

// sample attaches to the workload, lets it run to its end and returns what was
// sampled.
func (g *target) sample(t testing.TB, o Options) ([]stackSample, *Source) {
	t.Helper()
	s, sink := attach(t, g.pid(), o)
	g.proceed(t)
	samples, ending := collect(t, s, sink)
	if !ending.Exited {
		t.Errorf("the workload ended, but the source says %+v", ending)
	}
	g.wait(t)
	if len(samples) == 0 {
		t.Fatal("nothing was sampled")
	}
	return samples, s
}

// cpuTime returns the CPU time that the threads of a process have used.
func cpuTime(t testing.TB, pid int) time.Duration {
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

// stolen returns how long the machine's CPUs have been taken away from it, if it
// is a virtual one. The CPU time that a process has used comprises such time, but
// there are no samples of it.
func stolen(t testing.TB) time.Duration {
	t.Helper()
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		t.Fatal(err)
	}
	stat, err := fs.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(stat.CPUTotal.Steal * float64(time.Second))
}

// pin keeps the threads of the workload on the first CPU. An event counts the
// time of a thread on one CPU, so two samples of a thread that moves to and fro
// can be closer than the interval.
func (g *target) pin(t testing.TB) {
	t.Helper()
	tids, err := process.Threads(g.pid())
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := process.OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	var first unix.CPUSet
	first.Set(cpus[0])
	for _, tid := range tids {
		if err := unix.SchedSetaffinity(int(tid), &first); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}

// wait waits for the workload to exit and returns its CPU time.
func (g *target) wait(t testing.TB) time.Duration {
	t.Helper()
	if err := g.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return g.cmd.ProcessState.SystemTime() + g.cmd.ProcessState.UserTime()
}
