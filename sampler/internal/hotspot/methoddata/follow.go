package methoddata

import (
	"context"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	// soon is the time until the second reading. The pauses double until they are every: a JVM that ends after a few
	// seconds has been read when its methods were compiled.
	soon, every = 500 * time.Millisecond, 5 * time.Second
	// share bounds the cost: snapshots of all methods take one part in share of the time, and so do updates.
	share = 200
	// grace is the CPU time that readings may take before their share counts: a first reading, of which nothing is known
	// yet, may take 100 ms, and would be the only one for 20 seconds.
	grace = 400 * time.Millisecond
)

// Follow reads the profiles of all warm methods, and then again and again those of the
// methods that hot returns, until ctx is done, and then a last time. Now and then it reads all of
// them. Each time that something changed it calls publish with all points; the slice is not written
// to any more. A JVM that has only begun may have few profiles, so Follow waits for more. It fails
// if the JVM keeps them in an unknown way.
func (r *Reader) Follow(ctx context.Context, names *ccmap.Names, hot func() []uint64, publish func([]ccmap.Point)) error {
	runtime.LockOSThread() // whose CPU time is the cost
	defer runtime.UnlockOSThread()
	var all, some time.Time // when the next snapshot and the next update are due
	begun := usedByThread()
	pace := pace{pause: soon, begun: begun, taken: begun}
	for ; ; pace.pause = min(2*pace.pause, every) {
		start := time.Now()
		switch {
		case !start.Before(all):
			if err := r.Snapshot(); err != nil && !errors.Is(err, ErrFew) {
				return err
			}
			r.publish(names, publish)
			all = pace.next(start)
		case !start.Before(some):
			r.update(names, hot, publish)
			some = pace.next(start)
		}
		select {
		case <-ctx.Done():
			r.update(names, hot, publish)
			return nil
		case <-time.After(pace.pause):
		}
	}
}

// pace spreads readings over time. Their cost is CPU time: on a busy machine they take longer, and cost no more.
type pace struct {
	pause time.Duration // between two looks at what is due
	begun time.Duration // CPU time of the thread before the first reading
	taken time.Duration // likewise, after the last one
}

// next returns when a reading that began at start, and has just ended, is due again.
func (p *pace) next(start time.Time) time.Time {
	before := p.taken
	if p.taken = usedByThread(); p.taken-p.begun <= grace {
		return start.Add(p.pause)
	}
	return start.Add(max(p.pause, share*(p.taken-before)))
}

// usedByThread returns the CPU time that this thread has used.
func usedByThread() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
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
