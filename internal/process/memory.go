package process

import (
	"fmt"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"golang.org/x/sys/unix"
)

// Memory reads the target's memory while the target runs. The bytes may be torn and
// are never trusted.
type Memory interface {
	// Read fills buf from addr, or fails.
	Read(addr uint64, buf []byte) error
}

// Live is the memory of a live process.
type Live struct {
	pid   int
	watch *hang.Watch
}

// MemoryOf returns the memory of a process. The watch gives up reads that never return.
func MemoryOf(pid int, w *hang.Watch) Live { return Live{pid, w} }

// Read is part of [Memory].
func (m Live) Read(addr uint64, buf []byte) error {
	if err := m.watch.Enter(); err != nil {
		return err
	}
	n, err := readMemory(m.pid, addr, buf)
	m.watch.Leave()
	if err != nil {
		return fmt.Errorf("read %d bytes at %#x: %w", len(buf), addr, err)
	}
	if n != len(buf) {
		return fmt.Errorf("read %d bytes at %#x: only %d are mapped", len(buf), addr, n)
	}
	return nil
}

// MostRanges is how many ranges one call reads at most (UIO_MAXIOV of linux/uio.h).
const MostRanges = 1024

// ReadMany fills bufs[i] from addrs[i], in order, many with one call. It returns how many it
// has filled before the first that it could not fill.
func (m Live) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	done := 0
	for done < len(addrs) {
		end := min(done+MostRanges, len(addrs))
		n, err := m.readRanges(addrs[done:end], bufs[done:end])
		if done += n; done < end {
			return done, fmt.Errorf("read %d bytes at %#x: %w", len(bufs[done]), addrs[done], err)
		}
	}
	return done, nil
}

// readRanges returns how many ranges it has filled. The kernel stops within the first range
// that is not mapped.
func (m Live) readRanges(addrs []uint64, bufs [][]byte) (int, error) {
	local, remote := make([]unix.Iovec, len(bufs)), make([]unix.RemoteIovec, len(bufs))
	for i, buf := range bufs {
		local[i] = unix.Iovec{Base: unsafe.SliceData(buf), Len: uint64(len(buf))}
		remote[i] = unix.RemoteIovec{Base: uintptr(addrs[i]), Len: len(buf)}
	}
	if err := m.watch.Enter(); err != nil {
		return 0, err
	}
	bytes, err := readVector(m.pid, local, remote)
	m.watch.Leave()
	if err != nil {
		return 0, err
	}
	for i, buf := range bufs {
		if bytes -= len(buf); bytes < 0 {
			return i, unix.EFAULT
		}
	}
	return len(bufs), nil
}

func readVector(pid int, local []unix.Iovec, remote []unix.RemoteIovec) (int, error) {
	defer privilege.Raise().Lower()
	return unix.ProcessVMReadv(pid, local, remote, 0)
}

// readMemory reads memory of another process. It waits for pages that are not in memory
// there, and the target decides for how long. So it tells Go's scheduler, which can run
// other goroutines meanwhile.
func readMemory(pid int, addr uint64, buf []byte) (int, error) {
	defer privilege.Raise().Lower()
	local := unix.Iovec{Base: &buf[0], Len: uint64(len(buf))}
	remote := unix.RemoteIovec{Base: uintptr(addr), Len: len(buf)}
	n, _, errno := unix.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
