package perf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"golang.org/x/sys/unix"
)

// TestRepetitions compares verdicts with what the workload says it has done. At
// 10 ms, calls of 80 ms are on top of several samples each, of which the first is
// new; of calls of 5 ms none is there twice. How many samples a call has is left
// open: the workload's idea of a millisecond is from before, on a machine that may
// have been busier then.
func TestRepetitions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ each, count int }{{80, 20}, {5, 200}} {
		t.Run("ms="+strconv.Itoa(c.each), func(t *testing.T) {
			t.Parallel()
			g := start(t, build(t, "workload"), "calls", strconv.Itoa(c.each), strconv.Itoa(c.count))
			g.pin(t)
			samples, s := g.sample(t, Options{WatchBudget: 1})
			if s.Stats().Counts[sampler.Watchpoints] == 0 {
				skipUnlessPermitted(t, sampler.ErrUnsupported)
			}
			top := verdicts(slices.DeleteFunc(samples, func(s stackSample) bool { return s.Early }))
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

func verdicts(samples []stackSample) map[ccmap.Repetition]int {
	top := make(map[ccmap.Repetition]int)
	for _, s := range samples {
		if s.has("main.work") && s.has("main.calls") {
			top[s.Top]++
		}
	}
	return top
}

// TestActivationsCounted: of a function that outlasts two periods every call
// is found, and only once. Where a verdict is unknown it may be missing.
func TestActivationsCounted(t *testing.T) {
	t.Parallel()
	const count = 30
	g := start(t, build(t, "workload"), "calls", "40", strconv.Itoa(count))
	g.pin(t)
	samples, s := g.sample(t, Options{WatchBudget: 1, Interval: 5 * time.Millisecond})
	if s.Stats().Counts[sampler.Watchpoints] == 0 {
		skipUnlessPermitted(t, sampler.ErrUnsupported)
	}
	top := verdicts(samples)
	t.Logf("new %d of %d calls, repeated %d, unknown %d", top[ccmap.TopNew], count, top[ccmap.TopRepeated], top[ccmap.TopUnknown])
	// A sample drained late starts no watch, which a busy machine can cause.
	slack := top[ccmap.TopUnknown] + 2
	if top[ccmap.TopNew] > count+1 || top[ccmap.TopNew] < count-slack {
		t.Errorf("found %d new activations, the workload made %d", top[ccmap.TopNew], count)
	}
}

// TestWeight: the weights of all samples are the CPU time that was used.
func TestWeight(t *testing.T) {
	t.Parallel()
	g := start(t, build(t, "workload"), "calls", "20", "25")
	s, sink := attach(t, g.pid(), Options{Interval: time.Millisecond})
	before, stole := cpuTime(t, g.pid()), stolen(t)
	g.proceed(t)
	samples, _ := collect(t, s, sink)
	used := g.wait(t) - before
	stole = stolen(t) - stole
	var sum time.Duration
	for _, smp := range samples {
		sum += time.Duration(smp.Weight)
	}
	if off := (sum - used).Abs() - stole; off > used*3/10 {
		t.Errorf("weights sum up to %v, the target used %v, of which %v at most were stolen", sum, used, stole)
	}
	t.Logf("used %v, weights %v, %d samples, stolen %v", used, sum, len(samples), stole)
}

// TestLossIsCounted: where nobody drains the rings until the target has ended,
// the samples taken and those lost are at least as many as the CPU time has
// intervals.
func TestLossIsCounted(t *testing.T) {
	t.Parallel()
	const interval = time.Millisecond
	g := start(t, build(t, "workload"), "calls", "20", "25")
	s, sink := attach(t, g.pid(), Options{Interval: interval})
	before, stole := cpuTime(t, g.pid()), stolen(t)
	g.proceed(t)
	used := g.wait(t) - before - (stolen(t) - stole)
	samples, _ := collect(t, s, sink)
	lost := s.Stats().Loss.Source
	if lost == 0 {
		t.Error("no sample was lost, though nobody drained the rings")
	}
	if all, least := len(samples)+int(lost), int(used*9/10/interval); all < least {
		t.Errorf("%d samples and %d lost, want %d for %v", len(samples), lost, least, used)
	}
}

// TestLeftSamplesAreLost: samples that a session does not come to take at its end are
// counted as lost, each of them.
func TestLeftSamplesAreLost(t *testing.T) {
	t.Parallel()
	g := start(t, build(t, "workload"), "busy", "60000")
	g.proceed(t)
	for name, end := range map[string]func(*drainer){
		"no time left": func(d *drainer) {
			d.finish(0)
		},
		"memory hangs": (*drainer).abandon,
	} {
		s, _ := attach(t, g.pid(), Options{Interval: time.Millisecond})
		d := s.drainer
		d.Local = d.Sink.Queue.Ring()
		for samplesIn(d.rings) == 0 {
			time.Sleep(time.Millisecond)
		}
		d.threads.stop()
		left := samplesIn(d.rings)
		end(d)
		full := d.threads.detachAll()
		if got, want := s.Stats().Loss.Source, full+left; left == 0 || got != want {
			t.Errorf("%s: %d samples are lost, want %d, %d of them in the rings", name, got, want, left)
		}
		d.Local.Close()
		s.Close()
	}
}

// samplesIn counts the samples in rings, which stay there.
func samplesIn(rings []*perfevent.Ring) (n uint64) {
	for _, r := range rings {
		copied := *r
		copied.Refresh()
		for ok, _ := copied.Peek(); ok; ok, _ = copied.Peek() {
			if copied.Next.Kind == unix.PERF_RECORD_SAMPLE {
				n++
			}
			copied.Advance()
		}
	}
	return n
}

func TestStacks(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"-buildmode=pie", "-ldflags=-s -w"}} {
		t.Run("flags="+strings.Join(flags, ","), func(t *testing.T) {
			t.Parallel()
			samples, s := sampleWhole(t, Options{Interval: time.Millisecond}, build(t, "workload", flags...), "busy", "800")
			st := s.Stats()
			if rooted := float64(st.Counts[sampler.Rooted]) / float64(st.Counts[sampler.Samples]); rooted < 0.97 {
				t.Errorf("%.2f %% of %d stacks reach a root", 100*rooted, st.Counts[sampler.Samples])
			}
			var inWork, right int
			for _, smp := range samples {
				if smp.names[0] == "main.work" && !smp.Truncated {
					inWork++
					if parent := smp.names[1]; parent == "main.mixed" || parent == "main.recurse" {
						right++
					}
				}
			}
			if inWork == 0 || right != inWork {
				t.Errorf("of %d samples in main.work %d have a right caller", inWork, right)
			}
			t.Logf("%+v", st)
		})
	}
}

// TestLeaves: time in the vDSO and in the kernel belongs to the Go code that
// asked for it.
func TestLeaves(t *testing.T) {
	t.Parallel()
	samples, s := sampleWhole(t, Options{Interval: time.Millisecond}, build(t, "workload"), "leaves", "300")
	var vdso, clock, kernel, read int
	for _, smp := range samples {
		switch {
		case smp.names[0] == ccmap.KernelName && smp.has("syscall.Read"):
			kernel++
			if smp.has("main.kernel") && !smp.Truncated {
				read++
			}
		case smp.has("runtime.nanotime1") || smp.has("time.now"):
			vdso++
			if (smp.has("main.clock") || smp.has("main.kernel")) && !smp.Truncated && smp.Goroutine != 0 {
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

// TestDeepStacks: stacks beyond the kernel's limit of 127 callers are whole
// once samples carry enough of the stack.
func TestDeepStacks(t *testing.T) {
	t.Parallel()
	const depth = 1000
	samples, _ := sampleWhole(t, Options{Interval: time.Millisecond}, build(t, "workload"), "deep", strconv.Itoa(depth), "250")
	whole, since := 0, 0 // of the samples since the first that carries enough
	for _, s := range samples {
		frames := 0
		for _, name := range s.names {
			if name == "main.recurse" {
				frames++
			}
		}
		if !s.Truncated && frames == depth+1 {
			whole++
		}
		if whole > 0 {
			since++
		}
	}
	if whole < 20 || whole < since/2 {
		t.Errorf("%d of the last %d stacks of %d of depth %d are whole", whole, since, len(samples), depth)
	}
}

// TestNewThreads: threads that begin after Open are sampled.
func TestNewThreads(t *testing.T) {
	t.Parallel()
	const count = 20
	samples, s := sampleWhole(t, Options{Interval: 2 * time.Millisecond}, build(t, "workload"), "threads", strconv.Itoa(count))
	tids := make(map[uint32]bool)
	for _, smp := range samples {
		if smp.has("main.threads.func1") {
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

// TestSetInterval: a change reaches every thread.
func TestSetInterval(t *testing.T) {
	t.Parallel()
	g := start(t, build(t, "workload"), "busy", "60000")
	s, sink := attach(t, g.pid(), Options{Interval: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := s.Run(ctx)
		done <- err
	}()
	g.proceed(t)
	awaitSamples(s, 10)
	if err := s.SetInterval(2 * time.Millisecond); err != nil {
		t.Error(err)
	}
	changed := perfevent.Monotonic()
	awaitSamples(s, s.Stats().Counts[sampler.Samples]+200)
	t.Logf("%d threads took %v", s.Stats().Threads, s.Stats().LastChange)
	if err := s.SetInterval(-1); err == nil {
		t.Error("a negative interval was taken")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	checkPeriods(t, drained(sink), changed)
	if got := s.Stats().Interval; got != 2*time.Millisecond {
		t.Errorf("interval is %v", got)
	}
}

// checkPeriods wants every weight from after a moment to be that of 2 ms, and some
// from before it to be that of 50 ms: a period near that, with what a change of it
// has cut off or, until the drainer has seen the first sample, a part of it.
func checkPeriods(t *testing.T, samples []stackSample, changed int64) {
	t.Helper()
	const short, long = 2 * time.Millisecond, 50 * time.Millisecond
	longs := 0
	for _, smp := range samples {
		weight := time.Duration(smp.Weight)
		if after := smp.Time > changed; after && float64(weight) > 2*(1+perfevent.MostSpread)*float64(short) || weight < perfevent.LeastInterval {
			t.Errorf("sample %v after the change has period %v", time.Duration(smp.Time-changed), weight)
		}
		if float64(weight) >= (1-perfevent.MostSpread)*float64(long) {
			longs++
		}
	}
	if longs == 0 {
		t.Errorf("no sample stands for %v", long)
	}
}

// TestLookOverRenewsSymbols: symbols that could not be loaded in time get another try as
// the session goes on.
func TestLookOverRenewsSymbols(t *testing.T) {
	t.Parallel()
	s, _ := attach(t, start(t, build(t, "workload"), "busy", "60000").pid(), Options{})
	defer s.Close()
	later := time.Now().Add(checkEvery)
	symbols := &renewed{Runtime: s.drainer.Runtime}
	s.drainer.Runtime = symbols
	s.drainer.Turn(context.Background(), later)
	if got := symbols.at; !got.Equal(later) {
		t.Errorf("last renewed at %v, want %v", got, later)
	}
}

// renewed is a runtime that notes when it was renewed.
type renewed struct {
	process.Runtime
	at time.Time
}

func (r *renewed) Renew(now time.Time) {
	r.at = now
	r.Runtime.Renew(now)
}

// awaitSamples returns when a source has taken that many.
func awaitSamples(s *Source, n uint64) {
	for s.Stats().Counts[sampler.Samples] < n {
		time.Sleep(time.Millisecond)
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	t.Run("exit", func(t *testing.T) {
		t.Parallel()
		g := start(t, build(t, "workload"), "exit", "3")
		s, sink := attach(t, g.pid(), Options{})
		g.proceed(t)
		if _, e := collect(t, s, sink); !e.Exited || e.Reason != "target exited with code 3" {
			t.Errorf("ending: %+v", e)
		}
	})
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		g := start(t, build(t, "workload"), "busy", "60000")
		s, sink := attach(t, g.pid(), Options{Interval: time.Millisecond})
		g.proceed(t)
		go func() {
			awaitSamples(s, 100)
			g.cmd.Process.Kill()
		}()
		samples, e := collect(t, s, sink)
		if !e.Exited || e.Reason != "target was killed by SIGKILL" {
			t.Errorf("ending: %+v", e)
		}
		if uint64(len(samples)) != s.Stats().Counts[sampler.Samples] {
			t.Errorf("%d samples arrived of %d", len(samples), s.Stats().Counts[sampler.Samples])
		}
	})
	t.Run("exec", func(t *testing.T) {
		t.Parallel()
		g := start(t, build(t, "workload"), "exec")
		s, sink := attach(t, g.pid(), Options{})
		g.proceed(t)
		if _, e := collect(t, s, sink); !e.Exited || !strings.Contains(e.Reason, "replaced itself by /") {
			t.Errorf("ending: %+v", e)
		}
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		g := start(t, build(t, "workload"), "busy", "60000")
		s, _ := attach(t, g.pid(), Options{})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if e, err := s.Run(ctx); err != nil || e.Exited || e.Reason != "stopped" {
			t.Errorf("ending: %+v, %v", e, err)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	g := start(t, build(t, "workload"), "calls", "1", "1")
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
		if _, err := Open(context.Background(), Options{PID: 2, Sink: sink}); !errors.Is(err, sampler.ErrNotGo) {
			t.Errorf("kernel thread: %v", err)
		}
	}
	for _, c := range []struct {
		name string
		o    Options
		want error
	}{
		{"negative pid", Options{PID: -1, Sink: sink}, sampler.ErrNoProcess},
		{"unused pid", Options{PID: 1<<22 + 1, Sink: sink}, sampler.ErrNoProcess},
		{"zombie", Options{PID: zombie.Process.Pid, Sink: sink}, sampler.ErrNoProcess},
		{"not Go", Options{PID: sleep.Process.Pid, Sink: sink}, sampler.ErrNotGo},
		{"no sink", Options{PID: os.Getpid()}, nil},
		{"no number", Options{PID: g.pid(), Sink: sink, HitBudget: math.NaN()}, nil},
	} {
		s, err := Open(context.Background(), c.o)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", c.name)
		} else if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.name, err, c.want)
		}
	}
	_, err := Open(context.Background(), Options{PID: g.otherThread(t), Sink: sink})
	if want := fmt.Sprintf("it is a thread of process %d: ", g.pid()); !errors.Is(err, sampler.ErrNoProcess) || !strings.Contains(err.Error(), want) {
		t.Errorf("thread: %v; want %q", err, want)
	}
}

// otherThread returns a thread of the workload other than its first.
func (g *target) otherThread(t *testing.T) int {
	t.Helper()
	tids, err := process.Threads(g.pid())
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		if int(tid) != g.pid() {
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

func TestExplain(t *testing.T) {
	t.Parallel()
	for errno, want := range map[unix.Errno]error{
		unix.ESRCH:  sampler.ErrNoProcess,
		unix.EACCES: sampler.ErrPermission,
		unix.EPERM:  sampler.ErrPermission,
		unix.ENOSYS: sampler.ErrUnsupported,
		unix.EMFILE: unix.EMFILE,
	} {
		if err := explain(os.Getpid(), errno); !errors.Is(err, want) || !errors.Is(err, errno) {
			t.Errorf("%v becomes %v, which is not %v", errno, err, want)
		}
	}
}
