package process

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
)

// Ends are the addresses of a TCP connection, as one of its two sockets has them. An address has no
// zone.
type Ends struct{ Local, Remote netip.AddrPort }

// mostTable bounds the bytes that are read of a table of sockets: 400,000 rows, which take the kernel
// most of a second.
const mostTable = 64 << 20

// SocketOwners returns the users of connected TCP sockets of this network namespace, by the kernel's
// tables. A socket has the user that made it, as the user namespace of this process names that
// user. A socket is missing if no process has it open any more: the kernel may give it to root then. It
// is also missing if a table is so long that its row was not reached. Any goroutine may call it. The
// kernel takes about 2 µs for each TCP socket of the machine, and 3 ms for a table of 262,144 places
// without any (Linux 6.18).
func SocketOwners(of []Ends) (map[Ends]uint32, error) {
	owners := make(map[Ends]uint32)
	for _, table := range []struct {
		file string
		row  func(Ends) (string, bool)
	}{{"/proc/self/net/tcp", Ends.row4}, {"/proc/self/net/tcp6", Ends.row6}} {
		wanted := make(map[string]Ends)
		for _, ends := range of {
			_, known := owners[ends]
			if row, ok := table.row(ends); ok && !known {
				wanted[row] = ends
			}
		}
		if len(wanted) == 0 {
			continue
		}
		if err := readOwners(owners, wanted, table.file); err != nil {
			return nil, fmt.Errorf("look up users of sockets: %w", err)
		}
	}
	return owners, nil
}

// readOwners adds the users of wanted sockets by a file. A kernel without IPv6 lacks one.
func readOwners(to map[Ends]uint32, wanted map[string]Ends, file string) error {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return parseOwners(to, wanted, io.LimitReader(f, mostTable))
}

// parseOwners reads a table of sockets (proc_net_tcp of the kernel's documentation). A row has a number
// and a colon, the two addresses, the state, three more columns, the user, a timeout, the inode, and
// others. Inode 0 is of a socket that no process has open.
func parseOwners(to map[Ends]uint32, wanted map[string]Ends, table io.Reader) error {
	const userAt, inodeAt = 6, 8 // after the number
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		_, row, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		ends, ok := wanted[string(row[:addressesIn(row)])]
		if !ok {
			continue
		}
		fields := bytes.Fields(row)
		if len(fields) <= inodeAt || string(fields[inodeAt]) == "0" {
			continue
		}
		if user, err := strconv.ParseUint(string(fields[userAt]), 10, 32); err == nil {
			to[ends] = uint32(user)
		}
	}
	return lines.Err()
}

// addressesIn returns the length of the two addresses that a row begins with.
func addressesIn(row []byte) int {
	first := bytes.IndexByte(row, ' ')
	second := bytes.IndexByte(row[first+1:], ' ')
	if first < 0 || second < 0 {
		return 0
	}
	return first + 1 + second
}

// row4 returns the addresses as a row of the table of IPv4 has them.
func (e Ends) row4() (text string, ok bool) {
	local, remote := e.Local.Addr().Unmap(), e.Remote.Addr().Unmap()
	if !local.Is4() || !remote.Is4() {
		return "", false
	}
	l, r := local.As4(), remote.As4()
	return row(l[:], e.Local.Port(), r[:], e.Remote.Port()), true
}

// row6 returns the addresses as a row of the table of IPv6 has them. A socket of IPv6 may have a
// connection of IPv4, with mapped addresses.
func (e Ends) row6() (text string, ok bool) {
	l, r := e.Local.Addr().As16(), e.Remote.Addr().As16()
	return row(l[:], e.Local.Port(), r[:], e.Remote.Port()), true
}

func row(local []byte, localPort uint16, remote []byte, remotePort uint16) string {
	return fmt.Sprintf("%s:%04X %s:%04X", hexWords(local), localPort, hexWords(remote), remotePort)
}

// hexWords returns an address in words of this machine's byte order.
func hexWords(address []byte) (text string) {
	const word = 4
	for ; len(address) >= word; address = address[word:] {
		text += fmt.Sprintf("%08X", binary.NativeEndian.Uint32(address))
	}
	return text
}
