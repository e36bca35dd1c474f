package daemon

import (
	"errors"

	"github.com/ccmapd/ccmapd/sampler"
)

// Counters are sums over all processes that a target has had. They grow as long as the target is in
// the configuration. [Figures] of a target fall when a process ends.
type Counters struct {
	Samples, Caught                              uint64
	SampledNS                                    int64
	Known, Repeated                              uint64
	LostSource, LostQueue, LostCorrupt, Orphaned uint64
	Throttled                                    uint64
	PrunedNodes                                  uint64

	IntervalChanges uint64 // that a look once a second has seen
	Unfiled         uint64 // attempts to file a period that failed
	GivenUp         uint64 // samples of ended processes that could not be filed
	Failures        Failures
}

// Failures are attempts to attach that failed, by reason.
type Failures struct {
	NotPermitted uint64
	Unsupported  uint64
	Other        uint64
}

// add adds the counters of a session.
func (c *Counters) add(o Counters) {
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
}

// counters returns the counters of the session. Its map may have been pruned before.
func (s *session) counters() Counters {
	f := figuresOf(s.manager.Status())
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

func (f *follower) countIntervalChange() {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.target.counters.IntervalChanges++
}

func (d *Daemon) countUnfiled(t *target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.counters.Unfiled++
}
