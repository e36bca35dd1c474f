package perf

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"golang.org/x/sys/unix"
)

// judge tells whether the innermost activation of a sample is the one of the
// goroutine's last sample. It belongs to the drainer.
//
//	sample k    decide whether sample k+1 is to have a verdict; if so, watch the
//	            word that holds the innermost function's return address
//	sample k+1  other stack: new. Same stack, word written: new. Not written:
//	            repeated. Anything else, or not decided: unknown
//
// The decision is made before the outcome can be known, so that the repetitions
// among the verdicts are those among all samples; giving those verdicts that
// need no watch in every case would make repetitions look rare. For the same
// reason a watch is not taken away from a goroutine that may still come back,
// and a goroutine's first sample counts as new only if a watch was to be had.
//
// The word is watched from when the ring is drained, not from when the sample
// was taken. As long as the same word stays watched nothing is missed: a call
// in between shows at the next sample instead. Before a word is watched for the
// first time a call can be missed, so samples drained late do not start one.
type judge struct {
	history *history
	watches []*holder
	threads *threads
	log     *slog.Logger

	budget   float64       // fraction of one core that watching may take
	chance   float64       // that a sample is judged; follows from budget
	hold     time.Duration // how long a watch waits for its goroutine to be sampled again
	maxLag   time.Duration // age of a sample up to which its word is worth watching
	spent    time.Duration
	reviewed time.Time
	armed    uint64 // watches armed so far
}

// holder is a watch and the goroutine that it is for.
type holder struct {
	*watch
	thread uint64 // 0: free
	since  time.Time
}

const (
	// A watch waits for that many intervals, but at least for minHold.
	holdIntervals = 16
	minHold       = time.Second
	// reviewEvery is how often the chance is set anew.
	reviewEvery = 250 * time.Millisecond
	// minChance keeps a verdict coming now and then however dear they are.
	minChance = 0.001
	// A sample is worth watching up to that fraction of the interval after it,
	// and up to longestLag: a call in between is missed.
	lagFraction = 8
	longestLag  = 2 * time.Millisecond
	// defaultWatches leaves one of the four debug registers of an x86 CPU to
	// others.
	defaultWatches = 3
)

func newJudge(n int, budget float64, t *threads, log *slog.Logger) *judge {
	j := &judge{history: newHistory(), threads: t, log: log, budget: budget, chance: 1, reviewed: time.Now()}
	j.follow(t.state().interval)
	for range n {
		w, err := openWatch(uint32(t.pid))
		if err != nil {
			j.explain(err)
			break
		}
		j.watches = append(j.watches, &holder{watch: w})
	}
	return j
}

// explain logs why there are no more watchpoints.
func (j *judge) explain(err error) {
	reason := "hardware watchpoints not available"
	if errors.Is(err, unix.ENOSPC) {
		reason = "debug registers are in use, by a debugger or another profiler"
	}
	j.log.Info(reason, "watchpoints", len(j.watches), "error", err)
}

func (j *judge) close() {
	for _, h := range j.watches {
		h.close()
	}
	j.watches = nil
}

// judge gives the verdict on a sample and prepares the next one. lag is the
// sample's age; entry gives the entry of the function at an address.
func (j *judge) judge(thread uint64, now *past, lag time.Duration, entry func(pc uint64) uint64) ccmap.Repetition {
	if len(j.watches) == 0 {
		return ccmap.TopUnknown
	}
	runtime.LockOSThread() // its CPU time is what judging costs
	defer runtime.UnlockOSThread()
	begin := threadTime()
	before := j.history.last[thread]
	top := ccmap.TopUnknown
	if before != nil && before.judged && j.holder(thread) != nil {
		top = j.verdict(thread, before, now, entry)
	}
	now.judged = rand.Float64() < j.chance && j.watch(thread, now.slot, top == ccmap.TopRepeated, lag)
	if before == nil && now.judged && !j.history.forgot {
		top = ccmap.TopNew // the goroutine's first sample
	}
	if !now.judged {
		j.release(thread)
	}
	j.history.keep(thread, now)
	j.spent += threadTime() - begin
	return top
}

func (j *judge) verdict(thread uint64, before, now *past, entry func(pc uint64) uint64) ccmap.Repetition {
	switch compare(before, now, entry) {
	case unlike:
		return ccmap.TopNew
	case same:
		return j.ask(thread, now.slot)
	}
	return ccmap.TopUnknown
}

// ask looks whether the word was written since it is watched.
func (j *judge) ask(thread, slot uint64) ccmap.Repetition {
	h := j.holder(thread)
	if h == nil || h.addr != slot {
		return ccmap.TopUnknown // the stack was moved
	}
	dirty, err := h.dirty()
	switch {
	case err != nil:
		j.log.Debug("ask watchpoint", "error", err)
		return ccmap.TopUnknown
	case dirty:
		return ccmap.TopNew
	}
	return ccmap.TopRepeated
}

// watch makes sure that a word is watched for a goroutine. clean says that it
// already is, and was not written.
func (j *judge) watch(thread, slot uint64, clean bool, lag time.Duration) bool {
	h := j.holder(thread)
	switch {
	case h != nil && clean:
		h.since = time.Now()
		return true
	case slot == 0, lag > j.maxLag && (h == nil || h.addr != slot):
		return false
	case h == nil:
		h = j.free()
	}
	if h == nil {
		return false
	}
	if err := h.arm(slot, j.threads.watchable(len(j.watches))); err != nil {
		j.log.Debug("arm watchpoint", "error", err)
		return false
	}
	j.armed++
	h.thread, h.since = thread, time.Now()
	return true
}

// holder returns the watch that a goroutine has, or nil.
func (j *judge) holder(thread uint64) *holder {
	for _, h := range j.watches {
		if h.thread == thread {
			return h
		}
	}
	return nil
}

// free returns a watch that no goroutine has, or whose goroutine has not come
// back; nil if there is none.
func (j *judge) free() *holder {
	for _, h := range j.watches {
		if h.thread == 0 || time.Since(h.since) > j.hold {
			return h
		}
	}
	return nil
}

// release gives a goroutine's watch up. It stays armed, for one hit a thread
// at most.
func (j *judge) release(thread uint64) {
	if h := j.holder(thread); h != nil {
		h.thread = 0
	}
}

// review sets the chance of a verdict so that watching keeps to its budget, and
// follows the interval.
func (j *judge) review(now time.Time) {
	elapsed := now.Sub(j.reviewed)
	if elapsed < reviewEvery {
		return
	}
	if used := j.spent.Seconds() / elapsed.Seconds(); used > 0 {
		j.chance = min(1, max(minChance, j.chance*min(2, j.budget/used)))
	}
	j.follow(j.threads.state().interval)
	j.reviewed, j.spent = now, 0
}

// follow adapts what depends on the interval.
func (j *judge) follow(interval time.Duration) {
	j.hold = max(minHold, holdIntervals*interval)
	j.maxLag = min(longestLag, interval/lagFraction)
}

// attach watches a new thread too, detach forgets one that has ended.
func (j *judge) attach(tid uint32) {
	for _, h := range j.watches {
		if h.thread == 0 {
			continue
		}
		if err := h.armThread(tid); err != nil && !errors.Is(err, unix.ESRCH) {
			j.log.Debug("watch new thread", "thread", tid, "error", err)
			h.thread = 0
		}
	}
}

func (j *judge) detach(tid uint32) {
	for _, h := range j.watches {
		h.forget(tid)
	}
}
