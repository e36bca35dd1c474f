package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

// writerVariable, in the environment of this test's own executable, names a file that
// it is to write as another process.
const writerVariable = "CCMAPD_TEST_WRITER"

// self is this executable, which other users may run wherever it is.
const self = "/proc/self/exe"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		if err := writeOutside(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(testrun.Guard(m))
}

// writeOutside writes a profile or, if there is standard input, stays in the middle of
// that until standard input ends.
func writeOutside(path string) error {
	if os.Getenv(writerVariable+"_STAYS") == "" {
		return WriteFile(path, small().Snapshot())
	}
	return replaceFile(path, func(w io.Writer) error {
		fmt.Fprintln(w, "half of it")
		fmt.Println("writing")
		_, err := io.Copy(w, os.Stdin)
		return err
	})
}

// startWriter starts a process that stays in the middle of writing a file until it is
// killed.
func startWriter(t *testing.T, path string, as *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), writerVariable+"="+path, writerVariable+"_STAYS=1")
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, as
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("start a writer: %v", err)
	}
	return cmd
}

func kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// temps returns the names of what looks like temporary files.
func temps(t *testing.T, dir string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".ccmapd-*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func writeSmall(t *testing.T, path string) {
	t.Helper()
	if err := WriteFile(path, small().Snapshot()); err != nil {
		t.Fatal(err)
	}
}

// TestKilledWriter: the file stands as it was, and the next writer in the directory
// removes what is left. It leaves the file of a writer that lives.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.xml")
	writeSmall(t, old)
	want, _ := os.ReadFile(old)
	kill(startWriter(t, old, nil))
	if got, _ := os.ReadFile(old); string(got) != string(want) {
		t.Errorf("after a kill the file holds %q", got)
	}
	if left := temps(t, dir); len(left) != 1 {
		t.Fatalf("a killed writer leaves %q, want one temporary file", left)
	}
	startWriter(t, filepath.Join(dir, "living.xml"), nil)
	writeSmall(t, filepath.Join(dir, "next.xml"))
	if left := temps(t, dir); len(left) != 1 {
		t.Errorf("left: %q, want the file of the writer that lives", left)
	}
}

// TestWritersInOneProcess: a writer leaves the temporary file of another goroutine.
func TestWritersInOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := replaceFile(filepath.Join(dir, "slow"), func(w io.Writer) error {
		writeSmall(t, filepath.Join(dir, "quick.xml"))
		_, err := io.WriteString(w, "whole")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "slow")); string(got) != "whole" {
		t.Errorf("got %q", got)
	}
	wantNoTemp(t, dir)
}

// TestCollectLeavesOthersFiles: what is not a regular file, what is named otherwise,
// and what belongs to another user stays.
func TestCollectLeavesOthersFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const number = "0123456789abcdef"
	victim := filepath.Join(dir, "victim")
	at := func(format string) string { return filepath.Join(dir, fmt.Sprintf(format, number)) }
	for _, err := range []error{
		os.WriteFile(victim, []byte("keep"), 0o600),
		os.Symlink(victim, at(".ccmapd-%s.tmp")),
		os.Mkdir(at(".ccmapd-1%.15s.tmp"), 0o700),
		unix.Mkfifo(at(".ccmapd-2%.15s.tmp"), 0o600),
		os.WriteFile(at(".ccmapd-%s.tmp.xml"), nil, 0o600),
		os.WriteFile(at(".ccmapd-x%s.tmp"), nil, 0o600),
		os.WriteFile(at(".ccmapd-%.15s.tmp"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := temps(t, dir)
	writeSmall(t, filepath.Join(dir, "new.xml"))
	if after := temps(t, dir); !slices.Equal(before, after) {
		t.Errorf("of %q are left %q", before, after)
	}
	if kept, _ := os.ReadFile(victim); string(kept) != "keep" {
		t.Errorf("a link was followed: %q", kept)
	}
}

// TestCollectWaitsForOtherMachines: in a directory that other machines may write to, a
// free lock says nothing about a writer, so that its file has to be old, too.
func TestCollectWaitsForOtherMachines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		shared bool
		age    time.Duration
		stays  bool
	}{
		{false, 0, false},
		{true, 0, true},
		{true, longestWrite - time.Hour, true},
		{true, longestWrite + time.Hour, false},
	} {
		path := filepath.Join(t.TempDir(), fmt.Sprintf(tempFormat, 1))
		written := time.Now().Add(-test.age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, written, written)); err != nil {
			t.Fatal(err)
		}
		dir, err := openDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		collect(dir, test.shared)
		if stays := len(temps(t, dir.Name())) == 1; stays != test.stays {
			t.Errorf("shared: %v, written %v ago: it stays: %v", test.shared, test.age, stays)
		}
	}
}

