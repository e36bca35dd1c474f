// Package safepath opens files and directories that no other user can change, replace or lead
// elsewhere. Other users are all but root and the user of this process. It works like this:
//
//  1. A path is walked from / on, a name at a time. Each level is opened below the one before it, which
//     stays open (openat(2) with O_PATH and O_NOFOLLOW).
//  2. The opened level is checked, not its name, which may mean another one a moment later. Its owner
//     must be root or this user, and others must not be able to write to it. Of a bind mount, the
//     directory that it shows is checked.
//  3. A directory on the way may be sticky, as /tmp is: others can add names to it, but cannot replace
//     the names of root and of this user (unlink(2), EPERM). The last directory of a path must not be
//     writable for others, sticky or not.
//  4. A symbolic link is followed if root or this user has made it. The kernel does not follow it:
//     its names are walked like others.
//
// A walk costs three system calls a level. It is made anew for each use: so a path may be mounted
// over, or mended, while the process runs.
//
// Not defended: a file system whose server is another user, and which claims that its files are root's
// (FUSE with allow_other). It must be mounted at a directory that this user has named.
//
// Any goroutine may call the functions.
package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/advice"
)

// ErrOthers says that other users can change a file or directory, or lead a path elsewhere. It has
// advice.
var ErrOthers = errors.New("others than root and this user can change it")

// OpenDir opens a directory with O_PATH. [At] makes paths below it.
func OpenDir(name string) (*os.File, error) { return openDir(name, 0) }

// MakeDir is [OpenDir], and makes the directories that are missing, with a mode before the umask.
func MakeDir(name string, mode fs.FileMode) (*os.File, error) { return openDir(name, mode.Perm()) }

func openDir(name string, missing fs.FileMode) (*os.File, error) {
	w, err := walk(name, missing)
	if err != nil {
		return nil, err
	}
	err = w.isLast()
	if err != nil {
		unix.Close(w.fd)
		return nil, err
	}
	return os.NewFile(uintptr(w.fd), w.at), nil
}

// OpenFile opens a regular file for reading. Its directory may be sticky.
func OpenFile(name string) (*os.File, error) {
	w, err := walk(name, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(w.fd)
	switch kind := w.Mode & unix.S_IFMT; {
	case kind != unix.S_IFREG:
		return nil, fmt.Errorf("%s is not a regular file", name)
	case changedByOthers(&w.Stat_t) || hasOtherWriters(w.fd, &w.Stat_t):
		return nil, w.refuse("file")
	}
	return os.Open(pinned(w.fd)) // the file that was checked
}

// At returns a path to a name in an open directory. It leads there even after the directory was renamed
// or replaced. It is for calls that take no directory.
func At(dir *os.File, name string) string { return path.Join(pinned(int(dir.Fd())), name) }

func pinned(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// mostLinks is the kernel's bound on symbolic links in a path (path_resolution(7)).
const mostLinks = 40

// walker is a walk that has come to a level.
type walker struct {
	unix.Stat_t             // of the level
	fd          int         // of the level, O_PATH
	at          string      // its path, without symbolic links
	rest        []string    // the remaining names
	links       int         // that were followed
	missing     fs.FileMode // of directories that are made; 0: none is
}

// walk walks a path to its end. The caller closes the level that it has come to.
func walk(name string, missing fs.FileMode) (*walker, error) {
	if !path.IsAbs(name) {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
		name = dir + "/" + name // ".." in it must not be cleaned away: it may follow a link
	}
	w := &walker{fd: -1, missing: missing, rest: strings.Split(name, "/")}
	err := w.toRoot()
	for err == nil && len(w.rest) > 0 {
		err = w.step()
	}
	if err != nil {
		unix.Close(w.fd)
		return nil, err
	}
	return w, nil
}

// toRoot begins at /.
func (w *walker) toRoot() error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	return w.enter(fd, "/")
}

// step goes to the next name.
func (w *walker) step() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	if name == "" || name == "." {
		return nil
	}
	if err := w.mayPass(); err != nil {
		return err
	}
	fd, err := w.open(name)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path.Join(w.at, name), Err: err}
	}
	return w.enter(fd, path.Join(w.at, name))
}

