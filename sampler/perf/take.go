package perf

import (
	"context"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/gosym"
)

// taker holds what turning one sample into another needs, all of it reused.
type taker struct {
	unwinder
	who     *identifier // nil where the runtime's structures are not known
	stack   stack
	now     past
	out     ccmap.Sample
	kernel  ccmap.Frame
	unknown ccmap.Frame
	last    map[uint64]int64 // thread to the time of its last sample; emptied when full
}

// prepare makes what the drainer needs to take samples.
func (d *drainer) prepare(o Options) {
	mem := memory{pid: d.pid, watch: d.watch}
	frame := func(name string) ccmap.Frame {
		return ccmap.Frame{Method: d.sink.Names.Intern(ccmap.Method{Name: name}), Offset: ccmap.NoOffset}
	}
	d.taker = &taker{
		unwinder: unwinder{code: d.code, memory: mem},
		kernel:   frame(ccmap.KernelName),
		unknown:  frame(ccmap.UnknownName),
		last:     make(map[uint64]int64),
	}
	d.sample.CountsLost = !d.threads.form.NoLost
	d.learnLayout()
	d.judge = newJudge(o.Watchpoints, o.WatchBudget, d.threads, d.log)
	d.catcher = newCatcher(d, o.HitBudget)
	d.counts.watches.Store(int64(len(d.judge.watches)))
}

// loadSymbols tries again, now and then, for the symbols of a program that was
// attached to before it had run.
func (d *drainer) loadSymbols(ctx context.Context) {
	if d.code.table != nil || !d.code.due(time.Now()) {
		return
	}
	if err := d.code.load(ctx, d.pid, d.log); err != nil {
		if !d.refused && ctx.Err() == nil {
			d.log.Warn("no symbols: all functions are [unknown]", "reason", err)
		}
		d.refused = true
		return
	}
	d.code.bound(ctx)
	d.learnLayout()
	d.target.Store(describe(d.pid, d.code))
}

// take turns a sample into one of the queue's.
func (d *drainer) take(ctx context.Context, s *perfevent.Sample, weight time.Duration) {
	d.loadSymbols(ctx)
	d.code.begin()
	t := d.taker
	t.unwind(s, &t.stack)
	d.proveLayout(s)
	who := t.identify(s)
	d.catcher.watch(s.TID, &t.stack)
	top := d.judge.judge(who.thread, s.TID, int64(s.Time), t.past(d.judge.history), d.code.entry)
	t.fill(s, who, d.sink.Names)
	t.schedule(int64(s.Time), int64(weight))
	t.mark(top)
	d.count(s)
	if d.local.Push(&t.out) {
		d.ledger.seen += weight
	}
	d.deepen = d.deepen || t.stack.wantDump
}

// identify falls back on the thread where goroutines are not known.
func (t *taker) identify(s *perfevent.Sample) identity {
	if t.who == nil {
		return identity{thread: osThread | uint64(s.TID)}
	}
	return t.who.identify(s, &t.stack, t.onGoroutine())
}

// past describes the stack to the judge.
func (t *taker) past(h *history) *past {
	p := &t.now
	*p = past{slot: t.stack.slot, complete: t.stack.rooted}
	if pcs := t.stack.pcs; len(pcs) > 0 {
		p.callers = h.outermostFirst(pcs[1:])
		p.entry = t.code.at(pcs[0]).entry
	}
	return p
}

// onGoroutine says whether the stack begins where a goroutine does.
func (t *taker) onGoroutine() bool {
	return t.stack.rooted && t.code.at(t.stack.pcs[len(t.stack.pcs)-1]).id == gosym.FuncGoexit
}

// fill makes the sample that is pushed, but for its times and its marks.
func (t *taker) fill(s *perfevent.Sample, who identity, names *ccmap.Names) {
	frames := t.out.Frames[:0]
	if s.Kernel {
		frames = append(frames, t.kernel)
	}
	frames = t.code.frames(t.visible(), names, frames)
	if len(frames) == 0 {
		frames = append(frames, t.unknown)
	}
	t.out = ccmap.Sample{
		Frames:    frames,
		Thread:    who.thread,
		Goroutine: who.goroutine,
		OSThread:  s.TID,
		Truncated: !t.stack.rooted,
	}
}

// mark notes the verdict. Where the innermost activation is an old one there
// is no new one in the whole stack.
func (t *taker) mark(top ccmap.Repetition) {
	t.out.Top, t.out.Fresh = top, ccmap.FreshUnknown
	if top == ccmap.TopRepeated {
		t.out.Fresh = 0
	}
}

// visible leaves runtime.goexit out, as runtime/pprof does: it only stands
// where every goroutine begins.
func (t *taker) visible() []uint64 {
	pcs := t.stack.pcs
	if len(pcs) > 1 && t.onGoroutine() {
		return pcs[:len(pcs)-1]
	}
	return pcs
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
	if len(t.last) >= maxPasts {
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
	if st.rooted {
		c.rooted.Add(1)
	} else {
		c.truncated.Add(1)
	}
	if st.repaired {
		c.repaired.Add(1)
	}
	if st.foreign {
		c.foreign.Add(1)
	}
	if st.recalled {
		c.recalled.Add(1)
	}
	if s.Kernel {
		c.kernel.Add(1)
	}
}
