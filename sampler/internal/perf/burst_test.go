package perf

import (
	"context"
	"errors"
	"fmt"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
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
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/indirect"
	"golang.org/x/sys/unix"
)

// manyHits is a budget that gives a test enough calls in a second or two.
const manyHits = 4000

// caughtCalls is what came of a workload.
type caughtCalls struct {
	samples, hits []enginetest.Sample
	made          map[string]int // how often the workload says that it has called what
	stats         sampler.Stats
	took          time.Duration
}

// catchCalls attaches to a workload until a number of calls was caught, and lets
// it end.
func catchCalls(t *testing.T, path string, o Options, enough int, args ...string) caughtCalls {
	t.Helper()
	enginetest.NeedsBreakpoints(t)
	g := enginetest.Start(t, path, args...)
	s, sink := attach(t, g.PID(), o)
	begin := time.Now()
	_, done := run(t, s)
	g.Proceed(t)
	awaitHits(t, s, done, enough)
	g.Proceed(t)
	<-done
	c := caughtCalls{made: callsOf(t, g), stats: s.Stats(), took: time.Since(begin)}
	c.samples, c.hits = enginetest.DrainedAll(sink)
	g.Wait(t)
	return c
}

// run runs a source until it ends, stop is called or the test is over.
func run(t *testing.T, s *Source) (stop context.CancelFunc, done <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return cancel, ended
}

// awaitHits returns when a source has caught so many calls.
func awaitHits(t *testing.T, s *Source, done <-chan struct{}, n int) {
	t.Helper()
	for st := s.Stats(); st.Counts[sampler.Caught] < uint64(n); st = s.Stats() {
		if st.NoCalls != "" {
			enginetest.SkipUnlessPermitted(t, fmt.Errorf("%w: %s", sampler.ErrUnsupported, st.NoCalls))
		}
		waitOn(t, s, done)
	}
}

// waitOn waits a moment. It is an error if the source has ended, or if its target, which makes
// calls all the time, has used a minute of CPU time.
func waitOn(t *testing.T, s *Source, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
		t.Fatalf("the source has ended too soon; %+v", s.Stats())
	case <-time.After(time.Millisecond):
	}
	if used, err := process.ReadCPUTimes(s.threads.pid); err != nil || used.All > time.Minute {
		t.Fatalf("too few calls are caught in %v of the target's CPU time (%v); %+v", used.All, err, s.Stats())
	}
}

