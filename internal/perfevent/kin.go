package perfevent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// Kin tells of the births, the programs and the ends of processes. The kernel writes a record for
// each, in the order of their times, and wakes the reader. The events count nothing, and take no
// samples. They come in one of two forms:
//
//	of CPUs      one event a CPU: all processes of the machine, known ones or not
//	of threads   one event for each thread and CPU of a process: it goes on to all
//	             threads and processes that these begin (inherit)
//
// The first takes the right to sample CPUs. The other is for processes of the same user, and
// costs their switches a little.
type Kin struct {
	ofCPUs bool
	rings  []*Ring
	events []int // descriptors
	waiter *Waiter
	found  []Change // reused
	held   int      // how many, the last of found, wait for the next look
}

// Change is one change of a process.
type Change struct {
	Kind   ChangeKind
	PID    int
	Parent int    // of a birth
	Name   string // of a new program, as ps shows it; foreign
	time   uint64
}

// ChangeKind is the kind of a change.
type ChangeKind uint8

// The kinds of changes.
const (
	Born     ChangeKind = iota
	Executed            // it runs another program
	Died                // its first thread has ended
)

// kinRing is the length of a ring in bytes: some 1,000 records.
const kinRing = 1 << 16

// OpenKin opens the rings of some CPUs.
func OpenKin(cpus []int) (*Kin, error) { return openKin(cpus, true) }

// openKin opens events of CPUs if they are wanted and permitted.
func openKin(cpus []int, ofCPUs bool) (*Kin, error) {
	waiter, err := NewWaiter(-1)
	if err != nil {
		return nil, err
	}
	k := &Kin{ofCPUs: ofCPUs, waiter: waiter}
	for _, cpu := range cpus {
		if err := k.addCPU(cpu); err != nil {
			k.Close()
			return nil, err
		}
	}
	return k, nil
}

// addCPU opens the ring of a CPU, and an event of it while these are permitted.
func (k *Kin) addCPU(cpu int) error {
	r, err := OpenRing(cpu, kinRing, 1)
	if errors.Is(err, unix.ENODEV) {
		return nil // went offline just now
	}
	if err != nil {
		return err
	}
	k.rings = append(k.rings, r)
	if err := k.waiter.Add(r, true); err != nil {
		return err
	}
	if !k.ofCPUs {
		return nil
	}
	err = k.addEvent(kinAttr(false), -1, r)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		k.ofCPUs = false
		return nil
	}
	return err
}

// kinAttr describes an event that counts nothing. Its records end with the trailer that
// [recordTime] knows.
func kinAttr(inherit bool) *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        attrSize,
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU,
		Wakeup:      1,
		Clockid:     unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitTask | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitSampleIDAll |
			unix.PerfBitUseClockID | unix.PerfBitWatermark | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	if inherit {
		a.Bits |= unix.PerfBitInherit
	}
	return a
}

// addEvent opens an event of a thread, or of all for -1, on a ring's CPU.
func (k *Kin) addEvent(a *unix.PerfEventAttr, tid int, r *Ring) error {
	defer privilege.Raise().Lower()
	fd, err := unix.PerfEventOpen(a, tid, r.CPU, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("watch for children on CPU %d: %w", r.CPU, err)
	}
	k.events = append(k.events, fd)
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd); err != nil {
		return fmt.Errorf("watch for children on CPU %d: %w", r.CPU, err)
	}
	return nil
}

// Follow makes sure that changes of some threads' process, and of all that these threads begin, are
// told of from now on. A thread that has ended is no error.
func (k *Kin) Follow(tids []uint32) error {
	if k.ofCPUs {
		return nil
	}
	for _, tid := range tids {
		for _, r := range k.rings {
			if err := k.addEvent(kinAttr(true), int(tid), r); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// Wait blocks until there are changes, it is told to end, or the time is over.
func (k *Kin) Wait(timeout time.Duration) error {
	if k.held > 0 {
		return nil
	}
	_, err := k.waiter.Wait(timeout)
	return err
}

// RingAfter ends the wait when ctx is done. The returned function cancels this, and must be called
// before Close.
func (k *Kin) RingAfter(ctx context.Context) func() { return k.waiter.RingAfter(ctx) }

// Changes returns the changes since the last call, in the order of their times, and whether some
// were lost. The result is valid until the next call.
//
// A process that is born on one CPU and dies on another has its death read first, if the birth is
// written after the ring of that CPU was read. So changes after the beginning of a look wait for the next.
func (k *Kin) Changes() (all []Change, lost bool) {
	now := uint64(Monotonic())
	k.found = append(k.found[:0], k.found[len(k.found)-k.held:]...)
	for _, r := range k.rings {
		r.Refresh()
		for {
			ok, err := r.Peek()
			lost = lost || err != nil
			if !ok {
				break
			}
			lost = k.keepChange(&r.Next) || lost
			r.Advance()
		}
		r.Release()
	}
	return k.until(now), lost
}

// until returns the changes that were found up to a time, by CLOCK_MONOTONIC, in their order, and
// holds the others.
func (k *Kin) until(now uint64) []Change {
	slices.SortStableFunc(k.found, func(a, b Change) int { return cmp.Compare(a.time, b.time) })
	n, _ := slices.BinarySearchFunc(k.found, now, func(c Change, now uint64) int {
		if c.time <= now {
			return -1
		}
		return 1
	})
	k.held = len(k.found) - n
	return k.found[:n]
}

// keepChange keeps the change that a record tells of. It reports whether the record tells that others
// were lost, or is malformed.
func (k *Kin) keepChange(n *Record) (lost bool) {
	c, ok, lost := changeOf(n)
	if ok {
		k.found = append(k.found, c)
	}
	return lost
}

// changeOf decodes a record. Those of threads are no changes.
func changeOf(n *Record) (c Change, ok, lost bool) {
	c.time = n.Time
	var task Task
	var err error
	switch n.Kind {
	case unix.PERF_RECORD_LOST:
		return c, false, true
	case unix.PERF_RECORD_FORK:
		task, err = DecodeTask(n.Body)
		c.Kind, c.Parent = Born, int(int32(task.Parent))
		ok = task.PID == task.TID && task.PID != task.Parent
	case unix.PERF_RECORD_EXIT:
		task, err = DecodeTask(n.Body)
		c.Kind, ok = Died, task.PID == task.TID
	case unix.PERF_RECORD_COMM:
		task, err = DecodeComm(n.Body)
		c.Kind, c.Name, ok = Executed, decodeName(n.Body), n.Misc&unix.PERF_RECORD_MISC_COMM_EXEC != 0
	}
	c.PID = int(int32(task.PID))
	return c, ok && err == nil && c.PID > 0, err != nil
}

// Close ends the watch.
func (k *Kin) Close() {
	syscall.ForkLock.RLock()
	for _, fd := range k.events {
		unix.Close(fd)
	}
	syscall.ForkLock.RUnlock()
	for _, r := range k.rings {
		r.Close()
	}
	k.waiter.Close()
}
