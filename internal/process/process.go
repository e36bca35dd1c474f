// Package process looks at a running process from outside: whether it lives and how it
// ended, its threads, its CPU clock, its memory. It also has the vocabulary between an
// engine, which stops at moments of threads, and a runtime, which makes stacks of them:
//
//	engine ──Moment──▶ Runtime ──Stack──▶ engine ──Frames──▶ queue
//
// An engine is given a [Runtime] and knows no language. Package runtimes finds the one of a
// process.
package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

// Open checks that pid is a live user process and returns a pidfd of it,
// which becomes readable when the process ends.
func Open(pid int) (int, error) {
	if pid <= 0 {
		return -1, refusal.ErrNoProcess
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return -1, explainThread(pid)
	case errors.Is(err, unix.ESRCH):
		return -1, refusal.ErrNoProcess
	case err != nil:
		return -1, fmt.Errorf("open pidfd: %w", err)
	}
	if err := CheckAlive(pid); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Ended reports whether the process of a pidfd has ended.
func Ended(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// explainThread explains that a number names a thread other than the first one of its
// process. pidfd_open without flags gives no descriptor for it (EINVAL or ENOENT,
// depending on the kernel's version).
func explainThread(tid int) error {
	text, err := readProc(tid, "status")
	if err != nil {
		return refusal.ErrNoProcess
	}
	for line := range strings.Lines(string(text)) {
		if pid, ok := strings.CutPrefix(line, "Tgid:"); ok {
			return fmt.Errorf("it is a thread of process %s: %w", strings.TrimSpace(pid), refusal.ErrNoProcess)
		}
	}
	return refusal.ErrNoProcess
}

// maxProcFile bounds a read of a file of /proc/PID, bytes. A command line can
// have many MB.
const maxProcFile = 1 << 17

// firstRead holds most files whole.
const firstRead = 512

// readProc reads a file of /proc/PID.
func readProc(pid int, name string) ([]byte, error) {
	return readFile(fmt.Sprintf("/proc/%d/%s", pid, name))
}

// readFile reads a file below /proc.
func readFile(path string) ([]byte, error) {
	defer privilege.Raise().Lower()
	return readFileAt(unix.AT_FDCWD, path)
}

// readFileAt reads a file below an open directory. An [os.File] asks the kernel four times for the kind of the
// file, and whether it can be polled. That takes longer than the reading.
func readFileAt(dir int, path string) ([]byte, error) {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, 0, firstRead)
	for len(text) < maxProcFile {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return text, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return text, nil
		}
		text = slices.Grow(text[:len(text)+n], 1)
	}
	return text[:maxProcFile], nil
}

// Executable returns the path of the program that a process runs, as the process
// sees it.
func Executable(pid int) (string, error) {
	defer privilege.Raise().Lower()
	return os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
}

// CheckAlive returns why a process cannot be sampled: [refusal.ErrNoProcess] of one that has ended,
// even if its parent has not asked for it yet, [refusal.ErrNotManaged] of a kernel thread.
func CheckAlive(pid int) error {
	stat, err := ReadStat(pid)
	switch {
	case err != nil:
		return refusal.ErrNoProcess
	case stat.Zombie():
		return fmt.Errorf("it has ended and waits for its parent: %w", refusal.ErrNoProcess)
	case stat.KernelThread():
		return fmt.Errorf("it is a kernel thread: %w", refusal.ErrNotManaged)
	}
	return nil
}

// Stat has some fields of /proc/PID/stat (proc_pid_stat(5)).
type Stat struct {
	Name     string // of the thread, which may hold anything
	State    byte   // as ps shows it
	Parent   int
	flags    uint64
	user     uint64 // CPU time in statTick, of threads that have ended, too
	kernel   uint64
	reaped   uint64 // CPU time of children that have ended and were waited for, with theirs
	exitCode uint64 // as wait(2) gives it; 0 where not permitted

	// Addresses has the addresses of code and stack as text. An exec draws them anew (ASLR);
	// after the process's end they are "0 0 0". The kernel shows them to processes that may
	// trace this one. The auxiliary vector can be opened by the same user only, even with
	// CAP_SYS_PTRACE.
	Addresses string

	Started uint64 // since boot, in ticks of 10 ms
}

// ReadStat reads the state of a process or a thread.
func ReadStat(pid int) (Stat, error) {
	text, err := readProc(pid, "stat")
	if err != nil {
		return Stat{}, fmt.Errorf("read process state: %w", err)
	}
	return parseStat(string(text))
}

// parseStat skips the command, which is in parentheses and may hold anything.
func parseStat(text string) (Stat, error) {
	end := strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[end+1:])
	const state, parent, flags, user, kernel, reapedUser, reapedKernel, started, startCode, startStack, exitCode = 0, 1, 6, 11, 12, 13, 14, 19, 23, 25, 49 // from the third field on
	if len(fields) <= exitCode {
		return Stat{}, errors.New("read process state: too few fields")
	}
	s := Stat{State: fields[state][0], Addresses: strings.Join(fields[startCode:startStack+1], " ")}
	_, s.Name, _ = strings.Cut(text[:max(end, 0)], "(")
	s.Parent, _ = strconv.Atoi(fields[parent])
	s.flags, _ = strconv.ParseUint(fields[flags], 10, 64)
	s.user, _ = strconv.ParseUint(fields[user], 10, 64)
	s.kernel, _ = strconv.ParseUint(fields[kernel], 10, 64)
	s.Started, _ = strconv.ParseUint(fields[started], 10, 64)
	for _, i := range []int{reapedUser, reapedKernel} {
		ticks, _ := strconv.ParseUint(fields[i], 10, 64)
		s.reaped += ticks
	}
	s.exitCode, _ = strconv.ParseUint(fields[exitCode], 10, 32)
	return s, nil
}

