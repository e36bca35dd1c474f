package perf

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// The records of a ring, as linux/perf_event.h describes them for the
// attributes that [samplingAttr] sets. Everything here is a pure function of
// bytes: no length found in a record is trusted before it was compared with
// the bytes that are there.

// A header opens every record: struct perf_event_header.
type header struct {
	kind uint32
	misc uint16
	size uint16 // of the whole record, header included
}

const (
	headerBytes = 8
	// trailerBytes is what sample_id_all appends to records other than
	// samples: pid, tid, time, cpu and four reserved bytes.
	trailerBytes = 24
)

var errRecord = errors.New("malformed record")

// registers are those of user mode that REGS_USER delivers, in the order of
// their numbers in the kernel's mask; see sampleRegisters.
type registers struct {
	bx, bp, sp, ip, r10, r12, r13, r14, r15 uint64
}

// sample is a PERF_RECORD_SAMPLE. Its slices are valid until the ring that it
// came from is advanced.
type sample struct {
	ip, time uint64
	pid, tid uint32
	count    uint64   // of the event, ns
	chain    []uint64 // user part of the call chain, innermost first
	kernel   bool     // taken in kernel mode
	hasRegs  bool     // false for a thread that has left user mode for good
	regs     registers
	stack    []byte // from regs.sp upwards; shorter than asked for where memory ends
	cut      bool   // the stack goes on beyond what was asked for

	countsLost bool // records say how many samples the event has lost; set beforehand
}

// decode reads the body of a sample record. It reuses s.chain.
func (s *sample) decode(misc uint16, body []byte) error {
	c := cursor{b: body}
	s.ip = c.u64()
	s.pid, s.tid = c.u32(), c.u32()
	s.time = c.u64()
	c.u64() // cpu and reserved
	s.count = c.u64()
	if s.countsLost {
		c.u64()
	}
	s.kernel = misc&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_KERNEL
	s.chain = c.userChain(s.chain[:0])
	s.decodeRegisters(&c)
	s.decodeStack(&c)
	if c.short {
		return errRecord
	}
	return nil
}

// contextUser marks, within a call chain, the beginning of its user part.
// Markers are small negative numbers (enum perf_callchain_context).
var (
	contextUser = uint64(1<<64 - 512)
	contextMax  = uint64(1<<64 - 4095)
)

// userChain appends the user part of a call chain to pcs, without markers.
func (c *cursor) userChain(pcs []uint64) []uint64 {
	n := c.u64()
	if n > uint64(len(c.b))/8 {
		c.short = true
		return pcs
	}
	user := false
	for range n {
		pc := c.u64()
		switch {
		case pc >= contextMax:
			user = pc == contextUser
		case user:
			pcs = append(pcs, pc)
		}
	}
	return pcs
}

func (s *sample) decodeRegisters(c *cursor) {
	s.regs = registers{}
	s.hasRegs = c.u64() == unix.PERF_SAMPLE_REGS_ABI_64
	if s.hasRegs {
		s.regs = registers{
			bx: c.u64(), bp: c.u64(), sp: c.u64(), ip: c.u64(),
			r10: c.u64(), r12: c.u64(), r13: c.u64(), r14: c.u64(), r15: c.u64(),
		}
	}
}

func (s *sample) decodeStack(c *cursor) {
	s.stack, s.cut = nil, false
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
	s.stack, s.cut = data[:min(used, uint64(len(data)))], used == size
}

// taskRecord is a PERF_RECORD_FORK or PERF_RECORD_EXIT.
type taskRecord struct {
	pid, tid uint32
}

func decodeTask(body []byte) (taskRecord, error) {
	c := cursor{b: body}
	r := taskRecord{pid: c.u32()}
	c.u32() // parent's pid
	r.tid = c.u32()
	if c.short {
		return taskRecord{}, errRecord
	}
	return r, nil
}

// decodeComm returns the process and the thread of a PERF_RECORD_COMM, which
// begins with them. So do PERF_RECORD_MMAP and MMAP2.
func decodeComm(body []byte) (taskRecord, error) {
	c := cursor{b: body}
	r := taskRecord{pid: c.u32(), tid: c.u32()}
	if c.short {
		return taskRecord{}, errRecord
	}
	return r, nil
}

// decodeLost returns how many records a PERF_RECORD_LOST (id, count) or a
// PERF_RECORD_LOST_SAMPLES (count) reports.
func decodeLost(kind uint32, body []byte) (uint64, error) {
	c := cursor{b: body}
	if kind == unix.PERF_RECORD_LOST {
		c.u64()
	}
	n := c.u64()
	if c.short {
		return 0, errRecord
	}
	return n, nil
}

// recordTime returns the time of a record, by which records of several rings
// are put in order.
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
