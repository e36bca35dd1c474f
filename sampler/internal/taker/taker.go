// Package taker turns the moments of one target into samples. It is the part that all
// engines that sample processes from outside share:
//
//	engine ──Moment──▶ Taker ──Sample──▶ queue
//
// A session goes through these steps:
//
//  1. [Open] finds the process and its runtime, and loads the runtime's symbols.
//  2. The engine begins to sample, and then calls [Taker.Begin].
//  3. [Taker.Take] makes a sample of each moment: stack, frames, goroutine, verdict,
//     time, and weight. A Go program's indirect calls are learned from it.
//  4. [Taker.Turn] does the work that need not be done for each moment: it ends and
//     begins bursts, hands samples over, and compares weights with the CPU clock.
//  5. [Taker.Run] is the loop that does this with the records of an engine ([Records]).
//
// A Taker belongs to the engine's goroutine, except for Stats, Target and Counted.
// A [Reader] is the goroutine that reads records for all sessions of an engine.
package taker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/activation"
	"github.com/ccmapd/ccmapd/sampler/internal/indirect"
	"github.com/ccmapd/ccmapd/sampler/internal/runtimes"
	"golang.org/x/sys/unix"
)

// Taker is one target that an engine samples.
type Taker struct {
	PID     int
	Pidfd   int // becomes readable when the target ends
	Log     *slog.Logger
	Sink    sampler.Sink
	Runtime process.Runtime
	Judge   *activation.Judge
	Catcher *indirect.Catcher
	Local   Local           // of the samples; set by the engine
	Costs   perfevent.Costs // of the engine's events; set by the engine before Begin

	// Process is the frame beyond the outermost one where several processes have one map; nil: there is
	// none.
	Process *ccmap.Frame

	Sparse     bool // few moments are chosen for verdicts: see [activation.Options]
	NoMappings bool // the engine does not notice code that the target maps

	Ended    string // why the session is over; empty while it is not
	Replaced bool   // the target runs another program, which is not sampled

	// Corrupt, Lost and Throttled count moments that an engine could not take: their
	// records were malformed, found no room, or were never made.
	Corrupt, Lost, Throttled atomic.Uint64

	// Scale multiplies weights, to make up for pauses, or to follow the target's clock (see Trim); 0 means 1.
	// Cycle is the CPU time of the target from one pause to the next; 0: no pause so far.
	// Weights is the CPU time that all samples stand for, also those that found a queue full.
	Scale   float64
	Cycle   time.Duration
	Weights time.Duration

	// Pushed is the CPU time that the samples in the queue stand for, ns.
	Pushed atomic.Int64

	watch    *hang.Watch     // of reads of the target's memory and files
	calls    indirect.Code   // nil: the runtime has no calls that can be caught
	chains   process.Chainer // of such a runtime
	counts   counts
	counting counting
	unnamed  unnamed

	kernelNames func(uint64) (string, bool) // nil: the kernel's functions have no frames
	target      atomic.Pointer[ccmap.Target]
	ledger      *process.Ledger
	meter       meter
	trim        trim

	stack   process.Stack
	out     ccmap.Sample
	unknown ccmap.Frame
	last    map[uint64]past // of threads, their last samples; emptied when full

	paused  bool      // between Pause and Resume
	stale   bool      // code was mapped since the symbols were loaded
	deepen  bool      // a stack did not fit into its moment
	pending bool      // samples were pushed since the last hand-over
	oldest  int64     // of them, CLOCK_MONOTONIC, ns
	due     time.Time // when they are handed over; zero: Turn has not seen them yet
	renewed time.Time // when the runtime's look-ups last got their share of time
}

// Local takes the samples of a target: a ring of its own, or one that it shares with other targets.
type Local interface {
	Push(s *ccmap.Sample) bool
	Publish()
}

// Engine is the engine that a taker works for.
type Engine interface {
	// Interval returns the CPU time between two samples of a thread now.
	Interval() time.Duration

	// OpenWatch opens a watchpoint.
	OpenWatch() (activation.Watch, error)

	// Watchable returns the threads or CPUs that a watchpoint must be set on, which are
	// all, with the place of a sample first; none if there are not enough descriptors for
	// that many watchpoints.
	Watchable(watches int, of activation.Moment) []uint32

	// Has reports whether a thread is one of the target's.
	Has(tid uint32) bool
}

// maxThreads bounds the threads whose last sample is remembered.
const maxThreads = 1 << 14

