package bpf

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/process"
)

// Flags of a record, as in record.bpf.c.
const (
	inKernel    = 1 << iota // the kernel was interrupted, not the program
	noRegisters             // the registers are not known
	chosen                  // the next sample of the goroutine may have a verdict
	cut                     // the stack goes on beyond the bytes that were copied
	stranger                // the process is no target: the head is all there is
	kernelThread
	awaited // the source wants the record at once
)

const (
	headBytes    = int(unsafe.Sizeof(programHead{}))
	objectsBytes = int(unsafe.Sizeof(programRecord{}.Memory)) - 3*mostStack // the most of all objects
)

// The pieces in their order, after the objects.
const (
	pieceStack = objects + iota
	pieceOther
	pieceOuter
	pieceKernel

	objects = 3 // g, m, and the g of the other stack
)

// outerBytes is the length of the outer end of a stack.
const outerBytes = 16 << 10

var errRecord = errors.New("malformed record")

// record is a record's head, and the moment that the record describes. The moment
// shares the record's memory.
type record struct {
	programHead
	moment  process.Moment
	objects [objects]process.Piece
	chain   []uint64 // of the kernel; reused
}

// decode reads a record.
func (r *record) decode(b []byte) error {
	if len(b) < headBytes {
		return errRecord
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&r.programHead)), headBytes), b)
	var pieces [len(r.Pieces)][]byte
	rest := b[headBytes:]
	for i := range pieces {
		n := uint64(r.Pieces[i].Bytes)
		if n > uint64(len(rest)) {
			return errRecord
		}
		pieces[i], rest = rest[:n], rest[n:]
	}
	r.describe(pieces[pieceStack], pieces[pieceOther], pieces[pieceOuter])
	r.moment.KernelChain = r.kernelChain(pieces[pieceKernel])
	r.moment.Objects = r.objects[:0]
	for i, held := range pieces[:objects] {
		if len(held) > 0 {
			r.moment.Objects = append(r.moment.Objects, process.Piece{Addr: r.Pieces[i].Addr, Bytes: held})
		}
	}
	return nil
}

// describe makes the moment of the record's head and the pieces of both stacks.
func (r *record) describe(stack, other, outer []byte) {
	r.moment = process.Moment{
		TID:       r.Tid,
		CPU:       r.Cpu,
		Time:      r.Time,
		CPUTime:   r.CpuTime,
		Kernel:    r.Flags&inKernel != 0,
		Syscall:   syscallName(r.Syscall),
		HasRegs:   r.Flags&noRegisters == 0 && (len(stack) > 0 || r.Flags&cut != 0),
		Regs:      r.registers(),
		Stack:     stack,
		Cut:       r.Flags&cut != 0,
		Other:     other,
		OtherBase: r.Pieces[pieceOther].Addr,
		Outer:     process.Piece{Addr: r.Pieces[pieceOuter].Addr, Bytes: outer},
	}
}

// kernelChain reads the addresses of the kernel's stack.
func (r *record) kernelChain(piece []byte) []uint64 {
	r.chain = r.chain[:0]
	for ; len(piece) >= 8; piece = piece[8:] {
		r.chain = append(r.chain, binary.NativeEndian.Uint64(piece))
	}
	return r.chain
}

// numbered bounds the numbers that get a name each: a program may make calls of any number.
const numbered = 1 << 10

// unknownCall is the name of all other system calls.
const unknownCall = "unknown system call"

// syscallName returns the name of a system call by its number, and "" for -1, which stands
// for none.
func syscallName(number int32) string {
	switch {
	case number == -1:
		return ""
	case number < 0 || number >= numbered:
		return unknownCall
	case int(number) >= len(syscalls) || syscalls[number] == "":
		return "syscall " + strconv.Itoa(int(number))
	}
	return syscalls[number]
}

// endKnown reports whether the program knew where the stack ends: the thread is on its goroutine's stack.
func (r *record) endKnown() bool {
	if r.Pieces[0].Bytes < 16 {
		return false
	}
	bounds := r.moment.Objects[0].Bytes // g.stack, which the runtime's g begins with
	lo, hi := binary.NativeEndian.Uint64(bounds), binary.NativeEndian.Uint64(bounds[8:])
	sp := r.moment.Regs.SP
	return lo < sp && sp <= hi
}

// weight returns the CPU time that the record stands for, with the time of the interrupts
// that were not kept, and without the time that no thread had. If that is longer than a
// period, the interrupts of the other periods are missing.
func (r *record) weight() time.Duration {
	stands := r.Stands - min(r.Stolen, r.Stands)
	if r.Share == 0 {
		return time.Duration(stands)
	}
	return time.Duration(float64(stands) * (1 << 32) / float64(r.Share))
}

// shareOf returns how many interrupts to keep of a target that wants an interval, in
// 2^-32; 0 means all.
func shareOf(period, interval time.Duration) uint32 {
	if interval <= period {
		return 0
	}
	return uint32(math.Round(float64(period) / float64(interval) * (1 << 32)))
}

// ages tell how long ago the scheduler has counted a thread's CPU time. It does so once a
// tick and at each switch, and by a clock of its own, whose distance to CLOCK_MONOTONIC
// is not known: it is the least time between a counting and a record on a CPU. Some
// records come right after a counting.
type ages map[uint32]*age

type age struct {
	least, next int64 // of the time until until, and since; ns
	until       uint64
}

const (
	// ageWindow is how long the least time counts, ns: both clocks drift apart slowly.
	ageWindow = 10e9
	// mostAge bounds the time since a counting, ns: a tick is 10 ms at most.
	mostAge = 20e6
)

// of returns the time since the scheduler has counted the CPU time of a record, ns.
func (a ages) of(r *record) uint64 {
	apart := int64(r.Time - r.Counted)
	c := a[r.Cpu]
	if c == nil {
		c = &age{least: apart, next: apart, until: r.Time + ageWindow}
		a[r.Cpu] = c
	}
	if r.Time > c.until {
		c.least, c.next, c.until = c.next, apart, r.Time+ageWindow
	}
	c.least, c.next = min(c.least, apart), min(c.next, apart)
	return uint64(min(apart-c.least, mostAge))
}
