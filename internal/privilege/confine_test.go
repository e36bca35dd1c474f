package privilege

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// confined confines this process to an output, and then tries permitted and forbidden
// calls, on threads old and new. Its arguments are two directories: the output's, and
// another.
func confined() error {
	p, err := Start()
	if err != nil {
		return err
	}
	output, other := os.Args[1], os.Args[2]
	if err := p.Confine(filepath.Join(output, "a.json")); err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for i := range cap(errs) {
		all.Go(func() {
			runtime.LockOSThread() // each on a thread of its own
			errs <- errors.Join(permitted(output, other, i), forbidden(other))
		})
	}
	all.Wait()
	close(errs)
	var found []error
	for err := range errs {
		found = append(found, err)
	}
	return errors.Join(found...)
}

// permitted does the work of a command that reads profiles.
func permitted(output, other string, i int) error {
	temporary, final := filepath.Join(output, fmt.Sprint(i, ".tmp")), filepath.Join(output, fmt.Sprint(i, ".json"))
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("content")
	err = errors.Join(err, f.Chmod(0o640), f.Sync(), f.Close(), os.Rename(temporary, final))
	directory, openErr := os.Open(output)
	if openErr == nil {
		openErr = errors.Join(directory.Sync(), directory.Close())
	}
	_, readErr := os.ReadFile(filepath.Join(other, "input"))
	_, stdinErr := os.ReadFile("/dev/stdin")
	return errors.Join(err, openErr, readErr, stdinErr)
}

// forbidden tries calls that reading a profile never needs. It returns an error for each
// that succeeds.
func forbidden(other string) error {
	var errs []error
	refuse := func(what string, needed bool, err error) {
		if needed && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, fmt.Errorf("%s: %v, want it refused", what, err))
		}
	}
	seccomp, files := HasSeccomp(), landlockABI() > 0
	_, err := net.Listen("tcp", "127.0.0.1:0")
	refuse("listen", seccomp, err)
	_, err = net.Dial("udp", "127.0.0.1:9")
	refuse("connect", seccomp, err)
	_, err = net.Dial("unix", "/nowhere")
	refuse("connect to a Unix socket", seccomp, err)
	refuse("execute", seccomp || files, exec.Command("/bin/true").Run())
	refuse("trace", seccomp, unix.PtraceAttach(os.Getppid()))
	_, err = unix.ProcessVMReadv(os.Getppid(), nil, nil, 0)
	refuse("read memory", seccomp, err)
	refuse("become another user", seccomp, unix.Setresuid(1, 1, 1))
	input := filepath.Join(other, "input")
	refuse("signal", seccomp, unix.Kill(os.Getppid(), 0))
	refuse("change a mode", seccomp, os.Chmod(input, 0o777))
	refuse("change an owner", seccomp, os.Lchown(input, 1, 1))
	refuse("change times", seccomp, os.Chtimes(input, time.Time{}, time.Unix(1, 0)))
	refuse("set an attribute", seccomp, unix.Setxattr(input, "user.x", nil, 0))
	opened, err := os.Open(input)
	refuse("make a file set-user-ID", seccomp && err == nil, unix.Fchmod(int(opened.Fd()), 0o4755))
	opened.Close()
	refuse("write elsewhere", files, os.WriteFile(filepath.Join(other, "new"), nil, 0o600))
	refuse("write to an input", files, os.WriteFile(filepath.Join(other, "input"), nil, 0o600))
	refuse("remove", files, os.Remove(filepath.Join(other, "input")))
	refuse("rename", files, os.Rename(filepath.Join(other, "input"), filepath.Join(other, "moved")))
	refuse("make a directory", files, os.Mkdir(filepath.Join(other, "dir"), 0o700))
	refuse("make a link", files, os.Symlink("/", filepath.Join(other, "link")))
	refuse("truncate", landlockABI() >= 3, os.Truncate(filepath.Join(other, "input"), 0))
	return errors.Join(errs...)
}

// TestConfine runs confined.
func TestConfine(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	input := filepath.Join(other, "input")
	if err := os.WriteFile(input, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], t.TempDir(), other)
	cmd.Env = append(os.Environ(), programName+"=confined")
	cmd.Stdin = strings.NewReader("standard input")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if content, err := os.ReadFile(input); err != nil || string(content) != "content" {
		t.Errorf("input holds %q, %v", content, err)
	}
}

// TestFilter runs the filter on every system call, as the kernel does.
func TestFilter(t *testing.T) {
	t.Parallel()
	const arch = unix.AUDIT_ARCH_X86_64
	const permission = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	for _, may := range []refusals{{}, {writes: true}, {serves: true}, {writes: true, serves: true}} {
		if slices.Contains(may.calls(), unix.SYS_ACCEPT4) == may.serves || slices.Contains(may.calls(), unix.SYS_FCHMOD) == may.writes {
			t.Errorf("%+v: refused calls are %v", may, may.calls())
		}
		program := filter(arch, may)
		for call := range uint32(600) {
			want := uint32(unix.SECCOMP_RET_ALLOW)
			if slices.Contains(may.calls(), call) {
				want = permission
			}
			if got := runFilter(t, program, arch, call, 0o755); got != want {
				t.Errorf("%+v: call %d gives %#x, want %#x", may, call, got, want)
			}
		}
		for _, mode := range []uint32{0o4755, 0o2755} {
			if got := runFilter(t, program, arch, unix.SYS_FCHMOD, mode); got != permission {
				t.Errorf("%+v: mode %o gives %#x", may, mode, got)
			}
		}
		if got := runFilter(t, program, arch, 1<<30, 0); got != permission {
			t.Errorf("a call of x32 gives %#x", got)
		}
		if got := runFilter(t, program, unix.AUDIT_ARCH_I386, 0, 0); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("a call of i386 gives %#x", got)
		}
	}
}

func runFilter(t *testing.T, program []unix.SockFilter, arch, call, second uint32) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(program); pc++ {
		switch in := program[pc]; in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = map[uint32]uint32{0: call, 4: arch, 24: second}[in.K]
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			pc += jump(in, a == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			pc += jump(in, a >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			pc += jump(in, a&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func jump(in unix.SockFilter, holds bool) int {
	if holds {
		return int(in.Jt)
	}
	return int(in.Jf)
}

// TestRootKeepsWhatItNeeds checks the capabilities that each use keeps.
func TestRootKeepsWhatItNeeds(t *testing.T) {
	t.Parallel()
	if got := neededFor(Files) & neededFor(Targets|Sampling|Signals); got != 0 {
		t.Errorf("%v is for files and more", got)
	}
	for _, c := range capabilities {
		if c.use == 0 || nameOf(c.number) != c.name || !strings.HasPrefix(c.name, "cap_") {
			t.Errorf("capability %d: use %b, name %q", c.number, c.use, c.name)
		}
	}
}
