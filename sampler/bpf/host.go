package bpf

//go:generate go tool bpf2go -tags linux -target amd64 -type target -type head -go-package bpf program record.bpf.c -- -O2 -Wall -Werror -I/usr/include/x86_64-linux-gnu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// Host samples the CPUs of this machine for all its sources.
//
//	mu       the sources and the timers: any goroutine
//	draining the ring: the reader, and a source that takes its last records
//	program  maps and programs, whose calls need no lock
//	costs    set by OpenHost
type Host struct {
	log     *slog.Logger
	program programObjects
	waiter  *perfevent.Waiter
	costs   perfevent.Costs // of timers and watchpoints
	stop    context.CancelFunc
	stopped chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	sources map[uint32]*Source
	clocks  []perfevent.CPUClock
	period  time.Duration // of the timers, on average
	longest time.Duration // period since the last redraw
	redraw  time.Time     // when to draw other periods
	charged uint64        // interrupts that the sources were charged for

	draining sync.Mutex
	ring     *ringbuf.Reader
	record   ringbuf.Record // reused
}

const (
	// ringBytes is the length of the ring for all CPUs.
	ringBytes = 8 << 20
	// drainEvery is the time between two looks into the ring, and drainIdle the time
	// after a look that found nothing.
	drainEvery = 50 * time.Millisecond
	drainIdle  = 100 * time.Millisecond
	// leastPeriod is the shortest period for users other than root: the timers
	// interrupt all programs of the machine, not the targets alone.
	leastPeriod = time.Millisecond
	// spread is how far a period is from the interval, at most: sampling must not run in
	// lockstep with periodic work. Another period is drawn after redrawEvery, up to twice
	// that.
	spread      = 0.1
	redrawEvery = 2 * time.Second
)

