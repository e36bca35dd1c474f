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
//
// A watch on CPUs knows when the word was written. It may be read at any later time, and
// the watched time is as long as the time between the samples: it ends as long after the
// second sample as it began after the first. Another process can spoil such a watch,
// and then there is no verdict, even where the stacks differ.
type Judge struct {
	Options
	history *history
	holders []*holder
	clock   func() int64 // CLOCK_MONOTONIC, ns, as the times of samples
	onCPUs  bool         // the watches are

	chance   float64       // that a sample is judged; follows from budget
	hold     time.Duration // how long a watch waits for its goroutine to be sampled again
	maxLag   time.Duration // a sample that is older when it is watched has no verdict and starts no watch
	setting  time.Duration // from the decision to watch until the goroutine's thread is watched, on average
	spent    time.Duration
	reviewed time.Time
	armed    uint64 // watches armed so far
	places   uint64 // CPUs that were interrupted for that, at most
}

// holder is a watch and the goroutine that it is for.
type holder struct {
	Watch
	slot   uint64 // address of the word
	thread uint64 // 0: free
	armed  int64  // when the word was watched at every place, CLOCK_MONOTONIC, ns
	lag    int64  // from the sample until it was watched at the first place, ns
	since  int64  // of the goroutine's last sample
}

// Watch tells whether a word of the target was written. The places of a perfevent.Watchpoint
// are threads, and the places of a perfevent.CPUWatch are CPUs.
type Watch interface {
	Arm(addr uint64, places []uint32) error // watches a word; fails without places
	ArmAt(place uint32) error               // watches the same word at another place
	Dirty(until int64) (bool, error)        // whether it was written since it was armed; on CPUs, until a time
	Forget(place uint32)                    // ends watching on a thread that has ended
	Hits() uint64                           // writes that were noticed so far
	OnCPUs() bool
	Close()
}

// Options of a judge. All but Watches are required.
type Options struct {
	Watches  []Watch              // none: every verdict is unknown
	Budget   float64              // fraction of one core that watching may take
	Interval func() time.Duration // between two samples of a thread now

	// Places returns the threads or CPUs that a watch must be set on, which are all, with
	// the place of a sample first; none if there are not enough descriptors for that many
	// watches.
	Places func(watches int, of Moment) []uint32

	// Sparse says that few samples are chosen. Then a watch on threads is closed with its
	// verdict, or after sparseIntervals: an open one costs every switch of the threads.
	Sparse bool

	Log *slog.Logger
}

const (
	// A watch waits for that many intervals, but at least for minHold.
	holdIntervals = 16
	minHold       = time.Second
	// sparseIntervals is how many intervals a watch waits where verdicts are sparse.
	sparseIntervals = 4
	// lateness is how long a sample can wait until it is drained. A watch on CPUs waits
	// for holdIntervals and that.
	lateness = 150 * time.Millisecond
	// reviewEvery is how often the chance is set anew.
	reviewEvery = 250 * time.Millisecond
	// minChance keeps a verdict coming now and then, however dear verdicts are.
	minChance = 0.001
	// A sample is judged, and its word watched, up to that fraction of the interval
	// after it, and up to longestLag; with watches on CPUs, up to longestLagOnCPUs.
	lagFraction = 6
	// settingShare is the part of the average that is renewed by one watch, and given
	// up at a review, so that some slow ones do not end all verdicts.
	settingShare = 8
	longestLag   = 2 * time.Millisecond
	// longestLagOnCPUs is longer: the watched time is as long as the time between the samples, so a lag that is
	// small beside that time is small beside any activation that lasts from one to the other.
	longestLagOnCPUs = 10 * time.Millisecond
)

