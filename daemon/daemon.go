package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/daemon/config"
	"github.com/ccmapd/ccmapd/internal/budget"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/bpf"
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
}

// Daemon samples the processes of its targets. Any goroutine may call its methods, Run once.
//
//	log … first               never change
//	mu                        all targets with their followers and slots, and the fields after it
//	discovery, meter          the goroutine of Run
//	elsewhere                 atomic
//	work                      the goroutines of followers and of filing
//	removing, reloading       one removal of old files at a time, one reload
type Daemon struct {
	log     *slog.Logger
	load    func() (*config.Config, error)
	hold    func(pid int, s config.Settings) config.Settings
	turned  func() // each turn of Run
	host    host
	shared  *engine.Shared // nil: the engines are the caller's
	engines []engine.Engine
	usedCPU func() time.Duration // of this process
	// openWhole opens the source of the whole host. Nil: no engine can.
	openWhole func(bpf.WholeOptions) (engine.Source, error)
	events    *hub
	turns     chan struct{} // holds a token for each process that is being attached to
	woken     chan struct{} // capacity 1: something has changed
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
	strangers map[process.FileID]stranger
	lookAgain []int        // processes to look at; -1: all
	asked     map[int]bool // processes whose executable is looked at; true: Run waits no more
	ready     bool         // the first scan is done
	closing   bool
}

const (
	// attachedAtOnce bounds the processes that are being attached to: reading symbols takes memory
	// and time.
	attachedAtOnce = 4
	// mostStrangers bounds the executables that are remembered as neither Go programs nor JVMs.
	mostStrangers = 4096
	// endedFor is how long an attached target stays after its process has ended.
	endedFor = time.Hour
	// budgetEvery is the time between two looks at budgets, figures and periods.
	budgetEvery = time.Second
)

// New returns a daemon that samples nothing yet. It loads the configuration.
func New(o Options) (*Daemon, error) {
	d, err := newDaemon(o, machine{})
	if err != nil {
		return nil, err
	}
	if d.engines == nil {
		percent := d.config.Budget.MaxHostOverhead
		d.shared = engine.NewShared(engine.SharedOptions{MaxHostOverhead: cmp.Or(percent/100, -1), Logger: d.log})
		d.engines = d.shared.Engines()
		d.openWhole = d.shared.OpenWhole
	}
	return d, nil
}

func newDaemon(o Options, h host) (*Daemon, error) {
	d := &Daemon{
		log: o.Logger, load: o.Load, hold: o.Hold, host: h, engines: o.Engines, usedCPU: budget.ProcessCPU,
		events: newHub(), turns: make(chan struct{}, attachedAtOnce), woken: make(chan struct{}, 1),
		discovery: discovery{host: h, seen: make(map[int]sighting)}, strangers: make(map[process.FileID]stranger),
		asked: make(map[int]bool),
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
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
	c, targets, err := d.read()
	if err != nil {
		return nil, err
	}
	d.apply(c, targets)
	d.first, d.began = c, time.Now()
	return d, nil
}

// read reads and checks a configuration, and makes its targets.
func (d *Daemon) read() (*config.Config, []*target, error) {
	c, err := d.load()
	if err != nil {
		return nil, nil, err
	}
	var targets []*target
	for _, one := range c.Targets {
		rule, err := one.Match.Rule()
		if err != nil {
			return nil, nil, fmt.Errorf("target %s: %w", one.Name, err)
		}
		t := newTarget(one)
		t.rule = rule
		targets = append(targets, t)
	}
	return c, targets, nil
}

// apply puts a configuration into force. Unchanged targets stay as they are.
func (d *Daemon) apply(c *config.Config, targets []*target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := make(map[*target]bool)
	for i, t := range targets {
		j := slices.IndexFunc(d.order, func(old *target) bool { return old.attached == nil && old.Target == t.Target })
		if j >= 0 {
			targets[i] = d.order[j]
		}
		kept[targets[i]] = true
	}
	for _, old := range d.order {
		switch {
		case kept[old]:
		case old.attached != nil && !slices.ContainsFunc(targets, func(t *target) bool { return t.Name == old.Name }):
			targets = append(targets, old)
		default:
			d.remove(old, errChanged)
		}
	}
	d.config, d.order = c, targets
	d.lookAgain = append(d.lookAgain, allProcesses)
	limitHeap(c.Budget.Memory)
	d.nudge()
}

// allProcesses, to be looked at again.
const allProcesses = -1

// remove ends the sessions of a target that is no longer in order, and files what it has. The caller
// holds mu.
func (d *Daemon) remove(t *target, cause error) {
	t.rotation = time.Time{}
	t.stopFollowers(cause)
	d.leaving = append(d.leaving, t)
}

// Reload reads the configuration again. On an error the old one stays in force.
func (d *Daemon) Reload() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	c, targets, err := d.read()
	d.mu.Lock()
	d.reloaded = err
	d.mu.Unlock()
	if err != nil {
		d.log.Error("configuration is not loaded, the old one stays", "error", err)
		d.events.raise(Event{Kind: EventReload, Text: "refused: " + err.Error()})
		return err
	}
	d.apply(c, targets)
	text := fmt.Sprintf("%d targets", len(c.Targets))
	if c.Listen != d.first.Listen || c.Budget.MaxHostOverhead != d.first.Budget.MaxHostOverhead {
		d.log.Warn("listen and budget.max_host_overhead are as they were at the start: start the daemon anew to change them")
		text += "; listen and budget.max_host_overhead are as they were at the start"
	}
	d.log.Info("configuration loaded", "targets", len(c.Targets))
	d.events.raise(Event{Kind: EventReload, Text: text})
	return nil
}