// OpenHost loads the program. Nothing is sampled before a source joins. The logger
// gets messages for users; nil discards them.
//
// Errors wrap [sampler.ErrPermission] or [sampler.ErrUnsupported] where one of them is
// the reason, and have the cure.
func OpenHost(log *slog.Logger) (*Host, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := supported(); err != nil {
		return nil, err
	}
	h := &Host{log: log, sources: make(map[uint32]*Source), stopped: make(chan struct{})}
	if err := h.load(); err != nil {
		return nil, errors.Join(err, h.release())
	}
	var err error
	if h.costs, err = h.price(); err != nil {
		h.log.Info("costs of sampling are assumed", "reason", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go h.read(ctx)
	return h, nil
}

// load loads the program and opens its ring.
func (h *Host) load() error {
	spec, err := loadProgram()
	if err != nil {
		return fmt.Errorf("decode BPF program: %w", err)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	spec.Maps["records"].MaxEntries = ringBytes
	spec.Maps["scratch"].MaxEntries = uint32(cpus)
	defer privilege.Raise().Lower()
	if err := spec.LoadAndAssign(&h.program, nil); err != nil {
		return explainLoad(err)
	}
	if h.ring, err = ringbuf.NewReader(h.program.Records); err != nil {
		return fmt.Errorf("open ring: %w", err)
	}
	if h.waiter, err = perfevent.NewWaiter(-1); err != nil {
		return err
	}
	return h.waiter.AddWakeups(h.program.Records.FD())
}

// Close ends sampling. All sources must have ended before.
func (h *Host) Close() error {
	h.stop()
	h.waiter.Ring()
	<-h.stopped
	h.log.Info("sampled CPUs", "interrupts", h.counted(interrupts), "idle", h.counted(idle), "samples", h.counted(taken), "unreadable", h.counted(unreadable), "reused", h.counted(reused))
	return h.release()
}

// Counters of the program, as in record.bpf.c.
const (
	interrupts = iota // of all CPUs, whatever ran there
	idle              // interrupts of CPUs that had nothing to run
	taken             // interrupts that made a record
	unreadable        // records without a stack
	reused            // interrupts of another process that has got a target's number
)

// counted returns the sum of a counter over the CPUs.
func (h *Host) counted(which uint32) (sum uint64) {
	var all []uint64
	raised(func() error { return h.program.Counters.Lookup(which, &all) }) // 0 with an error
	for _, n := range all {
		sum += n
	}
	return sum
}

func (h *Host) release() error {
	h.mu.Lock() // figures may still be asked for
	defer h.mu.Unlock()
	h.closeClocks()
	if h.waiter != nil {
		h.waiter.Close()
	}
	if h.ring != nil {
		h.ring.Close()
	}
	return h.program.Close()
}

// join begins to sample a source's target.
func (h *Host) join(s *Source) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	pid := uint32(s.t.PID)
	if h.sources[pid] != nil {
		return fmt.Errorf("process %d is sampled already", s.t.PID)
	}
	h.charge()
	s.told = s.entry
	h.sources[pid] = s
	err := raised(func() error { return h.program.Losses.Put(pid, uint64(0)) })
	if err == nil {
		err = h.follow()
	}
	if err != nil {
		h.remove(pid)
		return fmt.Errorf("sample CPUs: %w", explainRights(err))
	}
	return nil
}

// leave ends sampling a source's target. Records of it may still be in the ring.
func (h *Host) leave(s *Source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pid := uint32(s.t.PID)
	if h.sources[pid] != s || s.left {
		return
	}
	h.charge()
	s.left = true
	h.drop(pid)
	if err := h.follow(); err != nil {
		h.log.Debug("change period of CPUs", "error", err)
	}
}

// forget drops a source that has left, after its last records were drained.
func (h *Host) forget(s *Source) {
	h.leave(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if pid := uint32(s.t.PID); h.sources[pid] == s {
		h.remove(pid)
	}
}

func (h *Host) remove(pid uint32) {
	h.drop(pid)
	raised(func() error { return h.program.Losses.Delete(pid) })
	delete(h.sources, pid)
}

// drop makes the program forget a target.
func (h *Host) drop(pid uint32) {
	err := raised(func() error { return h.program.Targets.Delete(pid) })
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		h.log.Warn("target is still sampled", "pid", pid, "error", err)
	}
}

// raised makes a call on a map, for which some kernels ask for CAP_BPF.
func raised(call func() error) error {
	defer privilege.Raise().Lower()
	return call()
}

// follow makes the timers follow the shortest interval, and tells the program which share
// of the interrupts to keep of each target. The caller holds mu.
func (h *Host) follow() error {
	period := h.wanted()
	if period == 0 {
		h.closeClocks()
		return nil
	}
	if period != h.period {
		h.period, h.longest = period, max(period, h.period)
		if err := h.setPeriods(); err != nil {
			return err
		}
	}
	return h.tellAll()
}

// tellAll is tell for all sources.
func (h *Host) tellAll() error {
	for _, s := range h.sources {
		if err := h.tell(s); err != nil {
			return err
		}
	}
	return nil
}

// wanted returns the shortest interval of all sources; 0 without sources.
func (h *Host) wanted() time.Duration {
	var shortest time.Duration
	for _, s := range h.sources {
		if !s.left && (shortest == 0 || s.interval < shortest) {
			shortest = s.interval
		}
	}
	return shortest
}

// tell describes a source's target to the program. The caller
// holds mu.
func (h *Host) tell(s *Source) error {
	if s.left {
		return nil
	}
	t := s.told
	// A timer expires late on an idle CPU. The gap that ends there is not the target's
	// time, so a record stands for no more than the longest period that is drawn.
	most := float64(h.longest) * (1 + spread)
	t.Share, t.Drain, t.Most = shareOf(h.period, s.interval), ringBytes/2, uint64(most)
	if err := raised(func() error { return h.program.Targets.Put(uint32(s.t.PID), &t) }); err != nil {
		return fmt.Errorf("describe target: %w", err)
	}
	return nil
}

// setPeriods draws a period for each CPU, and opens the timers of CPUs that have none.
func (h *Host) setPeriods() error {
	cpus, err := process.OnlineCPUs()
	if err != nil {
		return err
	}
	for _, cpu := range cpus {
		if slices.ContainsFunc(h.clocks, func(c perfevent.CPUClock) bool { return c.CPU == cpu }) {
			continue
		}
		if err := h.openClock(cpu); err != nil && !errors.Is(err, unix.ENODEV) { // ENODEV: it went offline just now
			return err
		}
	}
	h.redraw = time.Now().Add(redrawEvery + rand.N(redrawEvery))
	var all error
	for _, c := range h.clocks {
		all = errors.Join(all, c.SetPeriod(drawn(h.period)))
	}
	return all
}

// drawn returns a period near the given one.
func drawn(period time.Duration) time.Duration {
	return time.Duration(float64(period) * (1 + spread*(2*rand.Float64()-1)))
}

// openClock opens the timer of a CPU. The first interrupt stands for the time since now.
func (h *Host) openClock(cpu int) error {
	if len(h.clocks) == 0 {
		if err := h.startClocks(); err != nil {
			return err
		}
	}
	c, err := perfevent.OpenCPUClock(cpu, h.period, h.program.Sample.FD())
	if err == nil {
		h.clocks = append(h.clocks, c)
	}
	return err
}

// startClocks tells the program that time begins now on all CPUs.
func (h *Host) startClocks() error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	now := make([]uint64, cpus)
	for i := range now {
		now[i] = uint64(perfevent.Monotonic())
	}
	return raised(func() error { return h.program.Clocks.Put(uint32(0), now) })
}

func (h *Host) closeClocks() {
	for _, c := range h.clocks {
		c.Close()
	}
	h.clocks, h.period = nil, 0
}

// read drains the ring until ctx is done.
func (h *Host) read(ctx context.Context) {
	defer close(h.stopped)
	patience := drainEvery
	for ctx.Err() == nil {
		if _, err := h.waiter.Wait(patience); err != nil {
			h.log.Error("wait for samples", "error", err)
			return
		}
		patience = drainIdle
		if h.drain() {
			patience = drainEvery
		}
		h.look(time.Now())
	}
}

// look draws other periods when it is time, which also finds CPUs that came online.
func (h *Host) look(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.period == 0 || now.Before(h.redraw) {
		return
	}
	err := h.setPeriods()
	if h.longest > h.period {
		h.longest = h.period
		err = errors.Join(err, h.tellAll())
	}
	if err != nil {
		h.log.Debug("change period of CPUs", "error", err)
	}
}

// drain hands all records to their sources, and reports whether there were any.
func (h *Host) drain() bool {
	h.draining.Lock()
	defer h.draining.Unlock()
	h.ring.SetDeadline(time.Unix(0, 1)) // long past: do not wait
	found := false
	for h.ring.ReadInto(&h.record) == nil {
		h.deliver(h.record.RawSample)
		found = true
	}
	if found {
		h.ringSources()
	}
	return found
}

// deliver hands a record to its source.
func (h *Host) deliver(raw []byte) {
	const at = int(unsafe.Offsetof(programHead{}.Pid))
	if len(raw) < at+4 {
		return
	}
	pid := *(*uint32)(unsafe.Pointer(&raw[at]))
	h.mu.Lock()
	s := h.sources[pid]
	h.mu.Unlock()
	if s != nil {
		s.inbox.add(raw)
	}
}

// ringSources wakes the sources that have records.
func (h *Host) ringSources() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sources {
		if s.inbox.waiting() && s.waiter != nil {
			s.waiter.Ring()
		}
	}
}

// lost returns how many records of a target the ring had no room for.
func (h *Host) lost(pid int) uint64 {
	var n uint64
	raised(func() error { return h.program.Losses.Lookup(uint32(pid), &n) }) // 0 with an error
	return n
}

// shortest returns the shortest interval that a source may ask for.
func shortest() time.Duration {
	if os.Geteuid() == 0 {
		return perfevent.ShortestInterval()
	}
	return max(leastPeriod, perfevent.ShortestInterval())
}
