package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/audit"
	"github.com/ccmapd/ccmapd/internal/budget"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// Options of a daemon. The zero value is useful.
type Options struct {
	// Load reads the configuration, for New and for Reload. Nil: the defaults, without
	// targets.
	Load func() (*config.Config, error)

	// Engines to sample with, best first. Nil: all, with one host of engine bpf for all
	// targets.
	Engines []engine.Engine

	// Hold bounds the settings for a process. Nil: they are as configured.
	Hold func(pid int, s config.Settings) config.Settings

	// Turn is called by Run after its first look for processes, and then about once a second, as long
	// as no session is stuck. It must return soon. Nil: nothing is called.
	Turn func()

	Logger *slog.Logger // nil discards

	// Details takes what engines and managers log of single sessions. Nil: Logger does.
	Details *slog.Logger
}

// Daemon samples the processes of its targets. Any goroutine may call its methods, Run once. It has no lock: each of
// its parts has its own.
type Daemon struct {
	*means
	load      func() (*config.Config, error)
	turned    func()         // each turn of Run
	shared    *engine.Shared // nil: the engines are the caller's
	roster    *roster
	discovery *discovery
	periods   *periods
	sender    *sender
	lookout   *lookout
	gleaner   *gleaner
	budgets   *budgets
	ctx       context.Context // of all sessions
	stop      context.CancelCauseFunc
	work      sync.WaitGroup // the goroutines of followers and of filing
	first     *config.Config // of the start: its socket and port are open

	inForce   atomic.Pointer[config.Config]
	reloaded  atomic.Pointer[error] // of the last reload
	reloading sync.Mutex
	ready     atomic.Bool // the first scan is done
}

const (
	// endedFor is how long an attached target stays after its process has ended.
	endedFor = time.Hour
	// budgetEvery is the time between two looks at budgets, figures and periods.
	budgetEvery = time.Second
	// auditBurst is how many lines of the log the processes of a user may cause at once, by beginning and
	// ending. All targets of a large machine begin with the daemon.
	auditBurst = 1000
)

// New returns a daemon that samples nothing yet. It loads the configuration.
func New(o Options) (*Daemon, error) {
	d, err := newDaemon(o, machine{})
	if err != nil {
		return nil, err
	}
	if d.engines == nil {
		percent := d.Config().Budget.MaxHostOverhead
		d.shared = engine.NewShared(engine.SharedOptions{MaxHostOverhead: cmp.Or(percent/100, -1), Logger: d.details})
		d.engines = append(d.shared.Engines(), d.endpoint)
		d.openWhole = d.shared.OpenWhole
	}
	return d, nil
}

// Endpoint returns the engine that takes processes' own profiles within the bounds of the daemon.
func (d *Daemon) Endpoint() engine.Engine { return d.endpoint }

func newDaemon(o Options, h host) (*Daemon, error) {
	m := &means{
		log: o.Logger, events: newHub(), hold: o.Hold, host: h, gate: supervise.NewGate(h, supervise.AtOnce, supervise.Estranged), engines: o.Engines,
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.details, m.audit = cmp.Or(o.Details, m.log), audit.New(m.log, auditBurst)
	if m.hold == nil {
		m.hold = func(_ int, s config.Settings) config.Settings { return s }
	}
	d := &Daemon{means: m, load: o.Load, turned: o.Turn, discovery: newDiscovery(h, m.gate, m.log)}
	if d.load == nil {
		d.load = func() (*config.Config, error) { return config.Default(), nil }
	}
	if d.turned == nil {
		d.turned = func() {}
	}
	d.ctx, d.stop = context.WithCancelCause(context.Background())
	m.endpoint = engine.Endpoint(engine.EndpointOptions{
		Read: func(r io.Reader) (*ccmap.Map, error) { return readServed(d.ctx, m.gate, r) }, MaxNames: mostNames,
	})
	c, targets, err := m.read(d.load)
	if err != nil {
		return nil, err
	}
	d.roster = &roster{means: m, ctx: d.ctx, spawn: d.work.Go, left: d.left}
	m.config, m.users = d.Config, c.Listen.Open
	m.controller = newController(d.Config, m.log)
	m.recorder = newRecorder(d.Config, m.log)
	d.budgets = &budgets{config: d.Config, usedCPU: budget.ProcessCPU, usedMemory: liveHeap}
	m.hasMemory = d.budgets.hasMemory
	d.periods = &periods{means: m, ctx: d.ctx, round: make(chan struct{}, 1)}
	d.sender = newSender(m)
	m.tellFiled, m.learner = d.sender.wake, newLearner(m)
	d.lookout, d.gleaner = newLookout(m, d.sender.instance, d.roster.sends), newGleaner(m, d.roster.programs)
	m.controller.fleet = d.gleaner.sameCode
	m.learner.ctx, m.learner.spawn, m.learner.takes = d.ctx, d.work.Go, d.roster.sends
	d.first = c
	d.apply(c, targets)
	return d, nil
}

// Run samples until ctx is done. Then it ends all sessions, and logs all that was counted and is in no file: the next
// daemon goes on with it. The error says what could not be logged.
func (d *Daemon) Run(ctx context.Context) error {
	scan := time.NewTicker(d.Config().Budget.Scan)
	defer scan.Stop()
	budget := time.NewTicker(budgetEvery)
	defer budget.Stop()
	if d.periods.keeper != nil {
		d.work.Go(d.periods.tidy)
	}
	d.work.Go(func() { d.controller.run(d.ctx) })
	d.work.Go(func() { d.sender.run(d.ctx) })
	d.work.Go(func() { d.lookout.run(d.ctx) })
	d.work.Go(func() { d.gleaner.run(d.ctx) })
	d.sender.wake() // what a daemon before has left
	d.scan()
	d.turned()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-d.discovery.woken:
			scan.Reset(d.Config().Budget.Scan)
			d.scan()
		case <-scan.C:
			d.scan()
		case now := <-budget.C:
			d.turn(now)
		}
	}
	return d.close()
}

