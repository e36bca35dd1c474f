package attach

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"

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