// OfChildren returns the CPU time of the children that have ended and that the process has waited for, and of theirs,
// to 10 ms.
func (s Stat) OfChildren() time.Duration { return time.Duration(s.reaped) * statTick }

// Zombie reports whether the process has ended.
func (s Stat) Zombie() bool { return s.State == 'Z' || s.State == 'X' }

// Stopped reports whether the process has been stopped, by a signal or a tracer.
func (s Stat) Stopped() bool { return s.State == 'T' || s.State == 't' }

// Loaded reports whether the process has code, if this process may know. In the middle of an exec it
// has none, nor has one that has ended.
func (s Stat) Loaded() bool { return !strings.HasPrefix(s.Addresses, "0 ") }

// KernelThread reports whether it runs in the kernel only.
func (s Stat) KernelThread() bool {
	const pfKthread = 0x00200000 // PF_KTHREAD in linux/sched.h
	return s.flags&pfKthread != 0
}

// pidfdInfo is struct pidfd_info of linux/pidfd.h, its first version.
type pidfdInfo struct {
	mask     uint64
	cgroup   uint64
	ids      [11]uint32
	exitCode int32
}

const (
	pidfdGetInfo  = 0xc000ff0b | unsafe.Sizeof(pidfdInfo{})<<16 // _IOWR(0xff, 11, struct pidfd_info)
	pidfdInfoExit = 1 << 3                                      // since Linux 6.15
)

// ExitReason says how the process of a pidfd that has become readable ended, as far as
// the kernel tells. It tells the status of a zombie to a process that may trace it, and
// the status of a reaped process since Linux 6.15.
func ExitReason(pid, pidfd int) string {
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if errno == 0 && info.mask&pidfdInfoExit != 0 {
		return describeExit(unix.WaitStatus(info.exitCode))
	}
	if stat, err := ReadStat(pid); err == nil && stat.Zombie() {
		return describeExit(unix.WaitStatus(stat.exitCode))
	}
	return "target exited"
}

func describeExit(status unix.WaitStatus) string {
	if status.Signaled() {
		return "target was killed by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("target exited with code %d", status.ExitStatus())
}

// OnlineCPUs returns the numbers of the CPUs that are online.
func OnlineCPUs() ([]int, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("list CPUs: %w", err)
	}
	return parseCPUList(strings.TrimSpace(string(text)))
}

// parseCPUList reads a list such as "0-3,8".
func parseCPUList(list string) ([]int, error) {
	const maxCPU = 1 << 16
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || lo < 0 || hi < lo || hi > maxCPU {
			return nil, fmt.Errorf("list CPUs: malformed %q", list)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// Describe names a process: its pid, executable and command line. Only a runtime knows its
// build and version.
func Describe(pid int) ccmap.Target {
	t := ccmap.Target{PID: pid}
	t.Executable, _ = Executable(pid)
	if line, err := readProc(pid, "cmdline"); err == nil && len(line) > 0 {
		t.CommandLine = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	return t
}

// DescribeBuild describes a process and the build of its program, as its runtime knows it.
func DescribeBuild(pid int, r Runtime) ccmap.Target {
	t := Describe(pid)
	t.BuildID, t.Runtime = r.Build()
	if d, ok := r.(Dated); ok {
		t.Commit = d.Commit()
	}
	return t
}

// Threads lists the threads of a process.
func Threads(pid int) ([]uint32, error) {
	dir, err := openTasks(pid)
	if err != nil {
		return nil, fmt.Errorf("list threads: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("list threads: %w", err)
	}
	tids := make([]uint32, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.ParseUint(name, 10, 32); err == nil {
			tids = append(tids, uint32(tid))
		}
	}
	return tids, nil
}

func openTasks(pid int) (*os.File, error) {
	defer privilege.Raise().Lower()
	return os.Open(fmt.Sprintf("/proc/%d/task", pid))
}

// Gone reports whether an error means that the process has ended.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// adviceUser says how to get permission, for the message of an error.
const adviceUser = "run as its user, or with CAP_PERFMON and CAP_SYS_PTRACE"

// OtherUser explains that the target belongs to another user, or has made
// itself undumpable.
func OtherUser(err error) error {
	return As(As(errors.New("it belongs to another user or forbids tracing: "+adviceUser), err), refusal.ErrPermission)
}

// As returns an error with the text of err, which errors.Is also finds to be kind. The errors
// of package sampler say less than err.
func As(err, kind error) error { return classified{err, kind} }

type classified struct{ err, kind error }

func (c classified) Error() string   { return c.err.Error() }
func (c classified) Unwrap() []error { return []error{c.err, c.kind} }
