package managed

import (
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"golang.org/x/sys/cpu"
)

// Profiler samples the threads of one VM. It is a [sampler.Source].
//
//	sink … threshold  written by New only
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
	wants     Points
	points    *sums // nil: nothing but calls
	waits     *Waits
	manual    bool   // there is no marker
	maxFrames int    // of a sample
	first     uint64 // greater than the ids of earlier profilers' attachments
	logger    *slog.Logger
	clock     sampler.Clock
	cached    *Cached                      // nil: nothing
	threshold func(ccmap.MethodID) float64 // nil: DefaultScale

	recording sync.Mutex
	records   io.Writer // of compile records; nil: none. Under recording

	_ cpu.CacheLinePad
	signals
	_ cpu.CacheLinePad

	time   timekeeper
	calls  callBursts
	counts counts
	plain  seats
	hooked seats

	marking sync.Mutex
	told    []*seat // seats whose hooks are called; under marking

	interval atomic.Int64 // ns; 0 if manual
	change   change       // of the interval
	finished chan string  // capacity 1: the reason why the VM has ended
	ended    atomic.Bool  // no more samples
}

// signals are read by threads at every safe point.
type signals struct {
	epoch  atomic.Uint32 // number of marks, modulo 2³²
	wanted atomic.Bool   // calls are wanted
}

// maxFrames bounds a sample: a walk of as many new activations costs some tens of µs.
const maxFrames = 2048

// New returns a profiler for one VM.
func New(o Options) *Profiler {
	o.complete()
	first, _ := newSerial()
	p := &Profiler{
		sink:      o.Sink,
		burst:     o.Burst,
		hitBudget: o.HitBudget,
		wants:     o.Points,
		points:    newSums(o.Points),
		manual:    o.Interval < 0,
		maxFrames: min(maxFrames, o.Sink.Queue.MaxFrames()),
		first:     first,
		logger:    o.Logger,
		clock:     sampler.NewClock(),
		cached:    o.Cached,
		threshold: o.Threshold,
		records:   o.Records,
		change:    change{wake: make(chan struct{}, 1)},
		finished:  make(chan string, 1),
	}
	p.waits = newWaits(p)
	p.time.bounded = !p.manual
	p.time.setWorth(1)
	p.calls.draw(0, p.hitBudget)
	if !p.manual {
		p.interval.Store(int64(clampInterval(o.Interval)))
	}
	return p
}

// Engine is the name of this kind of source in profiles.
const Engine = "managed"

// Info implements [sampler.Source]. The target is this process.
func (p *Profiler) Info() sampler.Info {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0] // without /proc nothing better is known
	}
	return sampler.Info{
		Target:   ccmap.Target{PID: os.Getpid(), Executable: path, CommandLine: os.Args, Runtime: runtime.Version()},
		Engine:   Engine,
		Embedded: true,
		Sink:     p.sink,
	}
}

// Sink returns the destination of samples, and the names of their methods.
func (p *Profiler) Sink() sampler.Sink { return p.sink }

// Finish says that the VM has ended. Run then publishes the rest and returns the reason
// with Exited set. Only the first reason counts.
func (p *Profiler) Finish(reason string) {
	select {
	case p.finished <- reason:
	default:
	}
}

// counts are totals since the start, added up by threads.
type counts struct {
	samples   atomic.Uint64
	truncated atomic.Uint64
	hits      atomic.Uint64
	panicked  atomic.Uint64
	abandoned atomic.Uint64
	traffic   atomic.Int64 // frames for which the map may have needed last stacks, in all samples
	bursts    atomic.Uint64
	marks     atomic.Uint64
	late      atomic.Uint64
	unsafe    atomic.Int64 // threads, at the last sweep
}

