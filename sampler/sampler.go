// Package sampler is the vocabulary of attaching. A [Source] takes samples of one
// target. It works like this:
//
//  1. A source is opened with a [Sink], or makes one. [Info] describes the source, its
//     target and its sink.
//  2. [Source.Run] pushes samples into the sink's queue until the target ends.
//  3. Meanwhile any goroutine reads [Stats]: named counts, losses, warnings. If the
//     source is [Tunable], its interval can be changed.
//  4. Run returns an [Ending].
//
// A VM in this process is sampled from inside: package managed is for its author, and packages wasm and starlark
// stand on it. A process is sampled from outside: package engine finds the best engine that is permitted. What
// engines stand on is in the cellar, internal/:
//
//	bpf        an engine: timers of CPUs and a BPF program, one ring for all targets
//	perf       an engine: perf_event_open, an event for each thread, rings of the CPUs
//	jfr        an engine for JVMs: their own Flight Recorder, a recording that is a lease
//	memory     an engine for what goroutines wait for, out of the target's memory
//	pprofhttp  an engine of last resort: a program's own profiles, which come as sums
//	hosted     a program that hosts VMs, by what the maps of its sessions gain
//	taker      samples out of moments, for bpf and perf: stack, verdict, weight, hand-over
//	activation whether a sample's innermost activation was in the last sample
//	indirect   calls through interfaces and function values: which are hot, whose turn it is
//	runtimes   what a process runs: Go, HotSpot, or why nothing reads it
//	goproc     the Go runtime of a process: unwinding, goroutines, frames
//	hotspot    the runtime of a HotSpot JVM: stacks, names, the profiles that it keeps
//	enginetest tests that every engine must pass, and the programs that they sample
//
// Engines import this package, never each other, the manager or an exporter.
package sampler

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/refusal"
	"github.com/ccmapd/ccmapd/queue"
)

// Source takes samples of one target and delivers them to its sink.
type Source interface {
	// Run samples until the context is done or the target has ended, and then
	// returns how it ended. Every sample that was taken has been pushed and
	// published when it returns. An error means that sampling could not start
	// or broke; samples that were pushed before stay valid. Run is called once.
	Run(ctx context.Context) (Ending, error)

	// Info describes the source, its target and its sink. Any goroutine may call it.
	Info() Info

	// Stats may be called from any goroutine, during Run and after.
	Stats() Stats
}

// Tunable is a source whose interval can be changed.
type Tunable interface {
	// SetInterval changes the CPU time between two samples of one thread, for
	// all threads present and future. The change may come later, and differ:
	// [Stats.Interval] says what is in force. Any goroutine may call it, during Run.
	SetInterval(d time.Duration) error
}

// Counting is a source whose target keeps a profile of its own, as a VM does for its
// compiler, or that counts calls itself.
type Counting interface {
	// Counted returns the points as they were last read, of methods of the sink's names, and a
	// number that is another one for other points; 0: there are none yet. Their origin is
	// [ccmap.OriginVM], or [ccmap.OriginBurst] where the source has counted them by breakpoints.
	// The caller must not change them. Any goroutine may call it.
	Counted() (points []ccmap.Point, version uint64)
}

// Info describes a source. Only the target changes: the build and version of a program
// become known when it runs.
type Info struct {
	Target   ccmap.Target
	Engine   string     // name of the engine in profiles, for example "perf"
	Unit     ccmap.Unit // of the samples' weights
	Of       string     // what samples are of, for people, where it is not CPU time at an interval; empty: it is
	Embedded bool       // the target runs in this process
	Sink     Sink       // where the source delivers

	// NoKernelTime says why time in the kernel is left out. It is empty if such time
	// is sampled.
	NoKernelTime string

	// Lacks names, for people, the facts that the source cannot know of the target. It is empty for
	// a source that takes samples itself.
	Lacks string
}

// Sink is where a source delivers: samples go into the queue, and their methods
// are ids of the names. A source has its sink from the beginning, because the threads
// of a VM take samples and name methods before a session runs the source.
type Sink struct {
	Queue *queue.Queue
	Names *ccmap.Names
}

// Ending says why a source stopped.
type Ending struct {
	// Reason for people, for example "target exited with code 3", "target was
	// killed by SIGKILL", "stopped".
	Reason string
	// Exited says that the target itself ended or was replaced by exec.
	Exited bool
}

// Errors that sources wrap. Test for them with errors.Is.
var (
	ErrNoProcess   = refusal.ErrNoProcess
	ErrNotManaged  = refusal.ErrNotManaged
	ErrPermission  = refusal.ErrPermission
	ErrUnsupported = refusal.ErrUnsupported
	ErrUnit        = errors.New("the engine samples CPU time") // and not what was asked for

	// ErrProgram: no engine reads the program, whoever asks, until its file changes: another version of Go or
	// another VM has made it. It is an ErrUnsupported.
	ErrProgram = refusal.ErrProgram
)

// Clock tells CLOCK_MONOTONIC, which is the time of samples. That is what
// time.Since goes by, too (nanotime1 in runtime/sys_linux_amd64.s, Go 1.26), at the
// price of a call into the vDSO; only its zero is the runtime's own. Any goroutine
// may use it.
type Clock struct {
	base time.Time
	ns   int64 // CLOCK_MONOTONIC at base
}

// NewClock returns a clock that can be asked.
func NewClock() Clock {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // the clock is there since Linux 2.6 (clock_gettime(2))
	}
	return Clock{base: time.Now(), ns: t.Nano()}
}

// Now returns CLOCK_MONOTONIC, ns.
func (c *Clock) Now() int64 { return c.ns + int64(time.Since(c.base)) }
