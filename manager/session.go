package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

// Session is a manager in a goroutine of its own, for a program that profiles code
// that it runs itself.
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

// errStopped is the cause of the ending after Stop.
var errStopped = errors.New("as asked for")

// Start begins a session for a target that runs in this process, and returns at
// once. It is New and Run with [Config.Embedded] set. If the source has a queue and
// names of its own, as the sources in sampler/wasm and sampler/starlark have, the
// configuration needs the source only:
//
//	session, err := manager.Start(ctx, manager.Config{Source: profiler})
//
// The session lasts until [Session.Stop], the context's end, the source's end or
// [Config.Until], and has a goroutine until then. Its interval is tuned, unless
// [Config.FixedInterval] is set or the source has no interval.
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

func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	defer s.stop(nil)
	s.report, s.err = s.manager.Run(ctx)
}

// Snapshot returns the map as it was published last and asks for a newer snapshot,
// as [Manager.Snapshot] does. It never waits: a program that reads now and then gets
// the snapshot that its last read asked for. Once the session is done, Snapshot
// returns the final one.
func (s *Session) Snapshot() *ccmap.Snapshot { return s.manager.Snapshot() }

// Status returns the state at the end of the last turn.
func (s *Session) Status() Status { return s.manager.Status() }

// Done is closed when the session has ended and its dumps are written.
func (s *Session) Done() <-chan struct{} { return s.done }

// Stop ends the session, waits until all samples are folded and
// all dumps are written, and returns the results of Run. Every further call returns
// the same.
func (s *Session) Stop() (Report, error) {
	s.stop(errStopped)
	<-s.done
	return s.report, s.err
}

// EmbeddedSampleCost is the CPU time of a sample that a target in this process takes
// itself. WebAssembly takes 1.3 to 3.5 µs, at 10 to 1,000 frames, in a loop
// (BenchmarkSample of package wasm), and more where caches are cold.
const EmbeddedSampleCost = 5 * time.Microsecond

// addTuner adds the default tuner of a session in this process.
func (c *Config) addTuner() error {
	if c.Tuner != nil || c.FixedInterval || c.Source == nil {
		return nil
	}
	stats := c.Source.Stats()
	if stats.Interval <= 0 || stats.Unit == ccmap.Instructions {
		return nil // the VM records everything, or asks for samples itself
	}
	tuner, err := tuning.New(tuning.Config{Initial: stats.Interval, SampleCost: EmbeddedSampleCost})
	if err != nil {
		return fmt.Errorf("configure manager: %w", err)
	}
	c.Tuner = tuner
	return nil
}

// embeddedBytes bounds the map that connect makes.
const embeddedBytes = 64 << 20

// connect takes the queue and the names from a source that has a sink of its own, and
// makes the map.
func (c *Config) connect() error {
	own, ok := c.Source.(interface{ Sink() sampler.Sink })
	if !ok {
		return nil
	}
	sink := own.Sink()
	if c.Queue == nil {
		c.Queue = sink.Queue
	}
	if c.Map == nil {
		c.Map = ccmap.New(ccmap.Options{Names: sink.Names, MaxBytes: embeddedBytes})
		c.Map.Meta().Target, c.Map.Meta().Engine = thisProcess(), engineOf(c.Source)
	}
	if c.Queue != sink.Queue || c.Map.Names() != sink.Names {
		return errors.New("configure manager: the source delivers into another queue, or methods of other names")
	}
	return nil
}

// engineOf returns the name of a source that has a sink of its own: the result of its
// method Engine() string, or "managed" without that method.
func engineOf(s sampler.Source) string {
	if named, ok := s.(interface{ Engine() string }); ok {
		return named.Engine()
	}
	return "managed"
}

// thisProcess describes this process as the target.
func thisProcess() ccmap.Target {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0] // without /proc nothing better is known
	}
	return ccmap.Target{PID: os.Getpid(), Executable: path, CommandLine: os.Args, Runtime: runtime.Version()}
}
