// Package session samples one target for a command, and reports how that went. It works
// like this:
//
//  1. [Open] makes the queue and the map, opens the source, and describes the target in
//     the map's metadata.
//  2. [Session.Announce] tells the user the target, the interval and the engine.
//  3. [Session.Run] samples until the target, the duration or the context ends, or the
//     goal is reached. Meanwhile it draws a live line. A profile that no output took is
//     kept in a temporary file.
//  4. [Session.Report] prints the hottest methods and everything that a reader of the
//     profile must know, as text or as JSON.
//
// Commands have the flags; they make a [Config] of them.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// Config says how a session samples, and how it reports.
type Config struct {
	Unit      ccmap.Unit    // of the samples' weights: CPU time by default
	Interval  time.Duration // CPU time between two samples of a thread
	Idle      time.Duration // waits of goroutines that last longer are idle; 0: none is
	Under     []string      // functions that answer requests: waits below them are not
	Duration  time.Duration // the session ends after it; 0: never
	Began     time.Time     // Duration counts from it; zero: from Run
	Hits      float64       // calls a second to catch; 0: none
	NoLabels  bool          // of goroutines
	Threads   bool          // label samples with the names of threads
	MaxHost   float64       // part of a core that an engine may take of every CPU; 0: no limit
	MaxMemory int64         // of the map, bytes; 0: no limit
	Window    time.Duration // time constant of the recent counts; 0: none
	Until     manager.Goal
	Values    manager.ValueOptions // without MaxPoints, which follow from MaxMemory
	Hot       manager.Thresholds
	OnHot     func(pid int, e manager.Event) // takes the events of Hot; nil: there is no threshold
	Dumps     func(pid int) []manager.Dump
	Store     func(sampler.Info) manager.Dump // a further output; nil: none
	Logger    *slog.Logger

	// Tuning is called when the source is open: the target may change until then, and with
	// it the most that sampling may cost.
	Tuning func() tuning.Config

	// Begin returns the interval at which an earlier run of a program had settled, 0 if none is known; nil: the
	// session begins at Interval. Earlier says, after that, which runs are stored; "" or nil: none.
	Begin   func(sampler.Info) time.Duration
	Earlier func() string

	// DaemonCPU returns the CPU time that the session has cost this process. Nil: all that this
	// process has used.
	DaemonCPU func() time.Duration

	Children Children // that are sampled beside; nil: none

	Quiet   bool // print errors only
	Verbose bool // report the host's figures, too
	JSON    bool // report as JSON
}

// Children are the child processes of the target.
type Children interface {
	// Begin begins to sample them, until ctx is done or Merged is called. Status is the session's.
	Begin(ctx context.Context, status func() manager.Status)

	// Merged ends the sampling. It returns the final profile of the session with the profiles of
	// children that run the same program.
	Merged(target ccmap.Target, s *ccmap.Snapshot) *ccmap.Snapshot

	// Write writes the profiles of children that run other programs, after Merged. It returns the
	// names of the outputs.
	Write() (written []string, err error)

	// Text and JSON report how it went, after Write: the programs of the tree, and the processes without samples.
	Text(w io.Writer)
	JSON() any

	// Heaviest returns the profile of the program that has used the most CPU time, and its file; nil: that is the
	// target's own.
	Heaviest() (file string, s *ccmap.Snapshot)
}

// Opener opens the source of a session. The options have no PID.
type Opener func(sampler.ProcessOptions) (engine.Choice, error)

// Session samples one target.
type Session struct {
	*recording.Recording
	config Config
}

// Open opens a source and everything that its samples need on their way. The session
// must be run after that.
func Open(c Config, open Opener) (*Session, error) {
	r, err := recording.Open(recording.Options{
		Map: ccmap.New(ccmap.Options{MaxBytes: c.MaxMemory, Window: c.Window}), Tuning: c.Tuning, Begin: c.Begin, Manager: c.manager(),
		Opened: func(choice engine.Choice, m *manager.Config) {
			c.Logger.Info("engine", "name", choice.Source.Info().Engine, "why", choice.Why)
			m.Dumps = c.dumps(choice.Source)
			if pid := choice.Source.Info().Target.PID; c.OnHot != nil {
				m.OnHot = func(e manager.Event) { c.OnHot(pid, e) }
			}
		},
	}, func(sink sampler.Sink) (engine.Choice, error) {
		return open(sampler.ProcessOptions{
			Unit: c.Unit, Interval: c.Interval, Idle: c.Idle, Under: c.Under, HitBudget: orNone(c.Hits), NoLabels: c.NoLabels, Threads: c.Threads, MaxHostOverhead: orNone(c.MaxHost),
			Logger: c.Logger, Sink: sink,
		})
	})
	if err != nil {
		return nil, err
	}
	return &Session{Recording: r, config: c}, nil
}

// orNone returns a bound as a source takes it, for which 0 is the default.
func orNone(bound float64) float64 {
	const none = -1
	return cmp.Or(bound, none)
}

// manager returns the configuration of the session's manager.
func (c *Config) manager() manager.Config {
	m := manager.Config{
		Logger: c.Logger, Until: c.Until, Values: c.Values, DaemonCPU: c.DaemonCPU, Hot: c.Hot,
		Budgets: manager.BudgetNames{
			Target: "--max-overhead", Host: "--max-host-overhead", Own: "--tune, which bounds ccmapd's own CPU time,",
		},
	}
	m.Values.MaxPoints = maxPoints(c.MaxMemory)
	return m
}

