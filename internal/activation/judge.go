package activation

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/sys/unix"
)

// Judge gives the verdicts. It belongs to the engine's goroutine.
//
//	sample k    decide whether sample k+1 gets a verdict; if so, watch the
//	            word that holds the innermost function's return address
//	sample k+1  other stack: new. Same stack, word written: new. Not written:
//	            repeated. Anything else, or not decided: unknown
//
// The decision comes before the outcome can be known, so that repetitions are as
// frequent among the verdicts as among all samples. If every verdict that needs no watch
// were given, repetitions would look rare. For the same
// reason a watch is not taken away from a goroutine that may still come back,
// and a goroutine's first sample counts as new only if there was a watch for it.
//
// The word is watched from the moment when the ring is drained, which is later than the
// sample, and read at another drain. A call between a sample and its drain is missed at
// the first sample and counted at the second, though it began after it. So a sample that
// is drained late neither starts a watch nor has a verdict, and a watch says nothing
// about a sample that was taken before it was set. The delay has nothing to do with the
// outcome, so the remaining verdicts stay a fair choice. Both delays together shift
// the watched time against the time between the samples; setting the watch shortens it,
// so the time that this takes counts as part of the delay.
type Judge struct {
	Options
	history *history
	holders []*holder
	clock   func() int64 // CLOCK_MONOTONIC, ns, as the times of samples

	chance   float64       // that a sample is judged; follows from budget
	hold     time.Duration // how long a watch waits for its goroutine to be sampled again
	maxLag   time.Duration // a sample that is older when it is watched has no verdict and starts no watch
	setting  time.Duration // from the decision to watch until the goroutine's thread is watched, on average
	spent    time.Duration
	reviewed time.Time
	armed    uint64 // watches armed so far
}

// holder is a watch and the goroutine that it is for.
type holder struct {
	Watch
	slot   uint64 // address of the word
	thread uint64 // 0: free
	armed  int64  // when the word was watched on every thread, CLOCK_MONOTONIC, ns
	since  int64  // of the goroutine's last sample
}

// Watch tells whether a word of the target was written. A perfevent.Watchpoint does.
type Watch interface {
	Arm(addr uint64, tids []uint32) error // watches a word on threads; fails without threads
	ArmThread(tid uint32) error           // watches the same word on another thread
	Dirty() (bool, error)                 // whether it was written since it was armed
	Forget(tid uint32)                    // ends watching on a thread that has ended
	Close()
}

// Options of a judge. All but Watches are required.
type Options struct {
	Watches  []Watch              // none: every verdict is unknown
	Budget   float64              // fraction of one core that watching may take
	Interval func() time.Duration // between two samples of a thread now

	// Threads returns the threads that a watch must be set on, which are all, with the
	// given one first; none if there are not enough descriptors for that many watches.
	Threads func(watches int, first uint32) []uint32

	// Sparse says that few samples are chosen. Then a watch is closed with its verdict, or
	// after sparseIntervals: an open one costs every switch of the target's threads.
	Sparse bool

	Log *slog.Logger
}

const (
	// A watch waits for that many intervals, but at least for minHold.
	holdIntervals = 16
	minHold       = time.Second
	// sparseIntervals is how many intervals a watch waits where verdicts are sparse.
	sparseIntervals = 4
	// reviewEvery is how often the chance is set anew.
	reviewEvery = 250 * time.Millisecond
	// minChance keeps a verdict coming now and then, however dear verdicts are.
	minChance = 0.001
	// A sample is judged, and its word watched, up to that fraction of the interval
	// after it, and up to longestLag.
	lagFraction = 6
	// settingShare is the part of the average that is renewed by one watch, and given
	// up at a review, so that some slow ones do not end all verdicts.
	settingShare = 8
	longestLag   = 2 * time.Millisecond
)

// New returns a judge, which owns the watches.
func New(o Options) *Judge {
	j := &Judge{Options: o, history: newHistory(), clock: perfevent.Monotonic, chance: 1, reviewed: time.Now()}
	j.follow(o.Interval())
	for _, w := range o.Watches {
		j.holders = append(j.holders, &holder{Watch: w})
	}
	return j
}

// Close closes the watches.
func (j *Judge) Close() {
	for _, h := range j.holders {
		h.Close()
	}
	j.holders = nil
}

// Watching returns how many watches are set on threads. A watch stays set when nothing
// waits for it.
func (j *Judge) Watching() (n int) {
	for _, h := range j.holders {
		if h.armed != 0 {
			n++
		}
	}
	return n
}

// Armed returns how often a watch was armed.
func (j *Judge) Armed() uint64 { return j.armed }

// Moment is when, where and how a sample was taken.
type Moment struct {
	TID    uint32 // OS thread
	At     int64  // CLOCK_MONOTONIC, ns
	Chosen bool   // the next sample of its goroutine may have a verdict
}

// Judge gives the verdict on a sample, and prepares the next one. entry gives the entry
// of the function at an address.
func (j *Judge) Judge(st *process.Stack, m Moment, entry func(pc uint64) uint64) ccmap.Repetition {
	if len(j.holders) == 0 {
		return ccmap.TopUnknown
	}
	return j.judge(st.Thread, m, j.history.past(st, entry), entry)
}

