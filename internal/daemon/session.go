package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/budget"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// session samples one process or endpoint into a slot's map.
//
//	share                the goroutine of Run charges, the manager reads
//	seen                 what events were last raised about: the goroutine of Run
//	heat                 locks itself
//	all others           never change once the slot has the session
type session struct {
	*recording.Recording
	follower *follower
	shelf    *shelf // that has the slot
	slot     *slot
	began    time.Time
	pruned   ccmap.PruneStats // of the map before
	missed   time.Duration    // CPU time of the process before this session, that the map was told of
	share    budget.Share
	seen     figuresSeen
	heat     heatLimit
}

// attach opens the process, the endpoint or the whole host, and prepares a session with it.
func (f *follower) attach(ctx context.Context) (s *session, err error) {
	if f.hasNoProcess() {
		f.tell(f.life.Try(time.Now()))
		s, err = f.open(ctx, process.FileID{}, "")
	} else {
		err = f.gate.Attempt(ctx, gated(f.facts), supervise.Opener{
			Check: f.identify,
			Open: func(p supervise.Pin, file process.FileID) (err error) {
				s, err = f.attachTo(ctx, p, file)
				return err
			},
		})
	}
	if err != nil {
		return nil, err
	}
	f.enterSession(s)
	return s, nil
}

// enterSession enters the state of a session.
func (f *follower) enterSession(s *session) {
	f.broke, f.unreadable = 0, false
	f.shelf.holdSession(s)
	f.tally.addSession(s)
	f.session.Store(s)
	f.life.Succeed(time.Now())
	f.raise(EventState, "%s: %s: %s", Sampling, s.Info().Engine, s.Why)
	f.note(s, "sampling begins")
}

// identify checks that the process is the one that was found, before anything is read of it.
func (f *follower) identify(p supervise.Pin) (err error) {
	if !f.unreadable { // which goes on being refused
		f.tell(f.life.Try(time.Now()))
	}
	if f.identity, err = f.host.identity(f.facts.PID); err != nil {
		return err
	}
	return f.isSame(p)
}

// isSame checks that the process is the one that was found, and runs the same program for the same
// user.
func (f *follower) isSame(p supervise.Pin) error {
	now, err := f.host.facts(f.facts.PID)
	if err != nil || p.Gone() || now.Started != f.facts.Started {
		return fmt.Errorf("process %d: %w", f.facts.PID, sampler.ErrNoProcess)
	}
	if now.UID != f.facts.UID || now.Owner != f.facts.Owner || now.Executable != f.facts.Executable || f.stillOwned() != nil {
		return fmt.Errorf("process %d has become another program: %w", f.facts.PID, sampler.ErrNoProcess)
	}
	return nil
}

// attachTo attaches with the map of a free slot of the same executable. If it turns out to be
// another build, it attaches once more, with a slot of that build. The process must be the same after that.
func (f *follower) attachTo(ctx context.Context, p supervise.Pin, file process.FileID) (*session, error) {
	f.program = engine.Program{File: file, Owner: f.facts.Owner}
	s, err := f.open(ctx, file, "")
	if err != nil {
		return nil, err
	}
	if build := s.Info().Target.BuildID; build != "" && f.shelf.hasBetter(s.slot, build) {
		if err := s.discard(); err != nil {
			return nil, err
		}
		if s, err = f.open(ctx, file, build); err != nil {
			return nil, err
		}
	}
	if err := f.isSame(p); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	return s, nil
}

// open opens a session with a slot.
func (f *follower) open(ctx context.Context, file process.FileID, build string) (*session, error) {
	into := f.shelf.takeSlot(f.ownerNow(), file, build)
	s := &session{follower: f, shelf: f.shelf, slot: into}
	settings, log := into.settled(f.settings()), f.details.With("target", f.Name, f.attr(f.facts.PID))
	o := recording.Options{
		Map: into.m,
		Manager: manager.Config{
			Values: valuesOf(settings, f.log.With("target", f.Name, f.attr(f.facts.PID))),
			Logger: log, DaemonCPU: s.share.CPU, Hot: settings.Hot.Thresholds(), OnHot: s.hot, Admit: f.admission(),
			Budgets: manager.BudgetNames{Target: "max_overhead", Host: "budget.max_host_overhead", Own: "budget.cpu"},
		},
		Tuning: func() tuning.Config { return tunerOf(settings) },
		Begin:  func(i sampler.Info) time.Duration { return f.settledBefore(ctx, into, i) },
		Opened: func(engine.Choice, *manager.Config) { s.continueMap() },
	}
	var err error
	s.Recording, err = recording.Open(o, func(sink sampler.Sink) (engine.Choice, error) {
		switch {
		case f.isEndpoint():
			return f.openEndpoint(ctx, into, sink, log)
		case f.Match.Host:
			return f.openHost(settings, sink, log)
		}
		return f.openProcess(ctx, settings, sink, log)
	})
	if err != nil {
		f.shelf.giveBack(into)
		return nil, err
	}
	return s, nil
}

// settled returns the settings for a session that goes on with the slot's map: its interval begins where the last
// session had tuned it to. The slot is the caller's.
func (s *slot) settled(o config.Settings) config.Settings {
	before := s.m.Meta().Interval
	if len(before) == 0 || !o.Tune {
		return o
	}
	last := before[len(before)-1].Interval
	if last >= o.MinInterval && last <= cmp.Or(o.MaxInterval, longestTuned) {
		o.Interval = last
	}
	return o
}

