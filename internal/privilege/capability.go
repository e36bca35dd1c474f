package privilege

import (
	"fmt"
	"math/bits"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// set is a set of capabilities: bit n is capability n of linux/capability.h.
type set uint64

// capability is one that ccmapd uses, and the calls that need it.
type capability struct {
	number int
	name   string
}

// targets are the capabilities for calls on a target that another user owns.
var targets = []capability{
	{unix.CAP_PERFMON, "cap_perfmon"},       // perf_event_open, time in the kernel
	{unix.CAP_SYS_PTRACE, "cap_sys_ptrace"}, // process_vm_readv, /proc/PID/{exe,maps,root}
}

func setOf(list []capability) set {
	var s set
	for _, c := range list {
		s |= 1 << c.number
	}
	return s
}

// String lists the capabilities as setcap(8) does, those without a name here by number.
func (s set) String() string {
	var names []string
	for rest := s; rest != 0; rest &= rest - 1 {
		names = append(names, nameOf(bits.TrailingZeros64(uint64(rest))))
	}
	return strings.Join(names, ",")
}

func nameOf(number int) string {
	for _, c := range targets {
		if c.number == number {
			return c.name
		}
	}
	return fmt.Sprint(number)
}

// held are the capabilities of a thread (capabilities(7)).
type held struct{ permitted, effective, inheritable set }

// capData is held as capget(2) and capset(2) take it: the lower 32 capabilities, then
// the others.
type capData [2]unix.CapUserData

func (h held) data() capData {
	var d capData
	for i := range d {
		shift := 32 * i
		d[i] = unix.CapUserData{
			Effective:   uint32(h.effective >> shift),
			Permitted:   uint32(h.permitted >> shift),
			Inheritable: uint32(h.inheritable >> shift),
		}
	}
	return d
}

// ofThread returns the capabilities of the calling thread.
func ofThread() (held, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d capData
	if err := unix.Capget(&header, &d[0]); err != nil {
		return held{}, fmt.Errorf("read capabilities: %w", err)
	}
	both := func(low, high uint32) set { return set(low) | set(high)<<32 }
	return held{
		permitted:   both(d[0].Permitted, d[1].Permitted),
		effective:   both(d[0].Effective, d[1].Effective),
		inheritable: both(d[0].Inheritable, d[1].Inheritable),
	}, nil
}

// ambient returns those of the permitted capabilities that every program which this
// process starts has.
func (h held) ambient() set {
	var s set
	for rest := h.permitted; rest != 0; rest &= rest - 1 {
		number := bits.TrailingZeros64(uint64(rest))
		if is, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, uintptr(number), 0, 0); err == nil && is == 1 {
			s |= 1 << number
		}
	}
	return s
}

// setThread changes the capabilities of the calling thread. It allocates nothing, and
// does not leave the processor to others.
func (h held) setThread() error {
	header, d := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, h.data()
	_, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&d)), 0)
	return failure("set capabilities of thread", errno)
}

// setAll changes the capabilities of all threads.
func (h held) setAll() error {
	header, d := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, h.data()
	_, _, errno := psx.Syscall3(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&d)), 0)
	runtime.KeepAlive(header)
	return failure("set capabilities", errno)
}

func failure(what string, errno unix.Errno) error {
	if errno != 0 {
		return fmt.Errorf("%s: %w", what, errno)
	}
	return nil
}
