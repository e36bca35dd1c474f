package indirect

import (
	"errors"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"golang.org/x/sys/unix"
)

// A burst is a hardware breakpoint on one call instruction, set for some
// milliseconds on a few threads.
type burst struct {
	site   *site
	events []*perfevent.Ring // of the threads
	began  time.Time         // when it was set
	next   time.Time         // when to see whether it is over
	until  time.Time         // when it is over at the latest
}

const (
	// burstThreads is how many threads a burst is set on at most, and
	// threadCalls how many calls it catches on each. Many small bursts tell more
	// of a target that works in phases than a few large ones. But the calls of
	// one burst begin where time is spent, after a call that takes long: of five
	// calls that always come in the same order, the longest last, four in a row
	// would never be the last.
	burstThreads = 2
	threadCalls  = 32
	// BurstCalls is how many calls a burst catches at most, or a few more.
	BurstCalls = burstThreads * threadCalls
	// burstTime is how long a burst lasts if calls are rare.
	burstTime = 16 * time.Millisecond
	// firstLook is how soon the engine examines whether a burst is full, unless the last
	// burst at the site was not full. Each look wakes the engine up, so the next one is when
	// the burst's time is up.
	firstLook = time.Millisecond
	// MaxChain is the number of addresses that the chain of a caught call has at
	// most, with the call itself.
	MaxChain = 8
)

var errNoThread = errors.New("no thread to catch calls of: all have ended")

// openBurst sets a breakpoint on threads of the site, drawn at random from the threads
// that are alive. The number of a thread that has ended may belong to another process
// by now.
func openBurst(s *site, alive func(tid uint32) bool, now time.Time) (*burst, error) {
	b := &burst{site: s, began: now, next: now.Add(s.patience()), until: now.Add(burstTime)}
	tids := make([]uint32, burstThreads)
	for i := range tids {
		tids[i] = s.draw()
	}
	slices.Sort(tids)
	breakpoint := s.breakpoint()
	failure := errNoThread
	for _, tid := range slices.Compact(tids) {
		if !alive(tid) {
			continue
		}
		e, err := breakpoint.Set(tid, threadCalls)
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

// over reports whether the burst has caught all its calls, or its time is up.
func (b *burst) over(now time.Time) bool {
	if now.Before(b.next) {
		return false
	}
	b.next = b.until
	return !now.Before(b.until) || b.full()
}

func (b *burst) full() bool {
	for _, e := range b.events {
		if n, err := e.Count(); err == nil && n < threadCalls {
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
