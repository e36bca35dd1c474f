package perf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/activation"
	"golang.org/x/sys/unix"
)

// threads holds the events of the target's threads: for every thread one event
// on every CPU that has a ring, without inheritance, because a period change
// does not reach threads that were inherited (Linux 6.18).
//
// The drainer attaches, detaches and looks up; any goroutine may set the
// interval. All fields but pid, log and files are under mu.
type threads struct {
	pid   int
	log   *slog.Logger
	files *openFiles // with those of other sources of the same rings

	mu       sync.Mutex
	byTID    map[uint32]*thread
	outputs  []output // in the order of thread.events; only ever appended to
	form     perfevent.Form
	interval time.Duration
	took     time.Duration // how long the last change took
	refused  uint64        // how often descriptors ran out for some thread
	missed   missed        // where they ran out for most
	lost     uint64        // samples that found their ring full, by events that are closed
	paused   bool          // no thread has events
}

// thread is one attached thread: one event for each CPU.
type thread struct {
	events []perfevent.Timer
}

// missed says how many of the target's threads were not sampled at some time.
type missed struct{ threads, of int }

func newThreads(pid int, interval time.Duration, log *slog.Logger, files *openFiles) *threads {
	return &threads{pid: pid, log: log, files: files, byTID: make(map[uint32]*thread), interval: interval}
}

// scan attaches threads that are missing in this table, until a look at the task
// directory finds no new one: a thread that was started before its parent was attached
// left no record.
func (t *threads) scan(ctx context.Context) error {
	for !t.resting() {
		tids, err := process.Threads(t.pid)
		if err != nil {
			return err
		}
		fresh := false
		for _, tid := range tids {
			added, err := t.attach(tid)
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			fresh = fresh || added
		}
		if !fresh {
			t.miss(tids)
			return nil
		}
	}
	return nil
}

// miss counts the threads that have no descriptors.
func (t *threads) miss(tids []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := missed{of: len(tids)}
	for _, tid := range tids {
		if _, ok := t.byTID[tid]; !ok {
			now.threads++
		}
	}
	if t.refused > 0 && now.threads > t.missed.threads {
		t.missed = now
	}
}

// scanFirst scans, and fails if no thread at all could be attached.
func (t *threads) scanFirst(ctx context.Context) error {
	if err := t.scan(ctx); err != nil {
		return err
	}
	switch {
	case len(t.byTID) > 0:
		return nil
	case t.refused > 0:
		return unix.EMFILE
	}
	return unix.ESRCH // it has ended meanwhile
}

// attach opens the events of a thread, and says whether it was new and is
// sampled now. It is no error if the thread has ended in the meantime, nor if
// there are no descriptors for it: the next scan tries again.
func (t *threads) attach(tid uint32) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.byTID[tid]; ok {
		return false, nil
	}
	return t.admit(tid, new(thread))
}

// admit opens all events of a thread that has none, and says whether it is sampled now.
// A thread without all of them is not in the table.
func (t *threads) admit(tid uint32, th *thread) (bool, error) {
	delete(t.byTID, tid)
	if !t.files.room(len(t.outputs)) {
		t.refuse(tid)
		return false, nil
	}
	if err := t.openAll(tid, th); err != nil {
		t.closeAll(th)
		return false, t.excuse(tid, err)
	}
	t.byTID[tid] = th
	return true, nil
}

// refuse notes a thread that is not sampled for want of descriptors.
func (t *threads) refuse(tid uint32) {
	if t.refused == 0 {
		t.log.Warn("too many threads: not all are sampled; raise the limit of open files (ulimit -n)",
			"thread", tid, "sampled", len(t.byTID), "cpus", len(t.outputs), "limit", t.files.most+reservedFDs)
	}
	t.refused++
}

// excuse returns nil if the thread has ended or descriptors ran out, and err otherwise.
func (t *threads) excuse(tid uint32, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		t.refuse(tid)
		return nil
	}
	return err
}

