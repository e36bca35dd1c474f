package daemon

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestNamesOfProcess: a process whose own profiles bring too many names gets a new map.
func TestNamesOfProcess(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		first := web(7)
		first.err = fmt.Errorf("profile http://127.0.0.1:1: %w: 16 MiB", served.ErrNames)
		p := h.start(first)
		awaitMethod(t, d, "main.work")
		later := web(7)
		later.method = "main.later"
		h.exec(p, later)
		got := awaitMethod(t, d, "main.later")
		if got["main.work"] > 0 {
			t.Errorf("the map goes on: %v", got)
		}
	})
}

// awaitMethod waits until the target web has samples of a method.
func awaitMethod(t *testing.T, d *Daemon, method string) map[string]int64 {
	t.Helper()
	for range 900 {
		if s, err := d.Snapshot(t.Context(), "web", 0); err == nil {
			found := make(map[string]int64)
			for m := range s.Methods() {
				found[m.Method().Name] = m.Total().Samples
			}
			if found[method] > 0 {
				return found
			}
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%s is awaited in vain: %+v", method, mustTarget(t, d, "web"))
	return nil
}

// ownProfiles is a source of a process's own profiles. Its samples are of main.served.
type ownProfiles struct {
	*fakeSource
	finished chan struct{}
	finish   sync.Once
}

func (s *ownProfiles) Finish() { s.finish.Do(func() { close(s.finished) }) }

func (s *ownProfiles) Info() sampler.Info {
	info := s.fakeSource.Info()
	info.Engine = engine.PProfHTTP
	return info
}

func (s *ownProfiles) Run(ctx context.Context) (sampler.Ending, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer s.Finish() // so that the goroutine ends
	go func() {
		<-s.finished
		stop()
	}()
	return s.fakeSource.Run(ctx)
}

// lastResort makes a daemon come to processes' own profiles as long as a better engine is forbidden. It counts
// the times that the better engine is tried.
func lastResort(h *fakeHost, d *Daemon, permitted *atomic.Bool) (tries *atomic.Int64) {
	tries = new(atomic.Int64)
	better := engine.Engine{Name: "better", Open: func(ctx context.Context, o sampler.ProcessOptions) (engine.Source, error) {
		tries.Add(1)
		if !permitted.Load() {
			return nil, errRefused
		}
		return h.open(ctx, o)
	}}
	last := engine.Engine{Name: engine.PProfHTTP, Open: func(_ context.Context, o sampler.ProcessOptions) (engine.Source, error) {
		p, err := h.of(o.PID)
		if err != nil {
			return nil, err
		}
		of := *p
		of.method = "main.served"
		return &ownProfiles{fakeSource: &fakeSource{h: h, p: &of, sink: o.Sink, interval: o.Interval}, finished: make(chan struct{})}, nil
	}}
	d.engines = []engine.Engine{better, last}
	return tries
}

// TestBetterEngine: a process whose own profiles are taken is sampled by a better engine once that is
// permitted. Its map goes on, with each sample once.
func TestBetterEngine(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		var permitted atomic.Bool
		tries := lastResort(h, d, &permitted)
		begun := time.Now()
		h.start(web(7))
		awaitMethod(t, d, "main.served")
		time.Sleep(25 * time.Minute)
		if n := tries.Load(); n < 3 || n > 4 {
			t.Errorf("the better engine was tried %d times in 25 minutes, want at first and once in ten minutes", n)
		}
		permitted.Store(true)
		got := awaitMethod(t, d, "main.work")
		took := time.Since(begun)
		if sum, want := got["main.served"]+got["main.work"], int64(took/(10*time.Millisecond)); sum > want || sum < want-500 {
			t.Errorf("%v, want %d samples in all, but for the scan and the change", got, want)
		}
		s := mustTarget(t, d, "web")
		if p := s.Processes[0]; p.Engine != "fake" || p.State != Sampling || s.Failures != 0 || s.Restarts != 0 {
			t.Errorf("%+v", s)
		}
		n := tries.Load()
		time.Sleep(2 * betterEvery)
		if tries.Load() != n {
			t.Error("the best engine is looked for again")
		}
	})
}

// TestEngineAsConfigured: an engine that the configuration asks for is not changed, and the end of a
// process ends the looks.
func TestEngineAsConfigured(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Targets[0].Engine = engine.PProfHTTP })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		var permitted atomic.Bool
		permitted.Store(true)
		tries := lastResort(h, d, &permitted)
		p := h.start(web(7))
		awaitMethod(t, d, "main.served")
		time.Sleep(2 * betterEvery)
		h.kill(p)
		time.Sleep(time.Minute)
		if n := tries.Load(); n != 0 || mustTarget(t, d, "web").State != Waiting {
			t.Errorf("another engine was tried %d times: %+v", n, mustTarget(t, d, "web"))
		}
	})
}
