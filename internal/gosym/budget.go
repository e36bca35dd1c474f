package gosym

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrTooMuch: the symbols take more time, memory or reading than they may. The
// target decides over all of its tables, so a hostile one could make any of them
// endless.
var ErrTooMuch = errors.New("symbols take more than they may")

// The bounds of a load. The largest programs known, with 200,000 functions, take a
// third of it. Steps bound the work, however busy the machine is.
const (
	maxHeld = 96 << 20        // bytes that a table holds
	maxRead = 1 << 30         // bytes of memory and files that one load reads
	maxWork = 1 << 28         // steps of one load: a second or so
	maxWait = 3 * time.Second // in reads; pages that are on disk take their time
)

// callCost is the cost of a read from memory or a file beyond its bytes, in steps.
const callCost = 128

// budget is the rest of the bounds of one load or one sample. All code that reads
// the target's memory or files, keeps their bytes, or walks through them draws
// from one budget, so that no product of bounds exceeds it. A budget that is spent
// stays so, and all that draws from it ends.
//
// The zero budget is spent. One goroutine uses a budget.
type budget struct {
	ctx    context.Context // nil: none
	wait   time.Duration   // in reads
	delay  *runDelay       // is left out of wait; nil: all time in reads counts
	read   int             // bytes
	hold   int             // bytes
	common int             // bytes that were drawn from hold for tables that others may hold, too
	steps  int             // pieces of work that take some ns each
	look   int             // steps left when to look at the context again
	spent  error           // why nothing is left
}

// newBudget returns the budget of a load. held is the memory of the table.
func newBudget(ctx context.Context, held int) *budget {
	return &budget{ctx: ctx, wait: maxWait, read: maxRead, hold: maxHeld - held, steps: maxWork, look: maxWork}
}

// again prepares another try with the rest of the budget, and says whether there is any. The
// memory of the last try is free.
func (b *budget) again() bool {
	b.hold, b.look, b.spent = maxHeld, b.steps, nil
	return b.wait > 0 && b.steps > 0
}

// half gives f half of what is left. If f fails, the memory that it has held is free, and the other half is
// left even if f has spent its own.
func (b *budget) half(f func(*budget) error) error {
	if b.spent != nil {
		return b.spent
	}
	part := *b
	part.wait, part.read, part.hold, part.steps = b.wait/2, b.read/2, b.hold/2, b.steps/2
	part.look = part.steps
	given := part
	err := cmp.Or(f(&part), part.spent)
	b.wait -= given.wait - part.wait
	b.read -= given.read - part.read
	b.steps -= given.steps - part.steps
	b.look = b.steps
	if err == nil {
		b.hold -= given.hold - part.hold
		b.common = part.common
	}
	if b.ended() {
		b.spent = context.Cause(b.ctx)
	}
	return err
}

// ended says whether the context of the budget is done.
func (b *budget) ended() bool { return b.ctx != nil && b.ctx.Err() != nil }

// work draws steps.
func (b *budget) work(steps int) error {
	if b.spent != nil {
		return b.spent
	}
	if b.steps -= steps; steps < 0 || b.steps < 0 {
		return b.exceed("too many steps")
	}
	const often = 1 << 16 // less than a ms
	if b.steps <= b.look {
		b.look = b.steps - often
		if b.ended() {
			b.spent = context.Cause(b.ctx)
		}
	}
	return b.spent
}

// waited draws the time since a read began, less the thread's waits for a processor. A slow
// read lets the context end the budget at once.
func (b *budget) waited(start time.Time) error {
	const slow = time.Millisecond
	took := time.Since(start)
	if took > slow && b.spent == nil && b.ended() {
		b.spent = context.Cause(b.ctx)
	}
	if took > slow && b.delay != nil {
		took -= min(took, b.delay.since())
	}
	if b.wait -= took; b.wait < 0 && b.spent == nil {
		return b.exceed(b.delay.blame())
	}
	return b.spent
}

// reading draws the cost of n bytes from memory or a file.
func (b *budget) reading(n int) error {
	if b.spent == nil && (n < 0 || n > b.read) {
		return b.exceed("too much to read")
	}
	b.read -= n
	return b.work(callCost + n/64)
}

// holding draws n bytes of memory.
func (b *budget) holding(n int) error {
	if b.spent == nil && (n < 0 || n > b.hold) {
		return b.exceed("too much to hold")
	}
	b.hold -= n
	return b.spent
}

func (b *budget) exceed(what string) error {
	b.spent = fmt.Errorf("%s: %w", what, ErrTooMuch)
	return b.spent
}

// runDelay tells for how long a thread wanted to run and got no processor. That time
// passes in reads, too, and is not the target's doing. One goroutine uses a runDelay, and
// stays on its thread. A nil runDelay knows nothing.
type runDelay struct {
	read delayReader
	last time.Duration
}

// delayReader reads the delay of the calling thread since it began.
type delayReader func() (time.Duration, bool)

// beginLoad keeps the goroutine on its thread until end, so that the budget can tell the
// thread's waits for a processor, as read tells them, from its waits for the target.
func beginLoad(b *budget, read delayReader) (_ *budget, end func()) {
	runtime.LockOSThread()
	b.delay = newRunDelay(read)
	return b, runtime.UnlockOSThread
}

// stopwatch measures what a load takes: CPU time of its thread, and waits for the target. All
// other waits are those of a busy machine, for a processor or for the collector of this process.
// They are not the target's doing, and must not cost its other files their time.
type stopwatch struct {
	budget *budget
	start  time.Time
	cpu    time.Duration // of the thread, at start
	wait   time.Duration // of the budget, at start
}

// stopwatch begins to measure. The goroutine stays on its thread: see beginLoad.
func (b *budget) stopwatch() stopwatch { return stopwatch{b, time.Now(), threadTime(), b.wait} }

func (s stopwatch) took() time.Duration {
	return min(time.Since(s.start), threadTime()-s.cpu+s.wait-s.budget.wait)
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// newRunDelay returns nil where the kernel does not tell.
func newRunDelay(read delayReader) *runDelay {
	last, ok := read()
	if !ok {
		return nil
	}
	return &runDelay{read, last}
}

// since returns the delay since the last call.
func (d *runDelay) since() time.Duration {
	now, ok := d.read()
	if !ok {
		return 0
	}
	delay := now - d.last
	d.last = now
	return delay
}

// blame says why reads took too long.
func (d *runDelay) blame() string {
	if d == nil {
		return "its memory or file is too slow, or this machine is too busy"
	}
	return "its memory or file is too slow"
}

// readRunDelay reads the delay of the calling thread (Documentation/scheduler/sched-stats.rst,
// Linux 6.18).
func readRunDelay() (time.Duration, bool) {
	stat, err := os.ReadFile("/proc/thread-self/schedstat")
	return parseRunDelay(stat, err == nil)
}

// parseRunDelay takes the second of three numbers. The third counts how often the thread has
// run; it is 0 where the kernel does not count (CONFIG_SCHED_INFO).
func parseRunDelay(stat []byte, ok bool) (time.Duration, bool) {
	fields := bytes.Fields(stat)
	if !ok || len(fields) != 3 || string(fields[2]) == "0" {
		return 0, false
	}
	ns, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(ns), err == nil
}
