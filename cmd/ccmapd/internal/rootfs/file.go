package rootfs

import (
	"io"
	"os"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
	"golang.org/x/sys/unix"
)

// file is an open file or directory of a guest. wazero uses it from one goroutine at a
// time, as it does the guest.
type file struct {
	experimental.UnimplementedFile
	file *os.File
	kind *sys.Stat_t // constant facts: device, inode and type; nil before the first request
}

func (f *file) Dev() (uint64, experimental.Errno) {
	st, errno := f.identity()
	return st.Dev, errno
}

func (f *file) Ino() (sys.Inode, experimental.Errno) {
	st, errno := f.identity()
	return st.Ino, errno
}

func (f *file) IsDir() (bool, experimental.Errno) {
	st, errno := f.identity()
	return st.Mode.IsDir(), errno
}

// identity asks the kernel once: wazero asks for the type at every path.
func (f *file) identity() (sys.Stat_t, experimental.Errno) {
	if f.kind == nil {
		st, errno := f.Stat()
		if errno != 0 {
			return st, errno
		}
		f.kind = &st
	}
	return *f.kind, 0
}

func (f *file) Stat() (sys.Stat_t, experimental.Errno) { return statOf(f.file.Stat()) }

// IsAppend asks the kernel, which knows the effect of SetAppend.
func (f *file) IsAppend() bool {
	flags, err := unix.FcntlInt(f.file.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_APPEND != 0
}

func (f *file) SetAppend(enable bool) experimental.Errno {
	flags, err := unix.FcntlInt(f.file.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return f.onFile(err)
	}
	flags &^= unix.O_APPEND
	if enable {
		flags |= unix.O_APPEND
	}
	_, err = unix.FcntlInt(f.file.Fd(), unix.F_SETFL, flags)
	return f.onFile(err)
}

func (f *file) Read(buf []byte) (int, experimental.Errno) {
	if len(buf) == 0 {
		return 0, 0
	}
	n, err := f.file.Read(buf)
	return n, f.onFile(err)
}

func (f *file) Pread(buf []byte, offset int64) (int, experimental.Errno) {
	if len(buf) == 0 {
		return 0, 0
	}
	n, err := f.file.ReadAt(buf, offset)
	return n, f.onFile(err)
}

// position is in bytes. With this name go vet does not take Seek for io.Seeker's, which
// returns an error instead of wazero's Errno.
type position = int64

// Seek moves the position of a file, or rewinds a directory.
func (f *file) Seek(offset position, whence int) (position, experimental.Errno) {
	if uint(whence) > io.SeekEnd {
		return 0, experimental.EINVAL
	}
	if isDir, _ := f.IsDir(); isDir && (offset != 0 || whence != io.SeekStart) {
		return 0, experimental.EISDIR
	}
	at, err := f.file.Seek(offset, whence)
	return at, errnoOf(err)
}

// Readdir returns the next n entries, or all remaining ones if n is not positive.
func (f *file) Readdir(n int) ([]experimental.Dirent, experimental.Errno) {
	infos, err := f.file.Readdir(n)
	if errno := errnoOf(err); errno != 0 {
		return nil, experimental.EBADF // closed, or not a directory
	}
	entries := make([]experimental.Dirent, len(infos))
	for i, info := range infos {
		entries[i] = experimental.Dirent{Name: info.Name(), Ino: sys.NewStat_t(info).Ino, Type: info.Mode().Type()}
	}
	return entries, 0
}

func (f *file) Write(buf []byte) (int, experimental.Errno) {
	if len(buf) == 0 {
		return 0, 0
	}
	n, err := f.file.Write(buf)
	return n, f.onFile(err)
}

// Pwrite writes at an offset. It calls the kernel directly: package os refuses files that
// were opened for appending, and POSIX does not.
func (f *file) Pwrite(buf []byte, offset int64) (n int, errno experimental.Errno) {
	for n < len(buf) && errno == 0 {
		written, err := unix.Pwrite(int(f.file.Fd()), buf[n:], offset+int64(n))
		n += max(written, 0)
		if err != unix.EINTR {
			errno = f.onFile(err)
		}
	}
	return n, errno
}

func (f *file) Truncate(size int64) experimental.Errno {
	if size < 0 {
		return experimental.EINVAL
	}
	return f.onFile(f.file.Truncate(size))
}

func (f *file) Sync() experimental.Errno { return errnoOf(f.file.Sync()) }

func (f *file) Datasync() experimental.Errno { return errnoOf(unix.Fdatasync(int(f.file.Fd()))) }

func (f *file) Utimens(atim, mtim int64) experimental.Errno {
	times := []unix.Timespec{timespecOf(atim), timespecOf(mtim)}
	// An empty path names the descriptor itself (utimensat(2), AT_EMPTY_PATH).
	return errnoOf(unix.UtimesNanoAt(int(f.file.Fd()), "", times, unix.AT_EMPTY_PATH))
}

func timespecOf(ns int64) unix.Timespec {
	if ns == experimental.UTIME_OMIT {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return unix.NsecToTimespec(ns)
}

func (f *file) Close() experimental.Errno {
	if errno := errnoOf(f.file.Close()); errno != experimental.EBADF {
		return errno
	}
	return 0 // closed
}

// onFile returns the error of an operation that directories do not have. For a directory
// it is EISDIR, with any error of the kernel.
func (f *file) onFile(err error) experimental.Errno {
	errno := errnoOf(err)
	if errno == 0 || errno == experimental.EBADF && f.isClosed() {
		return errno
	}
	if isDir, _ := f.IsDir(); isDir {
		return experimental.EISDIR
	}
	return errno
}

func (f *file) isClosed() bool {
	_, errno := f.Stat()
	return errno != 0
}
