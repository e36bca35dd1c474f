package perf

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
	"golang.org/x/sys/unix"
)

// Rings are the rings of this machine's CPUs, for all sources that join them. Their memory is
// the same for any number of targets.
//
//	log, shared, mostTold   never change
//	files         atomic
//	waiter, stack, reader   set before the first source joins, or as it does
//	mu            the sources, and the list of rings: any goroutine
//	draining      the contents of the rings: the reader, and a source that takes its last records
//	all others    the reader: a goroutine of shared rings, or the only source
//
// Who needs both locks takes draining first.
type Rings struct {
	log      *slog.Logger
	shared   bool
	mostTold int               // see there
	files    openFiles         // of the events of all sources
	waiter   *perfevent.Waiter // of the reader
	reader   taker.Reader      // of shared rings
	stack    int               // bytes of stack in the samples of the only source

	mu      sync.Mutex
	seats   map[uint32]*seat // by process
	outputs []output         // changes under both locks

	draining sync.Mutex
	woken    []*seat // reused

	pacer    pacer
	poll     time.Duration // how soon to look into bulk rings again
	followed time.Time     // the beat of the last look for CPUs
	rung     time.Time     // the beat of the last wake-up of busy sources
}

// RingOptions are the options of [Rings]. The zero value is useful.
type RingOptions struct {
	// Logger gets messages for the user; nil discards them.
	Logger *slog.Logger
}

// NewRings returns rings for many sources. They take no memory before the first source joins.
func NewRings(o RingOptions) *Rings {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := newRings(log)
	r.shared = true
	return r
}

// newRings returns rings of one source, which reads them.
func newRings(log *slog.Logger) *Rings {
	r := &Rings{log: log, seats: make(map[uint32]*seat), mostTold: mostTold}
	r.files.most = mostFiles()
	return r
}

// seat is the place of a source among those of its rings.
//
//	pid, countsLost   never change
//	inbox             the reader writes, the source's goroutine reads
//	bulk, missed, malformed, busy, floods   atomic
//	told, waiter      under the rings' mu
type seat struct {
	pid        uint32
	countsLost bool // its events count the samples that they lose

	inbox     taker.Inbox
	bulk      atomic.Bool   // its samples go into the bulk rings
	missed    atomic.Bool   // records were lost, of this target or another one
	malformed atomic.Uint64 // records, of this target or another one
	busy      atomic.Bool   // it has had records since the last beat
	floods    atomic.Bool   // its target makes too many records
	told      int           // bytes of records other than samples since the last beat of checkEvery

	waiter *perfevent.Waiter // rung when there are records; nil: not yet, or no more
}

// join makes a seat get the records of its process.
func (r *Rings) join(s *seat) error {
	if err := r.openRings(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.Err() != nil:
		return r.Err()
	case r.seats[s.pid] != nil:
		return fmt.Errorf("process %d is sampled already", s.pid)
	}
	r.seats[s.pid] = s
	if r.shared {
		r.waiter.Ring() // the reader waits longer without sources
	}
	return nil
}

// openRings opens the rings, and starts the reader of shared ones, if that is not done.
func (r *Rings) openRings() error {
	r.draining.Lock()
	defer r.draining.Unlock()
	if len(r.outputs) > 0 {
		return nil
	}
	if r.waiter == nil {
		waiter, err := perfevent.NewWaiter(-1)
		if err != nil {
			return err
		}
		r.waiter = waiter
	}
	if err := r.followCPUs(); err != nil {
		r.release()
		return err
	}
	if r.shared {
		r.reader.Start(r.waiter, r.turn, func() { r.ringBusy(true) })
	}
	return nil
}

