package managed

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// timekeeper gives samples their time. A sample claims the time of the marks that its
// thread has run for since its last sample, so a late marker, or a thread that reaches
// its safe point late, loses nothing. Time passes while this process has a processor:
// neither waiting nor a busy machine makes samples heavier. All samples together get the
// time that the process has run, and no more. If they claim more, as more threads than
// processors do, each gets its share.
//
//	bounded             written by New
//	elapsed, scale      written by the marker, read by threads
//	claimed             added to by threads, taken by the marker
//	bank                filled by the marker, drawn on by threads
//	recently…, short    the marker's own
type timekeeper struct {
	bounded bool         // by the CPU time of the process; otherwise the VM gives the time
	elapsed atomic.Int64 // ns, at the last mark

	scale   atomic.Uint64 // bits of a float64, over 0 to 1: the value of a claim
	claimed atomic.Int64  // ns, since the last mark
	bank    atomic.Int64  // ns of CPU time that no sample got; negative: claims were cut

	recentlyRan, recentlyClaimed float64 // ns an interval, averages over about recentMarks
	short                        bool    // the bank was short, and claims are still more than the CPU time
}

// mostBanked bounds the time that a processor leaves for later claims. It is for a thread
// that runs without a safe point, and claims its time at the next one.
const mostBanked = 10 * time.Second

// recentMarks is the number of marks over which claims are compared with CPU time. A
// thread that waits for a processor claims all that time when it runs, so claims come in
// heaps. The number covers more marks than a goroutine runs for without preemption (10
// ms, forcePreemptNS in runtime/proc.go, Go 1.26).
const recentMarks = 128

// claim returns the weight of a sample whose thread has accounted for the time up to
// accounted, and the present time. Both are ns.
func (k *timekeeper) claim(accounted int64) (weight, now int64) {
	now = k.elapsed.Load()
	if !k.bounded {
		return now - accounted, now
	}
	k.claimed.Add(now - accounted)
	weight = int64(float64(now-accounted) * k.worth())
	if left := k.bank.Add(-weight); left < 0 {
		weight = max(weight+left, 0)
	}
	return weight, now
}

func (k *timekeeper) worth() float64 { return math.Float64frombits(k.scale.Load()) }

func (k *timekeeper) setWorth(part float64) { k.scale.Store(math.Float64bits(part)) }

// pass adds the time that the next mark stands for.
func (k *timekeeper) pass(d time.Duration) { k.elapsed.Add(int64(d)) }

// run adds the time d, and the CPU time ran that a number of processors gave the process
// meanwhile. No thread has run longer than all processors together.
func (k *timekeeper) run(d, ran time.Duration, processors int) {
	left := k.bank.Load()
	k.bank.Add(min(max(left, 0)+int64(ran), int64(processors)*int64(mostBanked)) - left)
	k.short = k.short || left < 0
	k.share(float64(ran))
	k.pass(min(d, ran))
}

// share sets the value of claims from now on: all of it or, once the bank was short, the
// recent CPU time as part of the recent claims.
func (k *timekeeper) share(ran float64) {
	k.recentlyClaimed += (float64(k.claimed.Swap(0)) - k.recentlyClaimed) / recentMarks
	k.recentlyRan += (ran - k.recentlyRan) / recentMarks
	k.short = k.short && k.recentlyClaimed > k.recentlyRan
	if k.short {
		k.setWorth(k.recentlyRan / k.recentlyClaimed)
	} else {
		k.setWorth(1)
	}
}

// processTime returns the CPU time of all threads of this process.
func processTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err) // the clock exists since Linux 2.6 (clock_gettime(2))
	}
	return time.Duration(t.Nano())
}
