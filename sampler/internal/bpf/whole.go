package bpf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/beat"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// Whole samples all processes of the machine, as one target. The outermost frame of each sample is its
// process. Go programs and JVMs have their stacks within it, all others their system calls. The stacks
// are members' of the host: sources that end with their process.
//
//	seat          see there
//	programs      has a lock of its own
//	counts, took  atomic
//	all others    the goroutine of Run
type Whole struct {
	seat
	host     *Host
	options  WholeOptions
	programs *programs
	took     atomic.Int64 // how long the last change of the interval took, ns
	counts   wholeCounts

	local   *queue.Ring
	records []byte // reused
	frames  []ccmap.Frame
	names   processNames
	ledger  *process.Ledger
	seen    time.Duration // that the samples in the queue stand for, without those of members
	handed  time.Time     // when samples were last handed over
	checked time.Time     // the beat of the last look at programs and the clock
}

// WholeOptions are the options of a [Whole]. Sink is required.
type WholeOptions struct {
	Sink sampler.Sink

	// Interval is the CPU time between two samples of a CPU; 0 means 10 ms.
	Interval time.Duration

	// MaxPrograms is how many Go programs and JVMs have their stacks at a time. The stacks of others are
	// [unknown].
	MaxPrograms int

	// HasMemory reports whether there is memory for the symbols of another program. It is asked before each
	// one is opened. Nil: there always is.
	HasMemory func() bool

	// MaxBytes returns how many bytes the symbols, caches and records of Go programs and JVMs may take together.
	// The load of the one that is being opened comes on top. Beyond the bound no further programs are opened, and
	// those that had no sample for the longest are closed. It is asked each second. Nil, or 0: there is no bound.
	MaxBytes func() int64

	// MaxNames is how many bytes of names all programs together may bring to the map of Sink; 0 means 64 MiB.
	// Beyond that Run ends with [ErrNames].
	MaxNames int64

	NoLabels bool         // see [sampler.ProcessOptions]
	Logger   *slog.Logger // nil discards
}

// defaultMaxNames is the bound of a map that programs come to for months.
const defaultMaxNames = 64 << 20

// ErrNames says that all programs together have brought too many names.
var ErrNames = errors.New("the names of all programs take more than permitted")

// wholeCounts are written by the goroutine of Run and read by Stats.
type wholeCounts struct {
	samples, kernel, corrupt atomic.Uint64
	unaccounted              atomic.Pointer[ccmap.Loss]
}

var (
	_ sampler.Source  = (*Whole)(nil)
	_ sampler.Tunable = (*Whole)(nil)
)

// OpenWhole begins to sample all processes. Run must follow soon, or Close.
func (h *Host) OpenWhole(o WholeOptions) (*Whole, error) {
	p, err := sampler.ProcessOptions{Sink: o.Sink, Interval: o.Interval, Logger: o.Logger}.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("sample the host: %w", err)
	}
	o.Interval, o.Logger, o.MaxNames = p.Interval, p.Logger, cmp.Or(o.MaxNames, defaultMaxNames)
	w := &Whole{host: h, options: o, names: make(processNames), ledger: process.NewHostLedger()}
	w.seat = seat{pid: wholeHost, interval: h.clamp(o.Interval)}
	w.programs = newPrograms(h, o)
	if w.waiter, err = perfevent.NewWaiter(-1); err != nil {
		return nil, fmt.Errorf("sample the host: %w", err)
	}
	if err := h.join(&w.seat); err != nil {
		w.Close()
		return nil, fmt.Errorf("sample the host: %w", err)
	}
	return w, nil
}

// Close ends sampling. It is only for a Whole on which Run was not called.
func (w *Whole) Close() error {
	w.host.forget(&w.seat)
	w.programs.closeRings()
	w.host.mu.Lock() // the reader rings
	defer w.host.mu.Unlock()
	if w.waiter != nil {
		w.waiter.Close()
		w.waiter = nil
	}
	return nil
}

// Run samples until ctx is done. With [ErrNames] the map must not go on.
func (w *Whole) Run(ctx context.Context) (sampler.Ending, error) {
	defer w.Close()
	defer w.waiter.RingAfter(ctx)()
	w.local = w.options.Sink.Queue.Ring()
	defer w.local.Close()
	programs, stop := context.WithCancel(ctx)
	w.programs.start(programs)
	err := w.takeUntil(ctx)
	stop()
	w.programs.wait()
	w.host.leave(&w.seat)
	w.host.drain()
	w.drainRecords()
	w.local.Publish()
	w.balance()
	if err != nil {
		return sampler.Ending{}, fmt.Errorf("sample the host: %w", err)
	}
	return sampler.Ending{Reason: "stopped"}, nil
}

