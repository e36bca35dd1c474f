package perfevent

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/process"
)

// Record is one record of a ring, as linux/perf_event.h describes it. Its body is
// valid until the ring is advanced.
type Record struct {
	Kind uint32 // PERF_RECORD_…
	Misc uint16
	Body []byte // after the header
	Time uint64 // CLOCK_MONOTONIC, ns; 0: not known

	size uint16 // of the whole record, header included
}

const (
	headerBytes = 8 // struct perf_event_header
	// trailerBytes is the length of the trailer that sample_id_all appends to records
	// other than samples: pid, tid, time, cpu and four reserved bytes.
	trailerBytes = 24
)

// ErrMalformed is the error of bytes that are not a record of the kind that was
// expected.
var ErrMalformed = errors.New("malformed record")

// Sample is a PERF_RECORD_SAMPLE of a [Timer]. Its slices are valid until the ring that
// it came from is advanced.
type Sample struct {
	Time     uint64 // CLOCK_MONOTONIC, ns
	PID, TID uint32
	Count    uint64   // of the event, ns
	Chain    []uint64 // user part of the call chain, innermost first
	Kernel   bool     // taken in kernel mode

	KernelChain []uint64 // kernel part of the call chain, innermost first; empty unless the form has it

	HasRegs bool // false for a thread that has left user mode for good
	Regs    process.Registers
	Stack   []byte // from Regs.SP upwards; shorter than asked for where memory ends
	Cut     bool   // the stack goes on beyond the bytes that were asked for

	CountsLost bool // records have the number of lost samples; the caller sets it before
}

// Decode reads the body of a sample record. It reuses s.Chain.
func (s *Sample) Decode(misc uint16, body []byte) error {
	c := cursor{b: body}
	c.u64() // ip
	s.PID, s.TID = c.u32(), c.u32()
	s.Time = c.u64()
	c.u64() // cpu and reserved
	s.Count = c.u64()
	if s.CountsLost {
		c.u64()
	}
	s.Kernel = misc&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_KERNEL
	s.Chain, s.KernelChain = c.chain(s.Chain[:0], s.KernelChain[:0])
	s.decodeRegisters(&c)
	s.decodeStack(&c)
	if c.short {
		return ErrMalformed
	}
	return nil
}

func (s *Sample) decodeRegisters(c *cursor) {
	s.Regs = process.Registers{}
	s.HasRegs = c.u64() == unix.PERF_SAMPLE_REGS_ABI_64
	if s.HasRegs {
		s.Regs = c.registers()
	}
}

func (s *Sample) decodeStack(c *cursor) {
	s.Stack, s.Cut = nil, false
	size := c.u64()
	if size == 0 {
		return
	}
	data := c.take(size)
	used := c.u64()
	if used > size {
		c.short = true
		return
	}
	s.Stack, s.Cut = data[:min(used, uint64(len(data)))], used == size
}

// contextUser and contextKernel mark the beginning of a part of a call chain. Markers are small
// negative numbers (enum perf_callchain_context).
var (
	contextUser   = uint64(1<<64 - 512)
	contextKernel = uint64(1<<64 - 128)
	contextMax    = uint64(1<<64 - 4095)
)

// userChain appends the user part of a call chain to pcs, without markers.
func (c *cursor) userChain(pcs []uint64) []uint64 {
	pcs, _ = c.chain(pcs, nil)
	return pcs
}

// chain appends the parts of a call chain to user and to kernel, without markers.
func (c *cursor) chain(user, kernel []uint64) (_, _ []uint64) {
	n := c.u64()
	if n > uint64(len(c.b))/8 {
		c.short = true
		return user, kernel
	}
	part := uint64(0)
	for range n {
		pc := c.u64()
		switch {
		case pc >= contextMax:
			part = pc
		case part == contextUser:
			user = append(user, pc)
		case part == contextKernel:
			kernel = append(kernel, pc)
		}
	}
	return user, kernel
}

// Task names a thread and its process.
type Task struct {
	PID, TID uint32
	Parent   uint32 // of a fork: the process that has forked
}

// DecodeTask reads the body of a PERF_RECORD_FORK or PERF_RECORD_EXIT.
func DecodeTask(body []byte) (Task, error) {
	c := cursor{b: body}
	r := Task{PID: c.u32(), Parent: c.u32(), TID: c.u32()}
	if c.short {
		return Task{}, ErrMalformed
	}
	return r, nil
}

// DecodeComm returns the process and the thread of a PERF_RECORD_COMM.
func DecodeComm(body []byte) (Task, error) {
	c := cursor{b: body}
	r := Task{PID: c.u32(), TID: c.u32()}
	if c.short {
		return Task{}, ErrMalformed
	}
	return r, nil
}

// decodeName returns the name in a PERF_RECORD_COMM: at most 15 bytes, which may be anything.
func decodeName(body []byte) string {
	const at, most = 8, 16
	if len(body) < at {
		return ""
	}
	name := body[at:min(len(body), at+most)]
	if end := bytes.IndexByte(name, 0); end >= 0 {
		name = name[:end]
	}
	return string(name)
}

// DecodeLost returns how many records a PERF_RECORD_LOST (id, count) or a
// PERF_RECORD_LOST_SAMPLES (count) reports.
func DecodeLost(kind uint32, body []byte) (uint64, error) {
	c := cursor{b: body}
	if kind == unix.PERF_RECORD_LOST {
		c.u64()
	}
	n := c.u64()
	if c.short {
		return 0, ErrMalformed
	}
	return n, nil
}

// recordTime returns the time of a record, which puts the records of several rings in
// order.
func recordTime(kind uint32, body []byte) uint64 {
	at := len(body) - trailerBytes + 8
	if kind == unix.PERF_RECORD_SAMPLE {
		at = 16
	}
	if at < 0 || at+8 > len(body) {
		return 0
	}
	return binary.NativeEndian.Uint64(body[at:])
}

// Process returns the process that a record is of, as events of its threads write it; 0 if it is of
// none that could be known: a process that is born leaves a record of its own number, which its parent's
// events have written.
func (r *Record) Process() uint32 {
	at := len(r.Body) - trailerBytes
	switch r.Kind {
	case unix.PERF_RECORD_SAMPLE:
		at = 8
	case unix.PERF_RECORD_COMM, unix.PERF_RECORD_MMAP, unix.PERF_RECORD_EXIT:
		at = 0
	case unix.PERF_RECORD_FORK:
		task, err := DecodeTask(r.Body)
		if err != nil || task.PID != task.Parent {
			return 0
		}
		return task.PID
	}
	if at < 0 || at+4 > len(r.Body) {
		return 0
	}
	return binary.NativeEndian.Uint32(r.Body[at:])
}

// A cursor reads fields one after the other. Reading beyond the end gives
// zeros and sets short.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.short, c.b = true, nil
		return nil
	}
	field := c.b[:n]
	c.b = c.b[n:]
	return field
}

func (c *cursor) u32() uint32 {
	if f := c.take(4); f != nil {
		return binary.NativeEndian.Uint32(f)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if f := c.take(8); f != nil {
		return binary.NativeEndian.Uint64(f)
	}
	return 0
}
