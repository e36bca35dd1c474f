package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/tuning"
)

// Session is a manager in a goroutine of its own, for a program that profiles
// what it runs itself.
//
//	manager, stop, done  set by Start
//	report, err          written by the session's goroutine before it closes done
//
// Any goroutine may call its methods at any time.
type Session struct {
	manager *Manager
	stop    context.CancelCauseFunc
	done    chan struct{}

	report Report
	err    error
}

// errStopped is why a session ends that was stopped.
var errStopped = errors.New("as asked for")

// Start begins a session for a target that runs in this process, and returns at
// once. It is New and Run with [Config.Embedded] set. Of the configuration it
// needs the source alone, if that has a queue and names of its own, as those of
// packages sampler/wasm and sampler/starlark have:
//
//	session, err := manager.Start(ctx, manager.Config{Source: profiler})
//
// The session lasts until [Session.Stop], the context's end, the source's end or
// [Config.Until], and has a goroutine until then. Its interval is tuned, unless
// [Config.FixedInterval] is set or the source has none.
func Start(ctx context.Context, c Config) (*Session, error) {
	c.Embedded = true
	if err := c.addTuner(); err != nil {
		return nil, err
	}
	m, err := New(c)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	s := &Session{manager: m, stop: stop, done: make(chan struct{})}
	go s.run(ctx)
	return s, nil
}

// EmbeddedSampleCost is the CPU time of a sample that a target in this process takes
// itself: WebAssembly 1.3 to 3.5 µs, at 10 to 1,000 frames, in a loop (BenchmarkSample
// of package wasm), and more where caches are cold.
const EmbeddedSampleCost = 5 * time.Microsecond

// addTuner adds the tuner that a session in this process has by default.
func (c *Config) addTuner() error {
	if c.Tuner != nil || c.FixedInterval || c.Source == nil {
		return nil
	}
	stats := c.Source.Stats()
	if stats.Interval <= 0 || stats.Unit == ccmap.Instructions {
		return nil // what is executed is recorded whole, or sampled when the VM asks for it
	}
	tuner, err := tuning.New(tuning.Config{Initial: stats.Interval, SampleCost: EmbeddedSampleCost})
	if err != nil {
		return fmt.Errorf("configure manager: %w", err)
	}
	c.Tuner = tuner
	return nil
}

func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	defer s.stop(nil)
	s.report, s.err = s.manager.Run(ctx)
}

// Snapshot returns the map as it was published last and asks for a newer one, as
// [Manager.Snapshot] does. It never waits: a program that reads now and then reads
// what was there at its last look. Once the session is done, it is the final one.
func (s *Session) Snapshot() *ccmap.Snapshot { return s.manager.Snapshot() }

// Status returns the state at the end of the last turn.
func (s *Session) Status() Status { return s.manager.Status() }

// Done is closed when the session has ended and its dumps are written.
func (s *Session) Done() <-chan struct{} { return s.done }

// Stop ends the session if it has not ended, waits until all that was sampled is
// folded and the dumps are written, and returns what Run does. It may be called
// again, and returns the same.
func (s *Session) Stop() (Report, error) {
	s.stop(errStopped)
	<-s.done
	return s.report, s.err
}