// takeUntil takes records until ctx is done, no more can be waited for, or there are too many names.
func (w *Whole) takeUntil(ctx context.Context) error {
	const handOver = 100 * time.Millisecond
	for ctx.Err() == nil {
		_, err := w.waiter.Wait(beat.Until(time.Now(), checkEvery))
		if err := errors.Join(err, w.host.Err()); err != nil {
			return err
		}
		w.drainRecords()
		now := time.Now()
		if now.Sub(w.handed) >= handOver {
			w.handed = now
			w.local.Publish()
		}
		if at := beat.Of(now, checkEvery); !at.Equal(w.checked) {
			w.checked = at
			w.programs.sweep(now)
			w.programs.fit(now)
			w.balance()
			if w.options.Sink.Names.Bytes() > w.options.MaxNames {
				return fmt.Errorf("%w: %d MiB", ErrNames, w.options.MaxNames>>20)
			}
		}
	}
	return nil
}

// drainRecords makes samples of the records that have arrived.
func (w *Whole) drainRecords() {
	w.records = w.inbox.Swap(w.records[:0])
	for rest := w.records; len(rest) > 0; {
		var raw []byte
		raw, rest = next(rest)
		var r record
		if len(raw) < headBytes {
			w.counts.corrupt.Add(1)
			continue
		}
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&r.programHead)), headBytes), raw)
		w.push(&r)
	}
}

// push makes a sample of a record's head. Its thread is a CPU: the samples of one come in the order of their
// time.
func (w *Whole) push(r *record) {
	of := w.programs.of(r, time.Now())
	names := w.options.Sink.Names
	w.frames = w.frames[:0]
	switch {
	case r.Flags&(inKernel|kernelThread) != 0:
		kernel := names.Intern(ccmap.Method{Name: ccmap.KernelName, Signature: syscallName(r.Syscall)})
		w.frames = append(w.frames, ccmap.Frame{Method: kernel, Offset: ccmap.NoOffset})
		w.counts.kernel.Add(1)
	case of == opaque:
		w.frames = append(w.frames, ccmap.Frame{Method: ccmap.UnknownID, Offset: ccmap.NoOffset})
	}
	w.frames = append(w.frames, w.names.frame(r, names))
	weight := r.weight()
	s := ccmap.Sample{Frames: w.frames, Thread: uint64(r.Cpu) + 1, OSThread: r.Tid, Time: int64(r.Time), Weight: int64(weight), Fresh: ccmap.FreshUnknown}
	w.counts.samples.Add(1)
	if w.local.Push(&s) {
		w.seen += weight
	}
}

// balance publishes how much of the machine's CPU time no sample stands for.
func (w *Whole) balance() {
	w.ledger.Seen = w.seen + w.programs.pushed()
	if now, ok := w.ledger.Read(); ok {
		loss := w.ledger.Balance(now)
		w.counts.unaccounted.Store(&loss)
	}
}

// wholeLacks says what the samples are of, and lack.
const wholeLacks = "all processes of the machine: repetitions and receivers are not known, and programs that are neither Go programs nor JVMs have no stacks"

// Info describes the source. Any goroutine may call it.
func (w *Whole) Info() sampler.Info {
	return sampler.Info{Engine: Engine, Sink: w.options.Sink, Lacks: wholeLacks}
}

// SetInterval changes the interval, as [Source.SetInterval] does.
func (w *Whole) SetInterval(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("set interval to %v: not positive", d)
	}
	took, err := w.host.setInterval(&w.seat, d)
	if err != nil {
		return fmt.Errorf("set interval to %v: %w", d, err)
	}
	w.took.Store(int64(took))
	return w.programs.setInterval(d)
}

// Stats returns the figures so far, with those of all members. Any goroutine may call it.
func (w *Whole) Stats() sampler.Stats {
	h := w.host
	h.mu.Lock()
	st := sampler.Stats{Interval: w.interval, LastChange: time.Duration(w.took.Load())}
	h.mu.Unlock()
	h.addTo(&st.Overhead)
	st.Warning = w.programs.warning()
	var lost uint64
	st.Counts, lost, st.Loss.Corrupt, st.Threads = w.programs.stats()
	st.Elided = w.programs.elided()
	st.Counts[sampler.Samples] += w.counts.samples.Load()
	st.Counts[sampler.Rooted] += w.counts.samples.Load()
	st.Counts[sampler.InKernel] += w.counts.kernel.Load()
	st.Loss.Source = h.lost(&w.seat) + w.inbox.Lost() + lost
	st.Loss.Corrupt += w.counts.corrupt.Load()
	if time := w.counts.unaccounted.Load(); time != nil {
		st.Loss = st.Loss.Add(*time)
	}
	st.Overhead.Samples = time.Duration(st.Counts[sampler.Samples]) * h.costs.Sample
	st.Overhead.Of = st.Loss.Clock
	return st
}
