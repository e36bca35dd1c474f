package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

const (
	// tick is the longest time between two turns. The tuner's clock and the
	// figures of an idle target advance by it.
	tick = 250 * time.Millisecond

	// rest is how long samples wait for the next turn after one that they have
	// caused. It spares a busy source the waking of the manager (see
	// queue.Queue.Ready), and is far below the time in which a ring fills.
	rest = time.Millisecond
)

// Manager runs one session.
//
//	config       written by New only
//	start … stop of the manager's goroutine, the one in Run
//	latest       atomic; written by the manager, read by any goroutine
//	asked        a token is there if a reader wants a newer snapshot
//	status       under mu; written by the manager once a turn
type Manager struct {
	config Config

	start     time.Time
	clock     int64 // CLOCK_MONOTONIC, ns, at the start
	turn      turn
	sampled   int64         // ns of the target's CPU time that was folded
	cpu       time.Duration // of this process, at the last observation
	comments  []string      // of the metadata at the start
	loss      ccmap.Loss    // outside the map, as its metadata has it
	published time.Time     // when latest was
	stale     bool          // the map has changed since
	hot       hotness
	settling  *settling
	values    *values
	reached   bool                    // the goal is
	stop      context.CancelCauseFunc // ends the session

	latest atomic.Pointer[ccmap.Snapshot]
	asked  chan struct{} // capacity 1

	mu     sync.Mutex
	status Status
}

// Report says how a session went.
type Report struct {
	Ending   sampler.Ending
	Snapshot *ccmap.Snapshot // final
	Source   sampler.Stats
	Queue    queue.Stats
	CPU      time.Duration // that this process used during the session; 0 if embedded
	Written  []string      // names of the dumps that were written
	Reached  bool          // whether the goal was
	Drift    bool          // the program did something else in the end than before
	Values   ValueStats
}

// New returns a manager for one session. It takes a first, empty snapshot.
func New(c Config) (*Manager, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	m := &Manager{
		config:   c,
		asked:    make(chan struct{}, 1),
		hot:      newHotness(c),
		settling: newSettling(),
		values:   newValues(c.Values, c.Map.Names(), c.Logger),
	}
	m.latest.Store(c.Map.Snapshot())
	return m, nil
}

// Run samples until the context is done, the target has ended or the goal is
// reached, and then writes the dumps. It is called once. The cause of the context becomes part of
// the ending's reason.
//
// The report is valid beside an error, too, with all that was sampled before.
// The error joins the source's and those of the dumps that could not be
// written. Only if the source fails without a single sample, no dump is written.
func (m *Manager) Run(ctx context.Context) (Report, error) {
	ctx, m.stop = context.WithCancelCause(ctx)
	defer m.stop(nil)
	began := m.begin()
	ending, err := m.sample(ctx)
	if !ending.Exited && ctx.Err() != nil {
		ending.Reason = "stopped: " + context.Cause(ctx).Error()
	}
	m.end(ending)
	r := Report{
		Ending:   ending,
		Snapshot: m.latest.Load(),
		Source:   m.config.Source.Stats(),
		Queue:    m.config.Queue.Stats(),
		CPU:      m.daemonCPU() - began,
		Reached:  m.reached,
		Drift:    m.settling.answer.drift,
		Values:   m.values.stats(),
	}
	if err != nil && r.Snapshot.Total().Samples == 0 {
		return r, err
	}
	written, failed := m.dump(r.Snapshot)
	r.Written = written
	return r, errors.Join(err, failed)
}

// sample runs the source beside the manager's turns, until the source returns.
func (m *Manager) sample(ctx context.Context) (ending sampler.Ending, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ending, err = m.config.Source.Run(ctx)
	}()
	go m.settling.work()
	m.takeTurns(done)
	return ending, err
}

// takeTurns returns when done is closed, before a last turn.
func (m *Manager) takeTurns(done <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	asked := m.asked
	var due <-chan time.Time // a snapshot that was asked for
	for {
		select {
		case <-done:
			return
		case <-m.config.Queue.Ready():
			m.takeTurn()
			time.Sleep(rest)
		case <-ticker.C:
			m.takeTurn()
		case <-asked:
			asked, due = nil, time.After(m.config.PublishEvery-time.Since(m.published))
		case a := <-m.settling.answers:
			m.learn(a)
		case <-due:
			asked, due = m.asked, nil
			m.publish()
		}
	}
}

// begin opens the session's metadata and returns the CPU time used before.
func (m *Manager) begin() time.Duration {
	m.start, m.clock = time.Now(), monotonic()
	m.cpu = m.daemonCPU()
	meta := m.config.Map.Meta()
	if meta.Start.IsZero() {
		meta.Start = m.start.UTC()
	}
	m.comments = slices.Clip(meta.Comments)
	m.keepInterval(0, "initial")
	m.show()
	return m.cpu
}

// end takes the last turn, in which all that the source has pushed is folded,
// and closes the metadata.
func (m *Manager) end(e sampler.Ending) {
	m.takeTurn()
	m.settleFinally()
	m.config.Map.Meta().Ended = e.Reason
	m.stale, m.values.earliest = true, time.Time{}
	m.publish()
	m.hot.look(m.latest.Load())
}
