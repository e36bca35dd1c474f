package perf

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
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
// The word is watched from when the ring is drained, not from when the sample was
// taken, and read at another drain. A call before the one is missed, and a call
// before the other is counted, though it began after the sample. So a sample that is
// drained late neither starts a watch nor has a verdict, and a watch says nothing of
// a sample that was taken before it was set. The delay has nothing to do with the
// outcome, so the remaining verdicts stay a fair choice. Both delays together shift
// the watched time against the time between the samples; setting the watch shortens it,
// so the time that this takes counts as part of the delay.
type judge struct {
	history *history
	watches []*holder
	threads *threads
	clock   func() int64 // CLOCK_MONOTONIC, ns, as the times of samples
	log     *slog.Logger

	budget   float64       // fraction of one core that watching may take
	chance   float64       // that a sample is judged; follows from budget
	hold     time.Duration // how long a watch waits for its goroutine to be sampled again
	maxLag   time.Duration // a sample that is older when it is watched has no verdict and starts no watch
	setting  time.Duration // from the decision to watch until the goroutine's thread is watched, on average
	spent    time.Duration
	reviewed time.Time
	armed    uint64 // watches armed so far
}

// holder is a guard and the goroutine that it is for.
type holder struct {
	guard
	slot   uint64 // address of the word
	thread uint64 // 0: free
	armed  int64  // when the word was watched on every thread, CLOCK_MONOTONIC, ns
	since  int64  // of the goroutine's last sample
}

// guard tells whether a word of the target was written; a [perfevent.Watchpoint] does.
type guard interface {
	Arm(addr uint64, tids []uint32) error // fails without threads
	ArmThread(tid uint32) error           // watches the same word on another thread
	Dirty() (bool, error)                 // since it was armed
	Forget(tid uint32)
	Close()
}

const (
	// A watch waits for that many intervals, but at least for minHold.
	holdIntervals = 16
	minHold       = time.Second
	// reviewEvery is how often the chance is set anew.
	reviewEvery = 250 * time.Millisecond
	// minChance keeps a verdict coming now and then however dear they are.
	minChance = 0.001
	// A sample is judged, and its word watched, up to that fraction of the interval
	// after it, and up to longestLag.
	lagFraction = 6
	// settingShare is the part of the average that is renewed by one watch, and given
	// up at a review, so that some slow ones do not end all verdicts.
	settingShare = 8
	longestLag   = 2 * time.Millisecond
	// defaultWatches leaves one of the four debug registers of an x86 CPU to
	// others.
	defaultWatches = 3
)

func newJudge(n int, budget float64, t *threads, log *slog.Logger) *judge {
	j := &judge{history: newHistory(), threads: t, clock: perfevent.Monotonic, log: log, budget: budget, chance: 1, reviewed: time.Now()}
	j.follow(t.state().interval)
	for range n {
		w, err := perfevent.OpenWatchpoint(uint32(t.pid))
		if err != nil {
			j.explain(err)
			break
		}
		j.watches = append(j.watches, &holder{guard: w})
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
		h.Close()
	}
	j.watches = nil
}

// judge gives the verdict on a sample of an OS thread, taken at a time of
// CLOCK_MONOTONIC, and prepares the next one. entry gives the entry of the function
// at an address.
func (j *judge) judge(thread uint64, tid uint32, at int64, now *past, entry func(pc uint64) uint64) ccmap.Repetition {
	if len(j.watches) == 0 {
		return ccmap.TopUnknown
	}
	runtime.LockOSThread() // its CPU time is what judging costs
	defer runtime.UnlockOSThread()
	begin := perfevent.ThreadTime()
	before := j.history.last[thread]
	inTime := j.inTime(at)
	top := ccmap.TopUnknown
	if h := j.holder(thread); inTime && before != nil && before.judged && h != nil && h.armed < at {
		top = j.verdict(h, before, now, entry)
	}
	now.judged = inTime && rand.Float64() < j.chance && j.watch(thread, tid, now.slot, top == ccmap.TopRepeated)
	if before == nil && now.judged && !j.history.forgot {
		top = ccmap.TopNew // the goroutine's first sample
	}
	if !now.judged {
		j.release(thread)
	}
	j.history.keep(thread, now)
	j.spent += perfevent.ThreadTime() - begin
	return top
}

// inTime reports whether a sample of a time is young enough to be judged, and to be
// watched soon enough. It goes by how long a watch takes to set on average, whatever this
// one will take: one that was written takes longer, and that is the outcome.
func (j *judge) inTime(at int64) bool { return j.clock()-at <= int64(j.maxLag-j.setting) }

func (j *judge) verdict(h *holder, before, now *past, entry func(pc uint64) uint64) ccmap.Repetition {
	switch compare(before, now, entry) {
	case unlike:
		return ccmap.TopNew
	case same:
		return j.ask(h, now.slot)
	}
	return ccmap.TopUnknown
}

// ask looks whether the word was written since it is watched.
func (j *judge) ask(h *holder, slot uint64) ccmap.Repetition {
	if h.slot != slot {
		return ccmap.TopUnknown // the stack was moved
	}
	dirty, err := h.Dirty()
	switch {
	case err != nil:
		j.log.Debug("ask watchpoint", "error", err)
		return ccmap.TopUnknown
	case dirty:
		return ccmap.TopNew
	}
	return ccmap.TopRepeated
}

// watch makes sure that a word is watched for a goroutine that runs on a thread.
// clean says that it already is, and was not written.
func (j *judge) watch(thread uint64, tid uint32, slot uint64, clean bool) bool {
	h := j.holder(thread)
	switch {
	case h != nil && clean:
		h.since = j.clock()
		return true
	case slot == 0:
		return false
	case h == nil:
		h = j.free()
	}
	if h == nil {
		return false
	}
	if err := j.set(h, tid, slot); err != nil {
		j.log.Debug("arm watchpoint", "error", err)
		return false
	}
	j.armed++
	h.armed = j.clock()
	h.thread, h.since = thread, h.armed
	return true
}

// set sets a watch on all threads, beginning with the one that runs the goroutine, and
// learns how long it takes until that one is watched.
func (j *judge) set(h *holder, tid uint32, slot uint64) error {
	h.slot = slot
	tids := j.threads.watchable(len(j.watches), tid)
	begin := j.clock()
	if err := h.Arm(slot, tids[:min(1, len(tids))]); err != nil {
		return err
	}
	j.setting += (time.Duration(j.clock()-begin) - j.setting) / settingShare
	for _, other := range tids[1:] {
		if err := h.ArmThread(other); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
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
		if h.thread == 0 || j.clock()-h.since > int64(j.hold) {
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
	j.setting -= j.setting / settingShare
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
		if err := h.ArmThread(tid); err != nil && !errors.Is(err, unix.ESRCH) {
			j.log.Debug("watch new thread", "thread", tid, "error", err)
			h.thread = 0
		}
	}
}

func (j *judge) detach(tid uint32) {
	for _, h := range j.watches {
		h.Forget(tid)
	}
}
