package managed

import (
	"math"
	"sync/atomic"
	"time"
)

// timekeeper says how much time samples stand for. A sample claims the time of
// the marks that its thread has run for since its last sample, so that a late
// marker, or a thread that is late at its safe point, loses none. Time is what
// passed while this process had a processor: neither waiting nor a busy machine
// makes samples heavier. All samples together are given what the process has run,
// and no more: where they claim more, as more threads than processors do, each
// gets its share.
//
//	bounded             written by New
//	elapsed, scale      written by the marker, read by threads
//	claimed             added to by threads, taken by the marker
//	bank                filled by the marker, drawn on by threads
//	recently…, short    the marker's own
type timekeeper struct {
	bounded bool         // by what the process has run; otherwise the VM says what time it is
	elapsed atomic.Int64 // ns, at the last mark

	scale   atomic.Uint64 // bits of a float64, over 0 to 1: what a claim is worth
	claimed atomic.Int64  // ns, since the last mark
	bank    atomic.Int64  // ns of CPU time that no sample was given; negative: claims were cut

	recentlyRan, recentlyClaimed float64 // ns an interval, averages over some recentMarks
	short                        bool    // the bank was, and claims have not come down to what has run
}

// mostBanked bounds what a processor leaves for later claims: time that a thread
// has run for without a safe point, and claims at the next one.
const mostBanked = 10 * time.Second

// recentMarks is over how many marks claims are compared with what has run. A thread
// that waits for a processor claims all that time when it runs, so that claims come
// in heaps: more marks than a goroutine runs for without being preempted (10 ms,
// forcePreemptNS in runtime/proc.go, Go 1.26).
const recentMarks = 128

// claim returns the weight of a sample whose thread has accounted for the time up
// to the one given, and up to which time that is now. Both are ns.
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

// pass lets the time pass that the next mark stands for.
func (k *timekeeper) pass(d time.Duration) { k.elapsed.Add(int64(d)) }

// run lets time pass in which so many processors ran the process for the CPU time
// given: no thread has run longer than all of them together.
func (k *timekeeper) run(d, ran time.Duration, processors int) {
	left := k.bank.Load()
	k.bank.Add(min(max(left, 0)+int64(ran), int64(processors)*int64(mostBanked)) - left)
	k.short = k.short || left < 0
	k.share(float64(ran))
	k.pass(min(d, ran))
}

// share settles what claims are worth from now on: all of it or, once the bank was
// short, the part that has run of what was claimed recently.
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
