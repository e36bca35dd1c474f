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

// Daemon samples the processes of its targets. Any goroutine may call its methods, Run once.
//
//	log … first               never change; audit locks itself
//	mu                        all targets with their followers and slots, and the fields after it
//	discovery, meter          the goroutine of Run
//	elsewhere                 atomic
//	unreadable                locks itself
//	work                      the goroutines of followers and of filing
//	removing, reloading       one removal of old files at a time, one reload
type Daemon struct {
	log     *slog.Logger
	details *slog.Logger // of sessions
	audit   *audit.Log   // of what processes do, by their owners
	load    func() (*config.Config, error)
	hold    func(pid int, s config.Settings) config.Settings
	turned  func() // each turn of Run
	host    host
	shared  *engine.Shared // nil: the engines are the caller's
	engines []engine.Engine
	// endpoint is one of the engines, unless they are the caller's.
	endpoint   engine.Engine
	unreadable engine.Unreadable
	usedCPU    func() time.Duration // of this process
	// usedMemory returns the bytes that this process has in use.
	usedMemory func() int64
	// openWhole opens the source of the whole host. Nil: no engine can.
	openWhole func(engine.WholeOptions) (engine.Source, error)
	events    *hub
	write     func(path string, s *ccmap.Snapshot) error // a file of a period
	turns     chan struct{}                              // holds a token for each process that is being attached to
	woken     chan struct{}                              // capacity 1: something has changed
	ctx       context.Context
	stop      context.CancelCauseFunc
	first     *config.Config // of the start: its socket and port are open
	began     time.Time
	work      sync.WaitGroup

	discovery discovery
	meter     budget.Meter
	elsewhere atomic.Int64 // ns of CPU time that were not for sampling
	removing  sync.Mutex   // of old files
	retention retention    // under removing
	reloading sync.Mutex

	mu        sync.Mutex
	config    *config.Config
	reloaded  error     // of the last reload
	order     []*target // of the configuration, then attached ones
	leaving   []*target // removed, and not all filed
	running   int       // followers
	strangers process.Strangers
	lookAgain []int            // processes to look at; -1: all
	asked     map[int]question // processes whose executable is looked at
	hung      map[int]lostThread
	ready     bool // the first scan is done
	closing   bool
}

const (
	// attachedAtOnce bounds the processes that are being attached to: reading symbols takes memory
	// and time.
	attachedAtOnce = 4
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
		percent := d.config.Budget.MaxHostOverhead
		d.shared = engine.NewShared(engine.SharedOptions{MaxHostOverhead: cmp.Or(percent/100, -1), Logger: d.details})
		d.engines = append(d.shared.Engines(), d.endpoint)
		d.openWhole = d.shared.OpenWhole
	}
	return d, nil
}

// Endpoint returns the engine that takes processes' own profiles within the bounds of the daemon.
func (d *Daemon) Endpoint() engine.Engine { return d.endpoint }

