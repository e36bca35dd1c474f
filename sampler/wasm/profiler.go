package wasm

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// Profiler samples the guests of one wazero runtime: those that it has compiled.
// It is a [sampler.Source]; those of its methods that are not its own
// are those of [managed.Profiler].
//
//	engine … exact    written by New only
//	host … modules    under mu
//	instances         see there
//	exit              0, or 1<<32 + the code with which guests are to end
//
// All methods may be called from any goroutine.
type Profiler struct {
	*managed.Profiler
	engine  wazero.Runtime
	options Options
	exact   *exact // nil: guests are sampled

	mu                    sync.Mutex
	host                  api.Module         // of the functions that rewritten modules import; nil before the first CompileModule
	multiValue, tailCalls bool               // the runtime has them, as is found out then
	modules               map[digest]*module // that have been read

	instances instances
	exit      atomic.Uint64
}

// New returns a profiler for guests of a runtime, which must be one that compiles
// (wazero.NewRuntimeConfigCompiler, the default on amd64 and arm64). A runtime can
// have one profiler.
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

// Stats implements [sampler.Source]. The time of a guest's thread includes what host
// functions take of it.
func (p *Profiler) Stats() sampler.Stats {
	s := p.Profiler.Stats()
	s.KernelTime = true
	if p.exact != nil {
		s.Samples = p.exact.pushed.Load()
		s.Unit = ccmap.Instructions
	}
	return s
}

// Names of the engine in profiles of guests that are sampled, and of guests whose
// every call is recorded.
const (
	SamplingEngine = "wasm"
	ExactEngine    = "wasm, exact"
)

// Engine names how the guests are profiled.
func (p *Profiler) Engine() string {
	if p.exact != nil {
		return ExactEngine
	}
	return SamplingEngine
}

// Exit ends every guest at its next safe point, those that are instantiated later
// included, as if it had called WASI's proc_exit: the module is closed, and what
// called it returns a [*sys.ExitError]. Only the first call counts.
func (p *Profiler) Exit(code uint32) {
	if p.exit.CompareAndSwap(0, 1<<32+uint64(code)) {
		p.ask()
	}
}

// exitIfAsked ends the guest if it is to. It is called by the guest, in the host
// function sample.
func (p *Profiler) exitIfAsked(ctx context.Context, guest api.Module) {
	if exit := p.exit.Load(); exit != 0 {
		_ = guest.CloseWithExitCode(ctx, uint32(exit)) // as proc_exit: the guest ends in any case
		panic(sys.NewExitError(uint32(exit)))
	}
}

// Close ends the profiler, not the runtime: sampling ends, and so does the
// profiler's garbage collection. Guests go on.
func (p *Profiler) Close(context.Context) error {
	p.Finish("closed")
	collecting.leave(p)
	p.instances.each((*instance).leave)
	return nil
}

// Target describes this process, which the guests run in.
func (p *Profiler) Target() ccmap.Target {
	path, _ := os.Executable() // for people only
	return ccmap.Target{PID: os.Getpid(), Executable: path, CommandLine: os.Args, Runtime: "wazero in " + runtime.Version()}
}
