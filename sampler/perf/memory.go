package perf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"golang.org/x/sys/unix"
)

// memory reads the target's memory while the target runs. What it returns may
// be torn and is never trusted.
type memory struct {
	pid   int
	watch *hang.Watch
}

// read fills buf from addr. It is all or nothing.
func (m memory) read(addr uint64, buf []byte) error {
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
// there, and the target decides for how long: so it tells Go's scheduler, which can run
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

// stackView is a piece of a stack: the bytes from base upwards.
type stackView struct {
	base  uint64
	bytes []byte
}

// word returns the word at addr, and whether it is in the piece.
func (v stackView) word(addr uint64) (uint64, bool) {
	at := addr - v.base
	if addr < v.base || uint64(len(v.bytes)) < 8 || at > uint64(len(v.bytes))-8 {
		return 0, false
	}
	return binary.NativeEndian.Uint64(v.bytes[at:]), true
}
