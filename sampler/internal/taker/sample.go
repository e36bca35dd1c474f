package taker

import (
	"context"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/activation"
	"github.com/ccmapd/ccmapd/sampler/internal/indirect"
)

// Take turns a moment of the target into a sample, and pushes it. chosen says that the
// goroutine's next sample may have a verdict.
func (t *Taker) Take(ctx context.Context, m *process.Moment, weight time.Duration, chosen bool) {
	if t.Runtime.Load(ctx) {
		t.describe()
	}
	t.Runtime.Unwind(m, &t.stack)
	whole := t.scaled(weight)
	t.Catcher.Ran(whole)
	if returns := t.stack.PCs; len(returns) > 0 {
		t.Catcher.Watch(m.TID, returns[1:])
	}
	top := t.Judge.Judge(&t.stack, activation.Moment{TID: m.TID, CPU: m.CPU, At: int64(m.Time), Chosen: chosen}, t.Runtime.Entry)
	t.fill(m)
	t.schedule(m, int64(weight))
	t.out.Weight = int64(whole)
	t.mark(top)
	t.counts.count(m, &t.stack)
	t.unnamed.count(t.Sink.Names, t.out.Frames)
	t.Weights += whole
	if t.Local.Push(&t.out) {
		t.ledger.Seen += whole
		t.Pushed.Add(int64(whole))
	}
	t.deepen = t.deepen || t.stack.WantDump
	t.stale = t.stale || t.NoMappings && t.unknownCode()
	t.wait(m.Time)
}

func (t *Taker) scaled(weight time.Duration) time.Duration {
	if t.Scale == 0 || t.Scale == 1 {
		return weight
	}
	return time.Duration(float64(weight) * t.Scale)
}

// unknownCode reports whether the sample has a frame in code that no symbols are known of.
func (t *Taker) unknownCode() bool {
	return slices.ContainsFunc(t.out.Frames, func(f ccmap.Frame) bool { return f.Method == t.unknown.Method })
}

// fill makes the sample. Its times and its marks follow.
func (t *Taker) fill(m *process.Moment) {
	frames := t.out.Frames[:0]
	if m.Kernel {
		frames = t.inKernel(m, frames)
	}
	frames = t.Runtime.Frames(&t.stack, t.Sink.Names, frames)
	if len(frames) == 0 {
		frames = append(frames, t.unknown)
	}
	thread, truncated := t.stack.Thread, !t.stack.Rooted
	if t.Process != nil {
		frames, thread, truncated = t.inProcess(frames), thread^uint64(t.PID)<<processShift, false
	}
	if t.stack.Labels != nil {
		frames = append(frames, ccmap.Frame{Method: t.Sink.Names.Intern(*t.stack.Labels), Offset: ccmap.NoOffset})
	}
	t.out = ccmap.Sample{
		Frames:    frames,
		Thread:    thread,
		Goroutine: t.stack.Goroutine,
		OSThread:  m.TID,
		Truncated: truncated,
	}
}

// processShift moves a process id out of the way of addresses: all Go programs have their goroutines at the
// same ones.
const processShift = 42

// inProcess appends the frame of the process to a stack. Frames that are lost are within it.
func (t *Taker) inProcess(frames []ccmap.Frame) []ccmap.Frame {
	if !t.stack.Rooted {
		frames = append(frames, ccmap.Frame{Method: ccmap.TruncatedID, Offset: ccmap.NoOffset})
	}
	return append(frames, *t.Process)
}

// takeCall pushes a caught call, if its target is a function that is known.
func (t *Taker) takeCall(c *perfevent.Call) bool {
	target, ok := t.chains.Method(c.Target, t.Sink.Names)
	if !ok || t.Replaced || int(c.PID) != t.PID {
		return false
	}
	t.chains.Chain(c.Chain, c.TID, c.G, &t.stack)
	frames := append(t.out.Frames[:0], ccmap.Frame{Method: target})
	frames = t.Runtime.Frames(&t.stack, t.Sink.Names, frames)
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
	t.Local.Push(&t.out)
	t.wait(c.Time)
	return true
}

// mark notes the verdict. Where the innermost activation is an old one there
// is no new one in the whole stack.
func (t *Taker) mark(top ccmap.Repetition) {
	t.out.Top, t.out.Fresh = top, ccmap.FreshUnknown
	if top == ccmap.TopRepeated {
		t.out.Fresh = 0
	}
}

// past is the last sample of a thread.
type past struct {
	at, cpu int64  // CLOCK_MONOTONIC; CPU time of its OS thread, 0: not known
	tid     uint32 // its OS thread
}

// onTime is a part of a sample's weight. A sample that follows the last one of its thread
// sooner is early: it does not count as a sample of the interval. The rest is for
// jitter.
const onTime = 0.9

// schedule sets the sample's time and weight. Its time is not before the time of
// the thread's last sample: two CPUs may publish samples of one goroutine a few
// µs out of order. It is early where it comes sooner than its weight after that
// one, because each CPU has an event of its own and their periods run apart for
// a thread that moves from one to another, or where the thread had the CPU for less
// than its weight since then.
func (t *Taker) schedule(m *process.Moment, weight int64) {
	if len(t.last) >= maxThreads {
		clear(t.last)
	}
	thread := t.out.Thread
	last, seen := t.last[thread]
	now := past{at: max(int64(m.Time), last.at), cpu: int64(m.CPUTime), tid: m.TID}
	t.out.Time, t.out.Weight = now.at, weight
	t.out.Early = seen && float64(now.since(last)) < onTime*float64(weight)
	t.last[thread] = now
}

// since returns the CPU time since the last sample, as far as it is known, ns.
func (p past) since(last past) int64 {
	passed := p.at - last.at
	if p.tid == last.tid && p.cpu != 0 && last.cpu != 0 {
		return min(passed, p.cpu-last.cpu)
	}
	return passed
}
