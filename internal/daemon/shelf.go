package daemon

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// shelf has the slots of a target. It has a lock of its own. Followers take slots and give them back; readers read
// their snapshots.
type shelf struct {
	aim
	keepsMoments func() bool // asked for each new map; nil: none are kept
	waits        bool        // the maps are of waits, and not of CPU time

	mu    sync.Mutex
	slots []*slot
	build string           // that the latest session had
	look  *engine.LastLook // of an endpoint that hosts VMs: the source of the session has it; nil: nothing is known
}

// slot has the map of one replica of a target: of processes with one build and owner, one after
// the other.
//
//	file, m                  never change; the map is the session's while the slot is busy
//	moments                  never changes; its file under the target's filing
//	filed … run              under the target's filing
//	drifted                  atomic
//	all others               under the shelf's mu
type slot struct {
	file    process.FileID // of the executable
	m       *ccmap.Map
	moments *momentsOf // nil: they are not kept

	owner   process.Owner // of all its processes: other users must not see their samples
	build   string
	busy    bool
	session *session        // nil while it attaches, or nothing is sampled
	last    *ccmap.Snapshot // final one of the last session
	process process.Facts   // of the last session
	used    time.Time       // end of the last session
	retired bool            // the map must not go on, or another build has come: it is filed, and forgotten
	bound   int64           // of the map, as it was set last

	filed  *ccmap.Snapshot // what files have; nil: nothing
	began  time.Time       // of the period
	logged *ccmap.Snapshot // what files and the log have; nil: nothing
	noted  time.Time       // when it was logged
	stream *store.Stream   // in the log; nil: nothing was logged
	run    run             // of the process

	drifted atomic.Bool // the program does something else than before, and the store does not know
}

// takeSlot returns a slot that is not busy, for a process of an owner: of the build, or of the executable where the
// build is not known yet.
func (h *shelf) takeSlot(owner process.Owner, file process.FileID, build string) *slot {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		if s.isFree(owner) && (build != "" && s.build == build || build == "" && s.file == file) {
			s.busy = true
			return s
		}
	}
	s := &slot{
		file: file, owner: owner, build: build, busy: true, began: time.Now(), bound: h.MaxMemory, moments: h.newMoments(),
	}
	s.m = ccmap.New(ccmap.Options{MaxBytes: h.MaxMemory, Window: h.Window, Moments: s.moments.add()})
	h.slots = append(h.slots, s)
	return s
}

// isFree reports whether a process of an owner may have the slot.
func (s *slot) isFree(owner process.Owner) bool { return !s.busy && !s.retired && s.owner == owner }

// hasBetter reports whether a process of a build must have another slot than its own.
func (h *shelf) hasBetter(own *slot, build string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if own.build == "" {
		return slices.ContainsFunc(h.slots, func(s *slot) bool { return s.isFree(own.owner) && s.build == build })
	}
	return own.build != build
}

// giveBack frees a slot whose session did not run. An unused one is forgotten.
func (h *shelf) giveBack(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.busy = false
	if s.last == nil {
		h.slots = slices.DeleteFunc(h.slots, func(o *slot) bool { return o == s })
	}
}

// holdSession makes a session the slot's, and retires free slots of other builds.
func (h *shelf) holdSession(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := s.slot
	s.began = time.Now() // reading symbols may have taken a minute
	own.session, own.process = s, s.follower.facts
	own.build = cmp.Or(s.Info().Target.BuildID, own.build)
	h.build = own.build
	h.retire()
}

// freeSlot frees the slot of a session. Its map goes on unless it is over.
func (h *shelf) freeSlot(s *session, last *ccmap.Snapshot, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := s.slot
	h.knowBuild(own)
	own.busy, own.session, own.last, own.used = false, nil, last, time.Now()
	own.retired = over || own.owner != s.follower.facts.Owner // no process can have it any more
	h.retire()
}

// disown makes the map of a session nobody's but root's.
func (h *shelf) disown(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.slot.session == s {
		s.slot.owner.Traceable = false
	}
}

// knowBuild notes the build of a program that was not known at first: the program was attached to
// before it ran, or serves its own profiles. The caller holds mu.
func (h *shelf) knowBuild(s *slot) {
	if s.build == "" && s.session != nil {
		s.build = s.session.Info().Target.BuildID
		h.build = s.build
	}
}

