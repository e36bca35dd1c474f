package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// Run holds an engine against the workloads. raceCallers is the least share of samples
// in C code of the race detector for which the engine finds the Go function that has
// called it.
func Run(t *testing.T, open Open, raceCallers float64) {
	for name, test := range map[string]func(*testing.T, Open){
		"repetitions":   testRepetitions,
		"activations":   testActivationsCounted,
		"weight":        testWeight,
		"stacks":        testStacks,
		"leaves":        testLeaves,
		"kernel stacks": testKernelStacks,
		"deep stacks":   testDeepStacks,
		"new threads":   testNewThreads,
		"endings":       testEndings,
		"refusals":      testOpenRefuses,
		"stopped":       testStartStopped,
		"cgo":           testCgo,
		"race detector": func(t *testing.T, open Open) { testRaceDetector(t, open, raceCallers) },
		"go versions":   testGoVersions,
		"labels":        testLabels,
		"JVM":           testJVM,
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && slices.Contains(ofOneGoroutine, name) {
				t.Skip("samples become stacks and verdicts in one goroutine, which the other tests run, too")
			}
			test(t, open)
		})
	}
}

// ofOneGoroutine are the tests of samples, stacks and verdicts. One goroutine makes these, so the race
// detector has nothing to find.
var ofOneGoroutine = []string{
	"repetitions", "weight", "stacks", "leaves", "kernel stacks", "deep stacks", "cgo", "race detector", "go versions", "labels",
}

// testRepetitions compares verdicts with the calls that the workload reports. At an
// interval of 10 ms, a call of 80 ms is on top of several samples, and only the first is
// new. A call of 5 ms is never on top twice. The test does not expect a number of samples
// a call: the workload measured its millisecond earlier, when the machine may have been
// busier.
func testRepetitions(t *testing.T, open Open) {
	t.Parallel()
	NeedsBreakpoints(t)
	for _, c := range []struct{ each, count int }{{80, 20}, {5, 200}} {
		t.Run("ms="+strconv.Itoa(c.each), func(t *testing.T) {
			t.Parallel()
			if c.each < 10 {
				testrun.Full(t, testrun.Minutes)
			}
			g := Start(t, Build(t, "workload"), "calls", strconv.Itoa(c.each), strconv.Itoa(c.count))
			g.Pin(t)
			samples, s := Whole(t, open, g, sampler.ProcessOptions{WatchBudget: 1})
			if s.Stats().Counts[sampler.Watchpoints] == 0 {
				SkipUnlessPermitted(t, sampler.ErrUnsupported)
			}
			top := verdicts(slices.DeleteFunc(samples, func(s Sample) bool { return s.Early }))
			found := top[ccmap.TopNew]
			want := min(c.count, found+top[ccmap.TopRepeated])
			slack := max(top[ccmap.TopUnknown]+2, want*8/100)
			t.Logf("new %d, repeated %d, unknown %d", found, top[ccmap.TopRepeated], top[ccmap.TopUnknown])
			if found < want-slack || found > want+slack {
				t.Errorf("%d verdicts of %d samples say new, want %d ± %d", found, len(samples), want, slack)
			}
		})
	}
}

func verdicts(samples []Sample) map[ccmap.Repetition]int {
	top := make(map[ccmap.Repetition]int)
	for _, s := range samples {
		if s.Has("main.work") && s.Has("main.calls") {
			top[s.Top]++
		}
	}
	return top
}

// testActivationsCounted: of a function that outlasts two periods every call
// is found, and only once. Where a verdict is unknown it may be missing.
func testActivationsCounted(t *testing.T, open Open) {
	t.Parallel()
	NeedsBreakpoints(t)
	const count = 30
	g := Start(t, Build(t, "workload"), "calls", "40", strconv.Itoa(count))
	g.Pin(t)
	samples, s := Whole(t, open, g, sampler.ProcessOptions{WatchBudget: 1, Interval: 5 * time.Millisecond})
	if s.Stats().Counts[sampler.Watchpoints] == 0 {
		SkipUnlessPermitted(t, sampler.ErrUnsupported)
	}
	top := verdicts(samples)
	t.Logf("new %d of %d calls, repeated %d, unknown %d", top[ccmap.TopNew], count, top[ccmap.TopRepeated], top[ccmap.TopUnknown])
	// A sample drained late starts no watch, which a busy machine can cause.
	slack := top[ccmap.TopUnknown] + 2
	if top[ccmap.TopNew] > count+1 || top[ccmap.TopNew] < count-slack {
		t.Errorf("found %d new activations, the workload made %d", top[ccmap.TopNew], count)
	}
}