// pastWait is how long the disk has to say what is stored of a build, and the hub to say what it knows: sampling goes
// without.
const pastWait = time.Second

// settledBefore returns the interval at which the last process of a build had settled, as stored profiles have it, for
// a map that begins; 0: it is not known.
func (f *follower) settledBefore(ctx context.Context, into *slot, i sampler.Info) time.Duration {
	if f.archive == nil || len(into.m.Meta().Interval) > 0 {
		return 0
	}
	k := store.Key{Target: f.Name, Build: i.Target.BuildID, Unit: i.Unit, Owner: f.ownerNow()}
	found := make(chan store.Past, 1)
	if !within(ctx, pastWait, func() {
		past := f.archive.Past(k)
		if past.Files == 0 && f.learner != nil {
			<-f.learner.begin(k)
			past = f.archive.Past(k)
		}
		found <- past
	}) {
		return 0
	}
	return (<-found).Interval
}

// longestTuned is the longest interval that is begun with where the settings have no bound: the tuner's own.
const longestTuned = 100 * time.Millisecond

// settings returns the settings for the process, within what it may have.
func (f *follower) settings() config.Settings {
	switch {
	case f.isEndpoint():
		return f.Settings
	case f.Match.Host:
		return f.hold(firstProcess, f.Settings)
	}
	return f.hold(f.facts.PID, f.Settings)
}

// openProcess opens the best engine for the process.
func (f *follower) openProcess(ctx context.Context, o config.Settings, sink sampler.Sink, log *slog.Logger) (engine.Choice, error) {
	return engine.Attach(ctx, f.means.unreadable.Spare(f.engines, f.program), o.Engine, sampler.ProcessOptions{
		PID: f.facts.PID, Interval: o.Interval, HitBudget: cmp.Or(o.Hits, -1), NoLabels: !o.Labels,
		MaxOverhead: o.MaxOverhead / 100, Logger: log, Sink: sink, Doctor: fmt.Sprintf("ccmapd doctor @%d", f.facts.PID),
	})
}

// tunerOf returns the tuner's configuration. The daemon's budget comes to it through
// [share]: a core stands for the session's bound.
func tunerOf(o config.Settings) tuning.Config {
	const unlimited = -1
	return tuning.Config{
		Initial: o.Interval, Min: o.MinInterval, Max: o.MaxInterval, Low: LowRepetitions, High: HighRepetitions,
		MaxOverhead: cmp.Or(o.MaxOverhead/100, unlimited), MaxDaemonCPU: budget.OneCore, Off: !o.Tune,
	}
}

// continueMap tells the map, which may have samples of earlier processes, of a new session.
func (s *session) continueMap() {
	m, facts := s.slot.m, s.follower.facts
	s.countBreak(m.Meta())
	s.pruned = m.Meta().Pruned
	if same := s.slot.process; same.PID != facts.PID || same.Started != facts.Started {
		m.ForgetThreads()
	}
}

// countBreak enters the CPU time that the process has used between its last session, if that ended by an
// error, and this one: no sample stands for it.
func (s *session) countBreak(meta *ccmap.Meta) {
	f := s.follower
	now, err := f.host.clock(f.facts.PID)
	if f.broke == 0 || err != nil {
		return
	}
	s.missed = max(now-f.broke, 0)
	meta.Loss.Clock += s.missed
	meta.Loss.Unaccounted += s.missed
}

// discard closes a session that was not run.
func (s *session) discard() error {
	err := s.Discard()
	loss := &s.slot.m.Meta().Loss
	loss.Clock -= s.missed
	loss.Unaccounted -= s.missed
	s.shelf.giveBack(s.slot)
	return err
}

// run samples until the process has ended or ctx is done.
func (s *session) run(ctx context.Context) (sampler.Ending, error) {
	f := s.follower
	endRecords := f.recorder.record(ctx, s)
	r, err := s.Run(ctx)
	endRecords()
	f.tally.keepSession(s)
	f.session.Store(nil)
	f.shelf.freeSlot(s, r.Snapshot, f.endsMap(r.Ending, err))
	why := r.Ending.Reason
	switch {
	case err != nil:
		why = err.Error()
	case ctx.Err() != nil:
		why = context.Cause(ctx).Error()
	}
	f.note(s, "sampling has ended", "samples", s.counters().Samples, "reason", why)
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
	is, seen := s.Manager.Status(), &s.seen
	if seen.interval != is.Interval {
		if seen.interval != 0 {
			s.follower.tally.count(func(c *Counters) { c.IntervalChanges++ })
			s.follower.raise(EventInterval, "interval %v, was %v", is.Interval, seen.interval)
		}
		seen.interval = is.Interval
	}
	if seen.drift != is.Drift {
		seen.drift = is.Drift
		if is.Drift {
			s.slot.drifted.Store(true)
			s.follower.raise(EventDrift, "the program does something else than before")
		}
	}
	if n := s.heat.leftOut(now); n > 0 {
		s.follower.raise(EventHot, "%s more became hot, without events of their own", figure.PluralOf(int64(n), "method, edge or path", "methods, edges and paths"))
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
	if late := now.Sub(s.began) - s.Manager.Status().Elapsed; late > lateTurn {
		return fmt.Errorf("target %s, %v: no turn for %v", s.follower.Name, s.follower.attr(s.follower.facts.PID), late.Round(time.Second))
	}
	return nil
}
