package gosym

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// memory is an address space to read from: a process, or an ELF file as it
// would be loaded.
type memory interface {
	// readAt fills p from the address, or returns an error.
	readAt(p []byte, addr uint64) error
}

// chunk is how much of an unverified length is read before more memory is
// allocated for it, in bytes.
const chunk = 4 << 20

// readBytes returns n bytes of memory, at most limit.
func readBytes(m memory, addr, n, limit uint64) ([]byte, error) {
	if n > limit {
		return nil, fmt.Errorf("%d bytes at %#x, more than %d: %w", n, addr, limit, errCorrupt)
	}
	buf := make([]byte, 0, min(n, chunk))
	for uint64(len(buf)) < n {
		old := len(buf)
		step := min(n-uint64(old), max(chunk, uint64(old)))
		buf = append(buf, make([]byte, step)...)
		if err := m.readAt(buf[old:], addr+uint64(old)); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// processMemory is the memory of a process: by process_vm_readv(2), or by
// /proc/PID/mem where a seccomp filter forbids that call (Docker's default
// before 20.10).
type processMemory struct {
	pid  int
	file *os.File // nil until process_vm_readv was refused
}

func (m *processMemory) readAt(p []byte, addr uint64) error {
	if m.file == nil {
		err := m.readv(p, addr)
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
		f, openErr := openProc(m.pid, "mem")
		if openErr != nil {
			return err
		}
		m.file = f
	}
	return m.pread(p, addr)
}

func (m *processMemory) readv(p []byte, addr uint64) error {
	for len(p) > 0 {
		local := []unix.Iovec{{Base: &p[0]}}
		local[0].SetLen(len(p))
		remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
		n, err := readVM(m.pid, local, remote)
		if err == nil && n <= 0 {
			err = unix.EFAULT
		}
		if err != nil {
			return m.readError(addr, err)
		}
		p, addr = p[n:], addr+uint64(n)
	}
	return nil
}

func readVM(pid int, local []unix.Iovec, remote []unix.RemoteIovec) (int, error) {
	defer privilege.Raise().Lower()
	return unix.ProcessVMReadv(pid, local, remote, 0)
}

func (m *processMemory) pread(p []byte, addr uint64) error {
	if addr >= 1<<63 {
		return m.readError(addr, unix.EFAULT)
	}
	if _, err := m.file.ReadAt(p, int64(addr)); err != nil {
		return m.readError(addr, err)
	}
	return nil
}

func (m *processMemory) readError(addr uint64, err error) error {
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("read memory of process %d at %#x: %w", m.pid, addr, err)
}

// Close releases /proc/PID/mem.
func (m *processMemory) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
