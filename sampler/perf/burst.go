package perf

import (
	"errors"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"golang.org/x/sys/unix"
)

// A burst is a hardware breakpoint on one call instruction, set for some
// milliseconds on a few threads. It belongs to the drainer.
//
// Each thread has an event and a ring of its own, because an event that follows
// its thread over all CPUs cannot send its samples into the ring of one
// (perf_event_set_output, Linux 6.18).
//
// The target does not stop: the kernel writes a sample and lets the instruction
// run, with the resume flag set so that it is not trapped again. When an event
// has caught what it is good for, the kernel switches it off.
type burst struct {
	site   *site
	events []*perfevent.Ring // of the threads; each owns its event
	next   time.Time         // when to see whether it is over
	until  time.Time         // when it is over at the latest
}

const (
	// burstThreads is how many threads a burst is set on at most, and
	// threadHits how many calls it catches on each. Many small bursts tell more
	// of a target that works in phases than a few large ones. But the calls of
	// one begin where time is spent, behind a call that takes long: of five
	// calls that always come in the same order, the longest last, four in a row
	// would never be the last.
	burstThreads = 2
	threadHits   = 32
	burstHits    = burstThreads * threadHits
	// burstTime is how long a burst lasts if calls are rare.
	burstTime = 8 * time.Millisecond
	// firstLook is when a burst is over if calls are frequent. It is looked at
	// once before its time is up, because each look wakes the drainer up.
	firstLook = time.Millisecond
	// hitCallers is how many addresses the chain of a hit has, that of the
	// call included.
	hitCallers = 8
)

var errNoThread = errors.New("no thread to catch calls of: all have ended")

// openBurst sets a breakpoint on threads of the site, drawn at random from those
// that are alive: the number of one that has ended may be that of another
// process's thread by now.
func openBurst(s *site, alive func(tid uint32) bool, now time.Time) (*burst, error) {
	b := &burst{site: s, next: now.Add(firstLook), until: now.Add(burstTime)}
	tids := make([]uint32, burstThreads)
	for i := range tids {
		tids[i] = s.draw()
	}
	slices.Sort(tids)
	breakpoint := s.call.breakpoint()
	failure := errNoThread
	for _, tid := range slices.Compact(tids) {
		if !alive(tid) {
			continue
		}
		e, err := breakpoint.Set(tid, threadHits)
		switch {
		case err == nil:
			b.events = append(b.events, e)
		case !errors.Is(err, unix.ESRCH):
			failure = err
		}
	}
	if len(b.events) == 0 {
		return nil, failure
	}
	return b, nil
}

// over says whether the burst has caught all it is good for, or its time is up.
func (b *burst) over(now time.Time) bool {
	if now.Before(b.next) {
		return false
	}
	b.next = b.until
	return !now.Before(b.until) || b.full()
}

func (b *burst) full() bool {
	for _, e := range b.events {
		if n, err := e.Count(); err == nil && n < threadHits {
			return false
		}
	}
	return true
}

// drain switches the breakpoint off and hands the bodies of the samples over,
// which are valid until the burst is closed.
func (b *burst) drain(take func(body []byte)) {
	for _, e := range b.events {
		e.Stop()
		e.Refresh()
		for ok, _ := e.Peek(); ok; ok, _ = e.Peek() {
			if e.Next.Kind == unix.PERF_RECORD_SAMPLE {
				take(e.Next.Body)
			}
			e.Advance()
		}
	}
}

func (b *burst) close() {
	for _, e := range b.events {
		e.Close()
	}
	b.events = nil
}