// retire marks the free slots that no process will need: of other builds than the latest, and the
// longest unused ones beyond the number of processes. The caller holds mu.
func (h *shelf) retire() {
	var free []*slot
	for _, s := range h.slots {
		switch {
		case s.busy || s.retired:
		case s.build != h.build:
			s.retired = true
		default:
			free = append(free, s)
		}
	}
	slices.SortFunc(free, func(a, b *slot) int { return b.used.Compare(a.used) })
	for _, s := range free[min(len(free), h.Max):] {
		s.retired = true
	}
}

// sessions returns the sessions that run.
func (h *shelf) sessions() (all []*session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		if s.session != nil {
			all = append(all, s.session)
		}
	}
	return all
}

// owners returns the owners of all slots that readers see.
func (h *shelf) owners() (all []process.Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		if !s.retired {
			all = append(all, s.owner)
		}
	}
	return all
}

// lastLook returns what is known of the program that hosts VMs since [shelf.forgetLook].
func (h *shelf) lastLook() *engine.LastLook {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.look == nil {
		h.look = new(engine.LastLook)
	}
	return h.look
}

// forgetLook leaves out what the program that hosts VMs counts until the next session.
func (h *shelf) forgetLook() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look = nil
}

// sizes calls tell with each slot and the memory of its map.
func (h *shelf) sizes(tell func(*slot, int64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		switch {
		case s.session != nil:
			tell(s, s.session.Manager.Status().Bytes)
		case s.busy:
			tell(s, 0) // its session is being opened
		default:
			tell(s, s.m.Bytes())
		}
	}
}

// setMaxBytes bounds a map.
func (h *shelf) setMaxBytes(s *slot, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.bound == bytes || s.busy && s.session == nil {
		return
	}
	s.bound = bytes
	if s.session != nil {
		s.session.Manager.SetMaxBytes(bytes)
	} else {
		s.m.SetMaxBytes(bytes)
	}
}

// reader is how to get the snapshot of a slot. It may wait, and needs no lock.
type reader func(context.Context) (*ccmap.Snapshot, error)

// readers returns how to get the snapshots of all slots that readers see, or of those of a process.
func (h *shelf) readers(pid int) (all []reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		if s.retired || pid != 0 && s.process.PID != pid {
			continue
		}
		if read := s.reader(); read != nil {
			all = append(all, read)
		}
	}
	return all
}

// reader returns how to get a snapshot of the slot, nil if it has none. The caller holds mu.
func (s *slot) reader() reader {
	last := s.last
	switch {
	case s.session != nil:
		return s.session.Manager.Fresh
	case last != nil:
		return func(context.Context) (*ccmap.Snapshot, error) { return last, nil }
	}
	return nil
}

// unfiled is a slot with the way to its snapshot, and what its files are to be found by.
type unfiled struct {
	*slot
	read reader
	of   maker
	by   process.Facts // whom the VM's own counts are of
}

// maker is whose samples a file has: those of processes of one build and one owner.
type maker struct {
	build string
	owner process.Owner
	waits bool
}

// unfiled returns the slots that have a snapshot.
func (h *shelf) unfiled() (all []unfiled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		h.knowBuild(s)
		if read := s.reader(); read != nil {
			all = append(all, unfiled{s, read, maker{s.build, s.owner, h.waits}, s.process})
		}
	}
	return all
}

// adopt makes a free slot of what was counted before the daemon began: the next process of the build and the owner
// goes on with it.
func (h *shelf) adopt(r store.Recovered) error {
	moments := h.newMoments()
	m := ccmap.New(ccmap.Options{MaxBytes: h.MaxMemory, Moments: moments.add()})
	if err := m.Merge(r.Map.Snapshot()); err != nil {
		return err
	}
	m.SetWindow(h.Window) // of what comes: times of day of a run before say nothing about now
	s := &slot{
		m: m, moments: moments, owner: r.Key.Owner, build: r.Key.Build, last: m.Snapshot(), used: time.Now(), bound: h.MaxMemory,
		process: process.Facts{PID: r.Process.PID, Started: r.Process.Started}, began: r.From, stream: r.Stream, noted: time.Now(),
	}
	s.logged = s.last
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slots = append(h.slots, s)
	h.build = r.Key.Build
	return nil
}

// dropRetired drops the slots that no process needs, and that may go. It asks for the latest first.
func (h *shelf) dropRetired(may func(*slot) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range slices.Backward(h.slots) {
		if s.retired && !s.busy && may(s) {
			h.slots = slices.Delete(h.slots, i, i+1)
		}
	}
}