// TestSharedFileSystems: locks are believed on file systems of this machine alone.
func TestSharedFileSystems(t *testing.T) {
	t.Parallel()
	for kind, want := range map[int64]bool{
		unix.EXT4_SUPER_MAGIC: false, unix.TMPFS_MAGIC: false, unix.OVERLAYFS_SUPER_MAGIC: false,
		unix.NFS_SUPER_MAGIC: true, unix.SMB2_SUPER_MAGIC: true, unix.FUSE_SUPER_MAGIC: true, unix.V9FS_MAGIC: true, 0x47504653: true, // GPFS
	} {
		if got := !isOfOneMachine(kind); got != want {
			t.Errorf("file system %#x is shared: %v", kind, got)
		}
	}
	memory, err := openDir("/dev/shm") // a tmpfs
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	if isShared(memory) {
		t.Errorf("%s is shared", memory.Name())
	}
}

// TestOtherUsersAreLeftAlone: a user leaves the temporary files of another, who is
// killed, and root does not.
func TestOtherUsersAreLeftAlone(t *testing.T) {
	t.Parallel()
	dir := sharedDir(t)
	as := func(user uint32) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	kill(startWriter(t, filepath.Join(dir, "a.xml"), as(60001)))
	kill(startWriter(t, filepath.Join(dir, "b.xml"), as(60002)))
	if left := temps(t, dir); len(left) != 2 {
		t.Errorf("another user removed what was left: %q", left)
	}
	writeSmall(t, filepath.Join(dir, "c.xml"))
	wantNoTemp(t, dir)
}

// sharedDir returns a directory as /tmp is, where this process, which must be root,
// meets other users.
func sharedDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		testrun.Lacks(t, "only root can act as several users")
	}
	dir, err := os.MkdirTemp("/tmp", "shared-*") // all of whose parents are open to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// status returns what chown and chmod set of a file.
func status(t *testing.T, path string) (mode os.FileMode, uid, gid uint32) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return info.Mode(), s.Uid, s.Gid
}

// TestNewFileIsPrivate: it holds command lines.
func TestNewFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new.pb.gz")
	writeSmall(t, path)
	if mode, uid, _ := status(t, path); mode != 0o600 || int(uid) != os.Geteuid() {
		t.Errorf("mode %v of user %d, want 0600 of %d", mode, uid, os.Geteuid())
	}
}

// TestReplacedFileKeepsPermissions and, where root writes, its owner.
func TestReplacedFileKeepsPermissions(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o400, 0o600, 0o640, 0o664, 0o777} {
		path := filepath.Join(t.TempDir(), "old.pb.gz")
		writeSmall(t, path)
		uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
		if uid == 0 {
			uid, gid = 60001, 60002
		}
		if err := os.Chown(path, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		writeSmall(t, path)
		if gotMode, gotUID, gotGID := status(t, path); gotMode != mode || gotUID != uid || gotGID != gid {
			t.Errorf("mode %v, owner %d:%d, want %v, %d:%d", gotMode, gotUID, gotGID, mode, uid, gid)
		}
	}
}

// TestForeignGroupLosesPermissions: where the group cannot be kept, another group does
// not get its permissions.
func TestForeignGroupLosesPermissions(t *testing.T) {
	t.Parallel()
	dir := sharedDir(t)
	if err := os.Chmod(dir, 0o777); err != nil { // not sticky: everybody may replace
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]os.FileMode{0o660: 0o600, 0o664: 0o644, 0o600: 0o600, 0o666: 0o666} {
		path := filepath.Join(dir, fmt.Sprintf("%o.xml", mode))
		writeSmall(t, path)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), writerVariable+"="+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 60001, Gid: 60001}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, uid, gid := status(t, path); got != want || uid != 60001 || gid != 60001 {
			t.Errorf("mode %v of %d:%d, want %v of 60001:60001", got, uid, gid, want)
		}
	}
}