// testWeight: the weights of all samples are the CPU time that was used.
func testWeight(t *testing.T, open Open) {
	t.Parallel()
	g := Start(t, Build(t, "workload"), "calls", "20", "25")
	s, sink := Attach(t, open, g.PID(), sampler.ProcessOptions{Interval: time.Millisecond})
	before, stole := CPUTime(t, g.PID()), testrun.Stolen(t)
	g.Proceed(t)
	samples, _ := Collect(t, s, sink)
	used := g.Wait(t) - before
	stole = testrun.Stolen(t) - stole
	var sum time.Duration
	for _, smp := range samples {
		sum += time.Duration(smp.Weight)
	}
	if off := (sum - used).Abs() - stole; off > used*3/10 {
		t.Errorf("weights sum up to %v, the target used %v, of which %v at most were stolen", sum, used, stole)
	}
	t.Logf("used %v, weights %v, %d samples, stolen %v", used, sum, len(samples), stole)
}

func testStacks(t *testing.T, open Open) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"-buildmode=pie", "-ldflags=-s -w"}} {
		t.Run("flags="+strings.Join(flags, ","), func(t *testing.T) {
			t.Parallel()
			if flags == nil { // a program without symbols is the harder one
				testrun.Full(t, testrun.Minutes)
			}
			samples, s := open.SampleWhole(t, sampler.ProcessOptions{Interval: time.Millisecond}, Build(t, "workload", flags...), "busy", "800")
			st := s.Stats()
			if rooted := float64(st.Counts[sampler.Rooted]) / float64(st.Counts[sampler.Samples]); rooted < 0.97 {
				t.Errorf("%.2f %% of %d stacks reach a root", 100*rooted, st.Counts[sampler.Samples])
			}
			var inWork, right, hashed int
			for _, smp := range samples {
				if smp.Names[0] == "main.work" && !smp.Truncated {
					inWork++
					if smp.Innermost.Body != 0 { // the program has ended, within the first second
						hashed++
					}
					if parent := smp.Names[1]; parent == "main.mixed" || parent == "main.recurse" {
						right++
					}
				}
			}
			if inWork == 0 || right != inWork {
				t.Errorf("of %d samples in main.work %d have a right caller", inWork, right)
			}
			if hashed != inWork {
				t.Errorf("of %d samples in main.work %d are of a known body", inWork, hashed)
			}
			t.Logf("%+v", st)
		})
	}
}

// testLeaves: time in the vDSO and in the kernel belongs to the Go code that
// asked for it.
func testLeaves(t *testing.T, open Open) {
	t.Parallel()
	samples, s := open.SampleWhole(t, sampler.ProcessOptions{Interval: time.Millisecond}, Build(t, "workload"), "leaves", "300")
	var vdso, clock, kernel, read int
	for _, smp := range samples {
		switch {
		case smp.Has("bufio.(*Reader).fill"): // the workload awaits the test's word
		case smp.Names[0] == ccmap.KernelName && smp.Has("syscall.Read"):
			kernel++
			if smp.Has("main.kernel") && !smp.Truncated {
				read++
			}
		case smp.Has("runtime.nanotime1") || smp.Has("time.now"):
			vdso++
			if (smp.Has("main.clock") || smp.Has("main.kernel")) && !smp.Truncated && smp.Goroutine != 0 {
				clock++
			}
		}
	}
	t.Logf("clock %d of %d, kernel %d of %d; %+v", clock, vdso, read, kernel, s.Stats())
	if vdso == 0 || float64(clock) < 0.95*float64(vdso) {
		t.Errorf("of %d samples of the clock %d lead back to its caller", vdso, clock)
	}
	if s.Info().NoKernelTime == "" && (kernel == 0 || read != kernel) {
		t.Errorf("of %d samples in the kernel %d lead back to the caller", kernel, read)
	}
}

// testDeepStacks: a stack of any depth reaches its root, has its innermost and outermost functions, and says
// how many it lacks.
func testDeepStacks(t *testing.T, open Open) {
	t.Parallel()
	for _, depth := range []int{1000, 3000, 10_000, 100_000} {
		t.Run(strconv.Itoa(depth), func(t *testing.T) {
			t.Parallel()
			switch {
			case depth > 3000:
				testrun.Full(t, testrun.Quiet)
			case depth < mostPhysical:
				testrun.Full(t, testrun.Minutes)
			}
			testDepth(t, open, depth)
		})
	}
}

