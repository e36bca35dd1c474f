package wasm

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// Profiler samples the guests of one wazero runtime that it has compiled. It is a
// [sampler.Source], and has the methods of [managed.Profiler].
//
//	engine … exact    written by New only
//	host … modules    under mu
//	instances         see there
//	exit              0, or 1<<32 + the code with which guests should end
//
// All methods may be called from any goroutine.
type Profiler struct {
	*managed.Profiler
	engine  wazero.Runtime
	options Options
	exact   *exact // nil: guests are sampled

	mu                    sync.Mutex
	host                  api.Module         // of the functions that rewritten modules import; nil before the first CompileModule
	multiValue, tailCalls bool               // features of the runtime, found by the first CompileModule
	modules               map[digest]*module // that were read
	uses                  []CachedUse        // of the functions of all modules

	instances instances
	exit      atomic.Uint64
}

// New returns a profiler for guests of a runtime, which must compile
// (wazero.NewRuntimeConfigCompiler, the default on amd64 and arm64). A runtime can have
// one profiler.
func New(r wazero.Runtime, o Options) *Profiler {
	if o.Exact {
		o.Interval = -1 // nothing is sampled
	}
	if o.Exact && o.Sink.Queue == nil {
		o.Sink.Queue = queue.New(queue.Options{RingWords: ExactRingWords})
	}
	p := &Profiler{
		Profiler: managed.New(o.Options),
		engine:   r,
		options:  o,
		modules:  make(map[digest]*module),
	}
	if o.Exact {
		p.exact = newExact(p)
	}
	return p
}

// Run implements [sampler.Source], see [managed.Profiler.Run].
func (p *Profiler) Run(ctx context.Context) (sampler.Ending, error) {
	ending, err := p.Profiler.Run(ctx)
	if p.exact != nil {
		p.exact.stop()
	}
	return ending, err
}

// Stats implements [sampler.Source].
func (p *Profiler) Stats() sampler.Stats {
	s := p.Profiler.Stats()
	if p.exact != nil {
		s.Counts[sampler.Samples] = p.exact.pushed.Load()
	}
	return s
}

// Names of the engine in profiles: of sampled guests, and of guests with every call
// recorded.
const (
	SamplingEngine = "wasm"
	ExactEngine    = "wasm, exact"
)

// Info implements [sampler.Source]. The target is this process, which runs the guests.
// The time of a guest's thread includes the time of host functions.
func (p *Profiler) Info() sampler.Info {
	info := p.Profiler.Info()
	info.Engine = SamplingEngine
	if p.exact != nil {
		info.Engine, info.Unit = ExactEngine, ccmap.Instructions
	}
	return info
}

// Exit ends every guest at its next safe point, also guests that are instantiated later,
// as WASI's proc_exit does: the module is closed, and the host's call returns a
// [*sys.ExitError]. Only the first call of Exit counts.
func (p *Profiler) Exit(code uint32) {
	if p.exit.CompareAndSwap(0, 1<<32+uint64(code)) {
		p.ask()
	}
}

// exitIfAsked ends the guest after [Profiler.Exit]. The guest calls it, in the host
// function sample.
func (p *Profiler) exitIfAsked(ctx context.Context, guest api.Module) {
	if exit := p.exit.Load(); exit != 0 {
		_ = guest.CloseWithExitCode(ctx, uint32(exit)) // as proc_exit: the guest ends in any case
		panic(sys.NewExitError(uint32(exit)))
	}
}

// Close ends sampling and the profiler's garbage collection. The runtime and its guests
// go on.
func (p *Profiler) Close(context.Context) error {
	p.Finish("closed")
	collecting.leave(p)
	p.instances.each((*instance).leave)
	return nil
}

// Options of a profiler. The zero value is useful.
type Options struct {
	managed.Options

	// CollectAtSamples makes the profiler collect garbage in place of Go's runtime: see
	// "Stopping the world" in the package's documentation. It is for a program that does
	// little else than run guests, and changes a setting of the whole process.
	CollectAtSamples bool

	// Light is mode 2: with Cached of [managed.ReadCachedProfile], functions whose profile is known go without safe
	// points at which the earlier run has found nothing, and without reports of calls whose target is known
	// ([Profiler.CachedUses]). All counters are of this run alone. Activations of functions without a
	// poll at their entry are a lower bound. Exact ignores it.
	Light bool

	// Exact records every activation and the number of instructions that it executed
	// itself, instead of samples. Weights are instructions ([ccmap.Instructions]), and
	// there is no interval.
	Exact bool
}
