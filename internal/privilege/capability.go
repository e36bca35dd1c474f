package privilege

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// set is a set of capabilities: bit n is capability n of linux/capability.h.
type set uint64

// Use is a set of purposes that a command has capabilities for.
type Use uint

const (
	// Targets is calls on processes of other users. File capabilities are used for
	// these alone.
	Targets Use = 1 << iota
	// Sampling is every other use of root's capabilities in sampling a process.
	Sampling
	// Files is reading and writing files of other users, as root expects.
	Files
	// Signals is sending signals to a program that has become another user.
	Signals
	// Waking is sending SIGQUIT to a JVM of another user, which then takes commands. Its
	// capability is in effect in sections of [RaiseToWake] alone.
	Waking
	// Becoming is starting a program as the user who has called sudo.
	Becoming
)

// capability is a capability that ccmapd uses, and its use.
type capability struct {
	number int
	name   string
	use    Use
	needed func() bool // nil: always
}

// capabilities are all that ccmapd ever uses.
var capabilities = []capability{
	{unix.CAP_PERFMON, "cap_perfmon", Targets, nil},                 // perf_event_open, time in the kernel
	{unix.CAP_BPF, "cap_bpf", Targets, nil},                         // engine bpf: its program and its maps
	{unix.CAP_SYS_PTRACE, "cap_sys_ptrace", Targets, nil},           // process_vm_readv, /proc/PID/{exe,maps,root}
	{unix.CAP_IPC_LOCK, "cap_ipc_lock", Sampling, nil},              // rings longer than kernel.perf_event_mlock_kb
	{unix.CAP_SYS_ADMIN, "cap_sys_admin", Sampling, perfNeedsAdmin}, // perf_event_open, in place of CAP_PERFMON
	{unix.CAP_DAC_OVERRIDE, "cap_dac_override", Files, nil},         // files and directories of others; /proc/PID/mem
	{unix.CAP_DAC_READ_SEARCH, "cap_dac_read_search", Files, nil},   // the same, for reading
	{unix.CAP_CHOWN, "cap_chown", Files, nil},                       // a replaced profile keeps its owner
	{unix.CAP_FOWNER, "cap_fowner", Files, nil},                     // and its mode; replacing in sticky directories
	{unix.CAP_FSETID, "cap_fsetid", Files, nil},                     // and its set-group-ID bit
	{unix.CAP_SETUID, "cap_setuid", Becoming, nil},                  // a program as the user who has called sudo
	{unix.CAP_SETGID, "cap_setgid", Becoming, nil},                  // and that user's groups
	{unix.CAP_KILL, "cap_kill", Signals | Waking, nil},              // passing signals on to the program that run has started; waking a JVM
}

// perfNeedsAdmin reports whether CAP_PERFMON is not enough for perf events: before Linux
// 5.8, which has no such capability, and if kernel.perf_event_paranoid is over 2.
// Distributions have added these levels, and some of their kernels ask for CAP_SYS_ADMIN.
func perfNeedsAdmin() bool {
	last, err := readNumber("/proc/sys/kernel/cap_last_cap")
	if err != nil || last < unix.CAP_PERFMON {
		return true
	}
	paranoid, err := readNumber("/proc/sys/kernel/perf_event_paranoid")
	return err != nil || paranoid > 2
}

func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// neededFor returns the capabilities for some purposes.
func neededFor(use Use) set {
	var s set
	for _, c := range capabilities {
		if c.use&use != 0 && (c.needed == nil || c.needed()) {
			s |= 1 << c.number
		}
	}
	return s
}

// LackingForCPUs lists, as setcap(8) does, the capabilities that this process lacks of those
// for sampling CPUs. CAP_SYS_ADMIN includes both (capabilities(7)).
func LackingForCPUs() string {
	h, err := ofThread()
	if err != nil || h.permitted&(1<<unix.CAP_SYS_ADMIN) != 0 {
		return ""
	}
	return (set(1<<unix.CAP_BPF|1<<unix.CAP_PERFMON) &^ h.permitted).String()
}

// String lists the capabilities as setcap(8) does, and unknown ones by number.
func (s set) String() string {
	var names []string
	for rest := s; rest != 0; rest &= rest - 1 {
		names = append(names, nameOf(bits.TrailingZeros64(uint64(rest))))
	}
	return strings.Join(names, ",")
}

func nameOf(number int) string {
	for _, c := range capabilities {
		if c.number == number {
			return c.name
		}
	}
	return fmt.Sprint(number)
}

// held are the capabilities of a thread (capabilities(7)).
type held struct{ permitted, effective, inheritable set }

// capData is held in the format of capget(2) and capset(2): the lower 32 capabilities,
// then the others.
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

// ambient returns the ambient set: every program that this process starts has it.
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

// Has reports whether this process may use a capability, for calls on targets at least.
// CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON (capabilities(7)).
func Has(number int) bool {
	h, err := ofThread()
	included := set(0)
	if number == unix.CAP_BPF || number == unix.CAP_PERFMON {
		included = 1 << unix.CAP_SYS_ADMIN
	}
	return err == nil && h.permitted&(1<<number|included) != 0
}

// Held lists the permitted and the ambient capabilities of this process, as setcap(8) does.
func Held() (permitted, ambient string) {
	h, err := ofThread()
	if err != nil {
		return "", ""
	}
	return h.permitted.String(), h.ambient().String()
}
