package managed

import (
	"log/slog"
	"math"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// Bounds of the sampling interval. Go's timers are good for a millisecond; where
// the marker comes late, the samples stand for more time and none is lost.
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
	// Sink is where samples go, and the names of their methods. What of it is nil,
	// [New] makes; [Profiler.Sink] returns it.
	Sink sampler.Sink

	// Interval is the time between two marks, 0: 10 ms, moved between MinInterval
	// and MaxInterval. Negative: there is no marker; samples are taken when
	// [Profiler.Mark] is called, so that a VM can sample by a clock of its own, such
	// as instructions executed.
	Interval time.Duration

	// Burst takes several samples on a mark.
	Burst Burst

	// HitBudget is how many calls a second are caught with [Thread.Called], in
	// bursts of 32. 0, or not a number: 250; negative: none.
	HitBudget float64

	// Logger receives what went wrong with a thread. Nil discards.
	Logger *slog.Logger
}

// Burst says how many samples a mark asks for, and how many safe points apart
// (M. Arnold and D. Grove, "Collecting and Exploiting High-Accuracy Call Graph
// Profiles in Virtual Machines", CGO 2005). Each has its part of the mark's
// weight. It takes away the bias of the first safe point after a mark: a long
// piece of code without any would otherwise have all its time counted where the
// next one happens to be. Samples 1 or less: one sample. Stride less than 1 is 1.
type Burst struct {
	Samples int
	Stride  int
}

// complete fills in what is zero.
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
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Burst.Samples = max(o.Burst.Samples, 1)
	o.Burst.Stride = max(o.Burst.Stride, 1)
}

// clampInterval moves an interval between its bounds.
func clampInterval(d time.Duration) time.Duration {
	return min(max(d, MinInterval), MaxInterval)
}
