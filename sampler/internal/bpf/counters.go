package bpf

import (
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Counters of the program, as in record.bpf.c.
const (
	interrupts = iota // of all CPUs, idle or not
	idle              // interrupts of CPUs that had nothing to run
	taken             // interrupts that made a record
	unreadable        // records without a stack
	reused            // interrupts of another process that has got a target's number
	ending            // records of threads that have given up their memory
)

// counters read the program's counters.
//
// The session asks for them with every look at its figures. Reading a map never waits, so
// it goes around the Go scheduler: announcing the call to it wakes the runtime's monitor
// thread (sysmon, Go 1.26).
type counters struct {
	mu    sync.Mutex
	fd    int           // -1: closed
	query *counterQuery // on the heap, where nothing moves
}

// counterQuery is the memory that the kernel reads and writes. It begins with union bpf_attr of
// BPF_MAP_LOOKUP_ELEM (linux/bpf.h).
type counterQuery struct {
	fd         uint32
	_          uint32
	key, value uint64 // addresses
	flags      uint64

	which uint32
	each  []uint64 // of every CPU that is possible
}

// openCounters prepares to read a map of counters for a number of possible CPUs.
func openCounters(m *ebpf.Map, cpus int) *counters {
	return &counters{fd: m.FD(), query: &counterQuery{each: make([]uint64, cpus)}}
}

// close makes all sums 0: the number of the descriptor may become another map's.
func (c *counters) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fd = -1
}

// sum returns the sum of a counter over the CPUs; 0 if it cannot be read.
func (c *counters) sum(which uint32) (sum uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.query
	q.fd, q.which = uint32(c.fd), which
	q.key, q.value = uint64(uintptr(unsafe.Pointer(&q.which))), uint64(uintptr(unsafe.Pointer(&q.each[0])))
	const attrBytes = unsafe.Offsetof(counterQuery{}.which)
	err := raised(func() error {
		_, _, errno := unix.RawSyscall(unix.SYS_BPF, unix.BPF_MAP_LOOKUP_ELEM, uintptr(unsafe.Pointer(q)), attrBytes)
		if errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil {
		return 0
	}
	for _, n := range q.each {
		sum += n
	}
	return sum
}

// counted returns the sum of a counter over the CPUs.
func (h *Host) counted(which uint32) uint64 { return h.counters.sum(which) }