// dumps returns the outputs. They get the profile with that of children.
func (c *Config) dumps(source engine.Source) []manager.Dump {
	dumps := c.Dumps(source.Info().Target.PID)
	if c.Store != nil {
		dumps = append(dumps, c.Store(source.Info()))
	}
	if c.Children == nil {
		return dumps
	}
	whole := slices.Clone(dumps)
	for i, d := range dumps {
		whole[i].Write = func(s *ccmap.Snapshot) error { return d.Write(c.Children.Merged(source.Info().Target, s)) }
	}
	return whole
}

// errDuration is why a session with a duration stops.
var errDuration = errors.New("duration is over")

// Run samples until the context is done, the duration is over or the process
// has ended. Meanwhile it draws a live line on live, if that is a terminal, and says on
// notices that the goal is out of reach.
func (s *Session) Run(ctx context.Context, live, notices io.Writer) (manager.Report, error) {
	if s.config.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, s.config.deadline(), errDuration)
		defer cancel()
	}
	if !s.config.Quiet {
		defer startLiveLine(live, s.Manager.Status).Stop()
	}
	defer s.watchGoal(notices)()
	r, err := s.sample(ctx)
	if err != nil && len(r.Written) == 0 && !r.Snapshot.Total().IsZero() {
		r, err = s.keep(r, err)
	}
	if s.config.Children == nil {
		return r, err
	}
	written, failed := s.config.Children.Write()
	r.Written = append(r.Written, written...)
	return r, errors.Join(err, failed)
}

// deadline returns when a session that runs now ends.
func (c *Config) deadline() time.Time {
	if c.Began.IsZero() {
		return time.Now().Add(c.Duration)
	}
	return c.Began.Add(c.Duration)
}

// sample runs the manager, with the children beside it.
func (s *Session) sample(ctx context.Context) (manager.Report, error) {
	children := s.config.Children
	if children == nil {
		return s.Recording.Run(ctx)
	}
	children.Begin(ctx, s.Manager.Status)
	r, err := s.Recording.Run(ctx)
	r.Snapshot = children.Merged(s.Target(), r.Snapshot)
	return r, err
}

// keep writes a profile that could not be written to any output, because of err,
// where that is still possible.
func (s *Session) keep(r manager.Report, err error) (manager.Report, error) {
	file, failed := output.WriteTemp(r.Snapshot, s.Info().Target.PID)
	if failed != nil {
		return r, errors.Join(err, failed)
	}
	r.Written = []string{file}
	return r, advice.Add(err, "The profile is in %s instead.", file)
}

// Snapshot returns the map as it was published last, and asks for a newer one.
func (s *Session) Snapshot() *ccmap.Snapshot { return s.Manager.Snapshot() }

// Target describes the program that is sampled.
func (s *Session) Target() ccmap.Target { return s.Info().Target }

// Status returns the state of the session.
func (s *Session) Status() manager.Status { return s.Manager.Status() }

// Name names the program that is sampled.
func (s *Session) Name() string {
	target := s.Target()
	return fmt.Sprintf("%s (%d)", path.Base(target.Executable), target.PID)
}

// Announce says which process is about to be sampled, and how.
func (s *Session) Announce(w io.Writer, until string) {
	if s.config.Quiet {
		return
	}
	info := s.Info()
	if info.Lacks != "" {
		fmt.Fprintf(w, "Taking profiles of %s%s, by %s (%s). %s\nOf such a program %s.\n",
			terminal.Printable(path.Base(cmp.Or(info.Target.Executable, "the program"))), s.atMost(), info.Engine, terminal.Reason(s.Why), until, info.Lacks)
		return
	}
	if info.Of != "" {
		fmt.Fprintf(w, "Sampling %d (%s): %s%s, by %s (%s). %s\n",
			info.Target.PID, terminal.Printable(path.Base(info.Target.Executable)), info.Of, s.atMost(), info.Engine, terminal.Reason(s.Why), until)
		return
	}
	interval := s.Source.Stats().Interval
	fmt.Fprintf(w, "Sampling %d (%s) every %v of CPU time%s, by %s (%s). %s\n",
		info.Target.PID, terminal.Printable(path.Base(info.Target.Executable)), interval, s.atMost(), info.Engine, terminal.Reason(s.Why), until)
	switch {
	case s.Resumed != 0:
		fmt.Fprintf(w, "It begins there, and not at %v, as the last run of this build had settled there.\n", s.config.Interval)
	case interval != s.config.Interval:
		fmt.Fprintf(w, "The engine cannot sample every %v, as --interval asks for.\n", s.config.Interval)
	}
	if info.NoKernelTime != "" {
		fmt.Fprintf(w, "Time in the kernel is left out: %s.\n", terminal.Reason(info.NoKernelTime))
	}
}

// atMost describes the duration, for people.
func (s *Session) atMost() string {
	if s.config.Duration == 0 {
		return ""
	}
	return fmt.Sprintf(" for %v", s.config.Duration)
}

// Bounds of the profile points of caught calls.
const leastPoints, mostPoints = 64, 1 << 16

// maxPoints returns how many profile points a memory has room for, where 0 is no
// limit: a quarter of it is for them, in the map and before they get there.
func maxPoints(memory int64) int {
	const pointBytes = 320 // with a few targets
	if memory == 0 {
		return mostPoints
	}
	return int(min(max(memory/4/2/pointBytes, leastPoints), mostPoints))
}

// Pinned returns an opener that refuses a process which has ended since it was found: its number may
// be another process's.
func Pinned(pid int, p supervise.Pin, open Opener) Opener {
	return func(o sampler.ProcessOptions) (engine.Choice, error) {
		got, err := open(o)
		if err == nil && p.Gone() {
			ended := fmt.Errorf("attach to process %d: it has ended: %w", pid, sampler.ErrNoProcess)
			return engine.Choice{}, errors.Join(ended, got.Source.Close())
		}
		return got, err
	}
}
