package perfevent

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	breakpointWrite   = 2 // HW_BREAKPOINT_W (linux/hw_breakpoint.h)
	breakpointExecute = 4 // HW_BREAKPOINT_X
	breakpointBytes   = 8 // HW_BREAKPOINT_LEN_8; for execution it must be sizeof(long)
)

// Breakpoint is a hardware breakpoint on a call through a register. For each call the
// kernel writes the register, which holds the address that is called, the goroutine, and the
// return addresses along the frame pointers.
//
// The target does not stop: the kernel writes a sample and lets the instruction
// run, with the resume flag set so that it is not trapped again.
type Breakpoint struct {
	PC       uint64 // of the call instruction
	Register uint8  // its number in the kernel's mask; not the one for the goroutine
	Callers  uint16 // addresses in the chain at most, with the call itself
}

// caughtFields make up the sample of a breakpoint.
const caughtFields = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
	unix.PERF_SAMPLE_CALLCHAIN | unix.PERF_SAMPLE_REGS_USER

// caughtRing is the length in bytes of the ring of a thread: room for 120 records of
// 136 bytes.
const caughtRing = 1 << 14

// attr describes the event, which is opened disabled.
func (b Breakpoint) attr() *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type:             unix.PERF_TYPE_BREAKPOINT,
		Size:             attrSize,
		Sample:           1,
		Sample_type:      caughtFields,
		Sample_regs_user: 1<<b.Register | 1<<regG,
		Sample_max_stack: b.Callers,
		Bp_type:          breakpointExecute,
		Ext1:             b.PC,
		Ext2:             breakpointBytes,
		Clockid:          unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv |
			unix.PerfBitExcludeCallchainKernel | unix.PerfBitUseClockID,
	}
}

// Set sets the breakpoint on one thread. After so many calls, or a few more, the
// kernel switches it off. The calls come into a ring of their own, because an event
// that follows its thread over all CPUs cannot send its samples into the ring of one
// CPU (perf_event_set_output, Linux 6.18). Closing the ring ends the breakpoint.
func (b Breakpoint) Set(tid uint32, calls int) (*Ring, error) {
	fd, err := open(b.attr(), int(tid), -1)
	if err != nil {
		return nil, fmt.Errorf("set breakpoint: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, os.Getpagesize()+caughtRing, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map ring of breakpoint: %w", err)
	}
	r := newRing(-1, fd, mem)
	if err := ioctl(fd, unix.PERF_EVENT_IOC_REFRESH, uintptr(calls)); err != nil {
		r.Close()
		return nil, fmt.Errorf("arm breakpoint: %w", err)
	}
	return r, nil
}

// Call is a call that a breakpoint has caught.
type Call struct {
	PID, TID uint32
	Time     uint64   // CLOCK_MONOTONIC, ns
	Chain    []uint64 // the call instruction, then return addresses
	Target   uint64   // the address that is called
	G        uint64   // in Go code the descriptor of the goroutine
}

// Decode reads the body of a sample of the breakpoint. It reuses c.Chain.
func (c *Call) Decode(b Breakpoint, body []byte) error {
	cur := cursor{b: body}
	ip := cur.u64()
	c.PID, c.TID = cur.u32(), cur.u32()
	c.Time = cur.u64()
	c.Chain = cur.userChain(c.Chain[:0])
	if cur.u64() != unix.PERF_SAMPLE_REGS_ABI_64 {
		return ErrMalformed
	}
	c.Target, c.G = cur.u64(), cur.u64()
	if b.Register > regG { // registers come in the order of their numbers
		c.Target, c.G = c.G, c.Target
	}
	if cur.short || ip != b.PC || len(c.Chain) == 0 || c.Chain[0] != b.PC {
		return ErrMalformed
	}
	return nil
}
