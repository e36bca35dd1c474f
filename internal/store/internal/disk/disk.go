// Package disk is what the store needs of a file system: names below one directory, which no other user can change.
// Each use walks to the directory anew ([safepath]): it may have been mounted, or have got another owner.
//
// Any goroutine may call the methods.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/safepath"
)

// Mode is the mode of directories that are made.
const Mode = 0o750

// File is a new file. Writes go to its end.
type File interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	io.Closer
}

// Source is a regular file that is read.
type Source interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// Dir is a directory. Names are relative to it.
type Dir struct{ path string }

// At returns the directory of a path, which need not exist.
func At(path string) Dir { return Dir{path} }

// Create makes a new file, and the directories above it. Neither is durable before [Dir.SyncDir].
func (d Dir) Create(name string) (File, error) {
	parent, err := safepath.MakeDir(filepath.Join(d.path, filepath.Dir(name)), Mode)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | os.O_EXCL | unix.O_NOFOLLOW
	f, err := os.OpenFile(safepath.At(parent, filepath.Base(name)), flags, 0o600)
	if err != nil {
		return nil, d.named("create", name, err)
	}
	return f, nil
}

// Extend opens a regular file that exists, to append to it.
func (d Dir) Extend(name string) (File, error) {
	parent, err := safepath.OpenDir(filepath.Join(d.path, filepath.Dir(name)))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	const flags = os.O_WRONLY | os.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(safepath.At(parent, filepath.Base(name)), flags, 0)
	if err != nil {
		return nil, d.named("extend", name, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, d.named("extend", name, errors.New("not a regular file"))
	}
	return f, nil
}

// Open opens a regular file. It waits for nothing, and follows no link.
func (d Dir) Open(name string) (Source, error) {
	parent, err := safepath.OpenDir(filepath.Join(d.path, filepath.Dir(name)))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	const flags = os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(safepath.At(parent, filepath.Base(name)), flags, 0)
	if err != nil {
		return nil, d.named("open", name, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, d.named("open", name, errors.New("not a regular file"))
	}
	return f, nil
}

// Stat looks at a name, and follows no link.
func (d Dir) Stat(name string) (fs.FileInfo, error) {
	parent, err := safepath.OpenDir(filepath.Join(d.path, filepath.Dir(name)))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	info, err := os.Lstat(safepath.At(parent, filepath.Base(name)))
	return info, d.named("look at", name, err)
}

// List lists a directory by name. It leaves out names that are gone by then.
func (d Dir) List(name string) ([]fs.FileInfo, error) {
	dir, err := safepath.OpenDir(filepath.Join(d.path, name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root, err := os.OpenRoot(safepath.At(dir, ".")) // its Lstat is a call with a descriptor, and no walk through /proc
	if err != nil {
		return nil, d.named("list", name, err)
	}
	defer root.Close()
	f, err := root.Open(".")
	if err != nil {
		return nil, d.named("list", name, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	infos := make([]fs.FileInfo, 0, len(names))
	for _, name := range names {
		if info, err := root.Lstat(name); err == nil {
			infos = append(infos, info)
		}
	}
	return infos, d.named("list", name, err)
}

// Rename replaces a name of a directory by another one of the same directory.
func (d Dir) Rename(from, to string) error { return d.inDir("rename", from, to, os.Rename) }

// Link gives a file a second name in the same directory.
func (d Dir) Link(from, to string) error { return d.inDir("link", from, to, os.Link) }

func (d Dir) inDir(verb, from, to string, do func(from, to string) error) error {
	parent, err := safepath.OpenDir(filepath.Join(d.path, filepath.Dir(to)))
	if err != nil {
		return err
	}
	defer parent.Close()
	return d.named(verb, to, do(safepath.At(parent, filepath.Base(from)), safepath.At(parent, filepath.Base(to))))
}

// Remove removes a file, or a directory that is empty.
func (d Dir) Remove(name string) error {
	parent, err := safepath.OpenDir(filepath.Join(d.path, filepath.Dir(name)))
	if err != nil {
		return err
	}
	defer parent.Close()
	return d.named("remove", name, os.Remove(safepath.At(parent, filepath.Base(name))))
}

// SyncDir makes the names of a directory durable, and the names of the directories on the way to it.
func (d Dir) SyncDir(name string) error {
	for ; ; name = filepath.Dir(name) {
		if err := d.syncOne(name); err != nil {
			return err
		}
		if name == "." {
			return nil
		}
	}
}

func (d Dir) syncOne(name string) error {
	dir, err := safepath.OpenDir(filepath.Join(d.path, name))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := os.Open(safepath.At(dir, "."))
	if err != nil {
		return d.named("open", name, err)
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil // directories of this file system cannot be synced
	}
	return d.named("sync", name, err)
}

// named names the file of an error, whose own path is of a descriptor.
func (d Dir) named(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	var onPath *fs.PathError
	var onLink *os.LinkError
	switch {
	case errors.As(err, &onPath):
		err = onPath.Err
	case errors.As(err, &onLink):
		err = onLink.Err
	}
	return fmt.Errorf("%s %s: %w", verb, filepath.Join(d.path, name), err)
}
