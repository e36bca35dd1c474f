package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// build compiles a program of testdata.
func build(t *testing.T, program string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	args := append(append([]string{"build", "-o", path}, flags...), "./testdata/"+program)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", program, err, out)
	}
	return path
}

// session is a source that runs, and the time of each method, by inclusive weight, and of each innermost frame.
type session struct {
	*Source
	cum, flat map[string]int64
	stop      context.CancelFunc
	done      chan error
	names     *ccmap.Names
	queue     *queue.Queue
	each      func(*ccmap.Sample) // looks at each sample, too
	kept      []ccmap.Sample      // all samples so far
}

func attach(t *testing.T, pid int, o sampler.ProcessOptions) *session {
	t.Helper()
	s := &session{cum: map[string]int64{}, flat: map[string]int64{}, done: make(chan error, 1), names: ccmap.NewNames()}
	s.queue = queue.New(queue.Options{RingWords: 1 << 20})
	o.PID, o.Sink, o.MaxHostOverhead = pid, sampler.Sink{Queue: s.queue, Names: s.names}, -1
	var err error
	if s.Source, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() {
		_, err := s.Run(ctx)
		s.done <- err
	}()
	return s
}

// drain takes the samples so far.
func (s *session) drain() {
	s.queue.Drain(func(smp *ccmap.Sample) {
		kept := *smp
		kept.Frames = slices.Clone(smp.Frames)
		s.kept = append(s.kept, kept)
		s.count(smp)
	})
}

// only counts the samples of a time alone, which a program knows better than a test that waits for a CPU. A look stands
// for the time since the look before, on a busy machine for a second: what of that is beyond the time does not count.
func (s *session) only(from, to int64) {
	clear(s.cum)
	clear(s.flat)
	before, at := int64(0), int64(0) // looks
	for _, smp := range s.kept {
		if smp.Time != at {
			before, at = at, smp.Time
		}
		if inside := min(at, to) - max(before, from); before > 0 && inside > 0 {
			smp.Weight = int64(float64(smp.Weight) * float64(inside) / float64(at-before))
			s.count(&smp)
		}
	}
}

// awaitLook drains until a look is later than a time.
func (s *session) awaitLook(t *testing.T, at int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(s.kept) == 0 || s.kept[len(s.kept)-1].Time <= at; s.await(t, 10*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no look for a minute")
		}
	}
}

// awaitLooks drains until there were so many looks.
func (s *session) awaitLooks(t *testing.T, many int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; s.await(t, 100*time.Millisecond) {
		looks := map[int64]bool{}
		for _, smp := range s.kept {
			looks[smp.Time] = true
		}
		if len(looks) >= many {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d looks in a minute", len(looks))
		}
	}
}

func (s *session) count(smp *ccmap.Sample) {
	if s.each != nil {
		s.each(smp)
	}
	seen := map[string]bool{}
	for i, f := range smp.Frames {
		name := s.names.At(f.Method).Name
		if i == 0 {
			s.flat[name] += smp.Weight
		}
		if !seen[name] {
			s.cum[name] += smp.Weight
			seen[name] = true
		}
		switch name {
		case "main.sleeps", "main.receives", "main.locks", "main.yields", "main.plays", "main.pulls", "net/http.serverHandler.ServeHTTP":
			s.cum[s.names.At(smp.Frames[0].Method).Name+" "+name] += smp.Weight
		}
	}
}