// calls reads what the workload has called.
func callsOf(t *testing.T, g *enginetest.Target) map[string]int {
	t.Helper()
	made := make(map[string]int)
	for {
		line, err := g.Out.ReadString('\n')
		if err != nil {
			return made
		}
		count, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if made[name], err = strconv.Atoi(count); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHitShares: the shares of what the caught calls reach are those of the
// calls made, and wrappers show what a sampled stack does not: the type that
// embeds, the type argument.
func TestHitShares(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		kind, site string
		flags      []string
	}{
		{kind: "bimorphic", site: "main.total"},
		{kind: "wrapped", site: "main.total", flags: []string{"-buildmode=pie", "-ldflags=-s -w"}},
		{kind: "closure", site: "main.closures"},
	} {
		t.Run("kind="+k.kind, func(t *testing.T) {
			t.Parallel()
			if k.kind != "wrapped" {
				testrun.Full(t, testrun.Minutes)
			}
			c := catchCalls(t, enginetest.Build(t, "receivers", k.flags...), Options{HitBudget: manyHits}, 1500, k.kind, "3")
			caught := make(map[string]int)
			for _, h := range c.hits {
				if h.Names[1] == k.site {
					caught[h.Names[0]]++
				}
			}
			checkShares(t, caught, c.made)
			t.Logf("caught %v of %v; %d bursts in %v", caught, c.made, c.stats.Counts[sampler.Bursts], c.took)
		})
	}
}

// checkShares wants the caught calls to be a random selection of those made: the
// share of each within five standard deviations.
func checkShares(t *testing.T, caught, made map[string]int) {
	t.Helper()
	total, all := sum(caught), sum(made)
	if total < 500 {
		t.Fatalf("caught %d calls at the site", total)
	}
	for name := range caught {
		if made[name] == 0 {
			t.Errorf("caught calls of %s, which the workload has not called there", name)
		}
	}
	for name, n := range made {
		want := float64(n) / float64(all)
		got := float64(caught[name]) / float64(total)
		if most := 5 * math.Sqrt(want*(1-want)/float64(total)); math.Abs(got-want) > most {
			t.Errorf("%s: %.2f %% of the calls caught, %.2f %% of those made; at most %.2f apart", name, 100*got, 100*want, 100*most)
		}
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestHitsMatchSamples: the call site and its callers are the same frames in a
// caught call as in the samples of what it calls, and so is the callee where it
// is not a wrapper.
func TestHitsMatchSamples(t *testing.T) {
	t.Parallel()
	c := catchCalls(t, enginetest.Build(t, "receivers"), Options{HitBudget: manyHits, Interval: time.Millisecond}, 500, "bimorphic", "2")
	sampled := make(map[string]bool)
	for _, s := range c.samples {
		if i := slices.Index(s.Names, "main.(*Square).Area"); i >= 0 && !s.Truncated {
			sampled[fmt.Sprint(s.Frames[i].Method, s.Frames[i+1:])] = true
		}
	}
	same := 0
	for _, h := range c.hits {
		if h.Weight != 0 || h.Top != ccmap.TopUnknown || h.Frames[0].Offset != 0 {
			t.Fatalf("hit %+v", h.Sample)
		}
		if h.Names[0] != "main.(*Square).Area" {
			continue
		}
		if same++; !sampled[fmt.Sprint(h.Frames[0].Method, h.Frames[1:])] {
			t.Fatalf("no sample has the stack of hit %v %v; there are %v", h.Names, h.Frames, sampled)
		}
	}
	if same == 0 {
		t.Error("caught no calls")
	}
}

// TestHitsKeepToBudget: no more calls are caught than the budget allows, but for
// what the spread of pauses makes of it.
func TestHitsKeepToBudget(t *testing.T) {
	t.Parallel()
	const budget = 200
	c := catchCalls(t, enginetest.Build(t, "receivers"), Options{HitBudget: budget}, 100, "bimorphic", "2")
	// Bursts come at random: with n of them expected, not more than n + 5 √n.
	bursts := c.took.Seconds() * budget / indirect.BurstCalls
	if most := int(indirect.BurstCalls * (bursts + 5*math.Sqrt(bursts) + 1)); len(c.hits) > most {
		t.Errorf("caught %d calls in %v, want at most %d", len(c.hits), c.took, most)
	}
	if st := c.stats; uint64(len(c.hits)) != st.Counts[sampler.Caught] || st.Counts[sampler.Bursts] == 0 || st.Counts[sampler.HotCalls] == 0 || st.Counts[sampler.Strays] != 0 || st.Loss.Corrupt != 0 {
		t.Errorf("%d hits arrived; %+v", len(c.hits), st)
	}
}

// TestHitsOfManyThreads: calls are caught on every thread that makes them.
func TestHitsOfManyThreads(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	const threads = 12
	c := catchCalls(t, enginetest.Build(t, "receivers"), Options{HitBudget: manyHits}, 500, "bimorphic", strconv.Itoa(threads))
	tids, goroutines := make(map[uint32]bool), make(map[uint64]bool)
	for _, h := range c.hits {
		tids[h.OSThread], goroutines[h.Thread] = true, true
	}
	if len(tids) < threads/3 || len(tids) > threads || len(goroutines) != len(tids) {
		t.Errorf("caught calls of %d threads and %d goroutines, which are locked to them; %d make calls", len(tids), len(goroutines), threads)
	}
}

// unasked is code whose calls must not be looked at.
type unasked struct{ t *testing.T }

func (c unasked) CallBefore(ret uint64, _ *indirect.Finder) indirect.Call {
	c.t.Errorf("the call before %#x was looked at", ret)
	return indirect.Call{}
}

func TestHitsOff(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "receivers"), "bimorphic", "1")
	s, sink := attach(t, g.PID(), Options{HitBudget: -1})
	s.drainer.Catcher.Code = unasked{t}
	stop, done := run(t, s)
	g.Proceed(t)
	enginetest.AwaitSamples(t, s, 20)
	stop()
	<-done
	if _, hits := enginetest.DrainedAll(sink); len(hits) != 0 || s.Stats().Counts[sampler.Bursts] != 0 || s.Stats().NoCalls != "switched off" {
		t.Errorf("%d hits; %+v", len(hits), s.Stats())
	}
}

// TestHitsBesideForks: a child of this process has its events open until it
// executes its program. What is left of closed bursts is not taken for a debugger.
func TestHitsBesideForks(t *testing.T) {
	t.Parallel()
	enginetest.NeedsBreakpoints(t)
	g := enginetest.Start(t, enginetest.Build(t, "receivers"), "bimorphic", "1")
	s, _ := attach(t, g.PID(), Options{HitBudget: manyHits})
	_, done := run(t, s)
	g.Proceed(t)
	for s.Stats().Counts[sampler.Caught] < 1000 {
		if err := exec.Command("/bin/true").Run(); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.NoCalls != "" {
			if st.Counts[sampler.Caught] == 0 {
				enginetest.SkipUnlessPermitted(t, fmt.Errorf("%w: %s", sampler.ErrUnsupported, st.NoCalls))
			}
			t.Fatalf("after %d hits: %s", st.Counts[sampler.Caught], st.NoCalls)
		}
		waitOn(t, s, done)
	}
}

// TestNoDebugRegister: where somebody else has all debug registers of a thread
// no calls are caught, and it is said why; when they are free again, calls are.
func TestNoDebugRegister(t *testing.T) {
	t.Parallel()
	pid := startCalling(t)
	taken := takeRegisters(t, pid, 4)
	s, _ := attach(t, pid, Options{HitBudget: manyHits, Watchpoints: -1})
	_, done := run(t, s)
	for s.Stats().NoCalls == "" && s.Stats().Counts[sampler.Caught] == 0 {
		waitOn(t, s, done)
	}
	if st := s.Stats(); !strings.Contains(st.NoCalls, "debug registers are in use") || st.Counts[sampler.Caught] != 0 {
		t.Errorf("with no register free: %+v", st)
	}
	for _, w := range taken {
		w.Close()
	}
	for s.Stats().Counts[sampler.Caught] == 0 {
		waitOn(t, s, done)
	}
	if st := s.Stats(); st.NoCalls != "" {
		t.Errorf("with all registers free: %+v", st)
	}
}

// TestOneRegisterIsLeft: where somebody else has one debug register of each thread, there
// are fewer watchpoints, and calls are caught.
func TestOneRegisterIsLeft(t *testing.T) {
	t.Parallel()
	pid := startCalling(t)
	takeRegisters(t, pid, 1)
	s, _ := attach(t, pid, Options{HitBudget: manyHits})
	if n := s.Stats().Counts[sampler.Watchpoints]; n < 1 || n > 2 {
		t.Errorf("%d watchpoints, where three registers are free", n)
	}
	_, done := run(t, s)
	for s.Stats().Counts[sampler.Caught] == 0 {
		waitOn(t, s, done)
	}
}

// startCalling starts a program, and waits until the thread that makes calls is there.
func startCalling(t *testing.T) (pid int) {
	t.Helper()
	enginetest.NeedsBreakpoints(t)
	g := enginetest.Start(t, enginetest.Build(t, "receivers"), "bimorphic", "1")
	g.Proceed(t)
	for enginetest.CPUTime(t, g.PID()) < 50*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	return g.PID()
}

// takeRegisters takes up to n debug registers of every thread of a process.
func takeRegisters(t *testing.T, pid, n int) []*perfevent.Watchpoint {
	t.Helper()
	tids, err := process.Threads(pid)
	if err != nil {
		t.Fatal(err)
	}
	var taken []*perfevent.Watchpoint
	for len(taken) < n {
		w, err := perfevent.OpenWatchpoint(uint32(pid))
		if errors.Is(err, unix.ENOSPC) && len(taken) > 0 {
			break
		}
		if err != nil {
			enginetest.SkipUnlessPermitted(t, explain(pid, err))
			t.Skipf("no debug registers: %v", err)
		}
		t.Cleanup(w.Close)
		taken = append(taken, w)
		if err := w.Arm(8, tids); err != nil {
			t.Fatal(err)
		}
	}
	return taken
}

// TestEndsWithinBurst: a target that is killed or replaced by another program,
// and a source that is stopped, while a breakpoint is set.
func TestEndsWithinBurst(t *testing.T) {
	t.Parallel()
	enginetest.NeedsBreakpoints(t)
	for _, how := range []string{"kill", "exec", "stop"} {
		t.Run("how="+how, func(t *testing.T) {
			t.Parallel()
			g := enginetest.Start(t, enginetest.Build(t, "receivers"), "exec", "2")
			s, sink := attach(t, g.PID(), Options{HitBudget: 1e9}) // there is nearly always a burst on
			stop, done := run(t, s)
			g.Proceed(t)
			awaitHits(t, s, done, 1)
			switch how {
			case "kill":
				g.Cmd.Process.Kill()
			case "exec":
				g.Proceed(t)
			case "stop":
				stop()
			}
			<-done
			_, hits := enginetest.DrainedAll(sink)
			if st := s.Stats(); uint64(len(hits)) != st.Counts[sampler.Caught] || st.Counts[sampler.Strays] != 0 && how != "exec" {
				t.Errorf("%d hits arrived; %+v", len(hits), st)
			}
			if s.drainer.Catcher.Bursting() {
				t.Error("a burst is left")
			}
		})
	}
}

// TestCatcherKnowsThreads: calls are caught on threads of the target alone.
func TestCatcherKnowsThreads(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s, _ := attach(t, g.PID(), Options{})
	defer s.Close()
	if has := s.drainer.Catcher.Alive; !has(uint32(g.PID())) || has(uint32(os.Getpid())) {
		t.Errorf("the target's first thread: %t; a thread of this process: %t", has(uint32(g.PID())), has(uint32(os.Getpid())))
	}
}
