package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// A process has its own profiles taken because no better engine was permitted. That may change while
// the process lives: an administrator follows the advice of doctor. So the better engines are tried
// from time to time. If one opens, the session ends between two profiles, and the
// follower attaches anew. The map of the slot goes on.

// betterEvery is the time between two looks, about. Each reads the symbols of the process.
const betterEvery = 10 * time.Minute

// errBetter says that the session has ended because a better engine can sample the process.
var errBetter = errors.New("a better engine can sample the process")

// finisher is a source that can end after the profile under way.
type finisher interface{ Finish() }

// lookForBetter looks for a better engine while a session runs, and makes the session finish when there is
// one. The caller calls found when the session has ended.
func (f *follower) lookForBetter(ctx context.Context, s *session) (found func() bool) {
	better := f.betterThan(s.Info().Engine)
	source, finishes := s.Source.(finisher)
	if len(better) == 0 || !finishes {
		return func() bool { return false }
	}
	ctx, stop := context.WithCancel(ctx)
	opened := make(chan bool, 1)
	go func() {
		is := f.awaitBetter(ctx, better)
		if is {
			source.Finish()
		}
		opened <- is
	}()
	return func() bool {
		stop()
		return <-opened
	}
}

// betterThan returns the engines that are better than the one of a session, where it is the last resort
// and the configuration asks for the best.
func (f *follower) betterThan(name string) []engine.Engine {
	if name != engine.PProfHTTP || f.hasNoProcess() || f.settings().Engine != engine.Auto {
		return nil
	}
	last := slices.IndexFunc(f.engines, func(e engine.Engine) bool { return e.Name == name })
	return f.means.unreadable.Spare(f.engines[:max(last, 0)], f.program)
}

// awaitBetter waits until one of the engines opens. It returns false if ctx is done before that, or
// if the process keeps a read waiting.
func (f *follower) awaitBetter(ctx context.Context, better []engine.Engine) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(supervise.Spread(betterEvery, jitter)):
		}
		switch err := f.tryBetter(ctx, better); {
		case err == nil:
			return true
		case errors.Is(err, hang.ErrHung):
			return false
		}
	}
}

// tryBetter opens the first of the engines that is permitted, and closes it: the map is still the
// session's.
func (f *follower) tryBetter(ctx context.Context, better []engine.Engine) error {
	return f.gate.Attempt(ctx, gated(f.facts), supervise.Opener{Open: func(supervise.Pin, process.FileID) error {
		choice, err := engine.Attach(ctx, better, engine.Auto, sampler.ProcessOptions{
			PID: f.facts.PID, HitBudget: -1, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()},
		})
		if err != nil {
			return err
		}
		return choice.Source.Close()
	}})
}