// await drains until the source has taken samples for a time.
func (s *session) await(t *testing.T, during time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		select {
		case err := <-s.done:
			t.Fatal("ended: ", err)
		case <-s.queue.Ready():
			s.drain()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *session) end(t *testing.T) {
	t.Helper()
	s.stop()
	for {
		select {
		case err := <-s.done:
			if err != nil {
				t.Error(err)
			}
			s.drain()
			return
		case <-s.queue.Ready():
			s.drain()
		}
	}
}

// TestTruth: the time that goroutines wait in a function, with the time that they then want to run, is what the
// program's own clock says.
func TestTruth(t *testing.T) {
	for name, flags := range map[string][]string{"plain": nil, "stripped": {"-ldflags=-s -w", "-buildmode=pie"}} {
		t.Run(name, func(t *testing.T) {
			g := enginetest.Start(t, build(t, "waits", flags...))
			s := attach(t, g.PID(), sampler.ProcessOptions{Unit: Wait, Interval: 5 * time.Millisecond, Idle: time.Second, Under: []string{"main.handles"}})
			s.awaitLook(t, 0) // a first one, since which the next one counts
			g.Proceed(t)
			s.await(t, 4*time.Second)
			g.Proceed(t)
			var from, to int64
			if _, err := fmt.Sscan(g.Line(t), &from, &to); err != nil {
				t.Fatal(err)
			}
			s.awaitLook(t, to)
			s.end(t)
			s.only(from, to)
			for range 3 {
				var function string
				var want int64
				if _, err := fmt.Sscan(g.Line(t), &function, &want); err != nil {
					t.Fatal(err)
				}
				got := s.cum[function]
				t.Logf("%s: %v, by its own clock %v", function, time.Duration(got), time.Duration(want))
				const within = 0.1 // of samples of some 100 waits on a busy machine
				if off := math.Abs(float64(got)/float64(want) - 1); off > within {
					t.Errorf("%s: %v, by its own clock %v", function, time.Duration(got), time.Duration(want))
				}
			}
			for function, reason := range map[string]string{"main.sleeps": "[sleep]", "main.receives": "[chan receive]", "main.locks": "[sync.Mutex.Lock]"} {
				if of := s.cum[reason+" "+function]; float64(of) < 0.8*float64(s.cum[function]) {
					t.Errorf("%s: %v of %v for %s", function, time.Duration(of), time.Duration(s.cum[function]), reason)
				}
			}
			if idle := time.Duration(s.cum["main.idles"]); time.Duration(s.flat["[idle]"]) < idle || idle < 3*time.Second {
				t.Errorf("idle %v, of it main.idles %v", time.Duration(s.flat["[idle]"]), idle)
			}
			if request := s.cum["main.handles"]; s.flat["[chan receive]"] < request || request < int64(3*time.Second) {
				t.Errorf("[chan receive] %v, of it main.handles, which is a request, %v", time.Duration(s.flat["[chan receive]"]), time.Duration(request))
			}
			for name := range s.cum {
				if strings.HasPrefix(name, "runtime.gopark") || strings.HasPrefix(name, "runtime.bg") {
					t.Errorf("the runtime's own %s is in a stack", name)
				}
			}
			if st := s.Stats(); st.Counts[sampler.Samples] == 0 || st.Threads < 8 {
				t.Errorf("%d samples of %d goroutines", st.Counts[sampler.Samples], st.Threads)
			}
		})
	}
}

// TestRunning: a goroutine that runs is [running] in wall time, and in no wait.
func TestRunning(t *testing.T) {
	for _, unit := range []ccmap.Unit{Wait, Wall} {
		g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
		g.Proceed(t)
		s := attach(t, g.PID(), sampler.ProcessOptions{Unit: unit, Interval: 5 * time.Millisecond})
		s.await(t, 500*time.Millisecond)
		s.end(t)
		if running := s.flat[frameRunning] > 0; running != (unit == Wall) {
			t.Errorf("%v: %v", unit, s.flat)
		}
	}
}

// TestHostile: a target that lies about its goroutines is sampled within bounds, or ends the session.
func TestHostile(t *testing.T) {
	path := build(t, "liar", "-ldflags=-checklinkname=0")
	for _, lie := range []string{"wild", "cycle", "stacks", "endless", "unmaps", "changes"} {
		t.Run(lie, func(t *testing.T) {
			g := enginetest.Start(t, path, lie)
			s := attach(t, g.PID(), sampler.ProcessOptions{Unit: Wall, Interval: 5 * time.Millisecond, Idle: time.Second})
			s.await(t, 100*time.Millisecond)
			g.Proceed(t)
			if line := g.Line(t); line != "lied" {
				t.Fatal(line)
			}
			s.await(t, 2*time.Second)
			s.end(t)
			if n, _ := s.all.Len(); n > 1<<20 {
				t.Errorf("%d goroutines are held", n)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			const most = 256 << 20
			if m.HeapInuse > most {
				t.Errorf("%d MiB are in use", m.HeapInuse>>20)
			}
			for name := range s.flat {
				if !strings.HasPrefix(name, "[") {
					t.Errorf("innermost frame %q", name)
				}
			}
		})
	}
}

// TestRefused: what has no goroutines that are known is refused, with the reason.
func TestRefused(t *testing.T) {
	o := sampler.ProcessOptions{PID: os.Getpid(), Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}}
	if _, err := Open(t.Context(), o); !errors.Is(err, sampler.ErrUnsupported) {
		t.Errorf("CPU time: %v", err)
	}
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Skip(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	o.PID, o.Unit = sleep.Process.Pid, Wait
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrNoTasks) {
		t.Errorf("no Go program: %v", err)
	}
}

// TestGoVersions samples programs that all Go versions have built: see package enginetest. Go 1.18 and 1.19 are
// refused.
func TestGoVersions(t *testing.T) {
	files, err := filepath.Glob(os.Getenv("CCMAPD_GO_VERSIONS"))
	files = slices.DeleteFunc(files, func(path string) bool { return strings.HasSuffix(path, "-cgo") })
	if err != nil || len(files) == 0 {
		t.Skip("CCMAPD_GO_VERSIONS matches no file")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			g := enginetest.Start(t, path)
			if old := filepath.Base(path); strings.HasPrefix(old, "go1.18") || strings.HasPrefix(old, "go1.19") {
				o := sampler.ProcessOptions{PID: g.PID(), Unit: Wait, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}}
				if _, err := Open(t.Context(), o); !errors.Is(err, sampler.ErrProgram) {
					t.Errorf("not refused: %v", err)
				}
				return
			}
			s := attach(t, g.PID(), sampler.ProcessOptions{Unit: Wait, Interval: 5 * time.Millisecond})
			s.await(t, 500*time.Millisecond)
			s.end(t)
			if s.cum["main.main"] == 0 || s.cum[ccmap.UnknownName] != 0 {
				t.Errorf("%v", s.cum)
			}
		})
	}
}

