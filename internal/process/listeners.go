package process

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listener is a socket of a process that listens for TCP connections.
type Listener struct {
	Inode string // in decimal; the kernel gives it to another socket only after this one is closed

	// Addresses of loopback, the best first. A connection to each reaches no other process's socket.
	Addresses []netip.AddrPort
}

// LoopbackListeners returns the sockets of a process that listen where loopback reaches them. A
// socket is left out if a connection could reach another process's instead: processes that share an
// address by SO_REUSEPORT each have a socket of it. A socket that several processes have inherited
// is not told from one that the process has alone. A process whose network is not this one's has
// none. The sockets of other users' processes may not be seen, which is an error.
func LoopbackListeners(pid int) ([]Listener, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("look at network: %w", err)
	}
	other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("look at network of process %d: %w", pid, err)
	}
	if own != other {
		return nil, nil
	}
	var all []socket
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if all, err = readListeners(all, table); err != nil {
			return nil, fmt.Errorf("list sockets: %w", err)
		}
	}
	held, err := inodesOf(pid)
	if err != nil {
		return nil, err
	}
	return listenersAmong(all, held), nil
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
// address, peer, state, five more columns, the inode, and others.
func parseListeners(to []socket, table io.Reader) ([]socket, error) {
	const (
		addressAt, stateAt, inodeAt = 1, 3, 9
		listen                      = "0A" // TCP_LISTEN of include/net/tcp_states.h
	)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= inodeAt || fields[stateAt] != listen {
			continue
		}
		if at, ok := loopbackAddress(fields[addressAt]); ok {
			to = append(to, socket{at, fields[inodeAt]})
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
