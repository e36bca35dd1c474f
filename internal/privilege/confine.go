package privilege

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// NoNewPrivileges makes sure that nothing that this process executes has more rights than
// the process (PR_SET_NO_NEW_PRIVS of prctl(2)). It is for commands that do not start the
// caller's programs: set-user-ID programs would not work as such.
func (p *Process) NoNewPrivileges() error {
	if p == nil {
		return nil
	}
	_, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	return failure("set no_new_privs", errno)
}

// Confine is for a process that will read a file of unknown origin. Afterwards the
// process may open any file for reading, and write to its open descriptors and to files
// in the directories of outputs. It keeps capabilities for files alone, and cannot
// execute, trace, connect or listen. If the kernel lacks seccomp or Landlock, or forbids
// them, the rest holds.
func (p *Process) Confine(outputs ...string) error {
	return p.confine(refusals{writes: len(outputs) > 0}, outputs)
}

// ConfineServing is Confine for a process that answers on ports which it has opened before: it may accept connections.
func (p *Process) ConfineServing(outputs ...string) error {
	return p.confine(refusals{writes: len(outputs) > 0, serves: true}, outputs)
}

func (p *Process) confine(r refusals, outputs []string) error {
	if p == nil {
		return nil
	}
	if err := p.Keep(Files); err != nil {
		return err
	}
	if err := p.NoNewPrivileges(); err != nil {
		return err
	}
	if landlockABI() > 0 {
		if err := confineFiles(outputs); err != nil {
			return err
		}
	}
	if HasSeccomp() {
		return confineCalls(r)
	}
	return nil
}

// handled are the rights that Landlock takes away: all except reading.
const handled = landlock.AccessFSSet(ll.AccessFSExecute | written |
	ll.AccessFSRemoveDir | ll.AccessFSMakeChar | ll.AccessFSMakeDir | ll.AccessFSMakeSock | ll.AccessFSMakeFifo |
	ll.AccessFSMakeBlock | ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSIoctlDev)

// written are the rights in the directory of an output, for the temporary file that
// replaces the output.
const written = ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg | ll.AccessFSRemoveFile

// confineFiles limits all threads to the files that they may write.
func confineFiles(outputs []string) error {
	c := landlock.MustConfig(handled, landlock.AccessNetSet(ll.AccessNetBindTCP|ll.AccessNetConnectTCP)).BestEffort()
	var rules []landlock.Rule
	for _, output := range outputs {
		rules = append(rules, rulesFor(output)...)
	}
	if err := c.Restrict(rules...); err != nil {
		return fmt.Errorf("confine to outputs: %w", err)
	}
	return nil
}

// rulesFor permits writing to an output: into a named pipe or a device, or else to the
// directory of the file, where a temporary file is made first. If the directory is
// missing, a later error names it.
func rulesFor(output string) []landlock.Rule {
	if target, err := filepath.EvalSymlinks(output); err == nil && isStream(target) {
		return []landlock.Rule{landlock.PathAccess(ll.AccessFSWriteFile, target)}
	}
	directory := filepath.Dir(output)
	if info, err := os.Stat(directory); err != nil || !info.IsDir() {
		return nil
	}
	return []landlock.Rule{landlock.PathAccess(written, directory)}
}

func isStream(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0
}

// landlockABI returns the version of Landlock's interface, or 0 without Landlock.
func landlockABI() int {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return abi
}

// refused are system calls that reading a profile never needs, by purpose. They include
// the calls of io_uring, which would bypass the filter.
var refused = []uint32{
	// network
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// other programs
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KCMP, unix.SYS_PERF_EVENT_OPEN,
	// other rights
	unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
	unix.SYS_SETGROUPS, unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, // Go's runtime signals its threads by tgkill
	// properties of files, which Landlock does not protect
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	// the kernel
	unix.SYS_BPF, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_USERFAULTFD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
}

// ownership are the calls that give an output the owner and mode of the file that it
// replaces. Without an output they are refused, too.
var ownership = []uint32{unix.SYS_FCHMOD, unix.SYS_FCHOWN}

