// Package traceetest starts processes that a user may or may not trace, and asks the kernel which, for tests. The test
// binary is all of these processes: its TestMain calls [Main] first. Starting them needs root.
package traceetest

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/programtest"
)

// User is a user and a group that own nothing.
type User struct{ UID, GID uint32 }

// Users of the tests.
var (
	Nobody     = User{65534, 65534}
	Other      = User{12345, 12345}
	OtherGroup = User{65534, 4321} // Nobody after newgrp
)

// Kind is a way to be a process of [Nobody], or nearly.
type Kind struct {
	Name   string
	As     User
	root   bool   // it begins as root
	mode   uint32 // of its file, with the bits of set-user-ID and set-group-ID; 0: 0755
	of     User   // owner of its file
	caps   bool   // its file has a capability
	attr   syscall.SysProcAttr
	action string
	Strict bool // the kernel may let Nobody trace it, and ccmapd does not
}

// Kinds returns all kinds: the plain one first.
func Kinds() []Kind {
	const netBindService = 10
	return []Kind{
		{Name: "plain", As: Nobody},
		{Name: "other user", As: Other},
		{Name: "newgrp", As: OtherGroup},
		{Name: "setuid root", As: Nobody, mode: 0o4755},
		{Name: "setuid", As: Nobody, mode: 0o4755, of: Other},
		{Name: "setgid", As: Nobody, mode: 0o2755, of: OtherGroup},
		{Name: "setgid, dumpable again", As: Nobody, mode: 0o2755, of: OtherGroup, action: actDumpable},
		{Name: "file capabilities", As: Nobody, caps: true},
		{Name: "file capabilities, dumpable again", As: Nobody, caps: true, action: actDumpable},
		{Name: "ambient capabilities", As: Nobody, attr: syscall.SysProcAttr{AmbientCaps: []uintptr{netBindService}}},
		{Name: "ambient capabilities, dumpable again", As: Nobody, action: actDumpable, attr: syscall.SysProcAttr{AmbientCaps: []uintptr{netBindService}}},
		{Name: "not dumpable", As: Nobody, action: actUndumpable},
		{Name: "mode 0711", As: Nobody, mode: 0o711},
		{Name: "own user namespace", As: Nobody, action: actNested, Strict: true},
		{Name: "root that became the user", As: Nobody, root: true, action: actBecome},
	}
}

// ByExec reports whether a plain process becomes one of the kind by executing its file.
func (k Kind) ByExec() bool { return (k.mode != 0 || k.caps) && k.action == "" }

// Process is a process of a test. It ends with the test.
type Process struct {
	PID  int
	File string // its program

	in      io.WriteCloser
	answers *bufio.Reader
}

// actions of a process, in its environment.
const (
	variable      = "CCMAPD_TRACEE"
	actNothing    = "nothing"
	actDumpable   = "dumpable"
	actUndumpable = "undumpable"
	actNested     = "nested"
	actBecome     = "become"
)

