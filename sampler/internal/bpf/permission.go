package bpf

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// adviceRights names the ways to get permission.
const adviceRights = "run ccmapd as root, or give it cap_bpf,cap_perfmon,cap_sys_ptrace"

// vmlinux describes the kernel's types.
const vmlinux = "/sys/kernel/btf/vmlinux"

// The initial namespaces (PROC_PID_INIT_INO and its like in linux/proc_ns.h).
const (
	initialPIDs  = "pid:[4026531836]"
	initialTime  = "time:[4026531834]"
	initialUsers = "user:[4026531837]"
)

// machine is the part of a machine that decides whether it can run the program.
type machine struct {
	release string // of the kernel, as uname -r says it
	version string // as uname -v says it: the kernel's own number, on some distributions
	pids    string // the PID namespace
	time    string // the time namespace
	types   error  // of looking for the description of the kernel's types
}

// here describes this machine.
func here() machine {
	var name unix.Utsname
	unix.Uname(&name) // never fails
	m := machine{release: unix.ByteSliceToString(name.Release[:]), version: unix.ByteSliceToString(name.Version[:])}
	m.pids, _ = os.Readlink("/proc/self/ns/pid")
	m.time, _ = os.Readlink("/proc/self/ns/time")
	_, m.types = os.Stat(vmlinux)
	return m
}

// refusal says why the machine cannot run the program, with any rights.
func (m machine) refusal() error {
	reason := ""
	switch {
	case m.kernel().before(5, 15, 0):
		reason = fmt.Sprintf("it needs Linux 5.15, this is %s", m.release)
	case m.kernel().freezes():
		reason = fmt.Sprintf("Linux %s may freeze when a BPF program reads memory in an interrupt: 6.1.36, 6.3.10 and 6.4 mend that", m.release)
	case m.types != nil:
		reason = fmt.Sprintf("the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF): %v", m.types)
	case m.pids == "":
		reason = "/proc/self/ns/pid cannot be read: mount /proc"
	case m.pids != initialPIDs:
		reason = "ccmapd is in a PID namespace: run it outside of the container, or with --pid=host"
	case m.time != "" && m.time != initialTime:
		reason = "ccmapd is in a time namespace: run it outside of the container"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", sampler.ErrUnsupported, reason)
}

// number is the number of a kernel.
type number struct{ major, minor, patch int }

// debian finds the number of the kernel that a kernel of Debian is made of. Debian's
// releases have a number that does not change with it.
var debian = regexp.MustCompile(`Debian (\d+\.\d+\.\d+)`)

// kernel returns the kernel's number.
func (m machine) kernel() (n number) {
	text := m.release
	if found := debian.FindStringSubmatch(m.version); found != nil {
		text = found[1]
	}
	fmt.Sscanf(text, "%d.%d.%d", &n.major, &n.minor, &n.patch)
	return n
}

func (n number) before(major, minor, patch int) bool {
	switch {
	case n.major != major:
		return n.major < major
	case n.minor != minor:
		return n.minor < minor
	}
	return n.patch < patch
}

// freezes reports whether bpf_probe_read_user may wait for ever in an interrupt for a lock
// that the interrupted code holds (find_vmap_area, with CONFIG_HARDENED_USERCOPY). Linux
// commit d319f344561d mends that; github.com/parca-dev/parca-agent/issues/1675 has a trace.
func (n number) freezes() bool {
	switch {
	case n.before(5, 19, 0):
		return false
	case n.major == 6 && n.minor == 1:
		return n.before(6, 1, 36)
	}
	return n.before(6, 3, 10)
}

// rights say why a kernel refuses the program, though it can run it.
type rights struct {
	users    string // the user namespace
	lacking  string // capabilities
	filtered bool   // by seccomp
	lockdown string // the file of that name
}

// rightsHere describes this process.
func rightsHere() rights {
	r := rights{lacking: privilege.LackingForCPUs()}
	r.users, _ = os.Readlink("/proc/self/ns/user")
	status, _ := os.ReadFile("/proc/self/status")
	r.filtered = strings.Contains(string(status), "\nSeccomp:\t2\n")
	lockdown, _ := os.ReadFile("/sys/kernel/security/lockdown")
	r.lockdown = string(lockdown)
	return r
}

// reason says why the kernel refuses, and the cure.
func (r rights) reason() string {
	switch {
	case r.users != "" && r.users != initialUsers:
		return "the root of a user namespace is not the machine's: run ccmapd outside of the container, or with --userns=host"
	case r.lacking != "":
		return "ccmapd lacks " + r.lacking + ": " + adviceRights
	case r.filtered:
		return "seccomp forbids bpf(2) or perf_event_open(2): allow them by --security-opt seccomp=FILE"
	case r.locked():
		return "the kernel is locked down: boot it with lockdown=integrity, or without lockdown"
	}
	return "a security module may forbid it: " + adviceRights
}

// refuse returns the reason as an error, a sampler.ErrPermission. What the kernel said, err, is no news beside it.
func (r rights) refuse(err error) error {
	return process.As(process.As(errors.New(r.reason()), err), sampler.ErrPermission)
}

// locked reports whether the kernel hides its memory from root's programs, too.
func (r rights) locked() bool { return strings.Contains(r.lockdown, "[confidentiality]") }

// explainLoad turns a refusal to load the program into an error that helps.
func explainLoad(err error, r rights) error {
	var verifier *ebpf.VerifierError
	verified := errors.As(err, &verifier) && len(verifier.Log) > 0 // EACCES is the verifier's, too
	switch {
	case verified && r.locked(), !verified && forbidden(err), errors.Is(err, unix.ENOSYS) && r.filtered:
		var number unix.Errno // the library's hint, that memory may be locked, misleads
		errors.As(err, &number)
		return r.refuse(number)
	case verified:
		return fmt.Errorf("load BPF program: %w: the kernel's verifier refuses it (--engine perf needs no BPF program): %w; the log ends: %s",
			sampler.ErrUnsupported, err, logEnd(verifier.Log))
	}
	return fmt.Errorf("load BPF program: %w: %w", sampler.ErrUnsupported, err)
}

// logEnd returns the last lines of a verifier's log in one line.
func logEnd(log []string) string {
	const lines = 20
	return strings.Join(log[max(0, len(log)-lines):], " | ")
}

// explainRights adds to an error for want of rights how to get them.
func explainRights(err error) error {
	if forbidden(err) {
		return rightsHere().refuse(err)
	}
	return err
}

func forbidden(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }
