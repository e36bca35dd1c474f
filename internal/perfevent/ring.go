package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ring is a buffer that the kernel fills and this process drains: of one CPU, or of one
// breakpoint.
//
//	mem   one page of struct perf_event_mmap_page, then a power of two of data
//	head  in mem: written by the kernel, read by the drainer (load-acquire)
//	tail  in mem: written by the drainer (store-release), read by the kernel
//
// The kernel writes bytes between head and tail+len(data) only, so a record is
// valid until the tail has been moved beyond it. All fields belong to the one
// goroutine that drains; other goroutines use fd and CPU only, and page, whose words
// are atomic.
type Ring struct {
	CPU   int // -1: of a breakpoint
	Index int // for the caller's use

	// Next is the record at the tail, after Peek has found one.
	Next Record

	// fd is the event that owns the buffer. A CPU's ring belongs to a dummy on this
	// process's own main thread, which outlives every thread of the target. The
	// target's events are redirected to it.
	fd      int
	mem     []byte
	data    []byte
	page    *unix.PerfEventMmapPage
	head    uint64 // as of the last refresh
	tail    uint64
	scratch []byte // holds a record that wraps around the end
	peeked  bool   // Next is valid
}

// Sizes of a ring's data in bytes.
const (
	maxRingBytes = 1 << 20
	minRingBytes = 1 << 15
)

// RingBytes returns how long a ring should be, a power of two, where each CPU has so
// many. The kernel lets a user without privileges lock 516 KiB for each CPU, unless
// the administrator has set another limit, and a ring takes a page more. The
// privilege is CAP_IPC_LOCK, which root lacks in a container.
func RingBytes(rings int) int {
	allowed, err := Sysctl("perf_event_mlock_kb")
	if err != nil || mayLockMemory() {
		return maxRingBytes
	}
	size := maxRingBytes
	for size > minRingBytes && rings*(size+os.Getpagesize()) > allowed<<10 {
		size /= 2
	}
	return size
}

// Bounds of rings that are longer than others.
const (
	roomySamples = 128      // at 100 samples a second, for a drainer that is late by one
	roomyBytes   = 64 << 20 // of such rings of all CPUs
)

// RoomyRingBytes returns how long the ring of one of some CPUs should be that gets samples of
// so many bytes, where a ring of size is usual: a power of two, not less than size. Machines
// that are busy let their drainers wait.
func RoomyRingBytes(size, sample, cpus int) int {
	if !mayLockMemory() {
		return size
	}
	return roomy(size, sample, cpus)
}

func roomy(size, sample, cpus int) int {
	for size < roomySamples*sample && 2*size*cpus <= roomyBytes {
		size *= 2
	}
	return size
}

// mayLockMemory reports whether this process may lock as much memory as it likes.
func mayLockMemory() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&hdr, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}

// ownerAttr describes the event that owns a CPU's ring. It counts nothing. Once so
// many bytes have been written, the kernel wakes the waiter.
func ownerAttr(watermark uint32) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_SOFTWARE,
		Size:    attrSize,
		Config:  unix.PERF_COUNT_SW_DUMMY,
		Wakeup:  watermark,
		Clockid: unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitDisabled | unix.PerfBitWatermark | unix.PerfBitUseClockID |
			unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
}

// OpenRing makes a ring of one CPU, as large as permitted, up to size. The kernel
// wakes a [Waiter] once so many bytes were written.
func OpenRing(cpu, size int, watermark uint32) (*Ring, error) {
	fd, err := open(ownerAttr(watermark), os.Getpid(), cpu)
	if err != nil {
		return nil, err
	}
	for ; ; size /= 2 {
		mem, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			return newRing(cpu, fd, mem), nil
		}
		if size <= minRingBytes || !tooMuchMemory(err) {
			unix.Close(fd)
			if errors.Is(err, unix.EPERM) { // perf_mmap of Linux 6.18 has no other reason for it
				err = fmt.Errorf("%w: %w", ErrLockedMemory, err)
			}
			return nil, fmt.Errorf("map ring of %d bytes for CPU %d: %w", size, cpu, err)
		}
	}
}