// New returns a judge, which owns the watches.
func New(o Options) *Judge {
	j := &Judge{Options: o, history: newHistory(), clock: perfevent.Monotonic, chance: 1, reviewed: time.Now()}
	for _, w := range o.Watches {
		j.holders = append(j.holders, &holder{Watch: w})
		j.onCPUs = w.OnCPUs()
	}
	j.follow(o.Interval())
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
// waits for it, unless verdicts are sparse.
func (j *Judge) Watching() (n int) {
	for _, h := range j.holders {
		if h.armed != 0 && !j.onCPUs {
			n++
		}
	}
	return n
}

// Armed returns how often a watch was armed.
func (j *Judge) Armed() uint64 { return j.armed }

// Interrupted returns how many times a CPU was interrupted to set a watch, at most, and how
// many writes to watched words were trapped.
func (j *Judge) Interrupted() (places, traps uint64) {
	for _, h := range j.holders {
		traps += h.Hits()
	}
	return j.places, traps
}

// Moment is when, where and how a sample was taken.
type Moment struct {
	TID    uint32 // OS thread
	CPU    uint32
	At     int64 // CLOCK_MONOTONIC, ns
	Chosen bool  // the next sample of its goroutine may have a verdict
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
	if h := j.holder(thread); (inTime || j.onCPUs) && before != nil && before.judged && h != nil && h.armed < m.At {
		top = j.verdict(h, before, now, m.At, entry)
	}
	now.judged = m.Chosen && inTime && rand.Float64() < j.chance && j.watch(thread, m, now.slot, top == ccmap.TopRepeated)
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

// verdict returns the verdict on a sample that was taken at a time. A watch on CPUs is
// asked where the stacks differ, too: it must not be spoiled.
func (j *Judge) verdict(h *holder, before, now *past, at int64, entry func(pc uint64) uint64) ccmap.Repetition {
	switch alike := compare(before, now, entry); {
	case alike == unlike && !j.onCPUs:
		return ccmap.TopNew
	case alike == unlike && j.ask(h, at) != ccmap.TopUnknown:
		return ccmap.TopNew
	case alike == same && h.slot == now.slot: // else the stack was moved
		return j.ask(h, at)
	}
	return ccmap.TopUnknown
}

// ask looks whether the word was written between two samples, the second of them at a time.
func (j *Judge) ask(h *holder, at int64) ccmap.Repetition {
	dirty, err := h.Dirty(at + h.lag)
	switch {
	case err != nil:
		j.Log.Debug("ask watchpoint", "error", err)
		return ccmap.TopUnknown
	case dirty:
		return ccmap.TopNew
	}
	return ccmap.TopRepeated
}

// watch makes sure that a word is watched for a goroutine after a sample of it.
// clean says that the word is watched already and was not written.
func (j *Judge) watch(thread uint64, m Moment, slot uint64, clean bool) bool {
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
	if err := j.set(h, m, slot); err != nil {
		j.Log.Debug("arm watchpoint", "error", err)
		return false
	}
	j.armed++
	h.armed = j.clock()
	h.thread, h.since = thread, h.armed
	return true
}

// set sets a watch at all places, beginning with the one that runs the goroutine, and
// learns how long it takes until that one is watched.
func (j *Judge) set(h *holder, m Moment, slot uint64) error {
	h.slot = slot
	places := j.Places(len(j.holders), m)
	j.places += uint64(min(len(places), runtime.NumCPU()))
	begin := j.clock()
	if err := h.Arm(slot, places[:min(1, len(places))]); err != nil {
		return err
	}
	watched := j.clock()
	h.lag = watched - m.At
	j.setting += (time.Duration(watched-begin) - j.setting) / settingShare
	for _, other := range places[1:] {
		if err := h.ArmAt(other); err != nil && !errors.Is(err, unix.ESRCH) {
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

// release gives a goroutine's watch up. It stays armed, for one hit a place
// at most, unless it is on threads and verdicts are sparse.
func (j *Judge) release(thread uint64) {
	if h := j.holder(thread); h != nil {
		h.thread = 0
		if j.Sparse && !j.onCPUs {
			h.Close()
			h.armed = 0
		}
	}
}

// Rest ends all watching until the next sample that is judged. No verdict is on samples before
// and after it.
func (j *Judge) Rest() {
	for _, h := range j.holders {
		h.Close()
		h.armed, h.thread = 0, 0
	}
	for _, p := range j.history.last {
		p.judged = false
	}
}

// Watched appends the goroutines whose next sample must be drained at once: those that
// have a watch on threads.
func (j *Judge) Watched(threads []uint64) []uint64 {
	for _, h := range j.holders {
		if h.thread != 0 && !j.onCPUs {
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
	longest := longestLag
	switch {
	case j.onCPUs:
		j.hold, longest = holdIntervals*interval+lateness, longestLagOnCPUs
	case j.Sparse:
		j.hold = sparseIntervals * interval
	}
	j.maxLag = min(longest, interval/lagFraction)
}

// Attach watches a new thread, too.
func (j *Judge) Attach(tid uint32) {
	for _, h := range j.holders {
		if h.thread == 0 {
			continue
		}
		if err := h.ArmAt(tid); err != nil && !errors.Is(err, unix.ESRCH) {
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