func newDaemon(o Options, h host) (*Daemon, error) {
	d := &Daemon{
		log: o.Logger, load: o.Load, hold: o.Hold, host: h, engines: o.Engines, usedCPU: budget.ProcessCPU, usedMemory: liveHeap, write: writePeriod,
		events: newHub(), turns: make(chan struct{}, attachedAtOnce), woken: make(chan struct{}, 1),
		discovery: discovery{host: h, seen: make(map[int]sighting)}, strangers: make(process.Strangers),
		asked: make(map[int]question), hung: make(map[int]lostThread),
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.details, d.audit = cmp.Or(o.Details, d.log), audit.New(d.log, auditBurst)
	if d.load == nil {
		d.load = func() (*config.Config, error) { return config.Default(), nil }
	}
	if d.hold == nil {
		d.hold = func(_ int, s config.Settings) config.Settings { return s }
	}
	d.turned = o.Turn
	if d.turned == nil {
		d.turned = func() {}
	}
	d.ctx, d.stop = context.WithCancelCause(context.Background())
	d.endpoint = engine.Endpoint(engine.EndpointOptions{
		Read: func(r io.Reader) (*ccmap.Map, error) { return d.readServed(d.ctx, r) }, MaxNames: mostNames,
	})
	c, targets, err := d.read()
	if err != nil {
		return nil, err
	}
	d.apply(c, targets)
	d.first, d.began = c, time.Now()
	return d, nil
}

// nudge makes the goroutine of Run look for work.
func (d *Daemon) nudge() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// Run samples until ctx is done. Then it ends all sessions and files all that was counted. The error
// says what could not be filed.
func (d *Daemon) Run(ctx context.Context) error {
	scan := time.NewTicker(d.Config().Budget.Scan)
	defer scan.Stop()
	budget := time.NewTicker(budgetEvery)
	defer budget.Stop()
	if d.Config().Store.Files {
		d.work.Go(func() { d.removeOld(time.Now()) })
	}
	d.scan()
	d.turned()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-d.woken:
			scan.Reset(d.Config().Budget.Scan)
			d.scan()
		case <-scan.C:
			d.scan()
		case now := <-budget.C:
			d.keepBudgets(now)
			d.tellAll(now)
			d.rotateDue(now)
			d.sweep(now)
			if d.Healthy() == nil {
				d.turned()
			}
		}
	}
	return d.close()
}

// scan looks for processes, and starts followers.
func (d *Daemon) scan() {
	d.mu.Lock()
	again := d.lookAgain
	d.lookAgain = nil
	d.mu.Unlock()
	for _, pid := range again {
		if pid == allProcesses {
			d.discovery.forgetAll()
		}
		d.discovery.forget(pid)
	}
	looked, exist, err := d.discovery.scan(time.Now(), d.follows)
	if err != nil {
		d.log.Error("cannot look for processes", "error", err)
		return
	}
	found := d.identify(d.wanted(looked))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropEnded(exist)
	d.admitOthers()
	for _, c := range found {
		d.offer(c)
	}
	d.schedule()
	d.ready = true
}

// tellAll raises events about the sessions.
func (d *Daemon) tellAll(now time.Time) {
	d.mu.Lock()
	all := slices.Collect(d.sessions())
	d.mu.Unlock()
	for _, s := range all {
		s.tell(now)
	}
}

// sweep forgets attached targets whose process has ended long ago, and removed targets that are
// filed.
func (d *Daemon) sweep(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range slices.Clone(d.order) {
		if t.attached != nil && !t.ended.IsZero() && now.Sub(t.ended) > endedFor {
			d.detach(t)
		}
	}
	for _, t := range d.leaving {
		if len(t.followers) == 0 && !t.removing && !now.Before(t.rotation) {
			t.removing = true
			d.work.Go(func() { d.fileLast(t) })
		}
	}
}

// Times to end, within the 30 s that systemd gives: a disk or a file system may never answer. Its
// goroutines then end with the process.
const (
	closeTime = 25 * time.Second
	// Sessions must end within sessionsTime, so that the rest is for files.
	sessionsTime = 15 * time.Second
)

// close ends all sessions and files their counts. The error names the targets that could not be filed in
// time.
func (d *Daemon) close() error {
	d.mu.Lock()
	d.closing = true
	all := slices.Concat(d.order, d.leaving)
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	d.stop(ErrEnds)
	ended := within(ctx, sessionsTime, d.work.Wait)
	if !ended {
		d.log.Warn("some sessions do not end, or wait for a disk")
	}
	var err error
	if d.Config().Store.Files {
		err = d.fileAll(ctx, all)
		within(ctx, closeTime, func() { d.removeOld(time.Now()) })
	}
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
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ready {
		return errors.New("the first look for processes is not done")
	}
	return nil
}

// Healthy returns an error that names a session that is stuck.
func (d *Daemon) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.sessions() {
		if err := s.health(time.Now()); err != nil {
			return err
		}
	}
	return nil
}