// mostPhysical is how many functions a stack has at most, as package goproc keeps them.
const mostPhysical = 2048

// testDepth looks at the first samples of a stack at rest. The last ones may be read after the process has ended.
func testDepth(t *testing.T, open Open, depth int) {
	const enough = 100
	g := Start(t, Build(t, "workload"), "deep", strconv.Itoa(depth), "60000")
	s, sink := Attach(t, open, g.PID(), sampler.ProcessOptions{}) // at a millisecond the budget of reads does not last
	g.Proceed(t)
	go func() {
		AwaitSamples(t, s, enough)
		g.Cmd.Process.Kill()
	}()
	samples, _ := Collect(t, s, sink)
	deep, rooted, whole := 0, 0, 0
	for _, s := range samples[:min(enough, len(samples))] {
		if !s.Has("main.work") || !s.Has("main.recurse") {
			continue
		}
		deep++
		if !s.Truncated && s.Has("main.main") {
			rooted++
		}
		if keepsEnds(s, depth) {
			whole++
		}
	}
	lacks := s.Stats().Elided
	t.Logf("%d of %d stacks reach their root, %d are as they should be; lack %+v", rooted, deep, whole, lacks)
	if deep < 20 || rooted < deep*9/10 || whole < deep/2 {
		t.Errorf("%d of %d stacks of depth %d reach their root, %d are as they should be", rooted, deep, depth, whole)
	}
	most := uint64(max(depth-mostPhysical, 0))
	if (lacks.Samples > 0) != (most > 0) || lacks.Least > lacks.Most || lacks.Most > most+16 {
		t.Errorf("stacks of depth %d lack %+v", depth, lacks)
	}
}

// keepsEnds reports whether a stack of some recursive calls has all of them, or as many as are kept.
func keepsEnds(s Sample, depth int) bool {
	inner, outer, elided := 0, 0, 0
	for _, name := range s.Names {
		switch {
		case name == ccmap.ElidedName:
			elided++
		case name == "main.recurse" && elided == 0:
			inner++
		case name == "main.recurse":
			outer++
		}
	}
	if depth < mostPhysical {
		return elided == 0 && inner == depth+1
	}
	return elided == 1 && inner > 1000 && outer > 50
}

// testNewThreads: threads that begin after Open are sampled.
func testNewThreads(t *testing.T, open Open) {
	t.Parallel()
	const count = 20
	samples, s := open.SampleWhole(t, sampler.ProcessOptions{Interval: 2 * time.Millisecond}, Build(t, "workload"), "threads", strconv.Itoa(count))
	tids := make(map[uint32]bool)
	for _, smp := range samples {
		if smp.Has("main.threads.func1") {
			tids[smp.OSThread] = true
		}
	}
	if len(tids) != count {
		t.Errorf("sampled %d of %d threads", len(tids), count)
	}
	if n := s.Stats().Threads; n != 0 {
		t.Errorf("%d threads are still attached", n)
	}
}

// AwaitSamples returns when a source has taken that many. It fails after minutes: a workload that has ended is not sampled.
func AwaitSamples(t testing.TB, s sampler.Source, n uint64) {
	t.Helper()
	for began := time.Now(); s.Stats().Counts[sampler.Samples] < n; time.Sleep(time.Millisecond) {
		if time.Since(began) > mostAwaited {
			t.Errorf("%d samples in %v, want %d: %+v", s.Stats().Counts[sampler.Samples], mostAwaited, n, s.Stats())
			return
		}
	}
}

// mostAwaited is how long a test waits for samples.
const mostAwaited = 3 * time.Minute

func testEndings(t *testing.T, open Open) {
	t.Parallel()
	t.Run("exit", func(t *testing.T) {
		t.Parallel()
		g := Start(t, Build(t, "workload"), "exit", "3")
		s, sink := Attach(t, open, g.PID(), sampler.ProcessOptions{})
		g.Proceed(t)
		if _, e := Collect(t, s, sink); !e.Exited || e.Reason != "target exited with code 3" {
			t.Errorf("ending: %+v", e)
		}
	})
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		g := Start(t, Build(t, "workload"), "busy", "60000")
		s, sink := Attach(t, open, g.PID(), sampler.ProcessOptions{Interval: time.Millisecond})
		g.Proceed(t)
		go func() {
			AwaitSamples(t, s, 100)
			g.Cmd.Process.Kill()
		}()
		samples, e := Collect(t, s, sink)
		if !e.Exited || e.Reason != "target was killed by SIGKILL" {
			t.Errorf("ending: %+v", e)
		}
		if uint64(len(samples)) != s.Stats().Counts[sampler.Samples] {
			t.Errorf("%d samples arrived of %d", len(samples), s.Stats().Counts[sampler.Samples])
		}
	})
	t.Run("exec", func(t *testing.T) {
		t.Parallel()
		g := Start(t, Build(t, "workload"), "exec")
		s, sink := Attach(t, open, g.PID(), sampler.ProcessOptions{})
		g.Proceed(t)
		if _, e := Collect(t, s, sink); !e.Exited || !strings.Contains(e.Reason, "replaced itself by /") {
			t.Errorf("ending: %+v", e)
		}
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		g := Start(t, Build(t, "workload"), "busy", "60000")
		s, _ := Attach(t, open, g.PID(), sampler.ProcessOptions{})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if e, err := s.Run(ctx); err != nil || e.Exited || e.Reason != "stopped" {
			t.Errorf("ending: %+v, %v", e, err)
		}
	})
}

