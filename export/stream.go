package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

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
