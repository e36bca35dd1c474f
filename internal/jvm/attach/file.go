package attach

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fileMode lets the JVM's user read a file that another user has made.
const fileMode = 0o644

// WithFile makes a file in the target's /tmp for a command that reads one. use gets its path
// as the JVM sees it. The file is gone when WithFile returns.
func (t *Target) WithFile(content []byte, use func(path string) error) (err error) {
	tmp, err := t.openTmp()
	if err != nil {
		return err
	}
	defer unix.Close(tmp)
	name := ".ccmapd-" + rand.Text()
	fd, err := t.create(tmp, name, fileMode)
	if err != nil {
		return explainFile("a file", err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() {
		if gone := unix.Unlinkat(tmp, name, 0); gone != nil && !errors.Is(gone, unix.ENOENT) {
			err = errors.Join(err, fmt.Errorf("remove /tmp/%s of the target: %w", name, gone))
		}
	}()
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(fileMode) // whatever our umask is
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write a file in the target's /tmp: %w", err)
	}
	return use(path.Join("/tmp", name))
}

// create makes a file that was not there, as a user that may.
func (t *Target) create(dir int, name string, mode uint32) (fd int, err error) {
	err = t.asUser(func() (err error) {
		fd, err = unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}

// OpenFolder opens a directory of the target's, by its path as the target sees it.
func (t *Target) OpenFolder(name string) (*os.File, error) {
	fd, err := openInside(t.root, strings.TrimPrefix(name, "/"), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("open a folder of the target: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// OpenIn opens a file in such a directory for reading. It must be a regular one, of the target's
// user.
func (t *Target) OpenIn(folder *os.File, name string) (*os.File, error) {
	handle, err := openInside(int(folder.Fd()), name, unix.O_PATH)
	if err != nil {
		return nil, fmt.Errorf("open a file of the target: %w", err)
	}
	defer unix.Close(handle)
	var st unix.Stat_t
	switch err := unix.Fstat(handle, &st); {
	case err != nil:
		return nil, fmt.Errorf("look at a file of the target: %w", err)
	case st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != t.uid:
		return nil, fmt.Errorf("%w: it is not a regular file of the target's user", ErrUnsafe)
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(handle))
}
