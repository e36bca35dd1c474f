package gosym

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/privilege"
)

// openProc opens a file of /proc/PID.
func openProc(pid int, name string) (*os.File, error) {
	defer privilege.Raise().Lower()
	return os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
}

// openExecutable opens the program that a process runs, also where its path is
// gone or in another mount namespace.
func openExecutable(pid int) (*os.File, error) {
	defer privilege.Raise().Lower()
	name := fmt.Sprintf("/proc/%d/exe", pid)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return regular(os.NewFile(uintptr(fd), name))
}

// SectionSVM is a section that every native image of GraalVM has, for its heap.
const SectionSVM = ".svm_heap"

// HasSection reports whether the program that a process runs has a section. Only the names in
// usefulSections can be asked for.
func HasSection(ctx context.Context, pid int, w *hang.Watch, name string) (has bool, err error) {
	err = readExecutable(ctx, pid, w, func(_ *budget, f *elfFile) { has = f.section(name) != nil })
	return has, err
}

// BuildIDOf returns the build id of the executable that a process runs, as [Table.BuildID] does.
func BuildIDOf(ctx context.Context, pid int, w *hang.Watch) (id string, err error) {
	err = readExecutable(ctx, pid, w, func(b *budget, f *elfFile) { id = buildID(b, f) })
	return id, err
}

// readExecutable reads the headers of the executable that a process runs.
func readExecutable(ctx context.Context, pid int, w *hang.Watch, look func(*budget, *elfFile)) error {
	b, end := beginLoad(newBudget(ctx, 0), readRunDelay)
	defer end()
	f := &watchedFile{watch: w}
	err := w.Call(func() (err error) {
		f.File, err = openExecutable(pid)
		return err
	})
	if err != nil {
		return fmt.Errorf("open executable: %w", err)
	}
	defer f.Close()
	headers, err := readELF(b, f)
	if err != nil {
		return fmt.Errorf("read executable: %w", err)
	}
	look(b, headers)
	return nil
}

// openInTarget opens a file by its path in the mount namespace and root of a
// process. Links cannot lead out of that root, and only a regular file is
// opened: the target chooses the file.
func openInTarget(pid int, path string) (*os.File, error) {
	defer privilege.Raise().Lower()
	root := fmt.Sprintf("/proc/%d/root", pid)
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, strings.TrimPrefix(path, "/"), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root + path, Err: err}
	}
	return regular(os.NewFile(uintptr(fd), root+path))
}

// maxFile bounds the files that are read, bytes: a sparse file can claim any
// size.
const maxFile = 1 << 32

// regular returns the file if it is a regular one of a size that can be read,
// and else closes it.
func regular(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", f.Name())
	case info.Size() > maxFile:
		err = fmt.Errorf("%s has %d bytes, more than %d", f.Name(), info.Size(), uint64(maxFile))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// watchedFile is a file that the target has chosen, maybe on a file system of its own.
type watchedFile struct {
	*os.File
	watch *hang.Watch
}

func (f *watchedFile) ReadAt(p []byte, offset int64) (n int, err error) {
	if err := f.watch.Enter(); err != nil {
		return 0, err
	}
	defer f.watch.Leave()
	return f.File.ReadAt(p, offset)
}
