package attach

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// isForeign reports whether a process is in another namespace of users. There root of ours is
// nobody: the JVM takes no commands of nobody, and a /tmp that was mounted inside no files
// (EOVERFLOW of may_create in fs/namei.c, Linux 6.18).
func isForeign(pid int) bool {
	ours, err1 := os.Readlink("/proc/self/ns/user")
	theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	return err1 == nil && err2 == nil && ours != theirs
}

// asUser calls f: as the target's user if it is in another namespace of users, and this process
// may. f runs on the calling thread, which alone is another user meanwhile.
func (t *Target) asUser(f func() error) error {
	if !t.foreign || os.Geteuid() == t.uid {
		return f()
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("ask whether this process may be dumped: %w", err)
	}
	runtime.LockOSThread()
	uid, gid := os.Geteuid(), os.Getegid()
	err = become(unix.SYS_SETRESGID, t.gid)
	if err == nil {
		err = become(unix.SYS_SETRESUID, t.uid)
	}
	if err == nil {
		err = f()
	} else {
		err = fmt.Errorf("become user %d of the target, which is in another namespace of users: %w", t.uid, err)
	}
	if errors.Join(become(unix.SYS_SETRESUID, uid), become(unix.SYS_SETRESGID, gid)) != nil {
		return errors.Join(err, errors.New("become the user of before again")) // the thread ends with the goroutine
	}
	runtime.UnlockOSThread()
	const yes = 1
	if dumpable == yes { // the kernel lets its user no longer look at a process that was another
		err = errors.Join(err, unix.Prctl(unix.PR_SET_DUMPABLE, yes, 0, 0, 0))
	}
	return err
}

// become sets the effective user or group of the calling thread.
func become(call uintptr, id int) error {
	const keep = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(call, keep, uintptr(id), keep); errno != 0 {
		return errno
	}
	return nil
}