// Stats implements [sampler.Source].
func (p *Profiler) Stats() sampler.Stats {
	c := &p.counts
	s := sampler.Stats{
		Counts: sampler.Counts{
			sampler.Samples:   c.samples.Load(),
			sampler.Truncated: c.truncated.Load(),
			sampler.Caught:    c.hits.Load(),
			sampler.Bursts:    c.bursts.Load(),
			sampler.Marks:     c.marks.Load(),
			sampler.LateMarks: c.late.Load(),
			sampler.Unsafe:    uint64(c.unsafe.Load()),
			sampler.Panicked:  c.panicked.Load(),
			sampler.Abandoned: c.abandoned.Load(),
		},
		Threads:    p.plain.len() + p.hooked.len(),
		Interval:   time.Duration(p.interval.Load()),
		LastChange: p.change.took(),
	}
	if p.hitBudget < 0 {
		s.NoCalls = "switched off"
	}
	s.Warning = p.points.warning()
	return s
}

var (
	_ sampler.Source   = (*Profiler)(nil)
	_ sampler.Tunable  = (*Profiler)(nil)
	_ sampler.Counting = (*Profiler)(nil)
)

// Bounds of the sampling interval. Go's timers are accurate to a millisecond. If the
// marker comes late, samples stand for more time and no time is lost.
const (
	MinInterval = 100 * time.Microsecond
	MaxInterval = time.Hour
)

const (
	defaultInterval  = 10 * time.Millisecond
	defaultHitBudget = 250
)

// Options of a profiler. The zero value is useful.
type Options struct {
	// Sink receives the samples, and the names of their methods. [New] creates its fields
	// that are nil; [Profiler.Sink] returns it.
	Sink sampler.Sink

	// Interval is the time between two marks, limited to MinInterval and MaxInterval;
	// 0 is 10 ms. Negative: there is no marker, and [Profiler.Mark] marks. So a VM can
	// sample by a clock of its own, such as executed instructions.
	Interval time.Duration

	// Burst takes several samples on a mark.
	Burst Burst

	// HitBudget is the number of calls a second that [Thread.Called] catches, in
	// bursts of 32. 0, or not a number: 250; negative: none.
	HitBudget float64

	// Points is what threads count at single positions of the code; 0: Calls, of which
	// HitBudget decides. Others cost a thread some ns each, and 3 KiB for each 64 sites
	// that it comes to.
	Points Points

	// Cached is what an earlier run has left ([ReadCached]), for a VM that compiles: [Profiler.Cached] returns it.
	// Two profilers must not share it. Nil: nothing.
	Cached *Cached

	// Threshold is asked for each method with a cached profile, by [Profiler.Threshold]: the part of the usual
	// threshold after which it is compiled; 1 for the usual one. Nil: DefaultScale for all.
	Threshold func(ccmap.MethodID) float64

	// Records receives a line for each method that [Thread.Compiled] reports, and for each mismatch, for ReadCached in
	// the next run. One goroutine at a time writes to it. To go on with a log, append to its file. Nil: none are kept.
	Records io.Writer

	// Logger receives errors of a thread. Nil discards them.
	Logger *slog.Logger
}

// Burst says how many samples a mark asks for, and how many safe points apart they are
// (M. Arnold and D. Grove, "Collecting and Exploiting High-Accuracy Call Graph Profiles
// in Virtual Machines", CGO 2005). Each sample has its part of the mark's weight. A burst
// removes the bias of the first safe point after a mark. Without it, all time of a long
// piece of code without safe points counts for the safe point after it. Samples 1 or
// less: one sample. Stride less than 1 is 1.
type Burst struct {
	Samples int
	Stride  int
}

// complete sets the fields that are zero.
func (o *Options) complete() {
	if o.Sink.Queue == nil {
		o.Sink.Queue = queue.New(queue.Options{})
	}
	if o.Sink.Names == nil {
		o.Sink.Names = ccmap.NewNames()
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.HitBudget == 0 || math.IsNaN(o.HitBudget) {
		o.HitBudget = defaultHitBudget
	}
	if !o.Points.has(ccmap.PointCall) {
		o.HitBudget = -1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Burst.Samples = max(o.Burst.Samples, 1)
	o.Burst.Stride = max(o.Burst.Stride, 1)
}

// clampInterval limits an interval to its bounds.
func clampInterval(d time.Duration) time.Duration {
	return min(max(d, MinInterval), MaxInterval)
}