func testOpenRefuses(t *testing.T, open Open) {
	t.Parallel()
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	g := Start(t, Build(t, "workload"), "calls", "1", "1")
	sleep := exec.Command("sleep", "60")
	zombie := exec.Command("true")
	if err := errors.Join(sleep.Start(), zombie.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sleep.Process.Kill()
		sleep.Wait()
		zombie.Wait()
	})
	awaitZombie(t, zombie.Process.Pid)
	if stat, err := process.ReadStat(2); err == nil && stat.KernelThread() { // not in a PID namespace
		if _, err := open(context.Background(), sampler.ProcessOptions{PID: 2, Sink: sink}); !errors.Is(err, sampler.ErrNotManaged) {
			t.Errorf("kernel thread: %v", err)
		}
	}
	for _, c := range []struct {
		name string
		o    sampler.ProcessOptions
		want error
	}{
		{"negative pid", sampler.ProcessOptions{PID: -1, Sink: sink}, sampler.ErrNoProcess},
		{"unused pid", sampler.ProcessOptions{PID: 1<<22 + 1, Sink: sink}, sampler.ErrNoProcess},
		{"zombie", sampler.ProcessOptions{PID: zombie.Process.Pid, Sink: sink}, sampler.ErrNoProcess},
		{"not Go", sampler.ProcessOptions{PID: sleep.Process.Pid, Sink: sink}, sampler.ErrNotManaged},
		{"no sink", sampler.ProcessOptions{PID: os.Getpid()}, nil},
		{"no number", sampler.ProcessOptions{PID: g.PID(), Sink: sink, HitBudget: math.NaN()}, nil},
	} {
		s, err := open(context.Background(), c.o)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", c.name)
		} else if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.name, err, c.want)
		}
	}
	_, err := open(context.Background(), sampler.ProcessOptions{PID: g.otherThread(t), Sink: sink})
	if want := fmt.Sprintf("it is a thread of process %d: ", g.PID()); !errors.Is(err, sampler.ErrNoProcess) || !strings.Contains(err.Error(), want) {
		t.Errorf("thread: %v; want %q", err, want)
	}
}

// otherThread returns a thread of the workload other than its first.
func (g *Target) otherThread(t *testing.T) int {
	t.Helper()
	tids, err := process.Threads(g.PID())
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		if int(tid) != g.PID() {
			return int(tid)
		}
	}
	t.Fatal("the workload has one thread only")
	return 0
}

func awaitZombie(t *testing.T, pid int) {
	t.Helper()
	for {
		stat, err := process.ReadStat(pid)
		if err != nil {
			t.Fatal(err)
		}
		if stat.Zombie() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// testStartStopped attaches to a program that is stopped at its first
// instruction, as ccmapd run does.
func testStartStopped(t *testing.T, open Open) {
	t.Parallel()
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(Build(t, "workload", "-buildmode=pie", "-ldflags=-s -w"), "calls", "20", "10")
	cmd.Stdin = strings.NewReader("\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	s, sink := Attach(t, open, cmd.Process.Pid, sampler.ProcessOptions{Interval: time.Millisecond})
	if err := syscall.PtraceDetach(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	samples, _ := Collect(t, s, sink)
	if target := s.Info().Target; target.BuildID == "" || target.Runtime != runtime.Version() {
		t.Errorf("target: %+v", target)
	}
	named := 0
	for _, smp := range samples {
		if smp.Has("main.work") && smp.Has("runtime.main") {
			named++
		}
	}
	if named < len(samples)/2 || named == 0 {
		t.Errorf("%d of %d samples have names", named, len(samples))
	}
}
