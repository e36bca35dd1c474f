package perf

import (
	"context"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/sys/unix"
)

// drainRecords handles the records that the reader has delivered. When ctx is done it leaves the rest in the
// inbox.
func (d *drainer) drainRecords(ctx context.Context) {
	d.records = d.seat.inbox.Swap(emptied(d.records))
	for d.rest = d.records; len(d.rest) > 0; {
		if ctx.Err() != nil {
			d.seat.inbox.PutBack(d.rest)
			d.rest = nil
			return
		}
		ring, n, rest := next(d.rest)
		if err := d.record(ctx, ring, &n); err != nil {
			d.Corrupt.Add(1)
		}
		d.rest = rest
	}
}

// takeLast takes the records that are left, in the rings and in the inbox.
func (d *drainer) takeLast(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		_, more = d.rings.drain()
		d.drainRecords(ctx)
	}
}

// discard drops every record that was delivered and not taken, and counts the samples of the target
// among them as lost.
func (d *drainer) discard() {
	d.discardFrom(d.rest)
	d.rest = nil
	d.records = d.seat.inbox.Swap(emptied(d.records))
	d.discardFrom(d.records)
}

func (d *drainer) discardFrom(records []byte) {
	for len(records) > 0 {
		var n perfevent.Record
		_, n, records = next(records)
		switch n.Kind {
		case unix.PERF_RECORD_SAMPLE:
			if d.sample.Decode(n.Misc, n.Body) == nil && d.isTarget(&d.sample) {
				d.lost.left++
			}
		case unix.PERF_RECORD_LOST, unix.PERF_RECORD_LOST_SAMPLES:
			d.told(&n)
		}
	}
}

// record handles a record of a CPU's ring.
func (d *drainer) record(ctx context.Context, ring int, n *perfevent.Record) error {
	switch n.Kind {
	case unix.PERF_RECORD_SAMPLE:
		return d.takeSample(ctx, ring, n)
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		return d.taskRecord(n.Kind, n.Body)
	case unix.PERF_RECORD_COMM:
		return d.commRecord(n.Misc, n.Body)
	case unix.PERF_RECORD_LOST, unix.PERF_RECORD_LOST_SAMPLES:
		return d.told(n)
	case unix.PERF_RECORD_THROTTLE:
		d.Throttled.Add(1)
	case unix.PERF_RECORD_MMAP:
		d.MappedCode()
	}
	return nil
}

// losses are the records that no sample was made of.
type losses struct {
	missed bool   // some were lost since the events were asked last, maybe of other targets
	told   uint64 // by records, where events do not count them
	full   uint64 // that found a ring full, by events, when they were asked last
	left   uint64 // samples that were not taken
}

// told takes in a record of losses. Where the events count them, these are asked.
func (d *drainer) told(n *perfevent.Record) error {
	if d.seat.countsLost {
		return nil
	}
	lost, err := perfevent.DecodeLost(n.Kind, n.Body)
	d.lost.told += lost
	d.countLost()
	return err
}

// countLost publishes how much was lost.
func (d *drainer) countLost() {
	d.Lost.Store(max(d.lost.full, d.lost.told) + d.lost.left + d.seat.inbox.Lost())
}

// lookAfterLoss does what lost records of the target may have asked for, if there are any since the last
// call. A lost exec is noticed here.
func (d *drainer) lookAfterLoss() {
	d.Corrupt.Add(d.seat.malformed.Swap(0))
	if !d.seat.missed.Swap(false) {
		return
	}
	d.lost.missed = true
	d.MappedCode()
	if d.Ended == "" && d.Runtime.SameProgram() != nil && !process.Ended(d.Pidfd) {
		d.discard()
		d.Replace()
	}
}

// taskRecord attaches a thread that has begun and forgets one that has ended.
func (d *drainer) taskRecord(kind uint32, body []byte) error {
	task, err := perfevent.DecodeTask(body)
	if err != nil || int(task.PID) != d.PID {
		return err
	}
	if kind == unix.PERF_RECORD_EXIT {
		d.forget(task.TID)
		return nil
	}
	if _, err := d.threads.attach(task.TID); err != nil {
		d.Log.Warn("thread is not sampled", "thread", task.TID, "error", err)
	}
	d.Judge.Attach(task.TID)
	return nil
}

// forget drops the state of a thread that has ended.
func (d *drainer) forget(tid uint32) {
	d.threads.detach(tid)
	d.Judge.Detach(tid)
}

// commRecord ends the session when the target has replaced itself by another
// program. Other names are of no interest.
func (d *drainer) commRecord(misc uint16, body []byte) error {
	task, err := perfevent.DecodeComm(body)
	if err != nil {
		return err
	}
	if misc&unix.PERF_RECORD_MISC_COMM_EXEC != 0 && int(task.PID) == d.PID {
		d.Replace()
	}
	return nil
}

// takeSample decodes a sample, takes it and draws the event's next period.
func (d *drainer) takeSample(ctx context.Context, ring int, n *perfevent.Record) error {
	s := &d.sample
	if err := s.Decode(n.Misc, n.Body); err != nil {
		return err
	}
	if d.isTarget(s) {
		d.Take(ctx, d.momentOf(s), d.threads.weigh(s, ring), true)
	}
	return nil
}

// momentOf describes the moment of a sample. A thread that has left user mode for good
// has registers without a chain, and says nothing.
func (d *drainer) momentOf(s *perfevent.Sample) *process.Moment {
	d.moment = process.Moment{
		TID: s.TID, Time: s.Time, Kernel: s.Kernel, HasRegs: s.HasRegs && len(s.Chain) > 0,
		Regs: s.Regs, Chain: s.Chain, KernelChain: s.KernelChain, Stack: s.Stack, Cut: s.Cut,
	}
	return &d.moment
}

// isTarget says whether a sample is of the target, and of the program that it ran first.
func (d *drainer) isTarget(s *perfevent.Sample) bool { return int(s.PID) == d.PID && !d.Replaced }
