package daemon

import (
	"errors"

	"github.com/ccmapd/ccmapd/sampler"
)

// Counters are sums over all processes that a target has had. They grow as long as the target is in
// the configuration. [Figures] of a target fall when a process ends.
type Counters struct {
	Samples     uint64 `json:"samples"`
	Caught      uint64 `json:"caught"`
	SampledNS   int64  `json:"sampled_ns"`
	Known       uint64 `json:"known"`
	Repeated    uint64 `json:"repeated"`
	LostSource  uint64 `json:"lost_source"`
	LostQueue   uint64 `json:"lost_queue"`
	LostCorrupt uint64 `json:"lost_corrupt"`
	Orphaned    uint64 `json:"orphaned"`
	Throttled   uint64 `json:"throttled"`
	PrunedNodes uint64 `json:"pruned_nodes"`

	IntervalChanges uint64   `json:"interval_changes"` // that a look once a second has seen
	Unfiled         uint64   `json:"unfiled"`          // attempts to file a period that failed
	GivenUp         uint64   `json:"given_up"`         // samples of ended processes that could not be filed
	Failures        Failures `json:"-"`                // their sum is attach_failures
}

// Failures are attempts to attach that failed, by reason.
type Failures struct {
	NotPermitted uint64
	Unsupported  uint64
	Other        uint64
}

// Add adds the counters of a session, or of another target, but for failures and changes of intervals.
func (c *Counters) Add(o Counters) {
	c.Samples += o.Samples
	c.Caught += o.Caught
	c.SampledNS += o.SampledNS
	c.Known += o.Known
	c.Repeated += o.Repeated
	c.LostSource += o.LostSource
	c.LostQueue += o.LostQueue
	c.LostCorrupt += o.LostCorrupt
	c.Orphaned += o.Orphaned
	c.Throttled += o.Throttled
	c.PrunedNodes += o.PrunedNodes
	c.Unfiled += o.Unfiled
	c.GivenUp += o.GivenUp
}

// counters returns the counters of the session. Its map may have been pruned before.
func (s *session) counters() Counters {
	f := figuresOf(s.Manager.Status())
	return Counters{
		Samples: f.Samples, Caught: f.Caught, SampledNS: f.SampledNS, Known: f.Known, Repeated: f.Repeated,
		LostSource: f.LostSource, LostQueue: f.LostQueue, LostCorrupt: f.LostCorrupt, Orphaned: f.Orphaned, Throttled: f.Throttled,
		PrunedNodes: f.PrunedNodes - min(s.pruned.Nodes, f.PrunedNodes),
	}
}

// count counts an attempt. A session that ended without an error, while its process lives, is one.
func (f *Failures) count(err error) {
	switch {
	case errors.Is(err, sampler.ErrPermission):
		f.NotPermitted++
	case errors.Is(err, sampler.ErrUnsupported):
		f.Unsupported++
	default:
		f.Other++
	}
}

func (f Failures) all() uint64 { return f.NotPermitted + f.Unsupported + f.Other }