// judge is Judge where there are watches.
func (j *Judge) judge(thread uint64, m Moment, now *past, entry func(pc uint64) uint64) ccmap.Repetition {
	runtime.LockOSThread() // its CPU time is the cost of judging
	defer runtime.UnlockOSThread()
	begin := perfevent.ThreadTime()
	before := j.history.last[thread]
	inTime := j.inTime(m.At)
	top := ccmap.TopUnknown
	if h := j.holder(thread); inTime && before != nil && before.judged && h != nil && h.armed < m.At {
		top = j.verdict(h, before, now, entry)
	}
	now.judged = m.Chosen && inTime && rand.Float64() < j.chance && j.watch(thread, m.TID, now.slot, top == ccmap.TopRepeated)
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
// watched soon enough. It goes by the average time to set a watch, and not by this
// watch: a watch that was written takes longer, and that is the outcome.
func (j *Judge) inTime(at int64) bool { return j.clock()-at <= int64(j.maxLag-j.setting) }

func (j *Judge) verdict(h *holder, before, now *past, entry func(pc uint64) uint64) ccmap.Repetition {
	switch compare(before, now, entry) {
	case unlike:
		return ccmap.TopNew
	case same:
		return j.ask(h, now.slot)
	}
	return ccmap.TopUnknown
}

// ask looks whether the word was written since the watch was armed.
func (j *Judge) ask(h *holder, slot uint64) ccmap.Repetition {
	if h.slot != slot {
		return ccmap.TopUnknown // the stack was moved
	}
	dirty, err := h.Dirty()
	switch {
	case err != nil:
		j.Log.Debug("ask watchpoint", "error", err)
		return ccmap.TopUnknown
	case dirty:
		return ccmap.TopNew
	}
	return ccmap.TopRepeated
}

// watch makes sure that a word is watched for a goroutine that runs on a thread.
// clean says that the word is watched already and was not written.
func (j *Judge) watch(thread uint64, tid uint32, slot uint64, clean bool) bool {
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
		j.Log.Debug("arm watchpoint", "error", err)
		return false
	}
	j.armed++
	h.armed = j.clock()
	h.thread, h.since = thread, h.armed
	return true
}

// set sets a watch on all threads, beginning with the one that runs the goroutine, and
// learns how long it takes until that one is watched.
func (j *Judge) set(h *holder, tid uint32, slot uint64) error {
	h.slot = slot
	tids := j.Threads(len(j.holders), tid)
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
func (j *Judge) holder(thread uint64) *holder {
	for _, h := range j.holders {
		if h.thread == thread {
			return h
		}
	}
	return nil
}

// free returns a watch that no goroutine has, or whose goroutine has not come
// back; nil without one.
func (j *Judge) free() *holder {
	for _, h := range j.holders {
		if h.thread == 0 || j.clock()-h.since > int64(j.hold) {
			return h
		}
	}
	return nil
}

// release gives a goroutine's watch up. It stays armed, for one hit a thread
// at most, unless verdicts are sparse.
func (j *Judge) release(thread uint64) {
	if h := j.holder(thread); h != nil {
		h.thread = 0
		if j.Sparse {
			h.Close()
			h.armed = 0
		}
	}
}

// Watched appends the goroutines that have a watch.
func (j *Judge) Watched(threads []uint64) []uint64 {
	for _, h := range j.holders {
		if h.thread != 0 {
			threads = append(threads, h.thread)
		}
	}
	return threads
}

// Expire closes the watches of goroutines that did not come back. Sparse verdicts need
// it once an interval.
func (j *Judge) Expire() {
	for _, h := range j.holders {
		if j.Sparse && h.thread != 0 && j.clock()-h.since > int64(j.hold) {
			j.release(h.thread)
		}
	}
}

// Review sets the chance of a verdict so that watching keeps to its budget, and
// follows the interval.
func (j *Judge) Review(now time.Time) {
	elapsed := now.Sub(j.reviewed)
	if elapsed < reviewEvery {
		return
	}
	if used := j.spent.Seconds() / elapsed.Seconds(); used > 0 {
		j.chance = min(1, max(minChance, j.chance*min(2, j.Budget/used)))
	}
	j.setting -= j.setting / settingShare
	j.follow(j.Interval())
	j.reviewed, j.spent = now, 0
}

// follow adapts the times that depend on the interval.
func (j *Judge) follow(interval time.Duration) {
	j.hold = max(minHold, holdIntervals*interval)
	if j.Sparse {
		j.hold = sparseIntervals * interval
	}
	j.maxLag = min(longestLag, interval/lagFraction)
}

// Attach watches a new thread, too.
func (j *Judge) Attach(tid uint32) {
	for _, h := range j.holders {
		if h.thread == 0 {
			continue
		}
		if err := h.ArmThread(tid); err != nil && !errors.Is(err, unix.ESRCH) {
			j.Log.Debug("watch new thread", "thread", tid, "error", err)
			h.thread = 0
		}
	}
}

// Detach forgets a thread that has ended.
func (j *Judge) Detach(tid uint32) {
	for _, h := range j.holders {
		h.Forget(tid)
	}
}
