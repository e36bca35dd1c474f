package daemon

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/store"
)

// The store keeps a best profile for each phase of a build, and offers the one of the phase that the program was last
// in. The daemon tells it about changes of a program, and about the first samples of a new process: it may be in
// another phase than the last process was.

// run is the run of a slot's process, until its first samples have told its phase.
type run struct {
	of   store.Process
	from *ccmap.Snapshot // of the slot when the run began, about; nil: nothing was counted, or the phase was told
	told bool
}

// begins returns the counts of a run when they are first enough to tell its phase, else nil.
// The target's filing is locked.
func (s *unfiled) begins(of store.Process, now *ccmap.Snapshot) (*ccmap.Snapshot, error) {
	r := &s.slot.run
	if r.of != of {
		*r = run{of: of, from: s.logged}
	}
	samples := now.Total().Samples
	if r.from != nil {
		samples -= r.from.Total().Samples
	}
	if r.told || samples < store.PhaseSamples {
		return nil, nil
	}
	from := r.from
	r.from, r.told = nil, true
	return s.gained(from, now)
}

// tellPhases tells the store of changes and new runs. It reads stored profiles, so it holds no locks.
func (p *periods) tellPhases(entries []entry) {
	for _, e := range entries {
		if e.drifted {
			p.keeper.Changed(e.key)
		}
		if e.run == nil {
			continue
		}
		p.learner.verify(e.key, e.run)
		if err := p.keeper.Offer(e.key, e.run); err != nil {
			p.log.Error("cannot choose the best profile of a phase", "target", e.key.Target, "error", err)
		}
	}
}
