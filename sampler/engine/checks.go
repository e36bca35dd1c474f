package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/runtimes"
)

// Names of checks.
const (
	checkKernel       = "kernel"
	checkParanoid     = "perf_event_paranoid"
	checkMemlock      = "locked memory"
	checkFiles        = "open files"
	checkCapabilities = "capabilities"
	checkCalls        = "system calls"
	checkYama         = "yama"
	checkLockdown     = "lockdown"
	checkNamespaces   = "namespaces"
	checkContainer    = "container"
	checkRegisters    = "debug registers"
	checkOwner        = "owner"
	checkProgram      = "program"
	checkSymbols      = "symbols"
	checkPlace        = "place"
)

// checksOf asks the kernel for everything that sampling a process depends on; of this process
// for pid 0.
func checksOf(ctx context.Context, p Patient) []Check {
	m := machineHere(p.PID)
	checks := m.checks()
	if p.PID != 0 {
		checks = append(checks, targetChecks(ctx, p)...)
	}
	return checks
}

// machine has the answers of the kernel about itself and this process.
type machine struct {
	release  string
	paranoid int    // -1: not known
	mlockKB  int    // kernel.perf_event_mlock_kb
	memlock  uint64 // RLIMIT_MEMLOCK, bytes
	files    uint64 // RLIMIT_NOFILE
	cpus     int
	threads  int // of the target, or as many as a small program has

	permitted, ambient string
	fileCaps           bool   // the file of this program has capabilities
	lackingCPUs        string // capabilities for engine bpf
	perfmon, ptrace    bool   // capabilities
	lockAny            bool   // CAP_IPC_LOCK
	self               string // path of this program

	filter    string // mode of seccomp
	refused   []string
	yama      int // -1: not in this kernel
	lockdown  string
	pids      string // the PID namespace
	users     string // the user namespace
	container string
	memoryMax string // of the cgroup
	registers int    // that are free
	silent    string // why none would fire; empty: they do
}

// A program of this many threads is assumed where no process is given.
const assumedThreads = 16

func machineHere(pid int) machine {
	var name unix.Utsname
	unix.Uname(&name) // never fails
	m := machine{
		release: unix.ByteSliceToString(name.Release[:]), paranoid: sysctl("perf_event_paranoid"), mlockKB: sysctl("perf_event_mlock_kb"),
		memlock: limit(unix.RLIMIT_MEMLOCK), files: limit(unix.RLIMIT_NOFILE), cpus: 1, threads: assumedThreads,
		lackingCPUs: privilege.LackingForCPUs(), perfmon: privilege.Has(unix.CAP_PERFMON), ptrace: privilege.Has(unix.CAP_SYS_PTRACE),
		lockAny: privilege.Has(unix.CAP_IPC_LOCK),
		filter:  statusLine("Seccomp:"), refused: refusedCalls(), yama: number("/proc/sys/kernel/yama/ptrace_scope"),
		lockdown: firstLine("/sys/kernel/security/lockdown"), container: container(), memoryMax: memoryMax(),
	}
	m.permitted, m.ambient = privilege.Held()
	m.pids, _ = os.Readlink("/proc/self/ns/pid")
	m.users, _ = os.Readlink("/proc/self/ns/user")
	if cpus, err := process.OnlineCPUs(); err == nil {
		m.cpus = len(cpus)
	}
	of := os.Getpid()
	if pid != 0 {
		of = pid
		if tids, err := process.Threads(pid); err == nil {
			m.threads = len(tids)
		}
	}
	m.registers = freeRegisters(of)
	if err := perfevent.Silent(); err != nil {
		m.silent = err.Error()
	}
	m.self, _ = os.Executable()
	if n, err := unix.Getxattr("/proc/self/exe", "security.capability", nil); err == nil && n > 0 {
		m.fileCaps = true
	}
	return m
}

// leastRings is the memory of the smallest rings of one CPU, KiB (see [perfevent.RingBytes]).
const leastRings = 2 * (32 + 4)

// reservedFiles are left to the rest of ccmapd by engine perf.
const reservedFiles = 64

