package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/budget"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// session samples one process or endpoint into a slot's map.
//
//	share                the goroutine of Run charges, the manager reads
//	seen                 what events were last raised about: the goroutine of Run
//	all others           never change once the slot has the session
type session struct {
	follower *follower
	slot     *slot
	choice   engine.Choice
	manager  *manager.Manager
	began    time.Time
	pruned   ccmap.PruneStats // of the map before
	missed   time.Duration    // CPU time of the process before this session, that the map was told of
	share    budget.Share
	seen     figuresSeen
}

// attach opens the process and prepares a session with it. It checks that the number is the
// process that was found, before and after.
func (f *follower) attach(ctx context.Context) (*session, error) {
	if f.target.hasNoProcess() {
		return f.attachWithoutProcess(ctx)
	}
	d := f.d
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := f.mayRead(); err != nil {
		return nil, err
	}
	if !f.unreadable { // which goes on being refused
		f.enter(Attaching, "")
	}
	p, err := d.host.pin(f.facts.PID)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if f.identity, err = d.host.identity(f.facts.PID); err != nil {
		return nil, err
	}
	if err := f.isSame(p); err != nil {
		return nil, err
	}
	file, err := f.file(ctx)
	if err != nil {
		return nil, err
	}
	f.program = engine.Program{File: file, Owner: f.facts.Owner}
	s, err := f.attachWith(ctx, file)
	if errors.Is(err, sampler.ErrNotManaged) {
		d.rememberStranger(file)
	}
	if err != nil {
		return nil, err
	}
	d.forgetStranger(file)
	if err := f.isSame(p); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	f.begin(s)
	return s, nil
}

// begin enters the state of a session.
func (f *follower) begin(s *session) {
	f.broke, f.unreadable = 0, false
	f.d.begin(s)
	f.enter(Sampling, s.choice.Source.Info().Engine+": "+s.choice.Why)
	s.note("sampling begins")
}

// note logs that a session begins or ends. The name of the program is foreign.
func (s *session) note(what string, args ...any) {
	f, info := s.follower, s.choice.Source.Info()
	exe := cmp.Or(f.facts.Executable, info.Target.Executable)
	all := []any{"target", f.target.Name, f.attr(), "uid", f.facts.UID, "executable", exe, "engine", info.Engine}
	if f.target.hasNoProcess() {
		all = []any{"target", f.target.Name, f.attr(), "engine", info.Engine}
	}
	f.d.audit.Info("processes of "+strconv.Itoa(f.facts.UID), what, append(all, args...)...)
}

// isSame checks that the process is the one that was found, and runs the same program for the same
// user.
func (f *follower) isSame(p pinned) error {
	now, err := f.d.host.facts(f.facts.PID)
	if err != nil || p.Gone() || now.Started != f.facts.Started {
		return fmt.Errorf("process %d: %w", f.facts.PID, sampler.ErrNoProcess)
	}
	if now.UID != f.facts.UID || now.Owner != f.facts.Owner || now.Executable != f.facts.Executable || f.stillOwned() != nil {
		return fmt.Errorf("process %d has become another program: %w", f.facts.PID, sampler.ErrNoProcess)
	}
	return nil
}

// attachWith attaches with the map of a free slot of the same executable. If it turns out to be
// another build, it attaches once more, with a slot of that build.
func (f *follower) attachWith(ctx context.Context, file process.FileID) (*session, error) {
	s, err := f.open(ctx, f.d.takeSlot(f, file, ""))
	if err != nil {
		return nil, err
	}
	build := s.choice.Source.Info().Target.BuildID
	if build == "" || !f.d.hasBetter(f, s.slot, build) {
		return s, nil
	}
	if err := s.discard(); err != nil {
		return nil, err
	}
	return f.open(ctx, f.d.takeSlot(f, file, build))
}

// open opens the source of a session with a slot.
func (f *follower) open(ctx context.Context, into *slot) (*session, error) {
	s := &session{follower: f, slot: into}
	if err := s.open(ctx); err != nil {
		f.d.giveBack(into)
		return nil, err
	}
	return s, nil
}

// ringWords holds 65 stacks of 1,000 frames, or over 1,000 of usual depth: more than a source
// takes while the manager is at a long turn.
const ringWords = 64 << 10

func (s *session) open(ctx context.Context) error {
	f, m := s.follower, s.slot.m
	log := f.d.details.With("target", f.target.Name, f.attr())
	c := manager.Config{
		Map: m, Logger: log, DaemonCPU: s.share.CPU, Hot: manager.Thresholds{Method: hotTime}, OnHot: s.hot,
		Budgets: manager.BudgetNames{Target: "max_overhead", Host: "budget.max_host_overhead", Own: "budget.cpu"},
	}
	sink := sampler.Sink{Queue: queue.New(queue.Options{RingWords: ringWords}), Names: m.Names()}
	var err error
	switch {
	case f.target.isEndpoint():
		s.choice, err = f.openEndpoint(ctx, s.slot, sink, log)
	case f.target.Match.Host:
		s.choice, c.Tuner, err = f.openHost(sink, log)
	default:
		c.Admit = f.admission()
		s.choice, c.Tuner, err = f.openProcess(ctx, sink, log)
	}
	if err != nil {
		return err
	}
	if _, tunable := s.choice.Source.(sampler.Tunable); !tunable {
		c.Tuner = nil // the program's own profiler has an interval of its own
	}
	s.describe(m.Meta())
	s.countBreak(m.Meta())
	s.pruned = m.Meta().Pruned
	if same := s.slot.process; same.PID != f.facts.PID || same.Started != f.facts.Started {
		m.ForgetThreads()
	}
	c.Source = s.choice.Source
	if s.manager, err = manager.New(c); err != nil {
		return errors.Join(err, s.choice.Source.Close())
	}
	return nil
}

// openProcess opens the best engine for the process, and makes a tuner.
func (f *follower) openProcess(ctx context.Context, sink sampler.Sink, log *slog.Logger) (engine.Choice, manager.Tuner, error) {
	o := f.d.hold(f.facts.PID, f.target.Settings)
	tuner, err := tuning.New(tunerOf(o))
	if err != nil {
		return engine.Choice{}, nil, err
	}
	choice, err := engine.Attach(ctx, f.d.unreadable.Spare(f.d.engines, f.program), o.Engine, sampler.ProcessOptions{
		PID: f.facts.PID, Interval: o.Interval, HitBudget: cmp.Or(o.Hits, -1), NoLabels: !o.Labels,
		MaxOverhead: o.MaxOverhead / 100, Logger: log, Sink: sink,
	})
	return choice, tuner, err
}

// hotTime is the CPU time of the target that makes a method hot. A look for hot methods is a pass
// over the map, once in a sixteenth of it.
const hotTime = 10 * time.Minute

func (s *session) hot(e manager.Event) {
	name := e.Snapshot.Names().At(e.Method).Name
	s.follower.raise(EventHot, "%s has reached %v of CPU time", name, time.Duration(e.Counters.Time).Round(time.Second))
}

// tunerOf returns the tuner's configuration. The daemon's budget comes to it through
// [share]: a core stands for the session's bound.
func tunerOf(o config.Settings) tuning.Config {
	const unlimited = -1
	c := tuning.Config{
		Initial: o.Interval, Min: o.MinInterval, Max: o.MaxInterval,
		MaxOverhead: cmp.Or(o.MaxOverhead/100, unlimited), MaxDaemonCPU: budget.OneCore, Off: !o.Tune,
	}
	return c
}

// describe says in the map's metadata which process is sampled, and how. Warnings of earlier
// processes stay.
func (s *session) describe(meta *ccmap.Meta) {
	info := s.choice.Source.Info()
	meta.Target, meta.Engine = info.Target, info.Engine
	comments := []string{"engine " + info.Engine + ": " + s.choice.Why}
	if info.NoKernelTime != "" {
		comments = append(comments, "time in the kernel is left out: "+info.NoKernelTime)
	}
	if info.Lacks != "" {
		comments = append(comments, info.Lacks)
	}
	const mostWarnings = 8
	for _, c := range meta.Comments {
		if strings.HasPrefix(c, ccmap.CommentWarning) && len(comments) < mostWarnings {
			comments = append(comments, c)
		}
	}
	meta.Comments = comments
}

// countBreak enters the CPU time that the process has used between its last session, if that ended by an
// error, and this one: no sample stands for it.
func (s *session) countBreak(meta *ccmap.Meta) {
	f := s.follower
	now, err := f.d.host.clock(f.facts.PID)
	if f.broke == 0 || err != nil {
		return
	}
	s.missed = max(now-f.broke, 0)
	meta.Loss.Clock += s.missed
	meta.Loss.Unaccounted += s.missed
}

// discard closes a session that was not run.
func (s *session) discard() error {
	err := s.choice.Source.Close()
	loss := &s.slot.m.Meta().Loss
	loss.Clock -= s.missed
	loss.Unaccounted -= s.missed
	s.follower.d.giveBack(s.slot)
	return err
}

// run samples until the process has ended or ctx is done.
func (s *session) run(ctx context.Context) (sampler.Ending, error) {
	r, err := s.manager.Run(ctx)
	samples := s.counters().Samples
	s.follower.d.end(s, r, err)
	why := r.Ending.Reason
	switch {
	case err != nil:
		why = err.Error()
	case ctx.Err() != nil:
		why = context.Cause(ctx).Error()
	}
	s.note("sampling has ended", "samples", samples, "reason", why)
	return r.Ending, err
}

// figuresSeen are the figures of a session that events were raised about.
type figuresSeen struct {
	interval time.Duration
	drift    bool
	lost     uint64
	losses   time.Time // of the last event about losses
}

// lossEvery is the least time between two events about losses of a session.
const lossEvery = time.Minute

// tell raises events about changes of a session's figures. The goroutine of Run calls it.
func (s *session) tell(now time.Time) {
	is, seen := s.manager.Status(), &s.seen
	if seen.interval != is.Interval {
		if seen.interval != 0 {
			s.follower.countIntervalChange()
			s.follower.raise(EventInterval, "interval %v, was %v", is.Interval, seen.interval)
		}
		seen.interval = is.Interval
	}
	if seen.drift != is.Drift {
		seen.drift = is.Drift
		if is.Drift {
			s.follower.raise(EventDrift, "the program does something else than before")
		}
	}
	if lost := is.Loss.Samples(); lost > seen.lost && now.Sub(seen.losses) >= lossEvery {
		s.follower.raise(EventLoss, "%d samples lost, %d in all", lost-seen.lost, lost)
		seen.lost, seen.losses = lost, now
	}
}

// lateTurn is how old the last turn of a manager may be.
const lateTurn = 30 * time.Second

// health returns an error if the manager is stuck.
func (s *session) health(now time.Time) error {
	if late := now.Sub(s.began) - s.manager.Status().Elapsed; late > lateTurn {
		return fmt.Errorf("target %s, %v: no turn for %v", s.follower.target.Name, s.follower.attr(), late.Round(time.Second))
	}
	return nil
}
