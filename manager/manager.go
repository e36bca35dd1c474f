package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/beat"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/tuning"
)

const (
	// tick is about the longest time between two turns (see package beat). The tuner's clock and
	// the figures of an idle target advance by it, so it is shorter than the time between two
	// drawings of them (see terminal.LiveEvery).
	tick = 400 * time.Millisecond

	// rest is the pause after a turn that samples have caused less than restless after
	// the last one. It spares a busy source from waking the manager (see
	// queue.Queue.Ready). A ring takes far longer to fill. Where samples are rarer, a pause
	// would be one more wake-up.
	rest     = time.Millisecond
	restless = 20 * time.Millisecond
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
	sampled      int64         // ns of the target's CPU time that was folded
	cpu          time.Duration // of this process, when it was measured last
	measured     time.Time     // then
	unmeasured   int           // samples since
	later        string        // reason of a change of the interval that the source has not made yet; empty: there is none
	comments     []string      // of the metadata at the start, without the overhead of an earlier session
	loss         ccmap.Loss    // outside the map, as the metadata has it
	overhead     overhead      // of sampling
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

// Status is the state of a session. Counts are since its start. Nodes, Bytes and Pruned are the map's.
type Status struct {
	Elapsed         time.Duration // at the last turn
	Samples         uint64        // folded
	Caught          uint64        // calls that breakpoints have caught
	Sampled         time.Duration // CPU time of the target that the samples stand for
	Known, Repeated uint64        // samples with a verdict on their top activation, and repetitions
	Interval        time.Duration // CPU time between two samples of one thread
	Verdicts        int           // samples with a verdict that the tuner has for its next decision
	NeededVerdicts  int           // that it needs; 0: it waits for none
	Loss            ccmap.Loss    // at the time of the call
	Threads         int           // attached at the time of the call
	Nodes           int           // of the map
	Bytes           int64         // held by the map
	Pruned          ccmap.PruneStats
	Settled         ccmap.Settled // the last answer; zero if the profile misleads
	Blind           ccmap.Blind   // the last answer
	Drift           bool          // lately the program has done something else than before
}

// New returns a manager for one session. It takes a first snapshot.
func New(c Config) (*Manager, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	m := &Manager{
		config:      c,
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

// begin opens the session's metadata and returns the CPU time used before.
func (m *Manager) begin() time.Duration {
	m.start, m.clock = time.Now(), monotonic()
	m.cpu, m.measured = m.daemonCPU(), m.start
	meta := m.config.Map.Meta()
	if meta.Start.IsZero() {
		meta.Start = m.start.UTC()
	}
	m.offset = max(m.start.Sub(meta.Start), 0)
	m.comments, meta.Ended = slices.DeleteFunc(slices.Clone(meta.Comments), sampler.IsOverhead), ""
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

// takeTurns takes turns until done is closed.
func (m *Manager) takeTurns(done <-chan struct{}) {
	idle := time.NewTimer(beat.Until(time.Now(), tick))
	defer idle.Stop()
	asked := m.asked
	var due <-chan time.Time // when a snapshot that was asked for is due
	var last time.Time       // when samples have caused a turn
	for {
		select {
		case <-done:
			return
		case p := <-m.profiles:
			m.takeProfile(p)
		case <-m.info.Sink.Queue.Ready():
			m.takeTurn()
			if time.Since(last) < restless {
				time.Sleep(rest)
			}
			last = time.Now()
		case <-idle.C:
			m.takeTurn()
			idle.Reset(beat.Until(time.Now(), tick))
		case <-asked:
			asked, due = nil, time.After(m.config.PublishEvery-time.Since(m.published))
		case a := <-m.convergence.answers:
			m.learn(a)
		case <-due:
			asked, due = m.asked, nil
			m.publish()
		}
	}
}

// end takes the last turn, which folds the rest of the source's samples, closes
// the metadata, and publishes the final snapshot.
func (m *Manager) end(e sampler.Ending) {
	m.takeTurn()
	m.judgeFinally()
	m.config.Map.Meta().Ended = e.Reason
	m.stale, m.values.earliest = true, time.Time{}
	m.publish()
	close(m.ended)
	m.hot.look(m.latest.Load())
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

// turn counts the samples and calls that one turn has folded.
type turn struct {
	samples, known, repeated int
	caught                   int   // calls, which are not samples
	weight                   int64 // ns of the target's CPU time
}

// takeTurn folds the samples in the queue, tunes, and looks for hot methods.
func (m *Manager) takeTurn() {
	if bytes := m.maxBytes.Swap(0); bytes != 0 {
		m.config.Map.SetMaxBytes(bytes)
		m.stale = true
	}
	m.turn = turn{}
	m.info.Sink.Queue.Drain(m.fold)
	m.endTurn()
}

// endTurn tunes and publishes after the turn's samples were folded.
func (m *Manager) endTurn() {
	now := time.Now()
	m.keepTurn(now)
	m.tune(now)
	m.askConvergence(now)
	m.show(now)
	if m.hot.due(m.sampled) {
		m.publish()
		m.hot.look(m.latest.Load())
	}
}

// fold takes in a sample or a caught call. The manager does all other work once a
// turn. Only samples of CPU time enter the map.
func (m *Manager) fold(s *ccmap.Sample) {
	t := &m.turn
	if s.Hit {
		t.caught++
		m.values.count(s)
		return
	}
	m.config.Map.Fold(s)
	t.samples++
	t.weight += s.Weight
	if s.Early || s.Top == ccmap.TopUnknown {
		return
	}
	t.known++
	if s.Top == ccmap.TopRepeated {
		t.repeated++
	}
}

// keepTurn adds a turn's counts to the session's counts. The map's window decays
// with time, even without samples.
func (m *Manager) keepTurn(now time.Time) {
	t := m.turn
	meta := m.config.Map.Meta()
	m.stale = m.stale || t.samples+t.caught > 0 || meta.Window > 0
	m.config.Map.Advance(m.clock + int64(now.Sub(m.start)))
	m.sampled += t.weight
	m.convergence.samples += int64(t.samples)
	meta.Known += uint64(t.known)
	meta.Repeated += uint64(t.repeated)
}

// tune reports a turn to the tuner, and sets the interval that the tuner wants. A
// source may make the change later. One that cannot change its interval keeps the old one.
func (m *Manager) tune(now time.Time) {
	if m.config.Tuner == nil {
		return
	}
	at := now.Sub(m.start)
	source := m.config.Source.Stats()
	m.followTuner(at, source.Interval)
	m.overhead.follow(source)
	d, changed := m.config.Tuner.Observe(tuning.Observation{
		At:        at,
		Samples:   m.turn.samples,
		Known:     m.turn.known,
		Repeated:  m.turn.repeated,
		TargetCPU: time.Duration(m.turn.weight),
		DaemonCPU: m.spentCPU(now),

		SampleCost: m.overhead.sample,
		Fixed:      m.overhead.fixed,

		Settled: m.convergence.percent(),
		Drift:   m.convergence.answer.drift,
	})
	if !changed {
		return
	}
	if d.Interval == source.Interval {
		m.config.Logger.Info("keep interval", "at", at, "reason", d.Reason)
		return
	}
	if err := m.config.Source.(sampler.Tunable).SetInterval(d.Interval); err != nil {
		m.config.Logger.Warn("keep interval", "instead of", d.Interval, "reason", d.Reason, "error", err)
		return
	}
	m.later = d.Reason
	m.followTuner(at, m.config.Source.Stats().Interval)
}

// followTuner keeps a change of the interval with its reason when the source has made it, which
// may be at once.
func (m *Manager) followTuner(at, is time.Duration) {
	changes := m.config.Map.Meta().Interval
	if m.later != "" && is != changes[len(changes)-1].Interval {
		m.keepInterval(at, m.later)
		m.later = ""
	}
}

// overhead is the latest cost of sampling to the target, in the form that the tuner takes.
type overhead struct {
	sample time.Duration // of one sample, with verdicts, and interrupts that took none; 0: not known
	fixed  float64       // part of the target's CPU time

	samples  uint64           // at the last change of sample
	sampled  sampler.Overhead // then
	switched sampler.Overhead // at the last change of fixed
}

// follow takes in the figures of the source. The source counts switches once in a second
// or so.
func (o *overhead) follow(s sampler.Stats) {
	now := s.Overhead
	if n := s.Counts[sampler.Samples]; n > o.samples && now.Of > 0 {
		o.sample = (now.Sampling() - o.sampled.Sampling()) / time.Duration(n-o.samples)
		o.samples, o.sampled = n, now
	}
	if cost := now.Fixed() - o.switched.Fixed(); cost > 0 && now.Of > o.switched.Of {
		o.fixed = float64(cost) / float64(now.Of-o.switched.Of)
		o.switched = now
	}
}

// mostChanges bounds the changes of the interval that the metadata keeps: a map may go on
// for months.
const mostChanges = 1000

// keepInterval logs the interval in force and keeps it in the metadata. The source
// may have clamped the interval that it was given. A session that begins with the last interval of
// the session before it changes nothing.
func (m *Manager) keepInterval(at time.Duration, reason string) {
	is := m.config.Source.Stats().Interval
	meta := m.config.Map.Meta()
	m.config.Logger.Info("set interval", "to", is, "at", at, "reason", reason)
	change := ccmap.IntervalChange{At: m.offset + at, Interval: is, Reason: reason}
	if n := len(meta.Interval); n > 0 {
		last := meta.Interval[n-1]
		if at == 0 && last.Interval == is {
			return
		}
		change.At = max(change.At, last.At) // the clock may have been set back
	}
	meta.Interval = append(meta.Interval, change)
	if len(meta.Interval) > mostChanges {
		meta.Interval = slices.Delete(meta.Interval, 1, 2)
	}
}

// measuredSamples is after how many samples the session's CPU time is asked for again: the call costs
// as much as a sample.
const measuredSamples = 100

// spentCPU returns the CPU time that the session has cost since it was asked for last, and 0 if that
// was a few samples and less than half a tick ago.
func (m *Manager) spentCPU(now time.Time) time.Duration {
	m.unmeasured += m.turn.samples
	if m.unmeasured < measuredSamples && now.Sub(m.measured) < tick/2 {
		return 0
	}
	cpu := m.daemonCPU()
	spent := cpu - m.cpu
	m.cpu, m.measured, m.unmeasured = cpu, now, 0
	return spent
}

// daemonCPU returns the CPU time that the session has cost. It returns 0 if the
// target runs in this process.
func (m *Manager) daemonCPU() time.Duration {
	switch {
	case m.info.Embedded:
		return 0
	case m.config.DaemonCPU != nil:
		return m.config.DaemonCPU()
	}
	return processCPU()
}

// SetMaxBytes changes the bound of the map, from the next turn on; 0 or less: no bound. Any goroutine
// may call it.
func (m *Manager) SetMaxBytes(bytes int64) {
	const none = -1
	m.maxBytes.Store(cmp.Or(bytes, none))
}

// Snapshot returns the map as it was published last, and asks for a newer snapshot.
// The manager publishes it within [Config.PublishEvery] and a turn if anything has
// changed. Its profile points may be a second older, or more if there are very many.
// Without readers the manager publishes nothing. So the first call after a pause
// returns a snapshot as old as the pause. After Run has returned, Snapshot returns
// the final one.
//
// Any goroutine may call it at any time. It never waits.
func (m *Manager) Snapshot() *ccmap.Snapshot {
	select {
	case m.asked <- struct{}{}:
	default:
	}
	return m.latest.Load()
}

// Fresh returns a snapshot that is published after the call, or the final one. It waits for
// [Config.PublishEvery] and a turn at most. Any goroutine may call it while the session runs, and
// after. An error means that ctx is done.
func (m *Manager) Fresh(ctx context.Context) (*ccmap.Snapshot, error) {
	m.mu.Lock()
	next := m.next
	m.mu.Unlock()
	last := m.Snapshot()
	select {
	case <-next:
		return m.latest.Load(), nil
	case <-m.ended:
		return m.latest.Load(), nil
	case <-ctx.Done():
		return last, fmt.Errorf("wait for snapshot: %w", context.Cause(ctx))
	}
}

// publish makes the present map the latest snapshot if the map has changed.
func (m *Manager) publish() {
	defer close(m.beginPublication())
	m.published = time.Now()
	m.keepCounted()
	if !m.stale {
		return
	}
	m.stale = !m.keepPoints()
	m.keepLoss()
	m.config.Map.Meta().Duration = m.earlier.Duration + time.Since(m.start)
	m.latest.Store(m.config.Map.Snapshot())
}

// beginPublication returns the channel that all readers wait for that have asked before.
func (m *Manager) beginPublication() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	waited := m.next
	m.next = make(chan struct{})
	return waited
}

// keepLoss enters the losses between target and map into the map's metadata, beside
// the losses that the map itself has counted there.
func (m *Manager) keepLoss() {
	stats := m.config.Source.Stats()
	m.keepComments(stats.Overhead.String(), stats.Warning, m.values.phased.warning())
	now := stats.Loss
	now.Queue += m.info.Sink.Queue.Stats().Dropped
	l := &m.config.Map.Meta().Loss
	sum := m.earlier.Loss.Add(now)
	sum.Corrupt = l.Corrupt + now.Corrupt - m.loss.Corrupt // the map counts these two, too
	sum.Orphaned = l.Orphaned + now.Orphaned - m.loss.Orphaned
	*l, m.loss = sum, now
}

// keepComments adds the overhead, if it is known, and the warnings that are not empty to
// the comments of the start, which may have the same warnings of an earlier session.
func (m *Manager) keepComments(overhead string, warnings ...string) {
	comments := slices.Clone(m.comments)
	if overhead != "" {
		comments = append(comments, overhead)
	}
	for _, warning := range warnings {
		if c := ccmap.CommentWarning + warning; warning != "" && !slices.Contains(comments, c) {
			comments = append(comments, c)
		}
	}
	m.config.Map.Meta().Comments = comments
}

// Status returns the state at the end of the last turn. Any goroutine may call
// it at any time.
func (m *Manager) Status() Status {
	m.mu.Lock()
	s := m.status
	m.mu.Unlock()
	source := m.config.Source.Stats()
	s.Threads = source.Threads
	s.Loss = s.Loss.Add(source.Loss)
	s.Loss.Queue += m.info.Sink.Queue.Stats().Dropped
	return s
}

// show updates the state that Status returns. It sets only the losses that the map
// has counted. Status adds the others.
func (m *Manager) show(now time.Time) {
	meta := m.config.Map.Meta()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.status
	s.Elapsed = now.Sub(m.start)
	s.Samples += uint64(m.turn.samples)
	s.Caught += uint64(m.turn.caught)
	s.Sampled = time.Duration(m.sampled)
	s.Known, s.Repeated = meta.Known-m.earlier.Known, meta.Repeated-m.earlier.Repeated
	if m.config.Tuner != nil {
		s.Verdicts, s.NeededVerdicts = m.config.Tuner.Verdicts()
	}
	s.Interval = meta.Interval[len(meta.Interval)-1].Interval
	s.Loss = ccmap.Loss{
		Corrupt:  meta.Loss.Corrupt - m.earlier.Loss.Corrupt - m.loss.Corrupt,
		Orphaned: meta.Loss.Orphaned - m.earlier.Loss.Orphaned - m.loss.Orphaned,
	}
	s.Nodes, s.Bytes = m.config.Map.Len(), m.config.Map.Bytes()
	s.Pruned, s.Settled, s.Blind = meta.Pruned, meta.Settled, m.convergence.answer.blind
	s.Drift = m.convergence.answer.drift
}

// processCPU returns the CPU time that this process has used, in user and
// kernel mode. Getrusage of the process itself does not fail (getrusage(2)).
func processCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// monotonic returns CLOCK_MONOTONIC in ns, the clock of samples.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux has the clock since 2.6 (clock_gettime(2))
	}
	return t.Nano()
}
