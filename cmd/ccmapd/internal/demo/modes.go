package demo

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// burn takes CPU time in proportion to rounds, within one activation: it calls
// nothing.
//
//go:noinline
func burn(rounds int) uint64 {
	x := uint64(rounds) | 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// runSpin calls burn over and over, every time for d of CPU time.
func runSpin(l *load, d time.Duration, book *ledger) error {
	perSecond, err := burnRate()
	if err != nil {
		return err
	}
	rounds := int(d.Seconds() * perSecond)
	for l.more() {
		runtime.KeepAlive(burn(rounds))
		book.add(&tally{callBurn: 1})
	}
	return nil
}

// burnRate returns the number of burn's rounds in a second of CPU time: the best of three
// measurements, as the others were disturbed.
func burnRate() (perSecond float64, err error) {
	const rounds = 1 << 22
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 3 {
		start, err := threadCPU()
		if err != nil {
			return 0, err
		}
		runtime.KeepAlive(burn(rounds))
		end, err := threadCPU()
		if err != nil {
			return 0, err
		}
		perSecond = max(perSecond, rounds/(end-start).Seconds())
	}
	return perSecond, nil
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("read CPU clock of thread: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// stressRounds is the length of a burn in the stress modes, well below a millisecond.
const stressRounds = 1 << 14

// descend recurses to a depth and burns there.
//
//go:noinline
func descend(depth int, t *tally) uint64 {
	t[callDescend]++
	if depth <= 1 {
		t[callBurn]++
		return burn(stressRounds)
	}
	return descend(depth-1, t) + 1
}

func runDeep(l *load, depth int, book *ledger) error {
	for l.more() {
		var t tally
		descend(depth, &t)
		book.add(&t)
	}
	return nil
}

// runGoroutines lets n goroutines burn in turns. With threads, each is locked to a thread
// of its own.
func runGoroutines(l *load, n int, threads bool, book *ledger) error {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { worker(l, threads, book) })
	}
	all.Wait()
	return nil
}

// worker ends its thread, if it has locked one, by ending locked.
func worker(l *load, thread bool, book *ledger) {
	if thread {
		runtime.LockOSThread()
	}
	book.called(&tally{callWorker: 1}) // even if the others leave it no request
	for l.more() {
		runtime.KeepAlive(burn(stressRounds))
		book.add(&tally{callBurn: 1})
		runtime.Gosched()
	}
}