// ErrLockedMemory says that the kernel lets this user lock no more memory.
var ErrLockedMemory = errors.New("this user may lock no more memory")

func tooMuchMemory(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOMEM)
}

func newRing(cpu, fd int, mem []byte) *Ring {
	return &Ring{
		CPU:  cpu,
		fd:   fd,
		mem:  mem,
		page: (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0])),
		data: mem[os.Getpagesize():],
	}
}

// Close releases the ring, and ends its breakpoint.
func (r *Ring) Close() {
	unix.Munmap(r.mem)
	closeEvent(r.fd)
}

// Len returns the length of the data, bytes.
func (r *Ring) Len() int { return len(r.data) }

// Count returns how often the event has fired that owns the ring.
func (r *Ring) Count() (uint64, error) {
	n, _, err := readCount(r.fd)
	return n, err
}

// Stop ends the writing of records.
func (r *Ring) Stop() { ioctl(r.fd, unix.PERF_EVENT_IOC_DISABLE, 0) }

// Refresh looks how far the kernel has written.
func (r *Ring) Refresh() { r.head = atomic.LoadUint64(&r.page.Data_head) }

// unread reports whether the kernel has written records that were not handed back yet. Any
// goroutine may call it.
func (r *Ring) unread() bool {
	return atomic.LoadUint64(&r.page.Data_head) != atomic.LoadUint64(&r.page.Data_tail)
}

// Peek puts the record at the tail into Next, and reports whether there is one. Bytes
// that cannot be a record are an error. Peek then drops everything up to the head,
// because nothing can be found after a broken size.
func (r *Ring) Peek() (bool, error) {
	if r.peeked || r.tail == r.head {
		return r.peeked, nil
	}
	var err error
	if r.Next, err = recordAt(r.data, r.tail, r.head, &r.scratch); err != nil {
		r.tail = r.head
		r.Release()
		return false, err
	}
	r.Next.Time = recordTime(r.Next.Kind, r.Next.Body)
	r.peeked = true
	return true, nil
}

// Advance drops the record that Peek has found.
func (r *Ring) Advance() {
	r.tail += uint64(r.Next.size)
	r.peeked = false
}

// Release hands everything before the tail back to the kernel.
func (r *Ring) Release() { atomic.StoreUint64(&r.page.Data_tail, r.tail) }

// recordAt returns the record that begins at tail in the circular data, whose
// length is a power of two. The body aliases data or, where the record wraps
// around the end, scratch.
func recordAt(data []byte, tail, head uint64, scratch *[]byte) (Record, error) {
	unread := head - tail
	if unread < headerBytes || unread > uint64(len(data)) {
		return Record{}, ErrMalformed
	}
	// Records are 8-byte aligned, so a header never wraps in a well-formed
	// ring. The copy is right for every other ring, too.
	var raw [headerBytes]byte
	copyOut(raw[:], data, tail)
	rec := Record{
		Kind: binary.NativeEndian.Uint32(raw[0:]),
		Misc: binary.NativeEndian.Uint16(raw[4:]),
		size: binary.NativeEndian.Uint16(raw[6:]),
	}
	if rec.size < headerBytes || uint64(rec.size) > unread {
		return Record{}, ErrMalformed
	}
	n := int(rec.size) - headerBytes
	at := (tail + headerBytes) & uint64(len(data)-1)
	if at+uint64(n) <= uint64(len(data)) {
		rec.Body = data[at : at+uint64(n)]
		return rec, nil
	}
	if cap(*scratch) < n {
		*scratch = make([]byte, 1<<16)
	}
	rec.Body = (*scratch)[:n]
	copyOut(rec.Body, data, tail+headerBytes)
	return rec, nil
}

// copyOut copies from circular data.
func copyOut(dst, data []byte, from uint64) {
	at := from & uint64(len(data)-1)
	n := copy(dst, data[at:])
	copy(dst[n:], data)
}
