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

// LoopbackListeners returns the addresses of loopback at which a process listens for TCP
// connections. A socket of all interfaces is at 127.0.0.1. A process whose network is not this
// one's has none. The sockets of other users' processes may not be seen, which is an error.
func LoopbackListeners(pid int) ([]netip.AddrPort, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("look at network: %w", err)
	}
	other, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil || own != other {
		return nil, err
	}
	listening := make(map[string]netip.AddrPort)
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if err := readListeners(table, listening); err != nil {
			return nil, fmt.Errorf("list sockets: %w", err)
		}
	}
	return heldOf(pid, listening)
}

// readListeners adds the sockets of a file that listen on loopback. A kernel without IPv6 lacks one.
func readListeners(file string, to map[string]netip.AddrPort) error {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return parseListeners(f, to)
}

// parseListeners reads a table of sockets (proc_net_tcp of the kernel's documentation): number,
// address, peer, state, seven numbers of which the last is the inode, and more. The result is by the
// links of descriptors.
func parseListeners(table io.Reader, to map[string]netip.AddrPort) error {
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
			to["socket:["+fields[inodeAt]+"]"] = at
		}
	}
	return lines.Err()
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
	switch ip = ip.Unmap(); {
	case !ok:
	case ip.IsUnspecified():
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case !ip.IsLoopback():
		ok = false
	}
	return netip.AddrPortFrom(ip, uint16(port)), ok
}

// heldOf returns the addresses of the sockets that a process has, in their order.
func heldOf(pid int, sockets map[string]netip.AddrPort) (held []netip.AddrPort, err error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	for _, name := range names {
		link, err := os.Readlink(filepath.Join(dir.Name(), name)) // fails if it was closed
		if at, listens := sockets[link]; err == nil && listens {
			held = append(held, at)
		}
	}
	slices.SortFunc(held, netip.AddrPort.Compare)
	return slices.Compact(held), nil
}
