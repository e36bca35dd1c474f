package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// TestEngine samples all targets through the same rings; the other tests have rings for each. It wants
// few callers of the race detector: 62 to 71 % are found here, and fewer on a slower machine, which reads
// the goroutine's stack later.
func TestEngine(t *testing.T) {
	r := sharedRings(t)
	enginetest.Run(t, func(ctx context.Context, o Options) (enginetest.Source, error) { return r.Open(ctx, o) }, 0.2)
}

// attach opens a source on a process, with whatever of o is set.
func attach(t testing.TB, pid int, o Options) (*Source, sampler.Sink) {
	t.Helper()
	return enginetest.Attach(t, Open, pid, o)
}

// sampleWhole starts a workload, attaches to it, lets it run to its end and returns its
// samples.
func sampleWhole(t testing.TB, o Options, path string, args ...string) ([]enginetest.Sample, *Source) {
	t.Helper()
	g := enginetest.Start(t, path, args...)
	samples, s := enginetest.Whole(t, Open, g, o)
	return samples, s
}

// TestLeftSamplesAreLost: samples that a session does not come to take at its end are
// counted as lost, each of them.
func TestLeftSamplesAreLost(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	g.Proceed(t)
	for name, end := range map[string]func(*drainer){
		"no time left": func(d *drainer) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			records{d}.TakeLast(ctx)
			records{d}.Settle()
		},
		"memory hangs": func(d *drainer) { records{d}.Settle() },
	} {
		s, _ := attach(t, g.PID(), Options{Interval: time.Millisecond})
		d := s.drainer
		local := d.Sink.Queue.Ring()
		d.Local = local
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
		local.Close()
		s.Close()
	}
}

// samplesIn counts the samples in rings, which stay there.
func samplesIn(r *Rings) (n uint64) {
	for _, out := range r.ofCPUs() {
		for _, copied := range []perfevent.Ring{*out.prompt, *out.bulk} {
			copied.Refresh()
			for ok, _ := copied.Peek(); ok; ok, _ = copied.Peek() {
				if copied.Next.Kind == unix.PERF_RECORD_SAMPLE {
					n++
				}
				copied.Advance()
			}
		}
	}
	return n
}

// TestSetInterval: a change reaches every thread.
func TestSetInterval(t *testing.T) {
	t.Parallel()
	g := enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000")
	s, sink := attach(t, g.PID(), Options{Interval: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := s.Run(ctx)
		done <- err
	}()
	g.Proceed(t)
	enginetest.AwaitSamples(t, s, 10)
	if err := s.SetInterval(2 * time.Millisecond); err != nil {
		t.Error(err)
	}
	changed := perfevent.Monotonic()
	enginetest.AwaitSamples(t, s, s.Stats().Counts[sampler.Samples]+200)
	t.Logf("%d threads took %v", s.Stats().Threads, s.Stats().LastChange)
	if err := s.SetInterval(-1); err == nil {
		t.Error("a negative interval was taken")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	checkPeriods(t, enginetest.Drained(sink), changed)
	if got := s.Stats().Interval; got != 2*time.Millisecond {
		t.Errorf("interval is %v", got)
	}
}

// checkPeriods wants every weight from after a moment to be that of 2 ms, and some
// from before it to be that of 50 ms: a period near that, with what a change of it
// has cut off or, until the drainer has seen the first sample, a part of it. Once a second weights
// get a factor by which they follow the CPU clock: 0.5 to 1.1 (sampler/internal/taker).
func checkPeriods(t *testing.T, samples []enginetest.Sample, changed int64) {
	t.Helper()
	const (
		short, long = 2 * time.Millisecond, 50 * time.Millisecond
		least, most = 0.5, 1.1 // factors
	)
	longs := 0
	for _, smp := range samples {
		weight := time.Duration(smp.Weight)
		tooLong := smp.Time > changed && float64(weight) > most*2*(1+perfevent.MostSpread)*float64(short)
		if tooLong || float64(weight) < least*float64(perfevent.LeastInterval) {
			t.Errorf("sample %v after the change has period %v", time.Duration(smp.Time-changed), weight)
		}
		if float64(weight) >= least*(1-perfevent.MostSpread)*float64(long) {
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
	s, _ := attach(t, enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000").PID(), Options{})
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

func TestExplain(t *testing.T) {
	t.Parallel()
	locked := fmt.Errorf("map ring: %w: %w", perfevent.ErrLockedMemory, unix.EPERM)
	if err := explain(os.Getpid(), locked); !errors.Is(err, sampler.ErrPermission) || !strings.Contains(err.Error(), "ulimit -l") || strings.Contains(err.Error(), "seccomp") {
		t.Errorf("locked memory: %v", err)
	}
	for errno, want := range map[unix.Errno]error{
		unix.ESRCH:  sampler.ErrNoProcess,
		unix.EACCES: sampler.ErrPermission,
		unix.EPERM:  sampler.ErrPermission,
		unix.ENOSYS: sampler.ErrUnsupported,
		unix.EMFILE: sampler.ErrPermission,
	} {
		if err := explain(os.Getpid(), errno); !errors.Is(err, want) || !errors.Is(err, errno) {
			t.Errorf("%v becomes %v, which is not %v", errno, err, want)
		}
	}
}
