package perfevent

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

const attrSize = uint32(unsafe.Sizeof(unix.PerfEventAttr{}))

// open opens an event of one thread, on one CPU or, for cpu -1, on all CPUs. A breakpoint that would never fire is
// refused with [ErrSilent].
func open(a *unix.PerfEventAttr, tid, cpu int) (int, error) {
	if a.Type == unix.PERF_TYPE_BREAKPOINT {
		if err := Silent(); err != nil {
			return -1, err
		}
	}
	for {
		fd, err := perfEventOpen(a, tid, cpu)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, fmt.Errorf("open perf event of thread %d on CPU %d: %w", tid, cpu, err)
		}
		return fd, nil
	}
}

func perfEventOpen(a *unix.PerfEventAttr, tid, cpu int) (int, error) {
	defer privilege.Raise().Lower()
	return unix.PerfEventOpen(a, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// closeEvent closes an event of the target. A process that forks shares its
// descriptors with the child until the child executes a program. Until then the event
// would go on and keep its debug register, so closeEvent waits for the child.
func closeEvent(fd int) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	unix.Close(fd)
}

// readCount returns the count of an event, and how many of its samples found
// its ring full (PERF_FORMAT_LOST, since Linux 6.0).
func readCount(fd int) (count, lost uint64, err error) {
	var buf [16]byte
	n, err := read(fd, buf[:])
	if err != nil {
		return 0, 0, fmt.Errorf("read perf event: %w", err)
	}
	c := cursor{b: buf[:n]}
	return c.u64(), c.u64(), nil
}
