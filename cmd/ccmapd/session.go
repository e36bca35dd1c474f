package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// session samples one target: what attach, run and demo have in common.
type session struct {
	flags   *samplingFlags
	chosen  engine.Choice
	manager *manager.Manager
}

// ringWords holds 65 stacks of 1,000 frames, or over 1,000 of usual depth: more
// than a source takes while the manager is at a long turn.
const ringWords = 64 << 10

// opener opens the source of a session.
type opener func(sampler.ProcessOptions) (engine.Choice, error)

// openSession opens a source and all that its samples need on their way. The
// session is run after that.
func openSession(env *environment, f *samplingFlags, open opener) (*session, error) {
	q := queue.New(queue.Options{RingWords: ringWords})
	m := ccmap.New(ccmap.Options{MaxBytes: int64(f.memory), Window: f.window})
	log := f.logger(env.stderr)
	got, err := open(sampler.ProcessOptions{
		Interval: f.interval, HitBudget: f.values.hitBudget(), Logger: log, Sink: sampler.Sink{Queue: q, Names: m.Names()},
	})
	if err != nil {
		return nil, err
	}
	info := got.Source.Info()
	log.Info("engine", "name", info.Engine, "why", got.Why)
	describe(m.Meta(), info, got.Why)
	mgr, err := newManager(f, manager.Config{
		Source: got.Source, Map: m, Logger: log, Dumps: f.dumps(env, info.Target.PID),
		Until: f.until.Goal, Values: f.values.options(f.memory, env.stderr),
	})
	if err != nil {
		return nil, errors.Join(err, got.Source.Close())
	}
	return &session{flags: f, chosen: got, manager: mgr}, nil
}

// describe says in a map's metadata what is sampled, and how.
func describe(meta *ccmap.Meta, info sampler.Info, why string) {
	meta.Target, meta.Engine = info.Target, info.Engine
	meta.Comments = append(meta.Comments, "engine "+info.Engine+": "+why)
	if info.NoKernelTime != "" {
		meta.Comments = append(meta.Comments, "time in the kernel is left out: "+info.NoKernelTime)
	}
}

// newManager returns the manager of a session, with the tuner that the flags ask
// for. Where every call is recorded, there is no interval to tune.
func newManager(f *samplingFlags, c manager.Config) (*manager.Manager, error) {
	info := c.Source.Info()
	if info.Unit == ccmap.Instructions {
		return manager.New(c)
	}
	config := f.tuning()
	if info.Embedded {
		config.SampleCost = manager.EmbeddedSampleCost
	}
	tuner, err := tuning.New(config)
	if err != nil {
		return nil, err
	}
	c.Tuner = tuner
	return manager.New(c)
}

// errDuration is why a session with a duration stops.
var errDuration = errors.New("duration is over")

// run samples until the context is done, the duration is over or the process
// has ended. Meanwhile it draws a live line on live, if that is a terminal, and says on
// notices that the goal is out of reach.
func (s *session) run(ctx context.Context, live, notices io.Writer) (manager.Report, error) {
	if s.flags.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.flags.duration, errDuration)
		defer cancel()
	}
	if !s.flags.quiet {
		defer startLiveLine(live, s.manager.Status).Stop()
	}
	defer s.watchGoal(notices)()
	r, err := s.manager.Run(ctx)
	if err != nil && len(r.Written) == 0 && !r.Snapshot.Total().IsZero() {
		return s.keep(r, err)
	}
	return r, err
}

// keep writes a profile that could not be written to any output, because of err,
// where that is still possible.
func (s *session) keep(r manager.Report, err error) (manager.Report, error) {
	file, failed := writeTemp(r.Snapshot, s.chosen.Source.Info().Target.PID)
	if failed != nil {
		return r, errors.Join(err, failed)
	}
	r.Written = []string{file}
	return r, withHint(err, "The profile is in %s instead.", file)
}

// announce says which process is about to be sampled, and how.
func (s *session) announce(w io.Writer, until string) {
	if s.flags.quiet {
		return
	}
	info := s.chosen.Source.Info()
	interval := s.chosen.Source.Stats().Interval
	fmt.Fprintf(w, "Sampling %d (%s) every %v of CPU time%s, by %s (%s). %s\n",
		info.Target.PID, terminal.Printable(path.Base(info.Target.Executable)), interval, s.flags.atMost(), info.Engine, terminal.Printable(s.chosen.Why), until)
	if interval != s.flags.interval {
		fmt.Fprintf(w, "The engine cannot sample every %v, as --interval asks for.\n", s.flags.interval)
	}
	if info.NoKernelTime != "" {
		fmt.Fprintf(w, "Time in the kernel is left out: %s.\n", terminal.Printable(info.NoKernelTime))
	}
}
