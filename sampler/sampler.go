// Package sampler is the vocabulary of attaching: what a source of samples is
// and which ways it can fail. Each source is a sub-package:
//
//	perf     a process from outside, through perf_event_open
//	managed  a VM in this process, whose threads sample themselves
//
// Sources import this package and the packages below it, never each other, the manager
// or an exporter.
package sampler

import (
	"context"
	"errors"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
)

// Source takes samples of one target and pushes them into a queue.
type Source interface {
	// Run samples until the context is done or the target has ended, and then
	// returns how it ended. Every sample that was taken has been pushed and
	// published when it returns. An error means that sampling could not start
	// or broke; what was pushed before stays valid. Run is called once.
	Run(ctx context.Context) (Ending, error)

	// SetInterval changes the CPU time between two samples of one thread, for
	// all threads present and future. Any goroutine may call it, during Run.
	SetInterval(d time.Duration) error

	// Stats may be called from any goroutine, during Run and after.
	Stats() Stats
}

// Sink is where a source delivers: samples go into the queue, and their methods
// are ids of the names.
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

// Stats counts what a source did. All counts are since its start.
type Stats struct {
	Samples      uint64     // pushed
	Loss         ccmap.Loss // with the target's clock, where it has one: see [ccmap.Loss]
	Warning      string     // for every reader of the profile, with the cure, for example "3 of 9 threads were not sampled: …"; empty: none
	Threads      int        // attached now
	Repaired     uint64     // samples whose first caller the kernel's walk had lost
	Rooted       uint64     // samples that reach a known root of the runtime
	Truncated    uint64     // samples with frames lost
	Kernel       uint64     // samples taken in the kernel
	Foreign      uint64     // samples with frames outside Go (C, vDSO)
	Recalled     uint64     // of those, samples whose Go callers are an earlier sample's: see package perf
	Probed       uint64     // watchpoints armed for top activations
	Probes       int        // hardware watchpoints available to this source; 0: none, verdicts are unknown
	Interval     time.Duration
	LastChange   time.Duration // how long the last change of the interval took to reach every thread
	Unit         ccmap.Unit    // of the samples' weights
	KernelTime   bool          // whether time in the kernel is sampled
	KernelReason string        // why not, where it is not
	Hits         uint64        // calls caught by breakpoints and pushed, as samples with Hit set; not among Samples
	Strays       uint64        // calls caught and dropped, because what they reach is no function that is known
	Bursts       uint64        // times that breakpoints were set for some milliseconds
	HitSites     int           // call instructions that are indirect and hot now
	HitReason    string        // why no calls are caught, where none can be; empty otherwise

	// Of a VM whose threads sample themselves at safe points, when they are marked:
	Marks     uint64 // times that all threads were marked
	Late      uint64 // of Marks: more than 1.5 intervals after the one before
	Unsafe    int    // threads now that run, were marked, and have reached no safe point for 1 s
	Panicked  uint64 // threads no longer sampled, because what walks or marks them panicked
	Abandoned uint64 // threads that were collected as garbage without having been detached
}

// Errors that sources wrap. Test for them with errors.Is.
var (
	ErrNoProcess   = errors.New("no such process")
	ErrNotGo       = errors.New("not a Go program")
	ErrPermission  = errors.New("not permitted")
	ErrUnsupported = errors.New("not supported here")
)
