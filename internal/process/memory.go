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

// live is the memory of a live process.
type live struct {
	pid   int
	watch *hang.Watch
}

// MemoryOf returns the memory of a process. The watch gives up reads that never return.
func MemoryOf(pid int, w *hang.Watch) Memory { return live{pid, w} }

func (m live) Read(addr uint64, buf []byte) error {
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
