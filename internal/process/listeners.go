package process

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/internal/privilege"
)

// Listener is a socket of a process that listens for TCP connections.
type Listener struct {
	Inode string // in decimal; the kernel gives it to another socket only after this one is closed

	// Addresses of loopback, the best first. A connection to each reaches no other socket.
	Addresses []netip.AddrPort

	// OfUser says that a process of this process's user has the socket. The kernel did not say which.
	OfUser bool
}

// LoopbackListeners returns the sockets of a process that listen where loopback reaches them. A
// socket is left out if a connection could reach another process's instead: processes that share an
// address by SO_REUSEPORT each have a socket of it. A socket that several processes have inherited
// is not told from one that the process has alone. A process whose network is not this one's has
// none.
//
// Who may trace the process may not always list its descriptors: CAP_SYS_PTRACE permits the one and not the
// other. Then all sockets of the process's user are returned, marked as such. Of root's processes there are too many
// others, so that is an error.
func LoopbackListeners(pid int) ([]Listener, error) {
	here, err := sharesNetwork(pid)
	if err != nil || !here {
		return nil, err
	}
	var all []socket
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if all, err = readListeners(all, table); err != nil {
			return nil, fmt.Errorf("list sockets: %w", err)
		}
	}
	held, err := inodesOf(pid)
	if errors.Is(err, fs.ErrPermission) {
		user, unknown := userOf(pid)
		if unknown != nil {
			return nil, fmt.Errorf("%w: %w", unknown, err)
		}
		return listenersOfUser(all, user)
	}
	if err != nil {
		return nil, err
	}
	return listenersAmong(all, held), nil
}

// sharesNetwork reports whether a process has the network of this one.
func sharesNetwork(pid int) (bool, error) {
	defer privilege.Raise().Lower()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return false, fmt.Errorf("look at network: %w", err)
	}
	other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return false, fmt.Errorf("look at network of process %d: %w", pid, err)
	}
	return own == other, nil
}

// userOf returns the user whose sockets may be asked in place of a process's own.
func userOf(pid int) (uint32, error) {
	_, c, err := credentialsOf(pid)
	switch uid := c.uids[1]; {
	case err != nil:
		return 0, err
	case uid == 0:
		return 0, errors.New("which sockets a process of root has is not known, and all others of root are not asked")
	case uid < 0 || uid == overflowUser && !allUsersMapped():
		return 0, errors.New("which sockets the process has is not known, nor its user in this user namespace")
	default:
		return uint32(uid), nil
	}
}

// overflowUser stands for all users who have no number in a user namespace (kernel.overflowuid), and can be a
// real user, too.
const overflowUser = 65534

// allUsersMapped reports whether every user has a number in the user namespace of this process.
func allUsersMapped() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

// mostOfUser bounds the sockets of a user that are looked at: each is held against all others.
const mostOfUser = 256

// listenersOfUser returns the sockets of a user, without an address that any other socket shares, of this user or
// another.
func listenersOfUser(all []socket, user uint32) (found []Listener, err error) {
	looked := 0
	for _, s := range all {
		if s.user != user {
			continue
		}
		if looked++; looked > mostOfUser {
			return nil, fmt.Errorf("user %d has more than %d sockets that listen, too many to ask", user, mostOfUser)
		}
		for _, l := range listenersAmong(all, map[string]bool{s.inode: true}) {
			l.OfUser = true
			found = append(found, l)
		}
	}
	return found, nil
}

// listenersAmong returns the listeners of a process that holds the sockets of some inodes.
func listenersAmong(all []socket, held map[string]bool) (found []Listener) {
	for _, s := range all {
		if !held[s.inode] {
			continue
		}
		l := Listener{Inode: s.inode}
		for _, at := range s.reachedAt() {
			if !slices.ContainsFunc(all, func(o socket) bool { return !held[o.inode] && o.mayTake(at, all) }) && s.mayTake(at, all) {
				l.Addresses = append(l.Addresses, at)
			}
		}
		if len(l.Addresses) > 0 {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b Listener) int { return a.Addresses[0].Compare(b.Addresses[0]) })
	return found
}

// socket is a listening socket of a table.
type socket struct {
	at    netip.AddrPort // 0.0.0.0 and :: are all addresses
	inode string
	user  uint32 // who made it
}

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// reachedAt returns the addresses of loopback that may reach the socket, the best first. One of :: may
// take IPv4, too, unless it was made with IPV6_V6ONLY, which the tables do not tell.
func (s socket) reachedAt() []netip.AddrPort {
	ip, port := s.at.Addr(), s.at.Port()
	switch {
	case ip == netip.IPv6Unspecified():
		return []netip.AddrPort{netip.AddrPortFrom(loopback6, port), netip.AddrPortFrom(loopback4, port)}
	case ip.IsUnspecified():
		return []netip.AddrPort{netip.AddrPortFrom(loopback4, port)}
	}
	return []netip.AddrPort{s.at}
}

// mayTake reports whether the socket may get a connection to an address. A socket of IPv4 gets it before
// one of ::.
func (s socket) mayTake(at netip.AddrPort, all []socket) bool {
	return s.takes(at) || s.at.Addr() == netip.IPv6Unspecified() && s.at.Port() == at.Port() &&
		!slices.ContainsFunc(all, func(o socket) bool { return o.takes(at) })
}

// takes reports whether the socket is of an address, and of its version of IP.
func (s socket) takes(at netip.AddrPort) bool {
	ip := s.at.Addr()
	return s.at == at || s.at.Port() == at.Port() && ip.IsUnspecified() && ip.Is4() == at.Addr().Is4()
}

// readListeners adds the sockets of a file that listen on loopback. A kernel without IPv6 lacks one.
func readListeners(to []socket, file string) ([]socket, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return to, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseListeners(to, f)
}

// parseListeners reads a table of sockets (proc_net_tcp of the kernel's documentation): number,
// address, peer, state, three more columns, the user, a timeout, the inode, and others.
func parseListeners(to []socket, table io.Reader) ([]socket, error) {
	const (
		addressAt, stateAt, userAt, inodeAt = 1, 3, 7, 9
		listen                              = "0A" // TCP_LISTEN of include/net/tcp_states.h
	)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= inodeAt || fields[stateAt] != listen {
			continue
		}
		user, err := strconv.ParseUint(fields[userAt], 10, 32)
		if at, ok := loopbackAddress(fields[addressAt]); ok && err == nil {
			to = append(to, socket{at, fields[inodeAt], uint32(user)})
		}
	}
	return to, lines.Err()
}

// loopbackAddress reads an address, whose host is in words of this machine's byte order. It returns
// false for one that loopback does not reach.
func loopbackAddress(text string) (at netip.AddrPort, ok bool) {
	const word = 4
	host, number, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(number, 16, 16)
	words, malformed := hex.DecodeString(host)
	if err != nil || malformed != nil || len(words)%word != 0 {
		return at, false
	}
	for part := range slices.Chunk(words, word) {
		binary.BigEndian.PutUint32(part, binary.NativeEndian.Uint32(part))
	}
	ip, ok := netip.AddrFromSlice(words)
	ip = ip.Unmap()
	return netip.AddrPortFrom(ip, uint16(port)), ok && (ip.IsUnspecified() || ip.IsLoopback())
}

// inodesOf returns the inodes of the sockets that a process has.
func inodesOf(pid int) (map[string]bool, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	held := make(map[string]bool)
	for _, name := range names {
		link, err := os.Readlink(filepath.Join(dir.Name(), name)) // fails if it was closed
		if inode, isSocket := strings.CutPrefix(link, "socket:["); err == nil && isSocket {
			held[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return held, nil
}
