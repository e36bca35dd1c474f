package bpf

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/beat"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
)

const (
	// drainEvery is the time between two looks of a source into a ring of its own, unless the program
	// wakes it. A wake-up costs ccmapd some 50 µs.
	drainEvery = 100 * time.Millisecond
	// fullInbox wakes a source before its samples are due, bytes.
	fullInbox = 1 << 20
)

// newWaiter returns a waiter that the program wakes, and the end of a target (see
// [perfevent.NewWaiter]).
func (h *Host) newWaiter(pidfd int) (*perfevent.Waiter, error) {
	w, err := perfevent.NewWaiter(pidfd)
	if err != nil {
		return nil, err
	}
	if err := w.AddWakeups(h.program.Records.FD()); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// turn waits for records and reads them, for all sources.
func (h *Host) turn() error {
	_, err := h.waiter.Wait(beat.Until(time.Now(), taker.HandOver))
	if err == nil {
		h.look()
	}
	return err
}

// look takes the records from the ring, and does the other work that is due. The reader
// calls it.
func (h *Host) look() {
	h.drain()
	h.keepTime(time.Now())
}

// Err returns the error that has ended all sources, and keeps others from joining, if there is
// one. Any goroutine may call it.
func (h *Host) Err() error { return h.reader.Err() }

// drain hands all records to their sources.
func (h *Host) drain() {
	h.draining.Lock()
	defer h.draining.Unlock()
	// ReadInto would ask epoll about an empty ring.
	for h.ring.AvailableBytes() > 0 && h.ring.ReadInto(&h.record) == nil {
		h.deliver(h.record.RawSample)
	}
	if h.waiter != nil {
		h.ringSources(time.Now())
	}
}

// deliver hands a record to the sources that it is for.
func (h *Host) deliver(raw []byte) {
	if len(raw) < headBytes {
		return
	}
	head := (*programHead)(unsafe.Pointer(&raw[0]))
	target, inWhole, whole := h.recipients(head)
	if target != nil {
		target.add(raw, head.Flags&awaited != 0)
	}
	if whole {
		raw = raw[:headBytes]
	}
	if inWhole != nil {
		inWhole.add(raw, false)
	}
}

// recipients returns the seats that get a record, and whether the second one is the
// whole host's, which gets heads alone.
func (h *Host) recipients(head *programHead) (target, inWhole *seat, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if head.Flags&stranger == 0 {
		target, inWhole = h.sources[head.Pid], h.members[head.Pid]
	}
	if inWhole == nil || inWhole.program != head.Program || inWhole.left && target != nil {
		return target, h.sources[wholeHost], true
	}
	return target, inWhole, false
}

// ringAll wakes all sources.
func (h *Host) ringAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.seats() {
		if s.waiter != nil {
			s.waiter.Ring()
		}
	}
}

// ringSources wakes sources that have records. At a beat of the hand-over it wakes all of them. Between two
// beats it wakes only sources that cannot wait.
func (h *Host) ringSources(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := beat.Of(now, taker.HandOver)
	due := !at.Equal(h.rung)
	h.rung = at
	for s := range h.seats() {
		if s.waiter != nil && s.inbox.Waiting(due) {
			s.waiter.Ring()
		}
	}
}

// maxInbox bounds an inbox, bytes, and keptInbox the memory of a program of the whole host while nothing waits.
const maxInbox, keptInbox = 16 << 20, 128 << 10

// emptied returns a buffer for the next records. A program of the whole host has none after a burst: there are
// hundreds of inboxes.
func (s *seat) emptied(records []byte) []byte {
	if s.member && cap(records) > keptInbox {
		return nil
	}
	return records[:0]
}

// add puts a record into the inbox, after its length. urgent says that the source wants it at once.
func (s *seat) add(raw []byte, urgent bool) {
	var length [4]byte
	binary.NativeEndian.PutUint32(length[:], uint32(len(raw)))
	if _, room := s.inbox.Add(length[:], raw, maxInbox); room {
		s.inbox.Hurry(urgent, fullInbox)
	}
}

// next cuts the first record off.
func next(records []byte) (raw, rest []byte) {
	n := 4 + int(binary.NativeEndian.Uint32(records))
	return records[4:n:n], records[n:]
}
