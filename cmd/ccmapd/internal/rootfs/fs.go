// Package rootfs gives a WebAssembly guest one directory of the host, and nothing outside
// it.
//
// wazero's own directory mounts join paths and leave symbolic links to the kernel, so a
// guest that makes a link can leave its directory. Here every path is resolved component
// by component beneath an [os.Root] (Go 1.24). A symbolic link may lead anywhere inside
// the directory. An absolute link, or a link that leads out, is EPERM. That holds even if
// another process exchanges directories for links at the same time.
//
// Mounts inside the directory belong to it, devices included, as os.Root documents.
package rootfs

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/sys"
	"golang.org/x/sys/unix"
)

// FS is a directory of the host as a guest's file system. Any goroutine may use it. Paths
// are as wazero makes them: relative, with slashes; "." or empty is the directory itself.
type FS struct {
	experimental.UnimplementedFS
	root *os.Root
}

// Open opens a directory. The error names the directory.
func Open(directory string) (*FS, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	if err := readable(root); err != nil {
		root.Close()
		return nil, err
	}
	return &FS{root: root}, nil
}

// readable returns an error for an unreadable directory now, before a guest's start:
// wazero opens the directory when the guest first uses it, and then panics.
func readable(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return d.Close()
}

// Close releases the directory. Files that the guest has open stay open.
func (f *FS) Close() error { return f.root.Close() }

// String returns the directory.
func (f *FS) String() string { return f.root.Name() }

// OpenFile opens a file or a directory.
func (f *FS) OpenFile(name string, flag experimental.Oflag, perm fs.FileMode) (experimental.File, experimental.Errno) {
	if flag&experimental.O_NOFOLLOW != 0 {
		if info, err := f.root.Lstat(within(name)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, experimental.ELOOP // os.Root follows the last component, with any flags
		}
	}
	opened, err := f.root.OpenFile(within(name), hostFlags(flag), perm)
	if err != nil {
		return nil, errnoOf(err)
	}
	return &file{file: opened}, 0
}

// Lstat describes a file, or the symbolic link that a path names.
func (f *FS) Lstat(name string) (sys.Stat_t, experimental.Errno) {
	return statOf(f.root.Lstat(within(name)))
}

// Stat describes the file that a path leads to.
func (f *FS) Stat(name string) (sys.Stat_t, experimental.Errno) {
	return statOf(f.root.Stat(within(name)))
}

// Mkdir makes a directory. If its parent is not a directory, wazero's callers expect
// ENOENT.
func (f *FS) Mkdir(name string, perm fs.FileMode) experimental.Errno {
	errno := errnoOf(f.root.Mkdir(within(name), perm.Perm()))
	if errno == experimental.ENOTDIR {
		return experimental.ENOENT
	}
	return errno
}

// Chmod changes the permissions of the file that a path leads to.
func (f *FS) Chmod(name string, perm fs.FileMode) experimental.Errno {
	return errnoOf(f.root.Chmod(within(name), perm))
}