// openAll opens events for the CPUs that th has none for, unless in a pause.
func (t *threads) openAll(tid uint32, th *thread) error {
	if t.paused {
		return nil
	}
	for i := len(th.events); i < len(t.outputs); i++ {
		e, err := t.open(tid, t.outputs[i])
		if err != nil && !errors.Is(err, unix.ENODEV) { // ENODEV: the CPU went offline
			return err
		}
		th.events = append(th.events, e)
	}
	return nil
}

func (t *threads) open(tid uint32, out output) (perfevent.Timer, error) {
	e, err := perfevent.OpenTimer(t.form, t.interval, int(tid), out.cpu())
	if err != nil {
		return perfevent.Offline(), err
	}
	if err := e.SendTo(out.ring(t.interval)); err != nil {
		e.Close()
		return perfevent.Offline(), err
	}
	t.files.open.Add(1)
	return e, nil
}

// closeAll closes the events of a thread.
func (t *threads) closeAll(th *thread) {
	for i := range th.events {
		t.close(&th.events[i])
	}
	th.events = nil
}

// close closes an event and collects the number of samples that it lost.
func (t *threads) close(e *perfevent.Timer) {
	if e.IsOpen() {
		t.lost += e.Close()
		t.files.open.Add(-1)
	}
}

// detach forgets a thread that has ended.
func (t *threads) detach(tid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if th, ok := t.byTID[tid]; ok {
		t.closeAll(th)
		delete(t.byTID, tid)
	}
}

// ended returns the threads of the table that are no more.
func (t *threads) ended() []uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var tids []uint32
	for tid := range t.byTID {
		if errors.Is(unix.Tgkill(t.pid, int(tid), 0), unix.ESRCH) {
			tids = append(tids, tid)
		}
	}
	return tids
}

// stop ends all sampling but keeps the table, which samples that are still in
// the rings need.
func (t *threads) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, th := range t.byTID {
		for i := range th.events {
			th.events[i].Stop()
		}
	}
}

// pause closes all events, until resume is called: a thread pays at its switches for an event
// that is off, too. The rings must be empty.
func (t *threads) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = true
	for _, th := range t.byTID {
		t.closeAll(th)
	}
}

// resume opens the events of all threads that were sampled before, as far as there are
// descriptors. A scan must follow, which counts the threads that are missed.
func (t *threads) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = false
	for tid, th := range maps.Clone(t.byTID) { // admit takes threads out and puts them back
		if _, err := t.admit(tid, th); err != nil {
			t.log.Debug("open events anew", "thread", tid, "error", err)
		}
	}
}

// lostSoFar returns how many samples found their ring full, over all events there ever were. A look at an
// event that is on another CPU interrupts that.
func (t *threads) lostSoFar() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	lost := t.lost
	for _, th := range t.byTID {
		for i := range th.events {
			lost += th.events[i].Lost()
		}
	}
	return lost
}

// losses grows where samples find their ring full, or a thread no descriptors.
func (t *threads) losses() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost + t.refused
}

// resting says whether there is a pause.
func (t *threads) resting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paused
}

// detachAll closes every event and returns how many samples found their ring
// full, over all events there ever were.
func (t *threads) detachAll() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for tid, th := range t.byTID {
		t.closeAll(th)
		delete(t.byTID, tid)
	}
	return t.lost
}

// follow begins to sample on the CPUs whose rings are new.
func (t *threads) follow(outputs []output) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	more := len(outputs) - len(t.outputs)
	if more <= 0 {
		return nil
	}
	t.outputs = outputs
	for tid, th := range t.byTID {
		if !t.files.room(more) {
			t.refuse(tid)
			continue
		}
		if err := t.openAll(tid, th); err != nil && t.excuse(tid, err) != nil {
			return err
		}
	}
	return nil
}

// lengthenDump doubles the piece of stack that samples carry, up to the maximum. It opens
// every event anew, so the time since an event's last sample is lost. It returns the length
// in bytes, and whether it has changed.
func (t *threads) lengthenDump() (uint32, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	dump := min(2*t.form.Dump, t.longestDump())
	if dump <= t.form.Dump {
		return t.form.Dump, false
	}
	t.form.Dump = dump
	for tid, th := range t.byTID {
		t.closeAll(th)
		if err := t.openAll(tid, th); err != nil {
			t.log.Debug("open events anew", "thread", tid, "error", err)
		}
	}
	return dump, true
}

