package perfevent

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// CPUWatch is a hardware watchpoint for writes to one word of a process, with an event on
// every CPU. Threads pay nothing for it when they are switched. Every event is one shot,
// as with [Watchpoint].
//
// A CPU's event fires for any process that writes to that address, and Go programs use the
// same addresses. So each hit is a record with its process and its time, in a ring of the
// event. A hit of another process uses the event up.
//
// The events stay open, because opening one takes 0.1 to 0.5 ms and closing it 3 ms
// (Linux 6.18, two CPUs). An armed event that is not asked any more stays armed.
type CPUWatch struct {
	pid    uint32
	addr   uint64
	hits   uint64               // see Hits
	events map[uint32]*cpuEvent // by CPU
}

// cpuEvent is the event of one CPU.
type cpuEvent struct {
	*Ring
	used bool   // it was hit since it was armed,
	by   uint32 // by this process,
	at   int64  // at this time; CLOCK_MONOTONIC, ns
}

// MostCPUs is how many CPUs can be watched at most. Setting a watchpoint interrupts each of
// them, which takes 25 to 50 µs a CPU.
const MostCPUs = 8

// sparedRegisters is how many debug registers of a CPU are left to others: bursts, and
// watchpoints of threads.
const sparedRegisters = 2

// errDisturbed is the error of a watchpoint that another process has used up.
var errDisturbed = errors.New("another process has written to that address")

// errNotArmed is the error of a watchpoint that is on no CPU.
var errNotArmed = errors.New("watchpoint is not armed")

// OpenCPUWatch opens a watchpoint on CPUs, where nothing can be written. It fails where
// debug registers would be scarce then.
func OpenCPUWatch(pid int, cpus []int) (*CPUWatch, error) {
	w := &CPUWatch{pid: uint32(pid), addr: 8, events: make(map[uint32]*cpuEvent)}
	if len(cpus) == 0 || len(cpus) > MostCPUs {
		return nil, fmt.Errorf("watch %d CPUs: at most %d can be watched", len(cpus), MostCPUs)
	}
	for _, cpu := range cpus {
		if err := w.open(uint32(cpu)); err != nil {
			w.Close()
			return nil, err
		}
	}
	if err := trySpared(cpus[0]); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// trySpared reports whether a CPU has enough free debug registers.
func trySpared(cpu int) error {
	for range sparedRegisters {
		fd, err := open(watchAttr(8), -1, cpu)
		if err != nil {
			return fmt.Errorf("spare debug registers: %w", err)
		}
		defer closeEvent(fd)
	}
	return nil
}

// OnCPUs is part of activation.Watch.
func (w *CPUWatch) OnCPUs() bool { return true }

// cpuWatchAttr describes a watchpoint that writes a record of its hit.
func cpuWatchAttr(addr uint64) *unix.PerfEventAttr {
	attr := watchAttr(addr)
	attr.Sample_type = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME
	attr.Clockid, attr.Bits = unix.CLOCK_MONOTONIC, attr.Bits|unix.PerfBitUseClockID
	return attr
}

// Arm moves the watchpoint to addr, on CPUs.
func (w *CPUWatch) Arm(addr uint64, cpus []uint32) error {
	w.addr = addr
	for _, cpu := range cpus {
		if err := w.ArmAt(cpu); err != nil {
			return err
		}
	}
	return nil
}

// ArmAt sets the watchpoint on one CPU.
func (w *CPUWatch) ArmAt(cpu uint32) error {
	e := w.events[cpu]
	if e == nil {
		return w.open(cpu)
	}
	if err := modify(e.fd, cpuWatchAttr(w.addr)); err != nil { // this switches it off
		return fmt.Errorf("move watchpoint: %w", err)
	}
	w.look(e)
	if err := e.arm(); err != nil {
		return fmt.Errorf("arm watchpoint: %w", err)
	}
	return nil
}

// arm switches the event on. An event that was used gets another hit. Linux 6.18 leaves
// PERF_HES_STOPPED set in it; setting its period clears that.
func (e *cpuEvent) arm() error {
	if !e.used {
		return ioctl(e.fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	e.used = false
	return errors.Join(ioctl(e.fd, unix.PERF_EVENT_IOC_REFRESH, 1), setPeriod(e.fd, time.Nanosecond))
}

// open opens the event of a CPU, and arms it.
func (w *CPUWatch) open(cpu uint32) error {
	fd, err := open(cpuWatchAttr(w.addr), -1, int(cpu))
	if err != nil {
		return fmt.Errorf("set watchpoint: %w", err)
	}
	page := os.Getpagesize()
	mem, err := unix.Mmap(fd, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		closeEvent(fd)
		return fmt.Errorf("map ring of watchpoint: %w", err)
	}
	e := &cpuEvent{Ring: newRing(int(cpu), fd, mem)}
	if err := ioctl(fd, unix.PERF_EVENT_IOC_REFRESH, 1); err != nil {
		e.Close()
		return fmt.Errorf("arm watchpoint: %w", err)
	}
	w.events[cpu] = e
	return nil
}

// Hits returns how often a watched word was written, by any process, as far as it was noticed.
func (w *CPUWatch) Hits() uint64 { return w.hits }

// look notes whether an event was hit.
func (w *CPUWatch) look(e *cpuEvent) {
	e.Refresh()
	for ok, _ := e.Peek(); ok; ok, _ = e.Peek() {
		if e.Next.Kind == unix.PERF_RECORD_SAMPLE {
			c := cursor{b: e.Next.Body}
			c.u64() // ip
			e.used, e.by, e.at = true, c.u32(), int64(e.Next.Time)
			w.hits++
		}
		e.Advance()
	}
	e.Release()
}

// Dirty reports whether the process has written the word since the watchpoint was armed,
// and until a time (CLOCK_MONOTONIC, ns). That is not known where another process has
// used it up by then.
func (w *CPUWatch) Dirty(until int64) (dirty bool, err error) {
	if len(w.events) == 0 {
		return false, errNotArmed
	}
	for _, e := range w.events {
		w.look(e)
		switch {
		case !e.used || e.at > until:
		case e.by != w.pid:
			return false, errDisturbed
		default:
			dirty = true
		}
	}
	return dirty, nil
}

// Forget closes the event of a CPU.
func (w *CPUWatch) Forget(cpu uint32) {
	if e := w.events[cpu]; e != nil {
		e.Close()
		delete(w.events, cpu)
	}
}

// Close ends watching on all CPUs.
func (w *CPUWatch) Close() {
	for cpu := range w.events {
		w.Forget(cpu)
	}
}