// scan looks for processes, and starts followers.
func (d *Daemon) scan() {
	looked, exist, err := d.discovery.scan(time.Now(), d.roster.follows)
	if err != nil {
		d.log.Error("cannot look for processes", "error", err)
		return
	}
	wanted := slices.DeleteFunc(looked, func(f process.Facts) bool { return !d.roster.wants(f) || d.discovery.isAsked(f.PID) })
	found := d.discovery.identify(wanted)
	d.gate.Forget(func(pid int) bool { _, lives := exist[pid]; return lives })
	d.roster.update(exist, found)
	d.ready.Store(true)
}

// turn keeps budgets, raises events, notes figures, files periods, and forgets targets: once a second.
func (d *Daemon) turn(now time.Time) {
	sessions := d.roster.sessions()
	d.budgets.charge(now, slices.Concat(sessions, d.roster.waiting()))
	d.budgets.boundMaps(d.roster.everyone())
	for _, s := range sessions {
		s.tell(now)
	}
	for _, t := range d.roster.all() {
		t.history.note(now, t)
	}
	d.periods.rotate(now, d.roster.all(), d.work.Go)
	d.periods.logSome(now, d.roster.everyone(), d.work.Go)
	d.sweep(now)
	if d.Healthy() == nil {
		d.turned()
	}
}

// sweep forgets attached targets whose process has ended long ago, and removed targets that are
// filed.
func (d *Daemon) sweep(now time.Time) {
	for _, t := range d.roster.all() {
		if t.endedFor(now) > endedFor {
			d.roster.detach(t)
		}
	}
	for _, t := range d.roster.due(now) {
		d.work.Go(func() {
			filed := d.periods.fileLast(t)
			if d.roster.forget(t, filed) && !filed {
				d.log.Error("samples are lost, because no file could be written", "target", t.Name)
			}
		})
	}
}

// left files what a process has left that is not sampled any more, and makes the daemon look at it again: it may have
// replaced itself by another program.
func (d *Daemon) left(t *target, f *follower) {
	d.discovery.lookAgain(f.facts.PID) // before filing, which waits for a disk
	f.raise(EventState, "%s", f.farewell(t.tally.last()))
	if d.roster.ends() {
		return // the log has it, and the next daemon goes on with it
	}
	d.periods.fileAtEnd(t)
}

// Times to end, within the 30 s that systemd gives: a disk or a file system may never answer. Its
// goroutines then end with the process.
const (
	closeTime = 25 * time.Second
	// Sessions must end within sessionsTime, so that the rest is for the log.
	sessionsTime = 15 * time.Second
)

// close ends all sessions and logs their counts. The error names the targets that could not be logged in time.
func (d *Daemon) close() error {
	d.roster.close()
	all := d.roster.everyone()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	d.stop(ErrEnds)
	ended := within(ctx, sessionsTime, d.work.Wait)
	if !ended {
		d.log.Warn("some sessions do not end, or wait for a disk")
	}
	err := d.periods.close(ctx, all)
	if ended && d.shared != nil { // it needs sources that have ended
		err = errors.Join(err, d.shared.Close())
	}
	d.audit.Flush()
	return err
}

// within calls f, and reports whether it returned in time. Otherwise f goes on by itself.
func within(ctx context.Context, most time.Duration, f func()) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Ready returns nil once the first scan is done.
func (d *Daemon) Ready() error {
	if !d.ready.Load() {
		return errors.New("the first look for processes is not done")
	}
	return nil
}

// Healthy returns an error that names a session that is stuck.
func (d *Daemon) Healthy() error {
	for _, s := range slices.Concat(d.roster.sessions(), d.roster.waiting()) {
		if err := s.health(time.Now()); err != nil {
			return err
		}
	}
	return nil
}