func (m machine) checks() []Check {
	rings := "any number of sessions"
	if n := m.ringsFit(); n < mostSessions {
		rings = fmt.Sprintf("%d sessions; one of serve or attach --children has any number of targets", n)
	}
	needed := m.threads*m.cpus + 2*m.cpus + reservedFiles
	return []Check{
		{checkKernel, true, "Linux " + m.release, "", ""},
		{
			checkParanoid, m.perfmon || m.paranoid <= 2, fmt.Sprintf("kernel.perf_event_paranoid is %s", orUnknown(m.paranoid)),
			"2 or less, or CAP_PERFMON", "sysctl -w kernel.perf_event_paranoid=2",
		},
		{
			checkMemlock, m.ringsFit() > 0,
			fmt.Sprintf("kernel.perf_event_mlock_kb is %s, RLIMIT_MEMLOCK %s: rings of engine perf for %s", orUnknown(m.mlockKB), printLimit(m.memlock, 1<<10, " KiB"), rings),
			fmt.Sprintf("%d KiB for each of %d CPUs, or CAP_IPC_LOCK", leastRings, m.cpus), "sysctl -w kernel.perf_event_mlock_kb=516",
		},
		{
			checkFiles, m.files >= uint64(needed),
			fmt.Sprintf("RLIMIT_NOFILE is %s; engine perf opens %d for %d threads on %d CPUs", printLimit(m.files, 1, ""), needed, m.threads, m.cpus),
			fmt.Sprintf("%d at least", needed), fmt.Sprintf("ulimit -n %d", needed),
		},
		{
			checkCapabilities, m.lackingCPUs == "" && m.ptrace,
			fmt.Sprintf("permitted: %s; ambient: %s; this program's file has %s", orNone(m.permitted), orNone(m.ambient), map[bool]string{true: "some", false: "none"}[m.fileCaps]),
			"cap_bpf, cap_perfmon and cap_sys_ptrace, for engine bpf and for processes of other users",
			"setcap cap_bpf,cap_perfmon,cap_sys_ptrace+p " + quote(m.self),
		},
		{
			checkCalls, len(m.refused) == 0, m.callsFound(), "a filter of system calls (seccomp) that permits them",
			"docker run --cap-add=BPF --cap-add=PERFMON --cap-add=SYS_PTRACE IMAGE",
		},
		{
			checkYama, m.yama <= 0 || m.ptrace, "kernel.yama.ptrace_scope is " + orUnknown(m.yama),
			"0, or CAP_SYS_PTRACE, to read the memory of targets", "sysctl -w kernel.yama.ptrace_scope=0",
		},
		{
			checkLockdown, !strings.Contains(m.lockdown, "[confidentiality]"), "lockdown: " + orNone(m.lockdown),
			"none or integrity", "boot with lockdown=integrity",
		},
		{
			checkNamespaces, m.pids == initialPIDs && m.users == initialUsers,
			fmt.Sprintf("%s, %s", orNone(m.pids), orNone(m.users)), "the machine's own, for engine bpf", "docker run --pid=host --userns=host IMAGE",
		},
		{checkContainer, true, fmt.Sprintf("container: %s; memory.max: %s", orNone(m.container), orNone(m.memoryMax)), "", ""},
		{
			checkRegisters, m.registers > 0, cmp.Or(m.silent, fmt.Sprintf("%d of 4 can be had", m.registers)),
			"1 at least, for verdicts and caught calls: a debugger or profiler may have them", "",
		},
	}
}

// The initial namespaces (PROC_PID_INIT_INO and its like in linux/proc_ns.h).
const (
	initialPIDs  = "pid:[4026531836]"
	initialUsers = "user:[4026531837]"
)

// mostSessions stands for more sessions than anybody has.
const mostSessions = 1000

// ringsFit is how many sessions of engine perf have room for their rings.
func (m machine) ringsFit() int {
	if m.lockAny {
		return mostSessions
	}
	need := uint64(m.cpus * leastRings)
	return int(min((uint64(max(m.mlockKB, 0)*m.cpus)+m.memlock>>10)/need, mostSessions))
}

func (m machine) callsFound() string {
	found := "seccomp mode " + orNone(m.filter)
	if len(m.refused) == 0 {
		return found + "; perf_event_open, ptrace, process_vm_readv and pidfd_open reach the kernel"
	}
	return found + "; refused: " + strings.Join(m.refused, ", ")
}

