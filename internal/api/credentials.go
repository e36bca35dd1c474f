package api

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/process"
)

// credentials are what the kernel has kept of the process that has connected, from the time of the connect (unix(7)).
type credentials struct {
	unix.Ucred          // SO_PEERCRED: effective user and group, and the number of the process
	groups     []uint32 // SO_PEERGROUPS: the other groups
	pidfd      int      // SO_PEERPIDFD, since Linux 6.5; -1: the kernel gives none, or the process has ended
	noPidfds   bool     // the kernel gives none
}

// socketPeer returns the peer of a connection to a socket.
func (s *Server) socketPeer(c *net.UnixConn) (p peer, err error) {
	of, err := credentialsOn(c)
	if err != nil {
		return p, fmt.Errorf("get peer of connection: %w", err)
	}
	defer of.close()
	p.uid, p.gid, p.pid = of.Uid, of.Gid, of.Pid
	p.master = p.uid == 0 || int(p.uid) == s.user || s.isMember(of)
	p.reads = p.master
	p.known = p.master || s.options.Open
	p.free = p.known && !p.master && of.isFree()
	return p, nil
}

func credentialsOn(c *net.UnixConn) (of credentials, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return of, err
	}
	controlled := raw.Control(func(fd uintptr) { err = of.read(int(fd)) })
	return of, errors.Join(controlled, err)
}

func (c *credentials) read(fd int) error {
	c.pidfd = -1
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return err
	}
	c.Ucred = *cred
	if c.groups, err = peerGroups(fd); err != nil {
		return err
	}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if c.noPidfds = errors.Is(err, unix.ENOPROTOOPT); err == nil {
		c.pidfd = pidfd
	}
	return nil
}

// mostGroups bounds the groups of a process (NGROUPS_MAX of linux/limits.h).
const mostGroups = 1 << 16

// peerGroups reads the groups of a peer, into as much room as the kernel asks for.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(4 * len(groups))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(unsafe.SliceData(groups))), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == unix.ERANGE && int(size) > 4*len(groups) && size <= 4*mostGroups:
			groups = make([]uint32, size/4)
		case errno != 0:
			return nil, errno
		default:
			return groups[:min(int(size)/4, len(groups))], nil
		}
	}
}

func (c *credentials) close() {
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
	}
}

// isMember reports whether a peer belongs to the group of the server.
func (s *Server) isMember(c credentials) bool {
	return s.group >= 0 && (int(c.Gid) == s.group || slices.Contains(c.groups, uint32(s.group)))
}

// isFree reports whether nothing but user and group bounds the process that has connected, as far as can be told. Its
// number must still be its own: the kernel says so by a pidfd.
func (c *credentials) isFree() bool {
	if c.noPidfds {
		return c.isFreeByNumber()
	}
	return c.pidfd >= 0 && process.IsFree(int(c.Pid)) && !process.Ended(c.pidfd)
}

// isFreeByNumber is isFree on kernels before 6.5. The process of the number must be of the peer's user and group,
// and have begun before this look, right after the connection was accepted. A process that ends while its
// connection waits to be accepted may thus be taken for a younger one that got its number.
func (c *credentials) isFreeByNumber() bool {
	before, err := process.IdentityOf(int(c.Pid))
	if err != nil || !process.IsFree(int(c.Pid)) {
		return false
	}
	after, err := process.IdentityOf(int(c.Pid))
	return err == nil && before.Started == after.Started && before.Owner.UID == int(c.Uid) && before.Owner.GID == int(c.Gid)
}
