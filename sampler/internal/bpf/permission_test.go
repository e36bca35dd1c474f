package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// TestRefusals: a machine that cannot run the program is told why, and what to do.
func TestRefusals(t *testing.T) {
	t.Parallel()
	able := machine{release: "6.18.4-vm", version: "#1 SMP", pids: initialPIDs, time: initialTime}
	linux := func(release, version string) func(*machine) {
		return func(m *machine) { m.release, m.version = release, version }
	}
	for _, c := range []struct {
		change func(*machine)
		want   string // empty: not refused
	}{
		{func(*machine) {}, ""},
		{func(m *machine) { m.time = "" }, ""}, // Linux before 5.6 has no time namespaces
		{linux("5.15.0", ""), ""},
		{linux("5.18.19", ""), ""},
		{linux("6.1.36", ""), ""},
		{linux("6.1.140-custom", ""), ""},
		{linux("6.3.10", ""), ""},
		{linux("6.4.0", ""), ""},
		{linux("7.0.0", ""), ""},
		{linux("6.1.0-37-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.140-1 (2025-05-22)"), ""},
		{linux("5.14.21", ""), "needs Linux 5.15, this is 5.14.21"},
		{linux("4.19.0", ""), "needs Linux 5.15"},
		{linux("5.19.0", ""), "may freeze"},
		{linux("6.0.12", ""), "may freeze"},
		{linux("6.1.35", ""), "6.1.36"},
		{linux("6.2.16", ""), "may freeze"},
		{linux("6.3.9", ""), "may freeze"},
		{linux("6.1.0-7-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.20-1 (2023-03-19)"), "may freeze"},
		{linux("", ""), "needs Linux 5.15"},
		{func(m *machine) { m.types = os.ErrNotExist }, "CONFIG_DEBUG_INFO_BTF"},
		{func(m *machine) { m.pids = "pid:[4026532211]" }, "--pid=host"},
		{func(m *machine) { m.pids = "" }, "mount /proc"},
		{func(m *machine) { m.time = "time:[4026532213]" }, "time namespace"},
	} {
		m := able
		c.change(&m)
		err := m.refusal()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, sampler.ErrUnsupported) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", m, err, c.want)
		}
	}
}

// TestReasons: a refusal of the kernel has its most likely reason, and the cure.
func TestReasons(t *testing.T) {
	t.Parallel()
	verifier := &ebpf.VerifierError{Cause: unix.EINVAL, Log: []string{"0: (85) call bpf_probe_read_kernel#113", "program of this type cannot use helper"}}
	for _, c := range []struct {
		err  error
		r    rights
		kind error
		want string
	}{
		{unix.EPERM, rights{users: initialUsers, lacking: "cap_bpf"}, sampler.ErrPermission, "lacks cap_bpf: run ccmapd as root"},
		{unix.EPERM, rights{users: "user:[4026532000]"}, sampler.ErrPermission, "--userns=host"},
		{unix.EPERM, rights{users: initialUsers, filtered: true}, sampler.ErrPermission, "seccomp"},
		{unix.ENOSYS, rights{filtered: true}, sampler.ErrPermission, "seccomp"},
		{unix.EACCES, rights{lockdown: "none integrity [confidentiality]\n"}, sampler.ErrPermission, "lockdown=integrity"},
		{verifier, rights{lockdown: "none integrity [confidentiality]\n"}, sampler.ErrPermission, "lockdown=integrity"},
		{verifier, rights{lockdown: "none [integrity] confidentiality\n"}, sampler.ErrUnsupported, "call bpf_probe_read_kernel#113 | program of"},
		{unix.EPERM, rights{}, sampler.ErrPermission, "security module"},
		{unix.ENOSYS, rights{}, sampler.ErrUnsupported, "function not implemented"},
	} {
		if err := explainLoad(fmt.Errorf("load: %w", c.err), c.r); !errors.Is(err, c.kind) || !errors.Is(err, errors.Unwrap(c.err)) && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v in %+v: %v, want %q", c.err, c.r, err, c.want)
		}
	}
}