// accepting are the calls that take connections to an open port.
var accepting = []uint32{unix.SYS_ACCEPT, unix.SYS_ACCEPT4}

// refusals say what a process does beside reading.
type refusals struct {
	writes bool // to outputs
	serves bool // on open ports
}

// architectures are the numbers of linux/audit.h, by GOARCH.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// HasSeccomp reports whether the kernel has filters of system calls, and lets this
// process have one.
func HasSeccomp() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0 && architectures[runtime.GOARCH] != 0
}

// confineCalls refuses system calls to all threads, with EPERM.
func confineCalls(r refusals) error {
	program := filter(architectures[runtime.GOARCH], r)
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f)))
	if errno == 0 && thread != 0 {
		return fmt.Errorf("filter system calls: thread %d has another filter", thread)
	}
	return failure("filter system calls", errno)
}

// calls returns the refused calls.
func (r refusals) calls() []uint32 {
	all := slices.Concat(refused, older)
	if !r.writes {
		all = append(all, ownership...)
	}
	if !r.serves {
		all = append(all, accepting...)
	}
	return all
}

// filter is a program that looks at one system call: struct seccomp_data of
// linux/seccomp.h holds its number, the architecture, and then the arguments. A process
// with an output may change modes, but not make a file set-user-ID.
func filter(architecture uint32, r refusals) []unix.SockFilter {
	const number, arch, mode = 0, 4, 16 + 8
	const x32 = 0x40000000 // __X32_SYSCALL_BIT: the same calls by other numbers
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	give := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	refuse := give(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	program := []unix.SockFilter{
		load(arch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: architecture, Jt: 1},
		give(unix.SECCOMP_RET_KILL_PROCESS),
		load(number),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: x32, Jf: 1},
		refuse,
	}
	for _, call := range r.calls() {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1}, refuse)
	}
	return append(program,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FCHMOD, Jf: 3},
		load(mode),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.S_ISUID | unix.S_ISGID, Jf: 1},
		refuse,
		give(unix.SECCOMP_RET_ALLOW))
}

// Confinement says how ccmapd is confined on this machine.
type Confinement struct {
	Capabilities string `json:"capabilities"` // that sampling keeps, as setcap(8) lists them
	Raised       bool   `json:"raised"`       // in effect during calls on targets alone
	NoNewPrivs   bool   `json:"no_new_privs"`
	Seccomp      bool   `json:"seccomp"`
	Landlock     int    `json:"landlock"` // version of its interface; 0: not in this kernel
}

// Confinement describes the confinement of this process.
func (p *Process) Confinement() Confinement {
	if p == nil {
		return Confinement{}
	}
	return Confinement{
		Capabilities: p.capabilities(), Raised: p.Granted(), NoNewPrivs: true,
		Seccomp: HasSeccomp(), Landlock: landlockABI(),
	}
}

// Print describes the confinement in lines for people.
func (c Confinement) Print(w io.Writer) {
	fmt.Fprintf(w, "capabilities: %s\n", c.kept())
	for _, line := range []struct {
		name  string
		here  bool
		means string
	}{
		{"no_new_privs", c.NoNewPrivs, "in force in all commands but those that start programs: run and demo"},
		{"seccomp", c.Seccomp, "commands that read profiles cannot execute, trace or connect"},
		{"landlock", c.Landlock > 0, fmt.Sprintf("version %d: commands that read profiles write to their output alone", c.Landlock)},
	} {
		if !line.here {
			line.means = "not permitted here, or not in this kernel: it confines nothing"
		}
		fmt.Fprintf(w, "%s: %s\n", line.name, line.means)
	}
}

// kept describes the capabilities that sampling keeps.
func (c Confinement) kept() string {
	switch {
	case c.Capabilities == "":
		return "none"
	case c.Raised:
		return c.Capabilities + ", in effect during calls on the target alone"
	}
	return c.Capabilities + ", all others dropped"
}