// Open opens the target. Close must be called even after an error. The watch gives up
// reads of the target's memory and files that never return. Errors wrap the errors of
// package sampler.
func Open(ctx context.Context, o sampler.ProcessOptions, w *hang.Watch) (*Taker, error) {
	t := &Taker{PID: o.PID, Pidfd: -1, Log: o.Logger, Sink: o.Sink, watch: w, last: make(map[uint64]past), kernelNames: o.KernelNames}
	var err error
	if t.Pidfd, err = process.Open(o.PID); err != nil {
		return t, err
	}
	if t.Runtime, err = runtimes.Open(ctx, o, w); err != nil {
		return t, err
	}
	if t.chains, _ = t.Runtime.(process.Chainer); t.chains != nil {
		t.calls, _ = t.Runtime.(indirect.Code)
	}
	return t, nil
}

// StackBytes returns how much of a stack moments should hold at first; 0: as the engine thinks.
func (t *Taker) StackBytes() uint32 {
	if deep, ok := t.Runtime.(process.Deep); ok {
		return deep.StackBytes()
	}
	return 0
}

// Descriptors returns the layout of the runtime's descriptors, if it is known. It may change.
func (t *Taker) Descriptors() (process.Descriptors, bool) {
	if described, ok := t.Runtime.(process.Described); ok {
		return described.Descriptors()
	}
	return process.Descriptors{}, false
}

// Begin makes the parts that need the engine. From now on the engine notices an exec, so
// Begin checks that the target still runs the program that Open has seen. userOnly says
// that moments in the kernel are left out.
func (t *Taker) Begin(o sampler.ProcessOptions, e Engine, userOnly bool) error {
	if err := t.Runtime.SameProgram(); err != nil {
		return err
	}
	if t.kernelNames != nil && t.Costs.Sample > 0 {
		t.Costs.Sample += kernelCost
	}
	t.ledger = process.OpenLedger(t.PID, userOnly)
	t.meter.switches = process.NewSwitches(t.PID)
	t.unknown = ccmap.Frame{Method: t.Sink.Names.Intern(ccmap.Method{Name: ccmap.UnknownName}), Offset: ccmap.NoOffset}
	watches := t.openWatches(o.Watchpoints, e.OpenWatch)
	t.counts.watches.Store(int64(len(watches)))
	t.Judge = activation.New(activation.Options{
		Watches: watches, Budget: o.WatchBudget, Interval: e.Interval, Places: e.Watchable, Sparse: t.Sparse, Log: t.Log,
	})
	t.Catcher = indirect.New(indirect.Options{
		Code: t.calls, Memory: process.MemoryOf(t.PID, t.watch), Alive: e.Has, Deliver: t.takeCall,
		Counts: &t.counts.caught, Budget: t.hitBudget(o), Log: t.Log,
	})
	t.meter.timing = true
	t.readSwitches(time.Now())
	t.describe()
	if c, ok := t.Runtime.(process.Counter); ok && t.Process == nil {
		t.counting.start(c, t.Sink.Names, t.Log)
	}
	return nil
}

// openWatches opens up to n watchpoints, and logs why there are no more.
func (t *Taker) openWatches(n int, open func() (activation.Watch, error)) []activation.Watch {
	var watches []activation.Watch
	for range n {
		w, err := open()
		if err != nil {
			reason := "hardware watchpoints not available"
			if errors.Is(err, unix.ENOSPC) {
				reason = "debug registers are in use, by a debugger or another profiler"
			}
			t.Log.Info(reason, "watchpoints", len(watches), "error", err)
			break
		}
		watches = append(watches, w)
	}
	return t.leaveOne(watches)
}

// leaveOne closes the last of several watchpoints if it has the last debug register: the
// catcher of calls needs one, too, and another session may have a watchpoint on every CPU.
func (t *Taker) leaveOne(watches []activation.Watch) []activation.Watch {
	last := len(watches) - 1
	if last < 1 {
		return watches
	}
	spare, err := perfevent.OpenWatchpoint(uint32(t.PID))
	if err == nil {
		spare.Close()
		return watches
	}
	watches[last].Close()
	return watches[:last]
}

// describe publishes the target's description.
func (t *Taker) describe() {
	target := process.DescribeBuild(t.PID, t.Runtime)
	t.target.Store(&target)
}

// Target describes the process. Of a program that was attached to before it ran, build
// and version are known only after its first samples. Any goroutine may call it.
func (t *Taker) Target() ccmap.Target { return *t.target.Load() }

// Taken returns how many samples were made so far. Any goroutine may call it.
func (t *Taker) Taken() uint64 { return t.counts.samples.Load() }

// Close releases everything. It may be called more than once, and on a taker that is
// only partly made.
func (t *Taker) Close() {
	t.counting.end()
	if t.Judge != nil {
		t.Judge.Close()
	}
	if t.Catcher != nil {
		t.Catcher.Close()
	}
	if t.Runtime != nil {
		t.Runtime.Close()
	}
	if t.Pidfd >= 0 {
		unix.Close(t.Pidfd)
		t.Pidfd = -1
	}
}
