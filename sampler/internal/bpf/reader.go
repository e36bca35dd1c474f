package bpf

import (
	"context"
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

// startReader begins to read the ring for all sources.
func (h *Host) startReader(wait func(time.Duration) (bool, error)) {
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.stopped = stop, make(chan struct{})
	go func() {
		defer close(h.stopped)
		h.read(ctx, wait)
	}()
}

// stopReader ends the reader, if there is one.
func (h *Host) stopReader() {
	if h.stop == nil {
		return
	}
	h.stop()
	h.waiter.Ring()
	<-h.stopped
}

// read reads the ring until ctx is done. If it cannot wait for records, all sources end.
func (h *Host) read(ctx context.Context, wait func(time.Duration) (bool, error)) {
	for ctx.Err() == nil {
		if _, err := wait(beat.Until(time.Now(), taker.HandOver)); err != nil {
			h.fail(err)
			return
		}
		h.look()
	}
}

// look takes the records from the ring, and does the other work that is due. The reader
// calls it.
func (h *Host) look() {
	h.drain()
	h.keepTime(time.Now())
}

// fail ends all sources with an error.
func (h *Host) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = err
	for s := range h.seats() {
		if s.waiter != nil {
			s.waiter.Ring()
		}
	}
}

// Err returns the error that has ended all sources, and keeps others from joining, if there is
// one. Any goroutine may call it.
func (h *Host) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken
}

// drain hands all records to their sources.
func (h *Host) drain() {
	h.draining.Lock()
	defer h.draining.Unlock()
	// ReadInto would ask epoll about an empty ring.
	for h.ring.AvailableBytes() > 0 && h.ring.ReadInto(&h.record) == nil {
		h.deliver(h.record.RawSample)
	}
	if h.stop != nil {
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