// TestPlantedFiles: another user can put neither a file nor a link into a directory like
// /tmp so that root's profile becomes that user's, or that root writes elsewhere.
func TestPlantedFiles(t *testing.T) {
	t.Parallel()
	dir := sharedDir(t)
	victim := filepath.Join(t.TempDir(), "victim")
	file, link, device := filepath.Join(dir, "a.xml"), filepath.Join(dir, "b.xml"), filepath.Join(dir, "c.xml")
	for _, err := range []error{
		os.WriteFile(victim, []byte("keep"), 0o600),
		os.WriteFile(file, nil, 0o666), os.Chmod(file, 0o666),
		os.Symlink(victim, link),
		os.Symlink(os.DevNull, device),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{file, link, device} {
		if err := os.Lchown(path, 60001, 60001); err != nil {
			t.Fatal(err)
		}
		writeSmall(t, path)
		if mode, uid, gid := status(t, path); mode != 0o600 || uid != 0 || gid != uint32(os.Getegid()) {
			t.Errorf("%s: mode %v of %d:%d, want 0600 of root", path, mode, uid, gid)
		}
	}
	if kept, _ := os.ReadFile(victim); string(kept) != "keep" {
		t.Errorf("the link was followed: %q", kept)
	}
}

// TestUnreadableDirectory, where files can be created but not listed.
func TestUnreadableDirectory(t *testing.T) {
	t.Parallel()
	dir := sharedDir(t)
	if err := os.Chmod(dir, 0o733|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), writerVariable+"="+filepath.Join(dir, "a.xml"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 60001, Gid: 60001}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantNoTemp(t, dir)
}

// TestSyncs traces the system calls of a writer: the content is on the disk before
// the name leads to it, and the name after that.
func TestSyncs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := traceSyncs(t, filepath.Join(dir, "a.xml"))
	if len(got) != 3 || !strings.HasPrefix(got[0], "fsync "+dir+"/.ccmapd-") || got[1] != "rename" || got[2] != "fsync "+dir {
		t.Errorf("system calls: %q, want fsync of a temporary file, rename and fsync of %s", got, dir)
	}
}

// traceSyncs returns what another process synced and renamed as it wrote a file.
func traceSyncs(t *testing.T, path string) []string {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), writerVariable+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		testrun.Lacks(t, "trace a process: %v", err)
	}
	defer cmd.Wait()
	group := -cmd.Process.Pid // its threads alone: other tests wait for their own children
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := unix.PtraceSetOptions(cmd.Process.Pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		t.Fatal(err)
	}
	var calls []string
	inside := make(map[int]bool) // a system call
	for thread := cmd.Process.Pid; ; {
		signal := 0
		if stop := status.StopSignal(); status.Stopped() && stop != unix.SIGTRAP && stop != unix.SIGTRAP|0x80 && stop != unix.SIGSTOP {
			signal = int(stop)
		}
		_ = unix.PtraceSyscall(thread, signal) // fails for a thread that has ended
		var err error
		if thread, err = unix.Wait4(group, &status, unix.WALL, nil); err != nil {
			return calls // no thread is left
		}
		if !status.Stopped() || status.StopSignal() != unix.SIGTRAP|0x80 {
			continue
		}
		if inside[thread] = !inside[thread]; inside[thread] {
			calls = append(calls, callAt(t, thread)...)
		}
	}
}

// callAt names the system call that a traced thread begins, if it syncs or renames.
func callAt(t *testing.T, thread int) []string {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &r); err != nil {
		t.Error(err)
	}
	switch r.Orig_rax {
	case unix.SYS_FSYNC:
		file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", thread, r.Rdi))
		return []string{"fsync " + file}
	case unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		return []string{"rename"}
	}
	return nil
}
