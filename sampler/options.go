package sampler

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// ProcessOptions are the options of a source that samples a process from outside. PID
// and Sink are required; the zero value of all others is useful.
type ProcessOptions struct {
	PID  int
	Sink Sink

	// Unit is what samples weigh: CPU time by default. A source that does not sample it
	// returns an error that wraps [ErrUnit].
	Unit ccmap.Unit

	// Interval is the CPU time between two samples of one thread; 0 means
	// 10 ms. An engine clamps it to the range that it supports.
	Interval time.Duration

	// Watchpoints is how many hardware watchpoints to use for verdicts on the
	// innermost activation: 0 means 3, which leaves one of a CPU's four to
	// bursts and debuggers; negative means none. There may be fewer; see
	// [Watchpoints].
	Watchpoints int

	// WatchBudget is the fraction of one core that setting and reading
	// watchpoints may take; 0 means 0.003. Beyond it fewer samples get a
	// verdict; which ones does not depend on their outcome.
	WatchBudget float64

	// HitBudget is how many calls to catch at hot indirect calls in a second, and in
	// a second of the target's CPU time, on average and at most: 0 means 250, which
	// slows down a target by less than 0.5 %; negative means none.
	HitBudget float64

	// Idle is how long a goroutine or a thread may wait outside of a request before its wait is idle, where waits are sampled;
	// 0: none is.
	Idle time.Duration

	// Under are functions that answer requests, beside those of net/http and gRPC: waits below them are never idle.
	Under []string

	// Threads labels the samples of a JVM's waits with the names of threads, with one * for each number.
	Threads bool

	// NoLabels leaves the labels of goroutines (pprof.Do) unread.
	NoLabels bool

	// SymbolCache is the directory of the caller's debuginfod client. Its debug files name functions of C in the
	// files of the target that have their build ids. It is opened with the caller's rights, so whoever samples for
	// others must leave it empty: then none is read.
	SymbolCache string

	// KernelNames returns the name of the kernel's function at an address. With it a sample in the kernel has the
	// functions that ran there, each a method [ccmap.KernelName] with the function as its signature; nil: it has one
	// such method, the system call. Only names leave the source, and no address.
	KernelNames func(pc uint64) (name string, ok bool)

	// MaxHostOverhead is the part of a core that an engine may take of every CPU, busy
	// with the target or not: 0 means 0.01; negative means no limit. The interval is longer
	// where a shorter one would exceed that. An engine that interrupts only its target
	// ignores it.
	MaxHostOverhead float64

	// MaxOverhead is the part of the target's CPU time that sampling may cost; 0 or less means
	// no limit. A tuner answers with longer intervals. The engine bounds the costs that do not
	// depend on the interval: caught calls have half of MaxOverhead at most, and events on
	// threads are on in windows only.
	MaxOverhead float64

	// Better says how to get an engine without the limits of this one, for warnings of what these limits have
	// cost. Empty: there is none.
	Better string

	// Doctor is the command that says what an engine lacks, for advice; empty: 'ccmapd doctor'. A daemon's rights are
	// others than those of the user whom it advises.
	Doctor string

	// Logger gets messages for the user while sampling goes on; nil discards them.
	Logger *slog.Logger
}

const (
	// defaultWatches leaves one of the four debug registers of an x86 CPU to
	// others.
	defaultWatches     = 3
	defaultInterval    = 10 * time.Millisecond
	defaultWatchBudget = 0.003
	defaultHitBudget   = 250
)

// WithDefaults fills in the defaults. It refuses options that no source can have, and units
// that the source does not sample: beside CPU time it samples others.
func (o ProcessOptions) WithDefaults(others ...ccmap.Unit) (ProcessOptions, error) {
	if o.Sink.Queue == nil || o.Sink.Names == nil {
		return o, errors.New("source needs a queue and a name table")
	}
	if o.Unit != ccmap.CPUTime && !slices.Contains(others, o.Unit) {
		return o, fmt.Errorf("%w, and not %s: %w", ErrUnit, o.Unit.Kind(), ErrUnsupported)
	}
	if o.Interval < 0 || o.WatchBudget < 0 {
		return o, fmt.Errorf("interval %v or watch budget %v is negative", o.Interval, o.WatchBudget)
	}
	if math.IsNaN(o.HitBudget) || math.IsNaN(o.MaxHostOverhead) || math.IsNaN(o.MaxOverhead) {
		return o, errors.New("hit budget or overhead is not a number")
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Watchpoints == 0 {
		o.Watchpoints = defaultWatches
	}
	if o.WatchBudget == 0 {
		o.WatchBudget = defaultWatchBudget
	}
	if o.HitBudget == 0 {
		o.HitBudget = defaultHitBudget
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