// TestPeriodAfter: the budget makes the period longer, but for the first ticks only up to the time of idle waits.
func TestPeriodAfter(t *testing.T) {
	t.Parallel()
	s := &Source{o: sampler.ProcessOptions{Idle: time.Second}, budget: 0.01}
	s.interval.Store(int64(50 * time.Millisecond))
	for _, c := range []struct {
		ticks      int
		cost, want time.Duration
	}{
		{1, 80 * time.Millisecond, time.Second},
		{idleTicks, 200 * time.Millisecond, 2 * time.Second},
		{idleTicks + 1, 200 * time.Millisecond, 20 * time.Second},
		{1, 5 * time.Millisecond, 500 * time.Millisecond},
		{1, 10 * time.Microsecond, 50 * time.Millisecond},
	} {
		if got := time.Duration(s.periodAfter(c.ticks, c.cost)); got != c.want {
			t.Errorf("after %d ticks of %v: %v, want %v", c.ticks, c.cost, got, c.want)
		}
	}
}

// TestStarted: a program that has had no CPU time may still begin, though not for ever.
func TestStarted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		age, used     time.Duration
		stopped, want bool
	}{
		{time.Second, time.Second, false, false},
		{3 * time.Second, 10 * time.Millisecond, false, false},
		{3 * time.Second, time.Second, false, true},
		{3 * time.Second, time.Second, true, false},
		{30 * time.Second, 0, false, false},
		{2 * time.Minute, 0, true, true},
	} {
		if got := started(c.age, c.used, c.stopped); got != c.want {
			t.Errorf("after %v and %v of CPU time, stopped %v: %v, want %v", c.age, c.used, c.stopped, got, c.want)
		}
	}
}
