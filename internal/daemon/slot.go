package daemon

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/manager"
)

// slot has the map of one replica of a target: of processes with one build and owner, one after
// the other.
//
//	target, file, m          never change; the map is the session's while the slot is busy
//	filed, began             under the target's filing
//	all others               under the daemon's mu
type slot struct {
	target *target
	file   process.FileID // of the executable
	m      *ccmap.Map

	owner   process.Owner // of all its processes: other users must not see their samples
	build   string
	busy    bool
	session *session        // nil while it attaches, or nothing is sampled
	last    *ccmap.Snapshot // final one of the last session
	process process.Facts   // of the last session
	used    time.Time       // end of the last session
	retired bool            // the map must not go on, or another build has come: it is filed, and forgotten
	bound   int64           // of the map, as it was set last

	filed *ccmap.Snapshot // what files have; nil: nothing
	began time.Time       // of the period
}

// takeSlot returns a slot that is not busy: of the build, or of the executable where the build is
// not known yet.
func (d *Daemon) takeSlot(f *follower, file process.FileID, build string) *slot {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range f.target.slots {
		if s.isFree(f) && (build != "" && s.build == build || build == "" && s.file == file) {
			s.busy = true
			return s
		}
	}
	s := &slot{
		target: f.target, file: file, owner: f.owner, build: build, busy: true, began: time.Now(), bound: f.target.MaxMemory,
		m: ccmap.New(ccmap.Options{MaxBytes: f.target.MaxMemory, Window: f.target.Window}),
	}
	f.target.slots = append(f.target.slots, s)
	return s
}

// isFree reports whether a process may have the slot.
func (s *slot) isFree(f *follower) bool { return !s.busy && !s.retired && s.owner == f.owner }

// hasBetter reports whether a process of a build must have another slot than its own.
func (d *Daemon) hasBetter(f *follower, own *slot, build string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if own.build == "" {
		return slices.ContainsFunc(f.target.slots, func(s *slot) bool { return s.isFree(f) && s.build == build })
	}
	return own.build != build
}

// giveBack frees a slot whose session did not run. An unused one is forgotten.
func (d *Daemon) giveBack(s *slot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.busy = false
	if s.last == nil {
		s.target.slots = slices.DeleteFunc(s.target.slots, func(o *slot) bool { return o == s })
	}
}

// begin makes a session the slot's, and retires free slots of other builds.
func (d *Daemon) begin(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, t := s.slot, s.slot.target
	s.began = time.Now() // reading symbols may have taken a minute
	own.session, own.process = s, s.follower.facts
	own.build = cmp.Or(s.choice.Source.Info().Target.BuildID, own.build)
	s.follower.slot = own
	t.build = own.build
	t.retire()
}

// knowBuild notes the build of a program that was not known at first: the program was attached to
// before it ran, or serves its own profiles. The caller holds mu.
func (s *slot) knowBuild() {
	if s.build == "" && s.session != nil {
		s.build = s.session.choice.Source.Info().Target.BuildID
		s.target.build = s.build
	}
}

// end frees the slot of a session.
func (d *Daemon) end(s *session, r manager.Report, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := s.slot
	own.knowBuild()
	own.target.counters.add(s.counters())
	own.busy, own.session, own.last, own.used = false, nil, r.Snapshot, time.Now()
	own.retired = own.target.endsMap(r.Ending, err) || own.owner != s.follower.facts.Owner // no process can have it any more
	s.follower.slot = nil
	own.target.retire()
}

// retire marks the free slots that no process will need: of other builds than the latest, and the
// longest unused ones beyond the number of processes. The caller holds mu.
func (t *target) retire() {
	var free []*slot
	for _, s := range t.slots {
		switch {
		case s.busy || s.retired:
		case s.build != t.build:
			s.retired = true
		default:
			free = append(free, s)
		}
	}
	slices.SortFunc(free, func(a, b *slot) int { return b.used.Compare(a.used) })
	for _, s := range free[min(len(free), t.Max):] {
		s.retired = true
	}
}

// sessions iterates over the sessions of all targets. The caller holds mu.
func (d *Daemon) sessions() iter.Seq[*session] {
	return func(yield func(*session) bool) {
		for s := range d.slots() {
			if s.session != nil && !yield(s.session) {
				return
			}
		}
	}
}

// slots iterates over the slots of all targets, also of removed ones that wait to be filed. The
// caller holds mu.
func (d *Daemon) slots() iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		for _, list := range [][]*target{d.order, d.leaving} {
			for _, t := range list {
				for _, s := range t.slots {
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}

// bytes returns the memory of the map. The caller holds mu.
func (s *slot) bytes() int64 {
	switch {
	case s.session != nil:
		return s.session.manager.Status().Bytes
	case s.busy:
		return 0 // its session is being opened
	}
	return s.m.Bytes()
}

// setMaxBytes bounds the map. The caller holds mu.
func (s *slot) setMaxBytes(bytes int64) {
	if s.bound == bytes || s.busy && s.session == nil {
		return
	}
	s.bound = bytes
	if s.session != nil {
		s.session.manager.SetMaxBytes(bytes)
	} else {
		s.m.SetMaxBytes(bytes)
	}
}

// reader returns how to get a snapshot of the slot, nil if it has none. The caller holds mu, and
// calls the result without.
func (s *slot) reader(fresh bool) func(context.Context) (*ccmap.Snapshot, error) {
	last := s.last
	switch {
	case s.session != nil && fresh:
		return s.session.manager.Fresh
	case s.session != nil:
		m := s.session.manager
		return func(context.Context) (*ccmap.Snapshot, error) { return m.Snapshot(), nil }
	case last != nil:
		return func(context.Context) (*ccmap.Snapshot, error) { return last, nil }
	}
	return nil
}