// refusedCalls tries system calls, with arguments that the kernel refuses for other reasons once
// a filter has let them pass.
func refusedCalls() []string {
	self := os.Getpid()
	var refused []string
	for _, call := range []struct {
		name string
		try  func() error
	}{
		{"perf_event_open", func() error { _, err := unix.PerfEventOpen(nil, self, 0, -1, 0); return err }},
		{"ptrace", func() error { return raw(unix.SYS_PTRACE, unix.PTRACE_CONT) }},
		{"process_vm_readv", func() error { return readOwn(self) }},
		{"pidfd_open", func() error { _, err := unix.PidfdOpen(self, -1); return err }},
		{"bpf", tryBPF},
	} {
		if err := call.try(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			refused = append(refused, fmt.Sprintf("%s (%v)", call.name, err))
		}
	}
	return refused
}

// raw makes a system call whose second argument, and all after it, is 0.
func raw(number, first uintptr) error {
	defer privilege.Raise().Lower()
	if _, _, errno := unix.Syscall6(number, first, 0, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// readOwn reads memory of this process, as engines read the memory of a target.
func readOwn(pid int) error {
	var here, there [8]byte
	local := []unix.Iovec{{Base: &here[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&there[0])), Len: 8}}
	_, err := unix.ProcessVMReadv(pid, local, remote, 0)
	return err
}

// tryBPF makes a call that does not exist. Without CAP_BPF the kernel may refuse that, too.
func tryBPF() error {
	const none = 1 << 20
	if !privilege.Has(unix.CAP_BPF) {
		return nil
	}
	return raw(unix.SYS_BPF, none)
}

// freeRegisters counts the watchpoints that can be had on a thread.
func freeRegisters(tid int) int {
	n := 0
	for ; n < 4; n++ {
		w, err := perfevent.OpenWatchpoint(uint32(tid))
		if err != nil {
			break
		}
		defer w.Close()
	}
	return n
}

// targetChecks asks about the target.
func targetChecks(ctx context.Context, p Patient) []Check {
	f, err := process.FactsOf(p.PID)
	if err != nil {
		return []Check{{checkProgram, false, fmt.Sprintf("there is no process %d", p.PID), "a process id", "pgrep -l NAME"}}
	}
	return append(append([]Check{ownerCheck(f, p.Daemon)}, programChecks(ctx, f)...), placeCheck(f))
}

// ownerCheck says whose process the target is. The cure is a command as another user, or a daemon as root.
func ownerCheck(f process.Facts, daemon bool) Check {
	others := f.UID != os.Geteuid() || !f.Dumpable
	owner := Check{
		checkOwner, !others || privilege.Has(unix.CAP_SYS_PTRACE),
		fmt.Sprintf("process %d (%s) runs as %s", f.PID, f.Name, f.User()), "the same user, or CAP_SYS_PTRACE and CAP_PERFMON",
		fmt.Sprintf("sudo -u %s ccmapd doctor %d", sudoUser(f), f.PID),
	}
	if !f.Dumpable {
		owner.Found += ", and forbids tracing (not dumpable)"
		owner.Cure = fmt.Sprintf("sudo ccmapd doctor %d", f.PID)
	}
	if daemon {
		owner.Cure = "sudo ccmapd serve"
	}
	return owner
}

// sudoUser names the user of a process to sudo, which takes numbers with a # in front.
func sudoUser(f process.Facts) string {
	user := f.User()
	if _, err := strconv.Atoi(user); err == nil {
		user = "#" + user
	}
	return quote(user)
}

// programChecks reads the symbols of the target, as every engine does.
func programChecks(ctx context.Context, f process.Facts) []Check {
	table, err := gosym.Open(ctx, f.PID, gosym.Options{})
	if errors.Is(err, gosym.ErrNotGo) {
		return []Check{managedCheck(ctx, f)}
	}
	if err != nil {
		return []Check{{checkProgram, false, fmt.Sprintf("symbols of %s: %v", orNone(f.Executable), err), "symbols that can be read", ""}}
	}
	defer table.Close()
	found := fmt.Sprintf("%s, %s, build id %s", orNone(f.Executable), table.GoVersion(), orNone(table.BuildID()))
	return []Check{{checkProgram, true, found, "", ""}, symbolsCheck(table.Origin(), unstripped(f.Executable, exists(dpkgStatus)))}
}

// managedCheck says on which runtime other than Go's the target runs.
func managedCheck(ctx context.Context, f process.Facts) Check {
	r, err := runtimes.Open(ctx, sampler.ProcessOptions{PID: f.PID, Logger: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		return Check{checkProgram, false, fmt.Sprintf("runtime of %s: %v", orNone(f.Executable), err), "a program built by Go's own compiler, or a HotSpot JVM of JDK 17 to 25", ""}
	}
	defer r.Close()
	id, version := r.Build()
	return Check{checkProgram, true, fmt.Sprintf("%s, %s, build id %s", orNone(f.Executable), version, id), "", ""}
}

// symbolsCheck says where the symbols of the target come from. Names of Go functions survive
// stripping, names of C functions do not.
func symbolsCheck(o gosym.Origin, cure string) Check {
	stripped := map[bool]string{true: "yes", false: "no"}[o.Stripped]
	if !o.Read {
		stripped = "not known, because its file cannot be read"
	}
	return Check{
		checkSymbols, o.Read && !o.Stripped || !o.Cgo,
		fmt.Sprintf("tables of Go by %s; stripped: %s; cgo: %s", o.FoundBy, stripped, map[bool]string{true: "yes", false: "no"}[o.Cgo]),
		"a symbol table, for the names of C functions", cure,
	}
}

// dpkgStatus is there where packages are Debian's.
const dpkgStatus = "/var/lib/dpkg/status"

// unstripped returns the command that builds a program with its symbol table. The build of a package has stripped
// its programs (DEB_BUILD_OPTIONS: Debian Policy Manual 4.9.1). Separate files of debug symbols are not read here.
func unstripped(exe string, debian bool) string {
	ofPackage := !strings.HasPrefix(exe, "/usr/local/") && slices.ContainsFunc([]string{"/usr/", "/bin/", "/sbin/"}, func(dir string) bool {
		return strings.HasPrefix(exe, dir)
	})
	if ofPackage && debian {
		return fmt.Sprintf(`DEB_BUILD_OPTIONS=nostrip apt-get source --build "$(dpkg-query -S %s | cut -d: -f1)"`, quote(exe))
	}
	return "go build -ldflags=-w PACKAGE"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// placeCheck names the target's unit, and its namespaces that are not ours.
func placeCheck(f process.Facts) Check {
	var apart []string
	for _, ns := range []string{"pid", "user", "mnt", "net", "time"} {
		mine, _ := os.Readlink("/proc/self/ns/" + ns)
		its, err := readLink(f.PID, "ns/"+ns)
		if err != nil {
			apart = []string{fmt.Sprintf("not known (%v)", errors.Unwrap(err))}
			break
		}
		if its != mine {
			apart = append(apart, ns)
		}
	}
	return Check{checkPlace, true, fmt.Sprintf("namespaces of its own: %s; unit: %s", orNone(strings.Join(apart, ", ")), orNone(f.Unit)), "", ""}
}

func readLink(pid int, name string) (string, error) {
	defer privilege.Raise().Lower()
	return os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), name))
}

