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
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
)

// WriteFile writes the snapshot to the file at path, in the format and
// compression of its name ([FormatOf]). Of a name like default.pgo it writes what
// [ForPGO] leaves.
//
// The file appears as a whole or not at all, even if the process is killed or the
// machine stops: the content goes to a temporary file in the same directory, is
// synced, and is renamed. A file or symbolic link at path is replaced; after an
// error in writing it still stands. A new file is for its owner alone; a
// replaced one keeps its owner and permissions, as far as the process may set them.
// Temporary files of processes that were killed are removed by the next WriteFile to
// the directory, once they are a day old where other machines may write to it.
//
// A stream ([IsStream]) is written into as it is. Errors name the file.
func WriteFile(path string, s *ccmap.Snapshot) error {
	format, compression, err := FormatOf(path)
	if err == nil && IsPGO(path) {
		s, err = ForPGO(s)
	}
	if err == nil {
		err = writeFile(path, format, compression, s)
	}
	return nameFile(path, err)
}

// WriteFileAs is [WriteFile] in a format that the name need not tell, uncompressed:
// for streams such as /dev/fd/3.
func WriteFileAs(path string, f Format, s *ccmap.Snapshot) error {
	return nameFile(path, writeFile(path, f, Plain, s))
}

// WriteOther writes, as [WriteFile] does, something that is not a profile.
func WriteOther(path string, write func(io.Writer) error) error {
	return nameFile(path, writeTo(path, write))
}

func writeFile(path string, f Format, c Compression, s *ccmap.Snapshot) error {
	return writeTo(path, func(w io.Writer) error { return writeCompressed(w, f, c, s) })
}

func writeTo(path string, write func(io.Writer) error) error {
	if IsStream(path) {
		return writeStream(path, write)
	}
	return replaceFile(path, write)
}

func nameFile(path string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	return nil
}

// cause drops the path from a file error, since it names the temporary file.
func cause(err error) error {
	var onPath *fs.PathError
	if errors.As(err, &onPath) {
		return onPath.Err
	}
	var onRename *os.LinkError
	if errors.As(err, &onRename) {
		return onRename.Err
	}
	return err
}

func writeCompressed(w io.Writer, f Format, c Compression, s *ccmap.Snapshot) error {
	z, err := compress(w, c)
	if err != nil {
		return err
	}
	if err := Write(z, f, s); err != nil {
		z.Close()
		return err
	}
	return z.Close()
}

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

// IsStream reports whether what is written to path goes elsewhere, so that no file may
// take its place: a pipe, a terminal or another character device, or a descriptor that
// this process was started with, such as /dev/fd/3 and /dev/stderr. A symbolic link to one
// of these is a stream, too, if the link belongs to this user or to root.
func IsStream(path string) bool {
	if fd, ok := Descriptor(path); ok {
		return isInherited(fd)
	}
	_, ok := deviceAt(path)
	return ok
}

// writeStream lets write write into the stream at path. The file that was checked is
// the one that is written to: path may lead elsewhere by then.
func writeStream(path string, write func(io.Writer) error) error {
	f, err := openStream(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	return f.Close()
}

func openStream(path string) (*os.File, error) {
	if fd, ok := Descriptor(path); ok {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(own), path), nil
	}
	return openDevice(path)
}

// Descriptor returns the descriptor of this process that path means, if it means one:
// /dev/fd is a link to /proc/self/fd, and /dev/stderr is a link to a name in it. Links
// that belong to this user or to root are followed.
func Descriptor(path string) (fd int, ok bool) {
	own, err := os.Stat("/proc/self/fd")
	const mostLinks = 40 // as many as the kernel follows
	for range mostLinks {
		if err != nil {
			return 0, false
		}
		var dir fs.FileInfo
		if dir, err = os.Stat(filepath.Dir(path)); err == nil && os.SameFile(dir, own) {
			fd, err := strconv.ParseUint(filepath.Base(path), 10, 31)
			return int(fd), err == nil
		}
		path, err = readTrusted(path)
	}
	return 0, false
}

// readTrusted returns where a symbolic link leads that belongs to this user or to root.
func readTrusted(link string) (string, error) {
	entry, err := os.Lstat(link)
	if err != nil {
		return "", err
	}
	if !isTrusted(entry) {
		return "", fs.ErrPermission
	}
	target, err := os.Readlink(link)
	if err == nil && !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(link), target)
	}
	return target, err
}

// isInherited reports whether the process was started with a descriptor: those that it
// opened itself are closed by execve(2).
func isInherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// deviceAt returns the pipe or character device at path, if there is one.
func deviceAt(path string) (fs.FileInfo, bool) {
	entry, err := os.Lstat(path)
	if err != nil || entry.Mode()&fs.ModeSymlink != 0 && !isTrusted(entry) {
		return nil, false
	}
	info, err := os.Stat(path)
	return info, err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0
}

// isTrusted reports whether a file belongs to this user or to root.
func isTrusted(info fs.FileInfo) bool {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	return owner == 0 || owner == os.Geteuid()
}

// ErrForeignPipe is why a pipe is not written to: its owner, neither this user nor
// root, may have put it there to read profiles.
var ErrForeignPipe = errors.New("the pipe belongs to another user")

// openDevice opens a pipe, which waits for its reader, or a character device.
func openDevice(path string) (*os.File, error) {
	checked, ok := deviceAt(path)
	if ok && checked.Mode()&fs.ModeNamedPipe != 0 && !isTrusted(checked) {
		return nil, ErrForeignPipe
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); !ok || err != nil || !os.SameFile(opened, checked) {
		f.Close()
		return nil, fmt.Errorf("another file took its place: %w", fs.ErrInvalid)
	}
	return f, nil
}