// longestDump leaves room in the smallest rings for the samples of a third of a second, at a hundred a second:
// for so long a busy machine lets this process wait. What a stack has beyond its dump is read from the process.
func (t *threads) longestDump() uint32 {
	const inPrompt, inBulk = 32, 32
	longest := perfevent.LongestDump
	for _, out := range t.outputs {
		longest = min(longest, out.prompt.Len()/inPrompt, out.bulk.Len()/inBulk)
	}
	return uint32(longest) &^ 7
}

// setInterval reaches every event of every thread before it returns, and every
// future one. It returns the first error.
func (t *threads) setInterval(d time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	begin := time.Now()
	var first error
	restart := t.restart
	if isBulk(d) != isBulk(t.interval) {
		restart = t.replace
	}
	t.interval = d
	for tid, th := range t.byTID {
		for i := range th.events {
			e := &th.events[i]
			if !e.IsOpen() {
				continue
			}
			if err := restart(tid, e, t.outputs[i]); err != nil && first == nil {
				first = err
			}
		}
	}
	t.took = time.Since(begin)
	return first
}

// restart begins the interval with an event.
func (t *threads) restart(_ uint32, e *perfevent.Timer, _ output) error {
	return e.Restart(t.interval)
}

// replace begins the interval with an event whose samples must go into the
// other ring. It opens another event in its place: sending an event's samples
// elsewhere takes 5 to 10 ms (see [perfevent.Timer.SendTo]). If that fails, the ring
// stays.
func (t *threads) replace(tid uint32, e *perfevent.Timer, out output) error {
	old := *e
	old.Stop() // or both would count until the old one is closed, which may wait
	fresh, err := t.open(tid, out)
	if err != nil {
		return errors.Join(t.excuse(tid, err), t.restart(tid, e, out), e.Start())
	}
	e.Replace(fresh)
	t.close(&old)
	return nil
}

// weigh returns the CPU time that a sample stands for, and now and then gives its
// event another period. That restarts the period, so it is done right after a sample.
func (t *threads) weigh(s *perfevent.Sample, ring int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	th, ok := t.byTID[s.TID]
	if !ok || ring >= len(th.events) || !th.events[ring].IsOpen() {
		return t.interval // the event is closed
	}
	weight, err := th.events[ring].Weigh(int64(s.Time), int64(s.Count), t.interval)
	if err != nil {
		t.log.Debug("change period", "thread", s.TID, "error", err)
	}
	return weight
}

// OpenWatch is part of [taker.Engine].
func (t *threads) OpenWatch() (activation.Watch, error) {
	return perfevent.OpenWatchpoint(uint32(t.pid))
}

// Watchable is part of [taker.Engine].
func (t *threads) Watchable(watches int, of activation.Moment) []uint32 {
	first := of.TID
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused > 0 || !t.files.room(watches*len(t.byTID)) {
		return nil
	}
	tids := make([]uint32, 0, len(t.byTID))
	if _, ok := t.byTID[first]; ok {
		tids = append(tids, first)
	}
	for tid := range t.byTID {
		if tid != first {
			tids = append(tids, tid)
		}
	}
	return tids
}

// Has is part of [taker.Engine]: every thread that is sampled is attached until it ends.
func (t *threads) Has(tid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byTID[tid]
	return ok
}

// bulk says whether samples go into the bulk rings.
func (t *threads) bulk() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return isBulk(t.interval)
}

// Interval is part of [taker.Engine].
func (t *threads) Interval() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.interval
}

// threadsState is the part of the table that [Source.Stats] shows.
type threadsState struct {
	sampled        int // threads
	interval, took time.Duration
	missed         missed
}

func (t *threads) state() threadsState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return threadsState{sampled: len(t.byTID), interval: t.interval, took: t.took, missed: t.missed}
}

// warning tells of threads that are not sampled.
func (m missed) warning() string {
	if m.threads == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d threads were not sampled for want of file descriptors: raise the limit (ulimit -n)", m.threads, m.of)
}
