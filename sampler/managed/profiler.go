package managed

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/ccmapd/ccmapd/sampler"
)

// Profiler samples the threads of one VM. It is a [sampler.Source].
//
//	sink … clock      written by New only
//	signals           written by the marker a few times a second, read by every
//	                  thread at every safe point: alone on its cache line
//	time              written by the marker, read by a thread that takes a sample
//	counts            added to by threads that take samples
//	plain, hooked     the attached threads, each under a lock of its own
//	marking           held while threads are marked
//	interval … ended  see each
//
// All methods may be called from any goroutine.
type Profiler struct {
	sink      sampler.Sink
	burst     Burst
	hitBudget float64
	manual    bool   // there is no marker
	maxFrames int    // of a sample
	first     uint64 // id that no attachment has; those of earlier profilers are less
	logger    *slog.Logger
	clock     sampler.Clock

	_ cpu.CacheLinePad
	signals
	_ cpu.CacheLinePad

	time   timekeeper
	calls  callBursts
	counts counts
	plain  seats
	hooked seats

	marking sync.Mutex
	told    []*seat // those whose hooks are called; under marking

	interval atomic.Int64 // ns; 0 if manual
	change   change       // of the interval
	finished chan string  // capacity 1: why the VM has ended
	ended    atomic.Bool  // no more samples
}

// signals is what threads look at.
type signals struct {
	epoch  atomic.Uint32 // how often threads have been marked, modulo 2³²
	wanted atomic.Bool   // calls are to be caught
}

// maxFrames is how many frames a sample has at most: a walk that begins among so
// many new activations costs some tens of µs.
const maxFrames = 2048

// New returns a profiler for one VM.
func New(o Options) *Profiler {
	o.complete()
	first, _ := newSerial()
	p := &Profiler{
		sink:      o.Sink,
		burst:     o.Burst,
		hitBudget: o.HitBudget,
		manual:    o.Interval < 0,
		maxFrames: min(maxFrames, o.Sink.Queue.MaxFrames()),
		first:     first,
		logger:    o.Logger,
		clock:     sampler.NewClock(),
		change:    change{wake: make(chan struct{}, 1)},
		finished:  make(chan string, 1),
	}
	p.time.bounded = !p.manual
	p.time.setWorth(1)
	p.calls.draw(0, p.hitBudget)
	if !p.manual {
		p.interval.Store(int64(clampInterval(o.Interval)))
	}
	return p
}

// Sink returns where the samples go, and the names of their methods.
func (p *Profiler) Sink() sampler.Sink { return p.sink }

// Finish says that the VM has ended. Run then publishes what there is and returns
// the reason with Exited set. Only the first reason counts.
func (p *Profiler) Finish(reason string) {
	select {
	case p.finished <- reason:
	default:
	}
}

// counts is what threads count. All are since the start.
type counts struct {
	samples   atomic.Uint64
	truncated atomic.Uint64
	hits      atomic.Uint64
	panicked  atomic.Uint64
	abandoned atomic.Uint64
	traffic   atomic.Int64 // room that the map's memory of threads may have needed for all samples
	bursts    atomic.Uint64
	marks     atomic.Uint64
	late      atomic.Uint64
	unsafe    atomic.Int64 // threads, at the last sweep
}

// Stats implements [sampler.Source].
func (p *Profiler) Stats() sampler.Stats {
	c := &p.counts
	s := sampler.Stats{
		Samples:    c.samples.Load(),
		Threads:    p.plain.len() + p.hooked.len(),
		Truncated:  c.truncated.Load(),
		Interval:   time.Duration(p.interval.Load()),
		LastChange: p.change.took(),
		Hits:       c.hits.Load(),
		Bursts:     c.bursts.Load(),
		Marks:      c.marks.Load(),
		Late:       c.late.Load(),
		Unsafe:     int(c.unsafe.Load()),
		Panicked:   c.panicked.Load(),
		Abandoned:  c.abandoned.Load(),
	}
	if p.hitBudget < 0 {
		s.HitReason = "switched off"
	}
	return s
}

var _ sampler.Source = (*Profiler)(nil)