// Rename moves a file inside the directory. os.Root.Rename refuses to replace an empty
// directory, which POSIX allows.
func (f *FS) Rename(from, to string) experimental.Errno {
	if from == to {
		return 0
	}
	source, oldName, errno := f.parent(from)
	if errno != 0 {
		return errno
	}
	defer source.Close()
	target, newName, errno := f.parent(to)
	if errno != 0 {
		return errno
	}
	defer target.Close()
	return errnoOf(unix.Renameat(int(source.Fd()), oldName, int(target.Fd()), newName))
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(name string) experimental.Errno { return f.remove(name, unix.AT_REMOVEDIR) }

// Unlink removes a file or a symbolic link; EISDIR for a directory.
func (f *FS) Unlink(name string) experimental.Errno { return f.remove(name, 0) }

// remove removes one kind of entry: os.Root.Remove takes both kinds.
func (f *FS) remove(name string, flags int) experimental.Errno {
	directory, base, errno := f.parent(name)
	if errno != 0 {
		return errno
	}
	defer directory.Close()
	return errnoOf(unix.Unlinkat(int(directory.Fd()), base, flags))
}

// parent opens the directory that holds an entry, and returns the entry's name in it.
func (f *FS) parent(name string) (directory *os.File, base string, errno experimental.Errno) {
	above, base := path.Split(strings.TrimRight(within(name), "/"))
	if base == "" || base == "." || base == ".." {
		return nil, "", experimental.EINVAL
	}
	directory, err := f.root.Open(within(above))
	return directory, base, errnoOf(err)
}

// Link gives a file a second name.
func (f *FS) Link(from, to string) experimental.Errno {
	return errnoOf(f.root.Link(within(from), within(to)))
}

// Symlink makes a symbolic link. An absolute link is EPERM, as in WASI. The target of a
// relative link is checked when it is followed.
func (f *FS) Symlink(to, name string) experimental.Errno {
	if path.IsAbs(to) {
		return experimental.EPERM
	}
	return errnoOf(f.root.Symlink(to, within(name)))
}

// Readlink returns the target of a symbolic link.
func (f *FS) Readlink(name string) (string, experimental.Errno) {
	to, err := f.root.Readlink(within(name))
	return to, errnoOf(err)
}

// Utimens sets the times of a file, in ns since 1970. UTIME_OMIT keeps a time.
func (f *FS) Utimens(name string, atim, mtim int64) experimental.Errno {
	return errnoOf(f.root.Chtimes(within(name), timeOf(atim), timeOf(mtim)))
}

// timeOf returns the zero time for UTIME_OMIT: os.Root.Chtimes keeps such a time.
func timeOf(ns int64) time.Time {
	if ns == experimental.UTIME_OMIT {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// within turns a guest's path into a path of os.Root.
func within(name string) string {
	if name = strings.TrimLeft(name, "/"); name == "" {
		return "."
	}
	return name
}

func statOf(info fs.FileInfo, err error) (sys.Stat_t, experimental.Errno) {
	if err != nil {
		return sys.Stat_t{}, errnoOf(err)
	}
	return sys.NewStat_t(info), 0
}

// errnoOf returns the guest's error. os.Root returns no error of the system if a path
// leads out of the directory: in WASI that is "not permitted".
func errnoOf(err error) experimental.Errno {
	errno := experimental.UnwrapOSError(err)
	if _, system := unwrapped(err).(syscall.Errno); errno == experimental.EIO && !system {
		return experimental.EPERM
	}
	return errno
}

// unwrapped returns the innermost error of package os's errors.
func unwrapped(err error) error {
	for {
		wrapper, ok := err.(interface{ Unwrap() error })
		if !ok || wrapper.Unwrap() == nil {
			return err
		}
		err = wrapper.Unwrap()
	}
}

// openFlags pairs wazero's flags with the host's.
var openFlags = []struct {
	guest experimental.Oflag
	host  int
}{
	{experimental.O_RDWR, os.O_RDWR},
	{experimental.O_WRONLY, os.O_WRONLY},
	{experimental.O_APPEND, os.O_APPEND},
	{experimental.O_CREAT, os.O_CREATE},
	{experimental.O_DIRECTORY, unix.O_DIRECTORY},
	{experimental.O_DSYNC, unix.O_DSYNC},
	{experimental.O_EXCL, os.O_EXCL},
	{experimental.O_NONBLOCK, unix.O_NONBLOCK},
	{experimental.O_RSYNC, unix.O_RSYNC},
	{experimental.O_SYNC, os.O_SYNC},
	{experimental.O_TRUNC, os.O_TRUNC},
}

func hostFlags(flag experimental.Oflag) int {
	host := os.O_RDONLY
	for _, f := range openFlags {
		if flag&f.guest != 0 {
			host |= f.host
		}
	}
	return host
}

// ReadOnly returns the directory as a file system that changes nothing. Closing f closes
// it.
func (f *FS) ReadOnly() experimental.FS { return &readOnly{sysfs.ReadFS{FS: f}} }

// readOnly mends wazero's read-only mounts, which let a guest make or empty a file by
// opening it for reading (wazero 1.12, internal/sysfs/readfs.go).
type readOnly struct{ sysfs.ReadFS }

func (r *readOnly) OpenFile(name string, flag experimental.Oflag, perm fs.FileMode) (experimental.File, experimental.Errno) {
	if flag&(experimental.O_CREAT|experimental.O_TRUNC) != 0 {
		return nil, experimental.EROFS
	}
	return r.ReadFS.OpenFile(name, flag, perm)
}
