package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// connect returns a connection to the JVM, which makes its socket if there is none.
func (t *Target) connect(ctx context.Context) (net.Conn, error) {
	if err := t.mayCommand(os.Geteuid()); err != nil {
		return nil, err
	}
	tmp, err := t.openTmp()
	if err != nil {
		return nil, err
	}
	defer unix.Close(tmp)
	socket, err := t.openSocket(tmp)
	switch {
	case errors.Is(err, unix.ENOENT):
		socket, err = t.wake(ctx, tmp)
	case err == nil:
		unix.Unlinkat(tmp, t.attachFile(), 0) // left by a tool that was killed
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(socket)
	return t.dial(ctx, socket)
}

// mayCommand returns an error for users whom the JVM refuses (matches_effective_uid_and_gid_or_root of
// src/hotspot/os/posix/os_posix.cpp, OpenJDK 17 to 25). Nothing in its /tmp is touched for them.
func (t *Target) mayCommand(user int) error {
	if user != 0 && user != t.uid {
		return fmt.Errorf("talk to the JVM: %w, which are %d and 0: %w", ErrOthers, t.uid, os.ErrPermission)
	}
	return nil
}

// openTmp opens the target's own /tmp, which must not be a symbolic link.
func (t *Target) openTmp() (int, error) {
	tmp, err := openInside(t.root, "tmp", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, fmt.Errorf("%w: open the target's /tmp: %w", ErrUnsafe, err)
	}
	return tmp, nil
}

// openSocket opens the file of the JVM's socket, if it is one that the JVM can have made.
func (t *Target) openSocket(tmp int) (int, error) {
	fd, err := openInside(tmp, ".java_pid"+strconv.Itoa(t.inner), unix.O_PATH)
	if err != nil {
		return -1, fmt.Errorf("open socket: %w", err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		switch {
		case st.Mode&unix.S_IFMT != unix.S_IFSOCK:
			err = fmt.Errorf("%w: the JVM's socket is none", ErrUnsafe)
		case int(st.Uid) != t.uid:
			err = fmt.Errorf("%w: the JVM's socket belongs to user %d, not %d", ErrUnsafe, st.Uid, t.uid)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// wake makes the JVM listen, and returns its socket.
func (t *Target) wake(ctx context.Context, tmp int) (int, error) {
	if err := t.awaitHandler(ctx); err != nil {
		return -1, err
	}
	name := t.attachFile()
	err := t.makeFile(tmp, name)
	if errors.Is(err, unix.EEXIST) { // another tool is about to signal, or was killed before it did
		socket, waited := t.awaitSocket(ctx, tmp)
		if !errors.Is(waited, ErrSilent) {
			return socket, waited
		}
		if err = unix.Unlinkat(tmp, name, 0); err == nil {
			err = t.makeFile(tmp, name)
		}
	}
	if err != nil {
		return -1, explainFile("the attach file", err)
	}
	defer unix.Unlinkat(tmp, name, 0)
	if err := t.quit(); err != nil {
		return -1, err
	}
	return t.awaitSocket(ctx, tmp)
}

// quit sends SIGQUIT. The process may have executed another program since it was opened, so it is
// looked at right before: a program that does not handle the signal would end.
func (t *Target) quit() error {
	switch s, err := readStatus(t.pid); {
	case err != nil:
		return err
	case s.uid != t.uid:
		return fmt.Errorf("%w: the process has become another user's", ErrUnsafe)
	case !s.quits:
		return ErrStarting
	}
	defer privilege.RaiseToWake().Lower()
	err := unix.PidfdSendSignal(t.pidfd, unix.SIGQUIT, nil, 0)
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("send SIGQUIT: %w: %w", ErrAsleep, os.ErrPermission)
	case err != nil:
		return explain("send SIGQUIT", err)
	}
	return nil
}

// attachFile is the name of the file that tells the JVM why it is signalled. It is of no use any more
// when the socket is there.
func (t *Target) attachFile() string { return ".attach_pid" + strconv.Itoa(t.inner) }

func explainFile(what string, err error) error {
	if errors.Is(err, unix.EPERM) {
		err = unix.EACCES
	}
	return fmt.Errorf("create %s in the target's /tmp: %w", what, err)
}

// awaitHandler waits until the JVM handles SIGQUIT, which kills it before.
func (t *Target) awaitHandler(ctx context.Context) error {
	return poll(ctx, startUpTime, ErrStarting, func() (bool, error) {
		s, err := readStatus(t.pid)
		return s.quits, err
	})
}

// awaitSocket waits until the JVM has made its socket. The JVM is asked to make it by a
// signal, so it can take as long as it is stopped.
func (t *Target) awaitSocket(ctx context.Context, tmp int) (fd int, err error) {
	err = poll(ctx, socketTime, ErrSilent, func() (bool, error) {
		fd, err = t.openSocket(tmp)
		if errors.Is(err, unix.ENOENT) {
			return false, t.alive()
		}
		return err == nil, err
	})
	return fd, err
}

// alive returns an error if the process has ended. A process of another user cannot be signalled, and is
// alive.
func (t *Target) alive() error {
	if err := unix.PidfdSendSignal(t.pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return explain("look at process", err)
	}
	return nil
}

// poll asks until the answer is yes, an error, or the time is over.
func poll(ctx context.Context, timeout time.Duration, late error, done func() (bool, error)) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return late
		case <-tick.C:
		}
	}
}

// makeFile makes the file that tells SIGQUIT from one of a user. The JVM wants it to be its
// own user's: root of another namespace of users is nobody there.
func (t *Target) makeFile(tmp int, name string) error {
	fd, err := t.create(tmp, name, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if os.Geteuid() == t.uid || t.foreign {
		return nil
	}
	if err := unix.Fchown(fd, t.uid, t.gid); err != nil {
		unix.Unlinkat(tmp, name, 0)
		return err
	}
	return nil
}

// dial connects to the socket that was checked, and checks who listens.
func (t *Target) dial(ctx context.Context, socket int) (net.Conn, error) {
	dialer := net.Dialer{Timeout: socketTime}
	var c net.Conn
	err := t.asUser(func() (err error) {
		c, err = dialer.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(socket))
		return err
	})
	if err != nil {
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil, fmt.Errorf("%w: nobody listens on /tmp/.java_pid%d of the target, which an earlier process has left: remove it", ErrUnsafe, t.inner)
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := t.checkPeer(c.(*net.UnixConn)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// checkPeer checks that the target itself listens.
func (t *Target) checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("look at socket: %w", err)
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); controlErr != nil {
		err = controlErr
	}
	switch {
	case err != nil:
		return fmt.Errorf("ask who listens: %w", err)
	case int(peer.Pid) != t.pid:
		return fmt.Errorf("%w: process %d listens on the JVM's socket", ErrUnsafe, peer.Pid)
	}
	return nil
}
