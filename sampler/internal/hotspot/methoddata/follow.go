package methoddata

import (
	"context"
	"errors"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	// every is the time between two updates.
	every = 5 * time.Second
	// share bounds the cost: snapshots of all methods take one part in share of the time,
	// and so do updates.
	share = 200
)

// Follow reads the profiles of all warm methods, and then again and again those of the
// methods that hot returns, until ctx is done, and then a last time. Now and then it reads all of
// them. Each time that something changed it calls publish with all points; the slice is not written
// to any more. A JVM that has only begun may have few profiles, so Follow waits for more. It fails
// if the JVM keeps them in an unknown way.
func (r *Reader) Follow(ctx context.Context, names *ccmap.Names, hot func() []uint64, publish func([]ccmap.Point)) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	var all, some time.Time // when the next snapshot and the next update are due
	for {
		start := time.Now()
		switch {
		case !start.Before(all):
			if err := r.Snapshot(); err != nil && !errors.Is(err, ErrFew) {
				return err
			}
			r.publish(names, publish)
			all = start.Add(max(every, share*time.Since(start)))
		case !start.Before(some):
			r.update(names, hot, publish)
			some = start.Add(max(every, share*time.Since(start)))
		}
		select {
		case <-ctx.Done():
			r.update(names, hot, publish)
			return nil
		case <-ticks.C:
		}
	}
}

// update reads the profiles of hot methods again.
func (r *Reader) update(names *ccmap.Names, hot func() []uint64, publish func([]ccmap.Point)) {
	r.Update(hot())
	r.publish(names, publish)
}

// publish hands over the points if there are others than before.
func (r *Reader) publish(names *ccmap.Names, publish func([]ccmap.Point)) {
	if r.changed {
		publish(r.Points(names))
	}
}