func sysctl(name string) int {
	n, err := perfevent.Sysctl(name)
	if err != nil {
		return -1
	}
	return n
}

func number(path string) int {
	n, err := strconv.Atoi(firstLine(path))
	if err != nil {
		return -1
	}
	return n
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func statusLine(key string) string {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func limit(resource int) uint64 {
	var l unix.Rlimit
	unix.Getrlimit(resource, &l) // 0 with an error
	return l.Cur
}

// container names the runtime that this process is in, as far as it leaves a sign.
func container() string {
	for _, sign := range []struct{ file, name string }{
		{"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}, {"/var/run/secrets/kubernetes.io", "kubernetes"},
	} {
		if _, err := os.Stat(sign.file); err == nil {
			return sign.name
		}
	}
	return firstLine("/run/systemd/container")
}

func memoryMax() string {
	self, err := process.FactsOf(os.Getpid())
	if err != nil {
		return ""
	}
	return firstLine(filepath.Join("/sys/fs/cgroup", filepath.Clean("/"+self.Cgroup), "memory.max"))
}

func printLimit(n, unit uint64, name string) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return fmt.Sprintf("%d%s", n/unit, name)
}

func orUnknown(n int) string {
	if n < 0 {
		return "not known"
	}
	return strconv.Itoa(n)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// quote makes a text one word of a shell.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
