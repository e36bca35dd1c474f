package taker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
)

// counting has the profile that the target's runtime keeps, as it was last read.
//
//	latest, why   start and its goroutine write them, any goroutine reads them
//
// All else is the engine's.
type counting struct {
	latest atomic.Pointer[counted]
	why    atomic.Pointer[string] // no calls are caught; nil: the runtime keeps no profile
	stop   context.CancelFunc     // nil: the runtime keeps none
	ended  chan struct{}          // closed when the goroutine has ended
}

type counted struct {
	points  []ccmap.Point
	version uint64
}

// start reads the runtime's profile in a goroutine of its own, until end.
func (c *counting) start(r process.Counter, names *ccmap.Names, log *slog.Logger) {
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.ended = stop, make(chan struct{})
	watch := new(hang.Watch)
	c.explain(countsItself + ", and has counted too few yet")
	publish := func(points []ccmap.Point) {
		version := uint64(1)
		if last := c.latest.Load(); last != nil {
			version = last.version + 1
		}
		c.latest.Store(&counted{points, version})
		c.explain(countsItself)
	}
	go func() {
		defer close(c.ended)
		var err error
		hung := watch.Run(ctx, func() { err = r.Count(ctx, watch, names, publish) })
		if hung != nil {
			err = hung
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			c.explain(countsItself + ", and these counts cannot be read: " + err.Error())
			log.Info("no further profile of the target's own", "reason", err)
		}
	}()
}

// countsItself begins the reason why no calls of a runtime with a profile of its own are caught.
const countsItself = "the VM counts them itself"

func (c *counting) explain(why string) { c.why.Store(&why) }

// reason says why no calls are caught; "" of a runtime that keeps no profile.
func (c *counting) reason() string {
	if why := c.why.Load(); why != nil {
		return *why
	}
	return ""
}

// end stops the goroutine and waits for it.
func (c *counting) end() {
	if c.stop != nil {
		c.stop()
		<-c.ended
		c.stop = nil
	}
}

// Counted returns the profile that the target's runtime keeps, see [sampler.Counting].
func (t *Taker) Counted() ([]ccmap.Point, uint64) {
	if c := t.counting.latest.Load(); c != nil {
		return c.points, c.version
	}
	return nil, 0
}