// KindNamed returns the kind of a name.
func KindNamed(t testing.TB, name string) Kind {
	t.Helper()
	for _, k := range Kinds() {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("there is no kind %q", name)
	return Kind{}
}

// Program copies the test binary to where all users may execute it.
func Program(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return programtest.Copy(t, self, "tracee")
}

// File makes a file of a kind, for it alone, and returns its path.
func (k Kind) File(t testing.TB, program string) string {
	t.Helper()
	if k.mode == 0 && !k.caps {
		file := filepath.Join(programtest.PublicDir(t, 0o755), "tracee")
		if err := os.Link(program, file); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := programtest.Copy(t, program, "tracee")
	if err := os.Chown(file, int(k.of.UID), int(k.of.GID)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Chmod(file, cmp.Or(k.mode, 0o755)); err != nil { // of syscall: os.Chmod has other bits
		t.Fatal(err)
	}
	if k.caps {
		if err := unix.Setxattr(file, "security.capability", netBind(), 0); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// netBind is struct vfs_cap_data of linux/capability.h, revision 2: CAP_NET_BIND_SERVICE, in effect.
func netBind() []byte {
	var data []byte
	for _, word := range []uint32{0x02000001, 1 << 10, 0, 0, 0} {
		data = binary.LittleEndian.AppendUint32(data, word)
	}
	return data
}

// Start starts a process of a kind by the program of [Program].
func (k Kind) Start(t testing.TB, program string) *Process {
	t.Helper()
	attr := k.attr
	if !k.root {
		attr.Credential = &syscall.Credential{Uid: k.As.UID, Gid: k.As.GID}
	}
	action := k.action
	if action == "" {
		action = actNothing
	}
	return start(t, k.File(t, program), action, &attr)
}

// Ask starts a process of a user that asks the kernel how far it may look into others. In a container it has a user
// namespace of its own.
func Ask(t testing.TB, program string, as User, contained bool) *Process {
	t.Helper()
	return start(t, program, actNothing, Attributes(as, contained))
}

// Attributes returns how to start a process of a user.
func Attributes(as User, contained bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as.UID, Gid: as.GID}}
	if contained {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(as.UID), HostID: int(as.UID), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(as.GID), HostID: int(as.GID), Size: 1}}
		attr.Credential.NoSetGroups = true
	}
	return attr
}

func start(t testing.TB, file, action string, attr *syscall.SysProcAttr) *Process {
	t.Helper()
	cmd := exec.Command(file)
	cmd.Env, cmd.Dir, cmd.SysProcAttr, cmd.Stderr = append(os.Environ(), variable+"="+action), "/", attr, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	p := &Process{File: file, in: in, answers: bufio.NewReader(out)}
	p.PID, err = strconv.Atoi(p.answer(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Process) answer(t testing.TB) string {
	t.Helper()
	line, err := p.answers.ReadString('\n')
	if err != nil {
		t.Fatalf("a process of the test has ended: %v", err)
	}
	return strings.TrimSpace(line)
}

func (p *Process) order(t testing.TB, words ...string) string {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, strings.Join(words, "\t")); err != nil {
		t.Fatal(err)
	}
	return p.answer(t)
}

// Access returns how far the kernel lets the process look into another one.
func (p *Process) Access(t testing.TB, pid int) process.Access {
	t.Helper()
	a, err := strconv.Atoi(p.order(t, "ask", strconv.Itoa(pid)))
	if err != nil {
		t.Fatal(err)
	}
	return process.Access(a)
}

// Exec has the process execute another program of this package.
func (p *Process) Exec(t testing.TB, file string) {
	t.Helper()
	p.order(t, "exec", file)
}

// SetDumpable has the process change whether its user may read its memory.
func (p *Process) SetDumpable(t testing.TB, dumpable bool) {
	t.Helper()
	p.order(t, "dumpable", strconv.FormatBool(dumpable))
}

// Main is a process of this package, if the environment says so, and then does not return.
func Main() {
	action := os.Getenv(variable)
	if action == "" {
		return
	}
	if err := run(action, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "tracee:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(action string, orders io.Reader) error {
	var err error
	switch action {
	case actDumpable:
		err = setDumpable(true)
	case actUndumpable:
		err = setDumpable(false)
	case actBecome:
		err = become(Nobody)
	case actNested:
		return nested()
	}
	if err != nil {
		return err
	}
	fmt.Println(os.Getpid())
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		if err := obey(strings.Split(lines.Text(), "\t")); err != nil {
			return err
		}
	}
	return lines.Err()
}

func obey(words []string) error {
	switch words[0] {
	case "ask":
		pid, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		fmt.Println(int(kernelAccess(pid)))
	case "exec": // the next program prints its number
		return syscall.Exec(words[1], words[1:], append(os.Environ(), variable+"="+actNothing))
	case "dumpable":
		if err := setDumpable(words[1] == "true"); err != nil {
			return err
		}
		fmt.Println("done")
	}
	return nil
}

func setDumpable(yes bool) error {
	value := uintptr(0)
	if yes {
		value = 1
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, value, 0, 0, 0)
}

func become(u User) error {
	return errors.Join(syscall.Setgroups(nil), syscall.Setresgid(int(u.GID), int(u.GID), int(u.GID)), syscall.Setresuid(int(u.UID), int(u.UID), int(u.UID)))
}

// nested starts a process in a user namespace of this process's user, and waits for it.
func nested() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), variable+"="+actNothing), os.Stdin, os.Stdout, os.Stderr
	uid, gid := os.Getuid(), os.Getgid()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
	}
	return cmd.Run()
}

// kernelAccess asks the kernel by calls that check the right and do nothing: pidfd_getfd of a descriptor that does not
// exist (PTRACE_MODE_ATTACH_REALCREDS), and get_robust_list (PTRACE_MODE_READ_REALCREDS).
func kernelAccess(pid int) process.Access {
	const noDescriptor = 0x7fffffff
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		defer unix.Close(fd)
		if _, err := unix.PidfdGetfd(fd, noDescriptor, 0); errors.Is(err, unix.EBADF) {
			return process.AttachAccess
		}
	}
	var head, size uintptr
	if _, _, errno := unix.Syscall(unix.SYS_GET_ROBUST_LIST, uintptr(pid), uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&size))); errno == 0 {
		return process.ReadAccess
	}
	return process.NoAccess
}
