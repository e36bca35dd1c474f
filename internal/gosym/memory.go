package gosym

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/hang"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// memory is an address space to read from: a process, or an ELF file as it
// would be loaded.
type memory interface {
	// readAt fills p from the address, or returns an error.
	readAt(p []byte, addr uint64) error
}

// load is the reading of a target's symbols: from a memory, with its map, within
// a budget.
type load struct {
	*budget
	mem  memory
	maps space
}

// chunk is how much is read at once, bytes: between two of them the budget is asked.
const chunk = 4 << 20

// readAt fills p from the address.
func (l *load) readAt(p []byte, addr uint64) error {
	if err := l.reading(len(p)); err != nil {
		return err
	}
	start := time.Now()
	err := l.mem.readAt(p, addr)
	return cmp.Or(err, l.waited(start))
}

// permitted returns an error if the kernel lets nobody like the caller read the memory. Its map may be read all the same:
// Yama (kernel.yama.ptrace_scope) forbids PTRACE_MODE_ATTACH alone (security/yama/yama_lsm.c, Linux 6.1).
func (l *load) permitted() error {
	for _, m := range l.maps {
		if !m.read {
			continue
		}
		if err := l.readAt(make([]byte, 1), m.start); errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil // what else goes wrong is of this mapping
	}
	return nil
}

// bytes returns n bytes of memory.
func (l *load) bytes(addr, n uint64) ([]byte, error) {
	if err := l.holding(bounded(n)); err != nil {
		return nil, fmt.Errorf("%d bytes at %#x: %w", n, addr, err)
	}
	all := make([]byte, n)
	for at := uint64(0); at < n; at += chunk {
		if err := l.readAt(all[at:min(at+chunk, n)], addr+at); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// text returns n bytes of memory as a string. Another process may hold it already.
func (l *load) text(addr, n uint64) (string, error) {
	b, err := l.sharedBytes(addr, n)
	return asString(b), err
}

// asString gives up b, which nothing writes to any more, for a string.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// processMemory is the memory of a process: by process_vm_readv(2), or by
// /proc/PID/mem where a seccomp filter forbids that call (Docker's default
// before 20.10).
type processMemory struct {
	pid   int
	watch *hang.Watch
	file  *os.File // nil until process_vm_readv was refused
}

func (m *processMemory) readAt(p []byte, addr uint64) error {
	return m.watch.Call(func() error { return m.read(p, addr) })
}

func (m *processMemory) read(p []byte, addr uint64) error {
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
