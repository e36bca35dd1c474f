package perf

import (
	"context"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/sys/unix"
)

// drain handles every record that was in the rings when it began, in the order
// of their times, so that the samples of a goroutine that went from one CPU to
// another stay in order. It says whether there was any. When ctx is done it ends,
// whatever is left.
func (d *drainer) drain(ctx context.Context) bool {
	found := false
	for _, r := range d.rings {
		r.Refresh()
	}
	for {
		r := d.earliest()
		if r == nil || ctx.Err() != nil {
			return found
		}
		found = true
		if err := d.record(ctx, r); err != nil {
			d.Corrupt.Add(1)
		}
		r.Advance()
		r.Release()
	}
}

// discard drops every record that is left in the rings, and returns how many samples
// of the target were among them.
func (d *drainer) discard() (samples uint64) {
	for _, r := range d.rings {
		r.Refresh()
	}
	for r := d.earliest(); r != nil; r = d.earliest() {
		switch n := &r.Next; n.Kind {
		case unix.PERF_RECORD_SAMPLE:
			if d.sample.Decode(n.Misc, n.Body) == nil && d.isTarget(&d.sample) {
				samples++
			}
		case unix.PERF_RECORD_LOST, unix.PERF_RECORD_LOST_SAMPLES:
			lost, _ := perfevent.DecodeLost(n.Kind, n.Body) // 0 with an error
			d.Lost.Add(lost)
		}
		r.Advance()
	}
	return samples
}

// earliest returns the ring whose next record is the oldest; nil if there is
// none left.
func (d *drainer) earliest() *perfevent.Ring {
	var first *perfevent.Ring
	for _, r := range d.rings {
		ok, err := r.Peek()
		if err != nil {
			d.Corrupt.Add(1)
		}
		if ok && (first == nil || r.Next.Time < first.Next.Time) {
			first = r
		}
	}
	return first
}

// record handles the next record of a ring.
func (d *drainer) record(ctx context.Context, r *perfevent.Ring) error {
	n := &r.Next
	switch n.Kind {
	case unix.PERF_RECORD_SAMPLE:
		return d.takeSample(ctx, r)
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		return d.taskRecord(n.Kind, n.Body)
	case unix.PERF_RECORD_COMM:
		return d.commRecord(n.Misc, n.Body)
	case unix.PERF_RECORD_LOST, unix.PERF_RECORD_LOST_SAMPLES:
		lost, err := perfevent.DecodeLost(n.Kind, n.Body)
		d.Lost.Add(lost)
		return err
	case unix.PERF_RECORD_THROTTLE:
		d.Throttled.Add(1)
	case unix.PERF_RECORD_MMAP:
		d.MappedCode()
	}
	return nil
}

// taskRecord attaches a thread that has begun and forgets one that has ended.
// A child process leaves the same record; it is not followed.
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
func (d *drainer) takeSample(ctx context.Context, r *perfevent.Ring) error {
	s := &d.sample
	if err := s.Decode(r.Next.Misc, r.Next.Body); err != nil {
		return err
	}
	if d.isTarget(s) {
		d.Take(ctx, d.momentOf(s), d.threads.weigh(s, r.Index), true)
	}
	return nil
}

// momentOf describes the moment of a sample. A thread that has left user mode for good
// has registers without a chain, and says nothing.
func (d *drainer) momentOf(s *perfevent.Sample) *process.Moment {
	d.moment = process.Moment{
		TID: s.TID, Time: s.Time, Kernel: s.Kernel, HasRegs: s.HasRegs && len(s.Chain) > 0,
		Regs: process.Registers(s.Regs), Chain: s.Chain, Stack: s.Stack, Cut: s.Cut,
	}
	return &d.moment
}

// isTarget says whether a sample is of the target, and of the program that it ran first.
func (d *drainer) isTarget(s *perfevent.Sample) bool { return int(s.PID) == d.PID && !d.Replaced }