// TestVerifierRefuses: the error of a program that the kernel does not take has the end of
// the verifier's log.
func TestVerifierRefuses(t *testing.T) {
	t.Parallel()
	openHost(t)
	spec, err := loadProgram()
	if err != nil {
		t.Fatal(err)
	}
	spec.Programs["sample"].Instructions = asm.Instructions{
		asm.LoadMem(asm.R0, asm.R1, 1<<14, asm.DWord), // beyond the context
		asm.Return(),
	}
	h := &Host{}
	err = h.load(spec)
	defer h.release()
	if !errors.Is(err, sampler.ErrUnsupported) || !strings.Contains(err.Error(), "invalid bpf_context access off=16384") || !strings.Contains(err.Error(), "--engine perf") {
		t.Errorf("load a program that is wrong: %v", err)
	}
}

// The environment of a test process that lacks a right: the error that it wants, and the
// process that it opens, if it can open a host.
const (
	wantEnv   = "CCMAPD_BPF_WANT"
	targetEnv = "CCMAPD_BPF_TARGET"
)

// refused is the test in a process that lacks a right.
func refused(t *testing.T) {
	h, err := OpenHost(HostOptions{})
	if err == nil {
		defer h.Close()
		pid := 0
		fmt.Sscan(os.Getenv(targetEnv), &pid)
		var s *Source
		s, err = h.Open(t.Context(), Options{PID: pid, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}})
		if err == nil {
			s.Close()
		}
	}
	if want := os.Getenv(wantEnv); err == nil || !strings.Contains(err.Error(), want) ||
		!errors.Is(err, sampler.ErrPermission) && !errors.Is(err, sampler.ErrUnsupported) {
		t.Errorf("open: %v, want %q", err, want)
	}
}

// TestWithoutRights: a process that lacks one right is told which, and how to get it.
func TestWithoutRights(t *testing.T) {
	if os.Getenv(wantEnv) != "" {
		refused(t)
		return
	}
	openHost(t)
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root can give up rights one by one")
	}
	self := copyOfTest(t)
	const nobody = 65534
	asNobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	target := exec.Command(enginetest.Build(t, "workload"), "busy", "60000")
	target.SysProcAttr = asNobody
	pid := enginetest.StartCommand(t, target).PID()
	root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	for _, c := range []struct {
		name, want string
		giveUp     func() error // by the thread that starts the process
		attr       *syscall.SysProcAttr
	}{
		{name: "user", want: "lacks cap_perfmon,cap_bpf: run ccmapd as root", attr: asNobody},
		{name: "bpf", want: "lacks cap_bpf:", giveUp: dropping(unix.CAP_SYS_ADMIN, unix.CAP_BPF)},
		{name: "perfmon", want: "lacks cap_perfmon:", giveUp: dropping(unix.CAP_SYS_ADMIN, unix.CAP_PERFMON)},
		{name: "ptrace", want: "CAP_SYS_PTRACE", giveUp: dropping(unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE)},
		{name: "bpf(2)", want: "seccomp", giveUp: forbidding(unix.SYS_BPF)},
		{name: "perf_event_open", want: "seccomp", giveUp: forbidding(unix.SYS_PERF_EVENT_OPEN)},
		{name: "pid namespace", want: "--pid=host", attr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}},
		{name: "user namespace", want: "--userns=host",
			attr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: root, GidMappings: root}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(self, "-test.v", "-test.run=^TestWithoutRights$")
			cmd.Env = append(os.Environ(), wantEnv+"="+c.want, fmt.Sprint(targetEnv, "=", pid), "HOME=/nonexistent")
			cmd.Dir, cmd.SysProcAttr = "/", c.attr
			if out, err := runWithout(cmd, c.giveUp); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// copyOfTest copies this test where everybody may execute it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	self := filepath.Join(filepath.Dir(enginetest.Build(t, "workload")), "bpf.test")
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	programtest.Write(t, self, binary)
	return self
}

// runWithout runs a command from a thread that gives up rights before, and ends.
func runWithout(cmd *exec.Cmd, giveUp func() error) (out []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked
		if giveUp != nil {
			err = giveUp()
		}
		if err == nil {
			out, err = cmd.CombinedOutput()
		}
	}()
	<-done
	return out, err
}

// dropping returns a function after which programs that the thread starts have no such
// capabilities.
func dropping(capabilities ...uintptr) func() error {
	return func() (all error) {
		for _, number := range capabilities {
			all = errors.Join(all, unix.Prctl(unix.PR_CAPBSET_DROP, number, 0, 0, 0))
		}
		return all
	}
}

// forbidding returns a function after which the thread, and programs that it starts, are
// refused a system call.
func forbidding(call uint32) func() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	return func() error {
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
		if errno != 0 {
			return errno
		}
		return nil
	}
}
