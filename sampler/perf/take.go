package perf

import (
	"context"
	"errors"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/activation"
	"github.com/ccmapd/ccmapd/internal/indirect"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/sys/unix"
)

// taker holds what turning one sample into another needs, all of it reused.
type taker struct {
	runtime process.Runtime
	moment  process.Moment
	stack   process.Stack
	out     ccmap.Sample
	kernel  ccmap.Frame
	unknown ccmap.Frame
	last    map[uint64]int64 // thread to the time of its last sample; emptied when full
}

// maxThreads bounds the threads whose last sample is remembered.
const maxThreads = 1 << 14

// prepare makes what the drainer needs to take samples.
func (d *drainer) prepare(o Options) {
	frame := func(name string) ccmap.Frame {
		return ccmap.Frame{Method: d.sink.Names.Intern(ccmap.Method{Name: name}), Offset: ccmap.NoOffset}
	}
	d.taker = &taker{
		runtime: d.runtime,
		kernel:  frame(ccmap.KernelName),
		unknown: frame(ccmap.UnknownName),
		last:    make(map[uint64]int64),
	}
	d.sample.CountsLost = !d.threads.form.NoLost
	watches := d.openWatches(o.Watchpoints)
	d.counts.watches.Store(int64(len(watches)))
	d.judge = activation.New(activation.Options{
		Watches: watches, Budget: o.WatchBudget, Threads: d.threads.watchable, Log: d.log,
		Interval: func() time.Duration { return d.threads.state().interval },
	})
	d.catcher = indirect.New(indirect.Options{
		Code: d.calls, Memory: process.MemoryOf(d.pid, d.watch), Alive: d.threads.has, Deliver: d.takeCall,
		Counts: &d.counts.caught, Budget: max(o.HitBudget, 0), Log: d.log,
	})
}

// openWatches opens up to n watchpoints, and logs why there are no more.
func (d *drainer) openWatches(n int) []activation.Watch {
	var watches []activation.Watch
	for range n {
		w, err := perfevent.OpenWatchpoint(uint32(d.pid))
		if err != nil {
			reason := "hardware watchpoints not available"
			if errors.Is(err, unix.ENOSPC) {
				reason = "debug registers are in use, by a debugger or another profiler"
			}
			d.log.Info(reason, "watchpoints", len(watches), "error", err)
			break
		}
		watches = append(watches, w)
	}
	return watches
}

// take turns a sample into one of the queue's.
func (d *drainer) take(ctx context.Context, s *perfevent.Sample, weight time.Duration) {
	if d.runtime.Load(ctx) {
		d.describe()
	}
	t := d.taker
	t.unwind(s)
	if returns := t.stack.PCs; len(returns) > 0 {
		d.catcher.Watch(s.TID, returns[1:])
	}
	top := d.judge.Judge(&t.stack, s.TID, int64(s.Time), d.runtime.Entry)
	t.fill(s, d.sink.Names)
	t.schedule(int64(s.Time), int64(weight))
	t.mark(top)
	d.count(s)
	if d.local.Push(&t.out) {
		d.ledger.Seen += weight
	}
	d.deepen = d.deepen || t.stack.WantDump
}

// unwind finds the calls of a sample. A thread that has left user mode for good has
// registers without a chain, and says nothing.
func (t *taker) unwind(s *perfevent.Sample) {
	t.moment = process.Moment{
		TID: s.TID, Time: s.Time, Kernel: s.Kernel, HasRegs: s.HasRegs && len(s.Chain) > 0,
		Regs: process.Registers(s.Regs), Chain: s.Chain, Stack: s.Stack, Cut: s.Cut,
	}
	t.runtime.Unwind(&t.moment, &t.stack)
}

// fill makes the sample that is pushed, but for its times and its marks.
func (t *taker) fill(s *perfevent.Sample, names *ccmap.Names) {
	frames := t.out.Frames[:0]
	if s.Kernel {
		frames = append(frames, t.kernel)
	}
	frames = t.runtime.Frames(&t.stack, names, frames)
	if len(frames) == 0 {
		frames = append(frames, t.unknown)
	}
	t.out = ccmap.Sample{
		Frames:    frames,
		Thread:    t.stack.Thread,
		Goroutine: t.stack.Goroutine,
		OSThread:  s.TID,
		Truncated: !t.stack.Rooted,
	}
}

// takeCall pushes a caught call, if its target is a function that is known.
func (d *drainer) takeCall(c *perfevent.Call) bool {
	target, ok := d.runtime.Method(c.Target, d.sink.Names)
	if !ok || d.replaced || int(c.PID) != d.pid {
		return false
	}
	t := d.taker
	t.runtime.Chain(c.Chain, c.TID, c.R14, &t.stack)
	frames := append(t.out.Frames[:0], ccmap.Frame{Method: target})
	frames = t.runtime.Frames(&t.stack, d.sink.Names, frames)
	if len(frames) < 2 {
		return false
	}
	const most = 1 + indirect.MaxChain
	t.out = ccmap.Sample{
		Frames:    frames[:min(len(frames), most)],
		Thread:    t.stack.Thread,
		OSThread:  c.TID,
		Time:      int64(c.Time),
		Fresh:     ccmap.FreshUnknown,
		Truncated: !t.stack.Rooted || len(frames) > most,
		Hit:       true,
	}
	d.local.Push(&t.out)
	d.pending = true
	return true
}

// mark notes the verdict. Where the innermost activation is an old one there
// is no new one in the whole stack.
func (t *taker) mark(top ccmap.Repetition) {
	t.out.Top, t.out.Fresh = top, ccmap.FreshUnknown
	if top == ccmap.TopRepeated {
		t.out.Fresh = 0
	}
}

// onTime is the part of its weight by which a sample must come after the last
// one of its thread to count as a sample of the interval. What is left is for
// jitter.
const onTime = 0.9

// schedule sets the sample's time and weight. Its time is not before that of
// the thread's last sample: two CPUs may publish samples of one goroutine a few
// µs out of order. It is early where it comes sooner than its weight after that
// one, because each CPU has an event of its own and their periods run apart for
// a thread that moves from one to another.
func (t *taker) schedule(at, weight int64) {
	if len(t.last) >= maxThreads {
		clear(t.last)
	}
	thread := t.out.Thread
	last, seen := t.last[thread]
	at = max(at, last)
	t.out.Time, t.out.Weight = at, weight
	t.out.Early = seen && float64(at-last) < onTime*float64(weight)
	t.last[thread] = at
}

// count adds the sample to the source's statistics.
func (d *drainer) count(s *perfevent.Sample) {
	c, st := d.counts, &d.taker.stack
	c.samples.Add(1)
	if st.Rooted {
		c.rooted.Add(1)
	} else {
		c.truncated.Add(1)
	}
	if st.Repaired {
		c.repaired.Add(1)
	}
	if st.Foreign {
		c.foreign.Add(1)
	}
	if st.Recalled {
		c.recalled.Add(1)
	}
	if s.Kernel {
		c.kernel.Add(1)
	}
}
