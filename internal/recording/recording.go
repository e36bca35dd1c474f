// Package recording is one session of sampling: a source with its queue, the map that its samples go to, and the
// manager between them, with a tuner where the source has an interval that can be tuned. The daemon and the commands
// have their sessions from here.
package recording

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/tuning"
)

// ringWords holds 65 stacks of 1,000 frames, or over 1,000 of usual depth: more than a source takes while the manager
// is at a long turn.
const ringWords = 64 << 10

// Options of a recording. Map is required.
type Options struct {
	Map *ccmap.Map

	// Manager is the manager's configuration without Source, Map and Tuner.
	Manager manager.Config

	// Tuning is called when the source is open, if it can be tuned: the target may change until then, and with it
	// the most that sampling may cost. Nil: the interval stays.
	Tuning func() tuning.Config

	// Begin returns the interval at which the last session of the same program had settled, when the source is open;
	// 0: that is not known. The tuner begins there, within its bounds. Nil: the interval begins as it is.
	Begin func(sampler.Info) time.Duration

	// Opened is called when the source is open and described in the map, before the manager takes the map: it may
	// complete the manager's configuration, and the map's metadata. Nil: nothing is.
	Opened func(engine.Choice, *manager.Config)
}

// Opener opens the source of a recording.
type Opener func(sampler.Sink) (engine.Choice, error)

// Recording is a session of sampling. Any goroutine may call its methods, Run or Discard once. The manager has its
// state and its snapshots.
type Recording struct {
	engine.Choice
	Manager *manager.Manager
	Resumed time.Duration // interval that Begin gave; 0: none
	meta    *ccmap.Meta   // of the map
}

// Open opens a source and everything that its samples need on their way. Run must follow, or Discard.
func Open(o Options, open Opener) (*Recording, error) {
	choice, err := open(sampler.Sink{Queue: queue.New(queue.Options{RingWords: ringWords}), Names: o.Map.Names()})
	if err != nil {
		return nil, err
	}
	describe(o.Map.Meta(), choice)
	c := o.Manager
	c.Source, c.Map = choice.Source, o.Map
	if o.Opened != nil {
		o.Opened(choice, &c)
	}
	r := &Recording{Choice: choice, meta: o.Map.Meta()}
	if err := r.manage(c, o); err != nil {
		return nil, errors.Join(err, choice.Source.Close())
	}
	return r, nil
}

// manage makes the manager, with its tuner. Samples that are not of CPU time have no interval to tune, and a program
// that profiles itself decides on its own.
func (r *Recording) manage(c manager.Config, o Options) (err error) {
	info := r.Info()
	if source, tunable := c.Source.(sampler.Tunable); tunable && o.Tuning != nil && info.Unit == ccmap.CPUTime {
		tuned := o.Tuning()
		if info.Embedded {
			tuned.SampleCost = manager.EmbeddedSampleCost
		}
		if o.Begin != nil && !tuned.Off {
			r.begin(source, &tuned, o.Begin(info))
		}
		if c.Tuner, err = tuning.New(tuned); err != nil {
			return err
		}
	}
	r.Manager, err = manager.New(c)
	return err
}

// The bounds of the tuner where a configuration has none. An interval that was stored is another's word.
const shortest, longest = 100 * time.Microsecond, 100 * time.Millisecond

// begin has the source and the tuner begin at an interval, unless the map goes on with one of its own. A source that
// cannot change its interval keeps it.
func (r *Recording) begin(source sampler.Tunable, c *tuning.Config, at time.Duration) {
	if at <= 0 || len(r.meta.Interval) > 0 {
		return
	}
	at = min(max(at, cmp.Or(c.Min, shortest)), cmp.Or(c.Max, longest))
	if at != c.Initial && source.SetInterval(at) == nil {
		c.Initial, r.Resumed = at, at
	}
}

// mostWarnings bounds the comments of a map that goes on from process to process.
const mostWarnings = 8

// describe says in a map's metadata what is sampled, and how. Warnings of earlier processes stay.
func describe(meta *ccmap.Meta, choice engine.Choice) {
	info := choice.Source.Info()
	meta.Target, meta.Engine = info.Target, info.Engine
	comments := []string{"engine " + info.Engine + ": " + choice.Why}
	if info.NoKernelTime != "" {
		comments = append(comments, ccmap.CommentNoKernel+info.NoKernelTime)
	}
	if info.Of != "" {
		comments = append(comments, "samples of "+info.Of)
	}
	if info.Lacks != "" {
		comments = append(comments, info.Lacks)
	}
	for _, c := range meta.Comments {
		if strings.HasPrefix(c, ccmap.CommentWarning) && len(comments) < mostWarnings {
			comments = append(comments, c)
		}
	}
	meta.Comments = comments
}

// Info describes the source.
func (r *Recording) Info() sampler.Info { return r.Source.Info() }

// Run samples until the process has ended or ctx is done.
func (r *Recording) Run(ctx context.Context) (manager.Report, error) {
	if r.Resumed != 0 { // the reason of the first interval
		r.meta.Interval = []ccmap.IntervalChange{{Interval: r.Source.Stats().Interval, Reason: tuning.Resumed}}
	}
	return r.Manager.Run(ctx)
}

// Discard closes a recording that was not run.
func (r *Recording) Discard() error { return r.Source.Close() }