// LastReload returns the error of the last reload; nil: the configuration in force is the latest.
func (d *Daemon) LastReload() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reloaded
}

// Config returns the configuration in force, which never changes.
func (d *Daemon) Config() *config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.config
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

const (
	// fileAgain is the time between two attempts to file a removed target.
	fileAgain = time.Minute
	// mostLeaving bounds the removed targets that cannot be filed.
	mostLeaving = 64
)

// fileLast files a removed target, and forgets it.
func (d *Daemon) fileLast(t *target) {
	var err error // which was logged
	if d.Config().Store.Files {
		err = d.file(context.WithoutCancel(d.ctx), t)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && len(d.leaving) <= mostLeaving {
		t.removing, t.rotation = false, time.Now().Add(fileAgain)
		return
	}
	if err != nil {
		d.log.Error("samples are lost, because no file could be written", "target", t.Name)
	}
	d.leaving = slices.DeleteFunc(d.leaving, func(o *target) bool { return o == t })
}

// close ends all sessions and files what they have counted.
func (d *Daemon) close() error {
	d.mu.Lock()
	d.closing = true
	all := slices.Concat(d.order, d.leaving)
	d.mu.Unlock()
	d.stop(errShutdown)
	d.work.Wait()
	var err error
	if d.Config().Store.Files {
		for _, t := range all {
			err = errors.Join(err, d.file(context.Background(), t))
		}
		d.removeOld(time.Now())
	}
	if d.shared != nil {
		err = errors.Join(err, d.shared.Close())
	}
	return err
}

// stranger is an executable whose process was neither a Go program nor a JVM when it was attached to.
// It may become one: the launcher of a JVM maps libjvm.so some time after it begins.
type stranger struct {
	until time.Time     // processes of it are not attached to
	wait  time.Duration // from the last attempt to until
}

const (
	firstEstranged = time.Second
	restEstranged  = time.Minute
)

// rememberStranger remembers an executable for a while, for a longer one each time.
func (d *Daemon) rememberStranger(file process.FileID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.strangers) >= mostStrangers {
		clear(d.strangers)
	}
	wait := min(max(2*d.strangers[file].wait, firstEstranged), restEstranged)
	d.strangers[file] = stranger{time.Now().Add(wait), wait}
}

// forgetStranger forgets an executable whose process could be attached to after all.
func (d *Daemon) forgetStranger(file process.FileID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.strangers, file)
}

