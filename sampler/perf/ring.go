package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ring is the buffer of one CPU that the kernel fills and this process
// drains.
//
//	mem   one page of struct perf_event_mmap_page, then a power of two of data
//	head  in mem: written by the kernel, read by the drainer (load-acquire)
//	tail  in mem: written by the drainer (store-release), read by the kernel
//
// The kernel writes bytes between head and tail+len(data) only, so a record is
// valid until the tail has been moved beyond it. All fields belong to the one
// goroutine that drains; other goroutines use fd and cpu only.
type ring struct {
	cpu   int
	index int // of the CPU among the threads' outputs
	// fd is the event that owns the buffer: a dummy on this process's own main
	// thread, which outlives every thread of the target. The target's events
	// are redirected to it.
	fd  int
	mem []byte

	data    []byte
	page    *unix.PerfEventMmapPage
	head    uint64 // as of the last refresh
	tail    uint64
	scratch []byte // holds a record that wraps around the end

	next struct { // the decoded header and body at tail
		header
		body  []byte
		time  uint64
		valid bool
	}
}

// output is where the samples of one CPU go: into one of two rings, because how
// soon the kernel wakes the drainer is settled when a ring is made.
//
//	prompt  wakes for every record: a sample's return address is watched while
//	        the sample is fresh, and a new thread is seen at once
//	bulk    wakes when it is half full: at short intervals, where interrupting
//	        the target once more for every sample cost half as much as sampling
//	        it, the drainer looks by itself every few milliseconds
type output struct{ prompt, bulk *ring }

// bulkBelow is the interval below which samples go into the bulk ring.
const bulkBelow = time.Millisecond

func isBulk(interval time.Duration) bool { return interval < bulkBelow }

// ring returns the ring for samples at an interval.
func (o output) ring(interval time.Duration) *ring {
	if isBulk(interval) {
		return o.bulk
	}
	return o.prompt
}

func (o output) cpu() int { return o.prompt.cpu }

// openOutput makes the rings of one CPU.
func openOutput(cpu int) (output, error) {
	size := ringBytes()
	prompt, err := openRing(cpu, size, 1)
	if err != nil {
		return output{}, err
	}
	bulk, err := openRing(cpu, size, uint32(size/2))
	if err != nil {
		prompt.close()
		return output{}, err
	}
	return output{prompt, bulk}, nil
}

// Sizes of a ring's data in bytes.
const (
	maxRingBytes = 1 << 20
	minRingBytes = 1 << 15
)

// ringBytes returns how long a ring should be, a power of two. The kernel lets
// a user without privileges lock so much memory for each CPU, 516 KiB unless
// the administrator has set it: two rings with a page each fit into that. The
// privilege is CAP_IPC_LOCK, which root has not got in a container.
func ringBytes() int {
	allowed, err := sysctl("perf_event_mlock_kb")
	if err != nil || mayLockMemory() {
		return maxRingBytes
	}
	size := maxRingBytes
	for size > minRingBytes && 2*(size+os.Getpagesize()) > allowed<<10 {
		size /= 2
	}
	return size
}

// mayLockMemory says whether this process may lock as much memory as it likes.
func mayLockMemory() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&hdr, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}

// openRing makes a ring of one CPU, as large as permitted, up to size.
func openRing(cpu, size int, watermark uint32) (*ring, error) {
	fd, err := openEvent(ownerAttr(watermark), os.Getpid(), cpu)
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
			return nil, fmt.Errorf("map ring of %d bytes for CPU %d (sysctl kernel.perf_event_mlock_kb limits it): %w", size, cpu, err)
		}
	}
}

func tooMuchMemory(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOMEM)
}

func newRing(cpu, fd int, mem []byte) *ring {
	return &ring{
		cpu:  cpu,
		fd:   fd,
		mem:  mem,
		page: (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0])),
		data: mem[os.Getpagesize():],
	}
}

func (r *ring) close() {
	unix.Munmap(r.mem)
	unix.Close(r.fd)
}

// refresh looks how far the kernel has written.
func (r *ring) refresh() { r.head = atomic.LoadUint64(&r.page.Data_head) }

// unread says whether the kernel has written what was not dropped yet.
func (r *ring) unread() bool { return atomic.LoadUint64(&r.page.Data_head) != r.tail }

// peek decodes the record at the tail, and says whether there is one. It
// reports what cannot be a record as an error, having dropped everything up to
// the head, because behind a broken size nothing can be found again.
func (r *ring) peek() (bool, error) {
	if r.next.valid || r.tail == r.head {
		return r.next.valid, nil
	}
	h, body, err := recordAt(r.data, r.tail, r.head, &r.scratch)
	if err != nil {
		r.tail = r.head
		r.release()
		return false, err
	}
	r.next.header, r.next.body, r.next.valid = h, body, true
	r.next.time = recordTime(h.kind, body)
	return true, nil
}

// advance drops the record that peek has decoded.
func (r *ring) advance() {
	r.tail += uint64(r.next.size)
	r.next.valid = false
}

// release hands everything before the tail back to the kernel.
func (r *ring) release() { atomic.StoreUint64(&r.page.Data_tail, r.tail) }

// recordAt returns the record that begins at tail in the circular data, whose
// length is a power of two. The body aliases data or, where the record wraps
// around the end, scratch.
func recordAt(data []byte, tail, head uint64, scratch *[]byte) (header, []byte, error) {
	unread := head - tail
	if unread < headerBytes || unread > uint64(len(data)) {
		return header{}, nil, errRecord
	}
	// Records are 8-byte aligned, so a header never wraps in a well-formed
	// ring; copying it makes that no precondition.
	var raw [headerBytes]byte
	copyOut(raw[:], data, tail)
	h := header{
		kind: binary.NativeEndian.Uint32(raw[0:]),
		misc: binary.NativeEndian.Uint16(raw[4:]),
		size: binary.NativeEndian.Uint16(raw[6:]),
	}
	if h.size < headerBytes || uint64(h.size) > unread {
		return header{}, nil, errRecord
	}
	n := int(h.size) - headerBytes
	at := (tail + headerBytes) & uint64(len(data)-1)
	if at+uint64(n) <= uint64(len(data)) {
		return h, data[at : at+uint64(n)], nil
	}
	if cap(*scratch) < n {
		*scratch = make([]byte, 1<<16)
	}
	body := (*scratch)[:n]
	copyOut(body, data, tail+headerBytes)
	return h, body, nil
}

// copyOut copies from circular data.
func copyOut(dst, data []byte, from uint64) {
	at := from & uint64(len(data)-1)
	n := copy(dst, data[at:])
	copy(dst[n:], data)
}
