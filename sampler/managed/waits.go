package managed

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// waitTime is the unit of waits, that of engine memory for goroutines.
var waitTime = ccmap.NewUnit("wait", ccmap.Nanoseconds)

// Waits is a second source of a profiler: what its threads wait for, as [Thread.Blocked] says it. A manager of its own
// runs it beside that of the profiler, into a map of its own.
//
// A wait is sampled when it ends, if a mark has come while it lasted, and stands for the time between the last marks
// before its beginning and before its end. So waits that are shorter than the interval are sampled as often as their
// time deserves, and others cost nothing but two loads. A wait that has not ended is in no sample.
//
//	sink, clock          written once
//	last                 written by the marker, read by threads
//	ring                 under mu: threads push
//	samples, over        see each
type Waits struct {
	sink    sampler.Sink
	info    func() sampler.Info
	last    atomic.Int64 // the last mark, CLOCK_MONOTONIC, ns
	samples atomic.Uint64
	over    chan struct{} // closed at the end of the profiler's Run

	mu   sync.Mutex
	ring *queue.Ring // nil: before the first sample, and after Run
	done bool
}

var _ sampler.Source = (*Waits)(nil)

// Waits returns the source of what the threads wait for. All calls return the same one. A profiler without a marker has
// no waits: its time is not that of a clock.
func (p *Profiler) Waits() *Waits { return p.waits }

func newWaits(p *Profiler) *Waits {
	w := &Waits{
		info: p.Info, over: make(chan struct{}),
		sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()},
	}
	w.last.Store(p.clock.Now())
	return w
}

// Sink returns the destination of samples, and the names of their methods.
func (w *Waits) Sink() sampler.Sink { return w.sink }

// Info implements [sampler.Source].
func (w *Waits) Info() sampler.Info {
	i := w.info()
	i.Unit, i.Of, i.Sink = waitTime, "waits of threads", w.sink
	return i
}

// Stats implements [sampler.Source].
func (w *Waits) Stats() sampler.Stats {
	s := sampler.Stats{NoCalls: "threads that wait make none"}
	s.Counts[sampler.Samples] = w.samples.Load()
	return s
}

// Run waits until the context is done, or the profiler's Run has ended. It returns no error.
func (w *Waits) Run(ctx context.Context) (sampler.Ending, error) {
	ending := sampler.Ending{Reason: "stopped"}
	select {
	case <-ctx.Done():
	case <-w.over:
		ending = sampler.Ending{Reason: "the profiler has ended", Exited: true}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	if w.ring != nil {
		w.ring.Close()
		w.ring = nil
	}
	return ending, nil
}

// push takes a sample and publishes it.
func (w *Waits) push(s *ccmap.Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return
	}
	if w.ring == nil {
		w.ring = w.sink.Queue.Ring()
	}
	if w.ring.Push(s) {
		w.ring.Publish()
		w.samples.Add(1)
	}
}

// wait is what a thread that is blocked does.
type wait struct {
	walker Walker // nil: it is not blocked
	reason string
	mark   int64 // the last one before, CLOCK_MONOTONIC, ns
}

// longestReason bounds the text of a reason, bytes.
const longestReason = 64

// Blocked is [Thread.Park] for a wait that [Profiler.Waits] is to know: reason says what for, in a word or two, and is the
// innermost frame of its samples, in brackets. [Thread.Unpark] ends the wait. Until then the stack must stay as it is: the
// walker may be called in Unpark. There may be few different reasons, as each is a name of the map for ever.
func (t *Thread) Blocked(reason string, w Walker) {
	if t.seat.parked.Load() {
		return
	}
	t.Park()
	if p := t.profiler; !p.manual && !t.walking && !t.off {
		t.waiting = wait{w, reason[:min(len(reason), longestReason)], p.waits.last.Load()}
	}
}

// tellWait makes a sample of the wait that ends.
func (t *Thread) tellWait() {
	is := t.waiting
	t.waiting = wait{}
	to := t.profiler.waits
	weight := to.last.Load() - is.mark
	if weight <= 0 || t.off {
		return
	}
	t.stack.begin(true)
	if !t.walk(is.walker, t.visit) {
		return
	}
	names := t.profiler.sink.Names
	frames := append(make([]ccmap.Frame, 0, len(t.stack.frames)+1), ccmap.Frame{
		Method: to.sink.Names.Intern(ccmap.Method{Name: "[" + is.reason + "]"}), Offset: ccmap.NoOffset,
	})
	for _, f := range t.stack.frames {
		frames = append(frames, ccmap.Frame{Method: to.sink.Names.Intern(names.At(f.Method)), Offset: f.Offset})
	}
	cut := t.stack.cut
	t.stack.forget()
	if len(frames) > to.sink.Queue.MaxFrames() {
		frames, cut = frames[:to.sink.Queue.MaxFrames()], true
	}
	to.push(&ccmap.Sample{
		Frames: frames, Thread: t.id, Time: t.profiler.clock.Now(), Weight: weight, Fresh: ccmap.FreshUnknown, Truncated: cut,
	})
}