// isStranger reports whether an executable is remembered. The caller holds mu.
func (d *Daemon) isStranger(file process.FileID) bool {
	return time.Now().Before(d.strangers[file].until)
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

// Attach adds a target for one process, with the default settings, and waits until it is sampled.
// If a target samples the process already, Attach returns that one. If the process waits in a target, the error
// wraps [ErrWaits].
func (d *Daemon) Attach(ctx context.Context, pid int) (name string, err error) {
	facts, err := d.host.facts(pid)
	if err != nil {
		return "", fmt.Errorf("attach to process %d: %w", pid, err)
	}
	f, made, err := d.follow(facts)
	if err != nil {
		return "", err
	}
	select {
	case <-f.settled:
	case <-ctx.Done():
		err = fmt.Errorf("attach to process %d: %w", pid, context.Cause(ctx))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		err = f.first
	}
	if err == nil || f.state == Sampling { // perhaps at a later attempt
		return f.target.Name, nil
	}
	if t := f.target; made && slices.Contains(d.order, t) {
		d.detach(t)
	}
	return "", err
}

// follow returns the follower of a process, and whether it has made a target for it.
func (d *Daemon) follow(facts process.Facts) (f *follower, made bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch f := d.followerOf(facts.PID); {
	case f == nil:
	case f.cancel == nil:
		return nil, false, fmt.Errorf("attach to process %d: %w %s: %s", facts.PID, ErrWaits, f.target.Name, cmp.Or(f.reason, "it is paused"))
	default:
		return f, false, nil
	}
	if most := d.config.Budget.Targets; d.closing || len(d.order) >= most || d.running >= most {
		return nil, false, fmt.Errorf("attach to process %d: the daemon has as many targets as budget.targets permits, %d", facts.PID, most)
	}
	one := config.Target{Name: d.freeName(facts), Match: config.Match{PID: facts.PID}, Settings: d.config.Defaults}
	t := newTarget(one)
	t.attached = &facts
	d.order = append(slices.Clip(d.order), t)
	f = d.add(t, facts)
	d.start(f)
	return f, true, nil
}

// freeName returns a name for the target of a process. The caller holds mu.
func (d *Daemon) freeName(f process.Facts) string {
	base := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, path.Base(cmp.Or(f.Executable, f.Name, "process")))
	name := fmt.Sprintf("%s-%d", cmp.Or(strings.TrimLeft(base[:min(len(base), 40)], "_"), "process"), f.PID)
	for i := 2; ; i++ {
		if _, err := d.named(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", name, i)
	}
}

// Detach removes a target that Attach has made.
func (d *Daemon) Detach(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.named(name)
	if err != nil {
		return err
	}
	if t.attached == nil {
		return fmt.Errorf("detach %s: %w", name, ErrConfigured)
	}
	d.detach(t)
	return nil
}

// detach removes a target. The caller holds mu.
func (d *Daemon) detach(t *target) {
	d.order = slices.DeleteFunc(slices.Clone(d.order), func(o *target) bool { return o == t })
	d.remove(t, errDetached)
}

// Pause ends the sessions of a target. Its maps stay.
func (d *Daemon) Pause(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.named(name)
	if err != nil {
		return err
	}
	t.paused = true
	t.stopFollowers(errPaused)
	return nil
}

// Resume ends a pause.
func (d *Daemon) Resume(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.named(name)
	if err != nil {
		return err
	}
	t.paused = false
	d.lookAgain = append(d.lookAgain, allProcesses)
	d.nudge()
	return nil
}

// Rotate files all that a target has counted since the last period.
func (d *Daemon) Rotate(ctx context.Context, name string) error {
	d.mu.Lock()
	t, err := d.named(name)
	files := d.config.Store.Files
	d.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !files:
		return fmt.Errorf("rotate %s: %w", name, ErrNoStore)
	}
	return d.file(ctx, t)
}

// Candidate is a process that a target would take, an endpoint, or the whole host.
type Candidate struct {
	Target     string
	URL        string // of an endpoint, which has no more
	OfHost     bool   // the whole host, which has no more
	PID        int
	Executable string // foreign, and not printable yet
	User       string
	LeftOut    bool // the target has max older processes
}

// Check looks for processes once, and returns the ones that targets would take, after all endpoints and the
// whole host.
// It samples nothing, and connects to nothing.
func (d *Daemon) Check() ([]Candidate, error) {
	looked, _, err := (&discovery{host: d.host, seen: make(map[int]sighting)}).scan(time.Now(), d.follows)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(looked, func(a, b process.Facts) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.PID, b.PID))
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := make(map[*target]int)
	var found []Candidate
	for _, t := range d.order {
		if t.hasNoProcess() {
			found = append(found, Candidate{Target: t.Name, URL: t.Match.URL, OfHost: t.Match.Host})
		}
	}
	for _, f := range looked {
		i := slices.IndexFunc(d.order, func(t *target) bool { return t.fits(f) })
		if i < 0 {
			continue
		}
		t := d.order[i]
		taken[t]++
		found = append(found, Candidate{Target: t.Name, PID: f.PID, Executable: f.Executable, User: f.User(), LeftOut: taken[t] > t.Max})
	}
	return found, nil
}
