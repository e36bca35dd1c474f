package manager

import (
	"context"
	"errors"
	"fmt"
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
// once. The configuration needs the source only:
//
//	session, err := manager.Start(ctx, manager.Config{Source: profiler})
//
// The session lasts until [Session.Stop], the context's end, the source's end or
// [Config.Until], and has a goroutine until then. Its interval is tuned, unless
// [Config.FixedInterval] is set or the source has no interval.
func Start(ctx context.Context, c Config) (*Session, error) {
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

// Fresh waits for a snapshot that is published after the call, as [Manager.Fresh] does.
func (s *Session) Fresh(ctx context.Context) (*ccmap.Snapshot, error) { return s.manager.Fresh(ctx) }

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
	interval := c.Source.Stats().Interval
	if _, tunable := c.Source.(sampler.Tunable); !tunable || interval <= 0 || c.Source.Info().Unit != ccmap.CPUTime {
		return nil // the VM records everything, or asks for samples itself
	}
	tuner, err := tuning.New(tuning.Config{Initial: interval, SampleCost: EmbeddedSampleCost})
	if err != nil {
		return fmt.Errorf("configure manager: %w", err)
	}
	c.Tuner = tuner
	return nil
}

// defaultBytes bounds the map that connect makes.
const defaultBytes = 64 << 20

// connect makes a map unless the caller gave one, and checks that the source delivers to it.
func (c *Config) connect(info sampler.Info) error {
	if info.Sink.Queue == nil || info.Sink.Names == nil {
		return errors.New("configure manager: the source has no queue or no names")
	}
	if _, tunable := c.Source.(sampler.Tunable); c.Tuner != nil && !tunable {
		return errors.New("configure manager: a tuner for a source whose interval cannot be changed")
	}
	if c.Map == nil {
		c.Map = ccmap.New(ccmap.Options{Names: info.Sink.Names, MaxBytes: defaultBytes})
		c.Map.Meta().Target, c.Map.Meta().Engine = info.Target, info.Engine
	}
	if c.Map.Names() != info.Sink.Names {
		return errors.New("configure manager: the source delivers methods of other names")
	}
	return nil
}
