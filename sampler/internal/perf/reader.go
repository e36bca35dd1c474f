package perf

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/ccmapd/ccmapd/internal/beat"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
	"golang.org/x/sys/unix"
)

const (
	// pace is the least time between two drains, on average over some: a single
	// record is handled at once, so that a new thread is sampled soon and a sample is
	// fresh. It bounds the reader's wake-ups at short intervals.
	pace = 500 * time.Microsecond
	// paceAhead is how many drains may follow on each other without a pause.
	paceAhead = 8
	// minPoll is the least time between two looks into bulk rings, maxPoll the most.
	minPoll = time.Millisecond
	maxPoll = 10 * time.Millisecond
	// batch bounds the bytes that a drain takes out of the rings.
	batch = 1 << 20
)

// turn waits for records and reads them, for all sources.
func (r *Rings) turn() error {
	_, err := r.waiter.Wait(r.patience(time.Now()))
	if err == nil {
		r.look()
	}
	return err
}

// Err returns the error that has ended all sources, and keeps others from joining, if there is
// one. Any goroutine may call it.
func (r *Rings) Err() error { return r.reader.Err() }

// patience is how long the reader may wait for records.
func (r *Rings) patience(now time.Time) time.Duration {
	const idle = time.Hour
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seats) == 0 {
		return idle
	}
	patience := beat.Until(now, checkEvery)
	for _, s := range r.seats {
		if r.shared && s.busy.Load() {
			patience = min(patience, beat.Until(now, taker.HandOver))
		}
		if s.bulk.Load() {
			patience = min(patience, max(r.poll, minPoll))
		}
	}
	return patience
}

// wakeReader makes the reader look at its patience again.
func (r *Rings) wakeReader() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared && r.waiter != nil {
		r.waiter.Ring()
	}
}

// look takes the records from the rings, at the pace, and does the other work that is due. The reader
// calls it.
func (r *Rings) look() {
	if rest := r.pacer.rest(time.Now()); rest > 0 {
		time.Sleep(rest)
	}
	r.keepTime(time.Now()) // before the drain: its records are of the next beat
	if found, _ := r.drain(); found {
		r.poll = minPoll
	} else {
		r.poll = min(max(2*r.poll, minPoll), maxPoll)
	}
}

// keepTime does what is due at beats.
func (r *Rings) keepTime(now time.Time) {
	whole := beat.Of(now, checkEvery)
	if !whole.Equal(r.followed) {
		r.forgetTold()
	}
	if at := beat.Of(now, taker.HandOver); r.shared && !at.Equal(r.rung) {
		r.rung = at
		r.ringBusy(!whole.Equal(r.followed))
	}
	if whole.Equal(r.followed) {
		return
	}
	r.followed = whole
	r.draining.Lock()
	defer r.draining.Unlock()
	if err := r.followCPUs(); err != nil {
		r.log.Debug("look for new CPUs", "error", err)
	}
}

// ringBusy wakes the sources that may have samples to hand over, or all of them. They wake up at once, where
// a timer for each would wake the process as often as there are sources.
func (r *Rings) ringBusy(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seats {
		if busy := s.busy.Swap(false); (busy || all) && s.waiter != nil {
			s.waiter.Ring()
		}
	}
}

// pacer spaces drains out: each takes a pace from the time that was saved up.
type pacer struct {
	saved time.Duration // up to paceAhead paces
	at    time.Time     // when it was reckoned
}

// rest returns how long to wait with a drain that is due now.
func (p *pacer) rest(now time.Time) time.Duration {
	p.saved = min(p.saved+now.Sub(p.at), paceAhead*pace) - pace
	p.at = now
	if p.saved >= 0 {
		return 0
	}
	rest := -p.saved
	p.saved, p.at = 0, now.Add(rest)
	return rest
}

// drain hands the records that are in the rings to their sources, in the order of their times, so
// that the samples of a goroutine that went from one CPU to another stay in order. It reports whether
// there was any, and whether there are more than a batch.
func (r *Rings) drain() (found, more bool) {
	r.draining.Lock()
	defer r.draining.Unlock()
	for _, out := range r.outputs {
		out.prompt.Refresh()
		out.bulk.Refresh()
	}
	taken := 0
	for ; taken < batch; found = true {
		ring := r.earliest()
		if ring == nil {
			break
		}
		taken += len(ring.Next.Body) + recordHead
		r.deliver(ring)
		ring.Advance()
		ring.Release()
	}
	r.ringSeats()
	return found, taken >= batch
}

// earliest returns the ring whose next record is the oldest; nil if there is none left.
func (r *Rings) earliest() (first *perfevent.Ring) {
	for _, out := range r.outputs {
		for _, ring := range [...]*perfevent.Ring{out.prompt, out.bulk} {
			ok, err := ring.Peek()
			if err != nil {
				r.tellAll(func(s *seat) { s.malformed.Add(1) })
			}
			if ok && (first == nil || ring.Next.Time < first.Next.Time) {
				first = ring
			}
		}
	}
	return first
}