// open opens a name in the directory that the walk has come to. A missing directory is made. Another
// process may make it first: then that one is opened, and checked like others.
func (w *walker) open(name string) (int, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(w.fd, name, flags, 0)
	if err != unix.ENOENT || w.missing == 0 {
		return fd, err
	}
	if err := unix.Mkdirat(w.fd, name, uint32(w.missing)); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return unix.Openat(w.fd, name, flags, 0)
}

// enter makes a descriptor the level of the walk, or follows it if it is a symbolic link.
func (w *walker) enter(fd int, at string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return &fs.PathError{Op: "stat", Path: at, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		defer unix.Close(fd)
		return w.follow(fd, at, &st)
	}
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
	w.fd, w.at, w.Stat_t = fd, at, st
	return nil
}

// follow puts the names of a symbolic link in front of the remaining names.
func (w *walker) follow(fd int, at string, st *unix.Stat_t) error {
	if w.links++; w.links > mostLinks {
		return &fs.PathError{Op: "open", Path: at, Err: unix.ELOOP}
	}
	if isOthers(st) {
		return advice.Add(fmt.Errorf("symbolic link %s is user %d's: %w", at, st.Uid, ErrOthers),
			"Name the path that it leads to, if you trust that, or make the link anew as root.")
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return &fs.PathError{Op: "readlink", Path: at, Err: err}
	}
	to := string(target[:n])
	w.rest = append(strings.Split(to, "/"), w.rest...)
	if path.IsAbs(to) {
		return w.toRoot()
	}
	return nil
}

// mayPass returns an error unless the level is a directory whose names others cannot replace.
func (w *walker) mayPass() error {
	if w.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &fs.PathError{Op: "open", Path: w.at, Err: unix.ENOTDIR}
	}
	if isOthers(&w.Stat_t) || w.Mode&unix.S_ISVTX == 0 && (changedByOthers(&w.Stat_t) || hasOtherWriters(w.fd, &w.Stat_t)) {
		return w.refuse("directory")
	}
	return nil
}

// isLast returns an error unless the level is a directory that others cannot put anything in.
func (w *walker) isLast() error {
	if err := w.mayPass(); err != nil {
		return err
	}
	if changedByOthers(&w.Stat_t) || hasOtherWriters(w.fd, &w.Stat_t) {
		return w.refuse("directory")
	}
	return nil
}

// refuse says why others can change the level, and how to mend that.
func (w *walker) refuse(kind string) error {
	why, cure := fmt.Sprintf("has mode %04o and group %d", w.Mode&0o7777, w.Gid), "chmod go-w "+w.at
	switch {
	case isOthers(&w.Stat_t):
		why, cure = fmt.Sprintf("is user %d's", w.Uid), "chown root "+w.at
	case !changedByOthers(&w.Stat_t):
		why, cure = "has an access control list", "setfacl -b "+w.at
	}
	return advice.Add(fmt.Errorf("%s %s %s: %w", kind, w.at, why, ErrOthers), "%s mends it, or name another path.", cure)
}

// isOthers reports whether a file or directory belongs to another user.
func isOthers(st *unix.Stat_t) bool { return st.Uid != 0 && int(st.Uid) != os.Geteuid() }

// changedByOthers reports whether others may write. A group of one's own, as many distributions give
// each user, is no other.
func changedByOthers(st *unix.Stat_t) bool {
	return isOthers(st) || st.Mode&unix.S_IWGRP != 0 && st.Gid != 0 && int(st.Gid) != os.Getegid() || st.Mode&unix.S_IWOTH != 0
}

// hasOtherWriters reports whether an access control list may let others write: where there is one, the bits
// of the group are a mask of all that it lets in (acl(5)).
func hasOtherWriters(fd int, st *unix.Stat_t) bool {
	if st.Mode&unix.S_IWGRP == 0 {
		return false
	}
	n, err := unix.Getxattr(pinned(fd), "system.posix_acl_access", nil)
	return err == nil && n > 0
}
