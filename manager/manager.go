package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// Manager runs one session.
//
//	config, info written by New only
//	start … stop owned by the manager's goroutine, which runs Run
//	latest       atomic; written by the manager, read by any goroutine
//	asked        holds a token if a reader wants a newer snapshot
//	maxBytes     atomic; any goroutine sets it, the manager takes it once a turn
//	next, status under mu; written by the manager
type Manager struct {
	config Config
	info   sampler.Info // of the source

	profiles <-chan *ccmap.Map // of a ProfileSource; nil: the source has none

	start        time.Time
	clock        int64         // CLOCK_MONOTONIC, ns, at the start
	earlier      ccmap.Meta    // of the map's earlier sessions; zero in a new map
	offset       time.Duration // of the start, since the map's Start
	turn         turn
	admission    admission
	sampled      int64         // ns of the target's CPU time that was folded
	cpu          time.Duration // of this process, when it was measured last
	measured     time.Time     // then
	unmeasured   int           // samples since
	later        string        // reason of a change of the interval that the source has not made yet; empty: there is none
	comments     []string      // of the metadata at the start, without the overhead of an earlier session
	loss         ccmap.Loss    // outside the map, as the metadata has it
	overhead     overhead      // of sampling
	held         held          // by a budget, since the last turn
	published    time.Time     // time of the last publication
	stale        bool          // the map has changed since the last publication
	hot          hotness
	convergence  *convergence
	values       *values
	counting     sampler.Counting        // nil: the target keeps no profile of its own
	counted      uint64                  // version of that profile in the map
	countedSites int                     // call sites in that profile
	reached      bool                    // the goal is reached
	stop         context.CancelCauseFunc // ends the session

	latest   atomic.Pointer[ccmap.Snapshot]
	asked    chan struct{} // capacity 1
	ended    chan struct{} // closed when the final snapshot is published
	maxBytes atomic.Int64  // of the map; 0: as before

	mu     sync.Mutex
	next   chan struct{} // closed by the publication that begins next
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
	Reached  bool          // the goal was reached
	Drift    bool          // in the end the program did something else than before
	Values   ValueStats
}

// New returns a manager for one session. It takes a first snapshot.
func New(c Config) (*Manager, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	m := &Manager{
		config:      c,
		admission:   admission{ask: c.Admit},
		info:        c.Source.Info(),
		asked:       make(chan struct{}, 1),
		ended:       make(chan struct{}),
		next:        make(chan struct{}),
		hot:         newHotness(c),
		convergence: newConvergence(),
		values:      newValues(c.Values, c.Map.Names(), c.Logger),
	}
	first := c.Map.Snapshot()
	m.earlier = first.Meta()
	m.values.resume(first.Points())
	m.hot.resume(first)
	m.latest.Store(first)
	m.counting, _ = c.Source.(sampler.Counting)
	if s, ok := c.Source.(ProfileSource); ok {
		m.profiles = s.Profiles()
	}
	return m, nil
}

// Run samples until the context is done, the target has ended or the goal is
// reached, and then writes the dumps. Call it once. The reason of the ending
// includes the cause of the context.
//
// The report is valid even with an error, and has all samples up to it. The error
// joins the source's error and the errors of dumps that could not be written. If
// the source fails without a single sample, Run writes no dump.
func (m *Manager) Run(ctx context.Context) (Report, error) {
	ctx, m.stop = context.WithCancelCause(ctx)
	defer m.stop(nil)
	began := m.beginSession()
	ending, err := m.sample(ctx)
	if !ending.Exited && ctx.Err() != nil && (err == nil || ending.Reason != "") {
		ending.Reason = "stopped: " + context.Cause(ctx).Error()
	}
	m.endSession(ending)
	r := Report{
		Ending:   ending,
		Snapshot: m.latest.Load(),
		Source:   m.config.Source.Stats(),
		Queue:    m.info.Sink.Queue.Stats(),
		CPU:      m.daemonCPU() - began,
		Reached:  m.reached,
		Drift:    m.convergence.answer.drift,
		Values:   m.valueStats(),
	}
	if err != nil && r.Snapshot.Total().Samples == 0 {
		return r, err
	}
	written, failed := m.dump(r.Snapshot)
	r.Written = written
	return r, errors.Join(err, failed)
}

// beginSession opens the session's metadata and returns the CPU time used before.
func (m *Manager) beginSession() time.Duration {
	m.start, m.clock = time.Now(), monotonic()
	m.cpu, m.measured = m.daemonCPU(), m.start
	meta := m.config.Map.Meta()
	if meta.Start.IsZero() {
		meta.Start = m.start.UTC()
	}
	m.offset = max(m.start.Sub(meta.Start), 0)
	m.comments, meta.Ended = slices.DeleteFunc(slices.Clone(meta.Comments), isOfSession), ""
	m.keepInterval(0, "initial")
	m.show(m.start)
	return m.cpu
}

// sample runs the source beside the manager's turns, until the source returns.
func (m *Manager) sample(ctx context.Context) (ending sampler.Ending, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ending, err = m.config.Source.Run(ctx)
	}()
	go m.convergence.work()
	m.takeTurns(done)
	return ending, err
}

// endSession takes the last turn, which folds the rest of the source's samples, closes
// the metadata, and publishes the final snapshot.
func (m *Manager) endSession(e sampler.Ending) {
	m.takeTurn()
	m.judgeFinally()
	m.config.Map.Meta().Ended = e.Reason
	m.stale, m.values.earliest = true, time.Time{}
	m.publish()
	close(m.ended)
	m.hot.end(m.latest.Load())
}

// dump writes all dumps, even after one has failed, and returns the names of the
// dumps written.
func (m *Manager) dump(s *ccmap.Snapshot) (written []string, err error) {
	for _, d := range m.config.Dumps {
		if failed := d.Write(s); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		written = append(written, d.Name)
	}
	return written, err
}

// monotonic returns CLOCK_MONOTONIC in ns, the clock of samples.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux has the clock since 2.6 (clock_gettime(2))
	}
	return t.Nano()
}