// deliver hands the next record of a ring to the source that it is for.
//
// A record of losses says how many records found the ring full, and not whose. Since Linux 6.0 each
// event counts its own, so all sources are told to look. Before, the losses are those of the process
// whose record came next, or of all if that is not known: none is in no counter.
func (r *Rings) deliver(ring *perfevent.Ring) {
	n := &ring.Next
	lost := n.Kind == unix.PERF_RECORD_LOST || n.Kind == unix.PERF_RECORD_LOST_SAMPLES
	if lost {
		r.tellAll(func(s *seat) { s.missed.Store(true) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s := r.seats[n.Process()]; {
	case s != nil:
		r.post(s, ring)
	case lost:
		for _, s := range r.seats {
			r.post(s, ring)
		}
	}
}

// post puts the next record of a ring into the inbox of a seat. Any record but a sample may ask for
// something, so the source must look for that if the record finds no room. The caller holds mu.
func (r *Rings) post(s *seat, ring *perfevent.Ring) {
	n := &ring.Next
	s.busy.Store(true)
	if r.shared && s.tells(n) > r.mostTold && !s.floods.Swap(true) {
		r.woken = append(r.woken, s)
	}
	first, room := s.add(ring.Index, n, inboxBound(len(r.seats)))
	if first {
		r.woken = append(r.woken, s)
	}
	if !room && n.Kind != unix.PERF_RECORD_SAMPLE {
		s.missed.Store(true)
	}
}

// mostTold bounds the records of a target in a second, apart from samples, bytes. 10,000 threads that begin,
// get a name and end make as many. A target that makes more fills the rings, and takes the reader's time.
const mostTold = 2 << 20

// errFlood says that a target makes too many records.
var errFlood = errors.New("its threads get names, map code, begin or end so often that the records crowd out samples of other targets; " +
	"'ccmapd attach PID' can sample it, with rings of its own")

// tells counts a record if it is not a sample, and returns how many bytes of them the target has made in this
// second. The caller holds the rings' mu.
func (s *seat) tells(n *perfevent.Record) int {
	switch n.Kind {
	case unix.PERF_RECORD_COMM, unix.PERF_RECORD_MMAP, unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		s.told += len(n.Body) + recordHead
	}
	return s.told
}

// forgetTold begins to count the records of all targets anew.
func (r *Rings) forgetTold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seats {
		s.told = 0
	}
}

// tellAll notes something for all sources.
func (r *Rings) tellAll(note func(*seat)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seats {
		note(s)
	}
}

// ringSeats wakes the sources that have records and did not have any before.
func (r *Rings) ringSeats() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.woken {
		if r.shared && s.waiter != nil {
			s.waiter.Ring()
		}
	}
	clear(r.woken)
	r.woken = r.woken[:0]
}

const (
	// maxInbox bounds an inbox, bytes. Of a session that waits for its symbols at 100 Hz it holds a
	// minute. maxInboxes bounds all inboxes of the same rings: each has an equal part, so that a
	// target that floods its inbox takes no room of others.
	maxInbox   = 16 << 20
	maxInboxes = 64 << 20
	// keptInbox bounds the buffers that are kept for other records, bytes.
	keptInbox = 256 << 10
	// recordHead is the length of a record's head: length, kind, misc and ring.
	recordHead = 4 + 4 + 2 + 2
)

// inboxBound returns how many bytes an inbox may hold that is one of some.
func inboxBound(seats int) int { return min(maxInbox, maxInboxes/max(seats, 1)) }

// add puts a record of a ring into the inbox, unless there is no room within a bound. It reports whether the
// inbox was empty.
func (s *seat) add(ring int, n *perfevent.Record, bound int) (first, room bool) {
	var head [recordHead]byte
	binary.NativeEndian.PutUint32(head[:], uint32(len(n.Body)))
	binary.NativeEndian.PutUint32(head[4:], n.Kind)
	binary.NativeEndian.PutUint16(head[8:], n.Misc)
	binary.NativeEndian.PutUint16(head[10:], uint16(ring))
	return s.inbox.Add(head[:], n.Body, bound)
}

// emptied returns a buffer for the next records. One that a flood has made long is let go.
func emptied(records []byte) []byte {
	if cap(records) > keptInbox {
		return nil
	}
	return records
}

// next cuts the first record off. Its body is valid as long as the records are.
func next(records []byte) (ring int, n perfevent.Record, rest []byte) {
	end := recordHead + int(binary.NativeEndian.Uint32(records))
	n = perfevent.Record{
		Kind: binary.NativeEndian.Uint32(records[4:]),
		Misc: binary.NativeEndian.Uint16(records[8:]),
		Body: records[recordHead:end:end],
	}
	return int(binary.NativeEndian.Uint16(records[10:])), n, records[end:]
}
