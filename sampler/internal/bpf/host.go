package bpf

//go:generate go test -run ^TestSyscalls$ -update .

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Host samples the CPUs of this machine for all its sources.
//
//	mu       the sources and the timers: any goroutine
//	draining the ring: the reader, and a source that takes its last records
//	program  maps and programs, whose calls need no lock
//	costs, floor, online, counters, waiter, reader   set by OpenHost
type Host struct {
	log      *slog.Logger
	program  programObjects
	counters *counters
	waiter   *perfevent.Waiter // of the reader; nil if the only source reads
	costs    perfevent.Costs   // of timers and watchpoints
	floor    time.Duration     // the shortest interval within the budget of the host
	raised   atomic.Uint64     // intervals that the budget made longer
	reader   taker.Reader

	online func() ([]int, error) // the CPUs; tests have their own

	mu      sync.Mutex
	sources map[uint32]*seat      // of targets
	members map[uint32]*seat      // of programs of the whole host
	wanted  map[time.Duration]int // the intervals that sources want, and how many want each
	clocks  map[int]*clock        // of the CPUs
	cpus    []int                 // online, when periods were drawn last; never changed, but replaced
	period  time.Duration         // of the timers, on average
	redraw  time.Time             // when to draw other periods
	follows time.Time             // when to look for CPUs that have come or gone
	began   time.Time             // when the timers were started
	before  uses                  // of the timers, then
	due     time.Time             // when to meter their cost again
	share   float64               // of every CPU, that the timers take since then
	others  time.Duration         // that they took of busy CPUs without a sample
	rung    time.Time             // the last beat that woke all sources with records

	draining sync.Mutex
	ring     *ringbuf.Reader
	record   ringbuf.Record // reused
}

const (
	// mostTargets bounds the processes that are sampled at a time.
	mostTargets = 16384
	// ringBytes is the length of the ring for all CPUs.
	ringBytes = 8 << 20
	// leastPeriod is the shortest period for users other than root: the timers
	// interrupt all programs of the machine, not the targets alone.
	leastPeriod = time.Millisecond
	// defaultMaxOverhead is the part of a core that the timers may take of every CPU.
	defaultMaxOverhead = 0.01
)

// HostOptions are the options of a [Host]. The zero value is useful.
type HostOptions struct {
	// MaxOverhead is the part of a core that the timers may take of every CPU, for all
	// targets together; 0 means 0.01; negative: no limit.
	MaxOverhead float64

	// Logger gets messages for the user; nil discards them.
	Logger *slog.Logger
}

// OpenHost loads the program. Nothing is sampled before a source joins.
//
// Errors wrap [sampler.ErrPermission] or [sampler.ErrUnsupported] where one of them is
// the reason, and have the cure.
func OpenHost(o HostOptions) (*Host, error) {
	h, err := newHost(o, true)
	if err != nil {
		return nil, err
	}
	if h.waiter, err = h.newWaiter(-1); err != nil {
		return nil, errors.Join(err, h.release())
	}
	h.reader.Start(h.waiter, h.turn, h.ringAll)
	return h, nil
}

// newHost is OpenHost without the reader: a source that has the host alone reads by itself.
// Where no target has descriptors, the kernel verifies a smaller program, in less time.
func newHost(o HostOptions, descriptors bool) (*Host, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := here().refusal(); err != nil {
		return nil, err
	}
	h := &Host{
		log: log, online: process.OnlineCPUs,
		sources: make(map[uint32]*seat), members: make(map[uint32]*seat), wanted: make(map[time.Duration]int), clocks: make(map[int]*clock),
	}
	spec, err := loadProgram()
	if err != nil {
		return nil, fmt.Errorf("decode BPF program: %w", err)
	}
	if err := spec.Variables["descriptors"].Set(uint32(flagOf(descriptors))); err != nil {
		return nil, fmt.Errorf("decode BPF program: %w", err)
	}
	if err := h.load(spec); err != nil {
		return nil, errors.Join(err, h.release())
	}
	if h.costs, err = h.price(); err != nil {
		h.log.Info("costs of sampling are assumed", "reason", err)
	}
	h.floor = shortestWithin(cmp.Or(o.MaxOverhead, defaultMaxOverhead), h.costs.Sample)
	return h, nil
}

// load loads the program and opens its ring.
func (h *Host) load(spec *ebpf.CollectionSpec) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	spec.Maps["targets"].MaxEntries, spec.Maps["losses"].MaxEntries = mostTargets, mostTargets
	spec.Maps["records"].MaxEntries = ringBytes
	spec.Maps["scratch"].MaxEntries, spec.Maps["clocks"].MaxEntries = uint32(cpus), uint32(cpus)
	defer privilege.Raise().Lower()
	if err := spec.LoadAndAssign(&h.program, nil); err != nil {
		return explainLoad(err, rightsHere())
	}
	h.counters = openCounters(h.program.Counters, cpus)
	if h.ring, err = ringbuf.NewReader(h.program.Records); err != nil {
		return fmt.Errorf("open ring: %w", err)
	}
	h.ring.SetDeadline(time.Unix(0, 1)) // long past: never wait
	return nil
}

// Close ends sampling. All sources must have ended before.
func (h *Host) Close() error {
	h.reader.Stop()
	h.log.Info("sampled CPUs", "interrupts", h.counted(interrupts), "idle", h.counted(idle), "samples", h.counted(taken),
		"unreadable", h.counted(unreadable), "reused", h.counted(reused), "ending", h.counted(ending))
	return h.release()
}

func (h *Host) release() error {
	h.mu.Lock() // figures may still be asked for
	defer h.mu.Unlock()
	h.closeClocks()
	if h.counters != nil {
		h.counters.close()
	}
	if h.waiter != nil {
		h.waiter.Close()
	}
	if h.ring != nil {
		h.ring.Close()
	}
	return h.program.Close()
}

// raised makes a call on a map, for which some kernels ask for CAP_BPF.
func raised(call func() error) error {
	defer privilege.Raise().Lower()
	return call()
}
