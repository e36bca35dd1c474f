package process

import (
	"bytes"
	"maps"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endsOf returns the ends of a connection as its client's socket has them, from the server's side.
func endsOf(c net.Conn) Ends {
	bare := func(a net.Addr) netip.AddrPort {
		at := a.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	}
	return Ends{Local: bare(c.RemoteAddr()), Remote: bare(c.LocalAddr())}
}

// connected returns the server's side of a new connection.
func connected(t *testing.T, l net.Listener, network, address string) (client, server net.Conn) {
	t.Helper()
	client, err := dialBy(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// dialBy connects by a network; "mapped" is an address of IPv4 by a socket of IPv6, which Go does not make.
func dialBy(network, address string) (net.Conn, error) {
	if network != "mapped" {
		return net.Dial(network, address)
	}
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), address)
	defer f.Close()
	at := netip.MustParseAddrPort(address)
	if err := syscall.Connect(fd, &syscall.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// TestSocketOwners: a connection has its user, by IPv4, IPv6 and IPv4 in IPv6 on either side.
func TestSocketOwners(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ listens, at, network, to string }{
		{"tcp4", "127.0.0.1:0", "tcp4", "127.0.0.1"}, {"tcp4", "127.0.0.1:0", "mapped", "127.0.0.1"}, {"tcp", "[::]:0", "mapped", "127.0.0.1"}, {"tcp4", "0.0.0.0:0", "tcp4", "127.0.0.2"},
		{"tcp6", "[::1]:0", "tcp6", "::1"}, {"tcp", "[::]:0", "tcp4", "127.0.0.1"}, {"tcp", "[::]:0", "tcp6", "::1"},
	} {
		l, err := net.Listen(c.listens, c.at)
		if err != nil {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		address := net.JoinHostPort(c.to, port)
		_, one := connected(t, l, c.network, address)
		_, two := connected(t, l, c.network, address)
		got, err := SocketOwners([]Ends{endsOf(one), endsOf(two)})
		user := uint32(os.Geteuid())
		if want := map[Ends]uint32{endsOf(one): user, endsOf(two): user}; err != nil || !maps.Equal(got, want) {
			t.Errorf("%+v: %v, %v, want %v", c, got, err, want)
		}
	}
}

// TestOwnersThatAreNone: a client that has gone has no user, which would be root by the table, and
// neither has one that never was.
func TestOwnersThatAreNone(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, server := connected(t, l, "tcp4", l.Addr().String())
	ends := endsOf(server)
	client.Close()
	never := Ends{Local: netip.MustParseAddrPort("127.0.0.1:1"), Remote: ends.Remote}
	// A child that a parallel test starts has the socket open until its own execve.
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got, err := SocketOwners([]Ends{ends, never})
		if err == nil && len(got) == 0 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if got, err := SocketOwners(nil); err != nil || len(got) > 0 {
		t.Errorf("of no socket: %v, %v", got, err)
	}
}

const ownersTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 1 1 0 100 0 0 10 0
   1: 0100007F:D0A2 0100007F:1B9E 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 20 4 30 10 -1
   2: 0100007F:1B9E 0100007F:D0A2 01 00000000:00000000 00:00000000 00000000     7        0 3 1 0 20 4 30 10 -1
   3: 0100007F:D0A3 0100007F:1B9E 04 00000000:00000000 00:00000000 00000000     0        0 0 1 0
   4: 0100007F:D0A4 0100007F:1B9E 01 00000000:00000000 00:00000000 00000000 4294967296   0 4 1 0
   5: 0100007F:D0A5 0100007F:1B9E 01 00000000:00000000 00:00000000 00000000     5
   6: 0100007F:D0A6 0100007F:1B9E
123456: 0000000000000000FFFF00000100007F:D0A7 0000000000000000FFFF00000100007F:1B9E 01 0:0 0:0 0 70 0 5 1 0
   8: 00000000000000000000000001000000:D0A8 00000000000000000000000001000000:1B9E 01 0:0 0:0 0 4294967295 0 6 1 0
`

// wantedRows returns sockets of clients at ports 53410 to 53416 of 127.0.0.1 and ::1, by their rows.
func wantedRows() map[string]Ends {
	wanted := make(map[string]Ends)
	for _, host := range []string{"127.0.0.1", "::1"} {
		for port := range uint16(7) {
			ip := netip.MustParseAddr(host)
			ends := Ends{netip.AddrPortFrom(ip, 0xD0A2+port), netip.AddrPortFrom(ip, 7070)}
			if row, ok := ends.row4(); ok {
				wanted[row] = ends
			}
			row, _ := ends.row6()
			wanted[row] = ends
		}
	}
	return wanted
}

func TestParseOwners(t *testing.T) {
	t.Parallel()
	got := make(map[Ends]uint32)
	err := parseOwners(got, wantedRows(), strings.NewReader(ownersTable))
	at := func(client, server string) Ends {
		return Ends{netip.MustParseAddrPort(client), netip.MustParseAddrPort(server)}
	}
	want := map[Ends]uint32{
		at("127.0.0.1:53410", "127.0.0.1:7070"): 1000, at("127.0.0.1:53415", "127.0.0.1:7070"): 70, at("[::1]:53416", "[::1]:7070"): 4294967295,
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// FuzzParseOwners: whatever a table has, a socket has a user only by a row that names both.
func FuzzParseOwners(f *testing.F) {
	f.Add([]byte(ownersTable))
	f.Add([]byte(" : : "))
	f.Add(bytes.Repeat([]byte("0"), 1<<17))
	wanted := wantedRows()
	f.Fuzz(func(t *testing.T, table []byte) {
		got := make(map[Ends]uint32)
		_ = parseOwners(got, wanted, bytes.NewReader(table)) // a row may be too long
		for ends, user := range got {
			if !named(table, wanted, ends, user) {
				t.Errorf("%v has user %d by %q", ends, user, table)
			}
		}
	})
}

// named reports whether a row of a table names a socket and its user.
func named(table []byte, wanted map[string]Ends, ends Ends, user uint32) bool {
	for line := range strings.Lines(string(table)) {
		_, row, _ := strings.Cut(line, ": ")
		fields := strings.Fields(row)
		if len(fields) > 8 && wanted[fields[0]+" "+fields[1]] == ends && fields[8] != "0" && strings.TrimLeft(fields[6], "0") == strings.TrimLeft(strconv.FormatUint(uint64(user), 10), "0") {
			return true
		}
	}
	return false
}