// leave ends the delivery to a seat. Its events must be closed: then no record of its process is left in
// the rings, which a later process with the same number could get.
func (r *Rings) leave(s *seat) {
	for r.has(s) {
		if _, more := r.drain(); !more {
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seats[s.pid] == s {
		delete(r.seats, s.pid)
	}
}

// unseat closes the waiter of a seat that has left.
func (r *Rings) unseat(s *seat) {
	r.mu.Lock() // the reader rings
	defer r.mu.Unlock()
	if s.waiter != nil {
		s.waiter.Close()
		s.waiter = nil
	}
}

func (r *Rings) has(s *seat) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seats[s.pid] == s
}

// ofCPUs returns the rings so far. Later ones are appended.
func (r *Rings) ofCPUs() []output {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outputs
}

// Close frees the rings. All sources must have ended.
func (r *Rings) Close() error {
	r.reader.Stop()
	r.draining.Lock()
	defer r.draining.Unlock()
	r.release()
	return nil
}

// release closes all rings, and the waiter of the reader. The caller holds draining.
func (r *Rings) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, out := range r.outputs {
		out.prompt.Close()
		out.bulk.Close()
		r.files.open.Add(-2)
	}
	r.outputs = nil
	if r.shared && r.waiter != nil {
		r.waiter.Close()
		r.waiter = nil
	}
}

// followCPUs makes the rings of every CPU that is online and has none. The caller holds draining,
// and is the reader where there is one.
func (r *Rings) followCPUs() error {
	cpus, err := process.OnlineCPUs()
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if slices.ContainsFunc(r.outputs, func(o output) bool { return o.cpu() == cpu }) {
			continue
		}
		out, err := r.openOutput(cpu, len(cpus))
		if errors.Is(err, unix.ENODEV) {
			continue // went offline just now
		}
		if err != nil {
			return err
		}
		r.mu.Lock()
		out.prompt.Index, out.bulk.Index = len(r.outputs), len(r.outputs)
		r.outputs = append(r.outputs, out)
		r.mu.Unlock()
		r.files.open.Add(2)
		if err := errors.Join(r.waiter.Add(out.prompt, true), r.waiter.Add(out.bulk, false)); err != nil {
			return err
		}
	}
	return nil
}

// output is one CPU's two rings, because the kernel fixes how soon it wakes the reader
// when a ring is made. Samples go into one of them.
//
//	prompt  wakes for every record: a sample's return address is watched while
//	        the sample is fresh, and a new thread is seen at once
//	bulk    wakes when it is half full: at short intervals, where interrupting
//	        the target once more for every sample costs half as much as sampling
//	        it, the reader looks by itself every few milliseconds
type output struct{ prompt, bulk *perfevent.Ring }

// bulkBelow is the interval below which samples go into the bulk ring.
const bulkBelow = time.Millisecond

func isBulk(interval time.Duration) bool { return interval < bulkBelow }

// ring returns the ring for samples at an interval.
func (o output) ring(interval time.Duration) *perfevent.Ring {
	if isBulk(interval) {
		return o.bulk
	}
	return o.prompt
}

func (o output) cpu() int { return o.prompt.CPU }

// Shared rings have room for a second of samples at 100 Hz, in less than 1 MiB a CPU. The reader
// alone empties them, and only copies.
const (
	sharedPrompt = 512 << 10 // bytes
	sharedBulk   = 256 << 10
)

// openOutput makes the rings of one of some CPUs.
func (r *Rings) openOutput(cpu, cpus int) (output, error) {
	size := perfevent.RingBytes(2)
	promptBytes, bulkBytes := perfevent.RoomyRingBytes(size, r.stack, cpus), size
	if r.shared {
		promptBytes, bulkBytes = min(size, sharedPrompt), min(size, sharedBulk)
	}
	prompt, err := perfevent.OpenRing(cpu, promptBytes, 1)
	if err != nil {
		return output{}, err
	}
	bulk, err := perfevent.OpenRing(cpu, bulkBytes, uint32(bulkBytes/2))
	if err != nil {
		prompt.Close()
		return output{}, err
	}
	return output{prompt, bulk}, nil
}

// openFiles counts the descriptors of rings and events. Any goroutine may use it.
type openFiles struct {
	open atomic.Int64
	most int64
}

// reservedFDs are left to the rest of the process, which has files to write.
const reservedFDs = 64

func mostFiles() int64 {
	limit := unix.Rlimit{Cur: 1024}
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return int64(min(limit.Cur, 1<<30)) - reservedFDs
}

// room reports whether there are so many descriptors more.
func (f *openFiles) room(n int) bool { return f.open.Load()+int64(n) <= f.most }
