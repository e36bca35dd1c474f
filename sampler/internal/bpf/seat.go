package bpf

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// seat is the place of a source among those of a host.
//
//	pid, member, program   never change
//	inbox         the host's reader writes, the source's goroutine reads
//	all others    under the host's mu
type seat struct {
	pid     uint32 // of the process; wholeHost: all that are no targets
	member  bool   // it is of the whole host, beside a target of the same process
	program uint64 // of a member, the program that it is for

	inbox taker.Inbox

	waiter   *perfevent.Waiter // rung when there are records; nil: not yet, or no more
	interval time.Duration     // that the source wants
	wants    time.Duration     // the interval that the host reckons with; 0: none
	told     programTarget     // the entry that the program has, or is about to have
	left     bool
	before   uint64 // records of the process that were lost before the source joined
}

// wholeHost is the number of the target that stands for all processes that are no targets, as in
// record.bpf.c. No process has it.
const wholeHost = 0

// table returns the seats of a kind.
func (h *Host) table(s *seat) map[uint32]*seat {
	if s.member {
		return h.members
	}
	return h.sources
}

// beside returns the seat of the other kind with the same process, nil if there is none.
func (h *Host) beside(s *seat) *seat {
	if s.member {
		return h.sources[s.pid]
	}
	return h.members[s.pid]
}

// seats iterates over all seats. The caller holds mu.
func (h *Host) seats() iter.Seq[*seat] {
	return func(yield func(*seat) bool) {
		for _, table := range []map[uint32]*seat{h.sources, h.members} {
			for _, s := range table {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// join begins to sample a source's target, which told describes.
func (h *Host) join(s *seat) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table(s)[s.pid] != nil {
		return fmt.Errorf("process %d is sampled already", s.pid)
	}
	h.table(s)[s.pid] = s
	s.before = h.lostOf(s.pid)
	var err error
	if h.beside(s) == nil {
		s.before = 0
		err = raised(func() error { return h.program.Losses.Put(s.pid, uint64(0)) })
	}
	if err == nil {
		err = h.follow(s)
	}
	if err == nil {
		return nil
	}
	h.remove(s)
	if errors.Is(err, unix.E2BIG) {
		err = fmt.Errorf("%d processes are sampled, which is the most: end the sampling of others first: %w", mostTargets, err)
	}
	return fmt.Errorf("sample CPUs: %w", explainRights(err))
}

// leave ends sampling a source's target. Records of it may still be in the ring.
func (h *Host) leave(s *seat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table(s)[s.pid] != s || s.left {
		return
	}
	s.left = true
	h.drop(s)
	if err := h.follow(s); err != nil {
		h.log.Debug("change period of CPUs", "error", err)
	}
}

// forget drops a source that has left, after its last records were drained.
func (h *Host) forget(s *seat) {
	h.leave(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.table(s)[s.pid] == s {
		h.remove(s)
	}
}

func (h *Host) remove(s *seat) {
	s.left = true
	h.shortestAfter(s)
	h.drop(s)
	if h.beside(s) == nil {
		raised(func() error { return h.program.Losses.Delete(s.pid) })
	}
	delete(h.table(s), s.pid)
}

// giveBack hands a record that a member does not take to the whole host, which makes a sample of its head.
func (h *Host) giveBack(raw []byte) {
	h.mu.Lock()
	whole := h.sources[wholeHost]
	h.mu.Unlock()
	if whole != nil {
		whole.add(raw[:headBytes], false)
	}
}

// drop makes the program forget a target, unless another source has it, too.
func (h *Host) drop(s *seat) {
	if other := h.beside(s); other == nil || other.left {
		h.dropProcess(s.pid)
	}
}

// dropProcess makes the program forget a target.
func (h *Host) dropProcess(pid uint32) {
	err := raised(func() error { return h.program.Targets.Delete(pid) })
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		h.log.Warn("target is still sampled", "pid", pid, "error", err)
	}
}

// follow makes the timers follow the shortest interval after a source has changed, and tells
// the program which share of the interrupts to keep: of that source's target, and of all
// when the timers have changed. The caller holds mu.
func (h *Host) follow(changed *seat) error {
	period := h.shortestAfter(changed)
	if period == 0 {
		h.closeClocks()
		return nil
	}
	if period == h.period {
		return h.tell(changed)
	}
	h.period = period
	if err := h.setPeriods(); err != nil {
		return err
	}
	return h.tellAll()
}

// tellAll is tell for all sources.
func (h *Host) tellAll() error {
	var all error
	for s := range h.seats() {
		all = errors.Join(all, h.tell(s))
	}
	return all
}

// shortestAfter returns the shortest interval of all sources after one has changed; 0 without
// sources.
func (h *Host) shortestAfter(changed *seat) time.Duration {
	interval := changed.interval
	if changed.left {
		interval = 0
	}
	if h.wanted[changed.wants]--; h.wanted[changed.wants] <= 0 {
		delete(h.wanted, changed.wants)
	}
	changed.wants = interval
	if interval != 0 {
		h.wanted[interval]++
	}
	var shortest time.Duration
	for interval := range h.wanted {
		if shortest == 0 || interval < shortest {
			shortest = interval
		}
	}
	return shortest
}

// tell describes a source's target to the program. The caller holds mu.
func (h *Host) tell(s *seat) error {
	t, interval, wanted := h.entryOf(s)
	if !wanted {
		return nil
	}
	t.Share, t.Drain = shareOf(h.period, interval), ringBytes/2
	if err := raised(func() error { return h.program.Targets.Put(s.pid, &t) }); err != nil {
		return fmt.Errorf("describe target: %w", err)
	}
	return nil
}

// entryOf returns what the program must know of a source's target, and the interval. Where the whole host
// has the process, too, the records serve both: verdicts are the target's.
func (h *Host) entryOf(s *seat) (t programTarget, interval time.Duration, wanted bool) {
	other := h.beside(s)
	if other == nil || other.left {
		return s.told, s.interval, !s.left
	}
	if s.left {
		return other.told, other.interval, true
	}
	target, member := s, other
	if s.member {
		target, member = other, s
	}
	t = target.told
	t.MaxStack = max(t.MaxStack, member.told.MaxStack)
	return t, min(target.interval, member.interval), true
}

// setInterval changes the interval that a source wants, within what is permitted. It returns how long
// that took.
func (h *Host) setInterval(s *seat, d time.Duration) (took time.Duration, err error) {
	begin := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	s.interval = h.clamp(d)
	err = h.follow(s)
	return time.Since(begin), err
}

// lost returns how many records of a source's target the ring had no room for.
func (h *Host) lost(s *seat) uint64 {
	if s.member {
		return 0 // the whole host has them
	}
	n := h.lostOf(s.pid)
	return n - min(n, s.before)
}

func (h *Host) lostOf(pid uint32) (n uint64) {
	raised(func() error { return h.program.Losses.Lookup(pid, &n) }) // 0 with an error
	return n
}
