package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// replaceFile lets write write a file that takes the place of the one at path. Whenever the
// process or the machine stops, the path holds the old content or the new one:
//
//  1. Temporary files that dead writers left in the directory are removed.
//  2. A temporary file is created for its owner alone. Its writer holds a lock on it
//     as long as it lives.
//  3. The content is written.
//  4. Owner and permissions of the replaced file are taken over.
//  5. The file is synced.
//  6. It is renamed to path.
//  7. The directory is synced.
//
// After an error in step 7 the new content stands at path, but may not survive a
// crash of the machine.
func replaceFile(path string, write func(io.Writer) error) error {
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if dir != nil {
		collect(dir, isShared(dir))
	}
	f, err := createTemp(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks the file; it was synced
	err = write(f)
	if err == nil {
		inherit(f, path)
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name()) // the first error is the one to report
		return err
	}
	return syncDir(dir, f)
}

// openDir opens a directory to list and sync it. It returns nil for one that the
// process may write to but not read.
func openDir(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return dir, err
}

// syncDir makes a renaming in dir durable. Journals of Linux file systems commit it
// with a sync of the renamed file, too, which serves where dir is nil.
func syncDir(dir, renamed *os.File) error {
	if dir == nil {
		return renamed.Sync()
	}
	err := dir.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil // directories of this file system cannot be synced
	}
	return err
}

// createTemp creates a locked file that did not exist, and follows no link to it.
func createTemp(dir string) (*os.File, error) {
	const attempts = 100
	err := error(fs.ErrExist)
	for range attempts {
		var f *os.File
		name := filepath.Join(dir, fmt.Sprintf(tempFormat, rand.Uint64()))
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil || claim(f) {
			return f, err
		}
		f.Close()
		err = fs.ErrExist
	}
	return nil, err
}

// tempFormat makes the names of temporary files, and isTemp finds them.
const tempFormat = ".ccmapd-%016x.tmp"

var isTemp = regexp.MustCompile(`^\.ccmapd-[0-9a-f]{16}\.tmp$`).MatchString

// claim locks a new temporary file, which says that its writer lives. It fails if
// another process has collected the file before. A file system without locks leaves
// the file unlocked.
func claim(f *os.File) bool {
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return false
	}
	opened, err1 := f.Stat()
	named, err2 := os.Lstat(f.Name())
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

const (
	// mostNames bounds how much of a directory is searched for temporary files.
	// Any user may fill /tmp.
	mostNames = 1 << 16

	// longestWrite is how long a writer may live whose lock cannot be seen, because its
	// file system has none or does not tell other machines.
	longestWrite = 24 * time.Hour
)

// isShared reports whether programs on other machines may write to a directory. Their
// locks may be unknown here: NFS mounted with local_lock (nfs(5)), 9p and FUSE keep locks
// to each machine. File systems that are not known to be of one machine count as shared.
func isShared(dir *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(dir.Fd()), &s) != nil || !isOfOneMachine(int64(s.Type))
}

// isOfOneMachine reports whether all programs that use a file system run on this kernel,
// which then knows all of their locks.
func isOfOneMachine(kind int64) bool {
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}

// collect removes the temporary files in a directory whose writers are dead. It
// reports no error: the new file does not depend on it.
func collect(dir *os.File, shared bool) {
	const batch = 1024
	for range mostNames / batch {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if isTemp(name) {
				collectOne(int(dir.Fd()), name, shared)
			}
		}
		if err != nil {
			return // the end, or a directory that cannot be listed
		}
	}
}

// collectOne removes a temporary file if its writer is dead: the lock on it is free
// then, whichever container the writer was in. Where a lock proves nothing, in a shared
// directory or without locks, the file must be old, too. It leaves files of other users,
// unless this one is root, and all that is not a regular file.
func collectOne(dir int, name string, shared bool) {
	var s unix.Stat_t
	if unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil || s.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	if user := os.Geteuid(); user != 0 && user != int(s.Uid) {
		return
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd) // after the removal, lest a new writer locks the file in between
	switch err := unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return
	case (err != nil || shared) && time.Since(time.Unix(s.Mtim.Unix())) < longestWrite:
		return
	}
	_ = unix.Unlinkat(dir, name, 0)
}

// inherit gives f owner, group and permissions of the regular file at path, which f is
// about to replace, as far as the process may. Where it may not, f stays its own and
// the group has no more permissions than all others have. Without a file to replace, f
// stays for its owner alone: it holds command lines.
//
// A file that another user has put into a sticky directory, such as /tmp, passes
// nothing on. That user could wait there for a profile of root.
func inherit(f *os.File, path string) {
	old, err := os.Lstat(path)
	if err != nil || !old.Mode().IsRegular() {
		return
	}
	owner := old.Sys().(*syscall.Stat_t)
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil || dir.Mode()&fs.ModeSticky != 0 && int(owner.Uid) != os.Geteuid() {
		return
	}
	mode := old.Mode().Perm()
	if f.Chown(int(owner.Uid), int(owner.Gid)) != nil && f.Chown(-1, int(owner.Gid)) != nil {
		mode &= 0o707 | mode<<3&0o070
	}
	_ = f.Chmod(mode) // else it keeps fewer
}
