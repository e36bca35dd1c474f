package process

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

// TestLoopbackListeners finds the sockets of this process where loopback reaches them.
func TestLoopbackListeners(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ network, at, first string }{
		{"tcp", "127.0.0.1:0", "127.0.0.1"}, {"tcp4", "0.0.0.0:0", "127.0.0.1"}, {"tcp", "[::1]:0", "::1"}, {"tcp", ":0", "::1"}, {"tcp6", ":0", "::1"},
	} {
		l, err := net.Listen(c.network, c.at)
		if err != nil {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		defer l.Close()
		first := netip.AddrPortFrom(netip.MustParseAddr(c.first), uint16(l.Addr().(*net.TCPAddr).Port))
		if got, err := LoopbackListeners(os.Getpid()); !slices.ContainsFunc(got, func(l Listener) bool { return l.Addresses[0] == first && l.Inode != "" }) {
			t.Errorf("%v, %v: %+v is not at %v", got, err, c, first)
		}
	}
	if _, err := LoopbackListeners(1 << 30); err == nil {
		t.Error("sockets of no process")
	}
}

// TestSharedAddresses: a socket is asked only where no other process's can get the connection.
func TestSharedAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		own, others string // sockets
		want        string // addresses
	}{
		"alone":                             {own: "127.0.0.1:80 127.0.0.2:81 [::1]:82", want: "127.0.0.1:80 127.0.0.2:81 [::1]:82"},
		"all interfaces":                    {own: "0.0.0.0:80 [::]:81", want: "127.0.0.1:80 [::1]:81 127.0.0.1:81"},
		"IPv6 beside another's IPv4":        {own: "[::]:80", others: "127.0.0.1:80", want: "[::1]:80"},
		"IPv6 beside another's all IPv4":    {own: "[::]:80", others: "0.0.0.0:80", want: "[::1]:80"},
		"IPv4 beside another's IPv6":        {own: "127.0.0.1:80", others: "[::]:80", want: "127.0.0.1:80"},
		"replica":                           {own: "127.0.0.1:80 127.0.0.1:81", others: "127.0.0.1:80", want: "127.0.0.1:81"},
		"replica of all":                    {own: "0.0.0.0:80", others: "0.0.0.0:80"},
		"replica of all IPv6":               {own: "[::]:80", others: "[::]:80"},
		"another's narrower address":        {own: "0.0.0.0:80", others: "127.0.0.1:80"},
		"another's address beside loopback": {own: "127.0.0.2:80", others: "127.0.0.1:80", want: "127.0.0.2:80"},
		"two of one process":                {own: "127.0.0.1:80 127.0.0.1:80", want: "127.0.0.1:80 127.0.0.1:80"},
	} {
		var all []socket
		held := make(map[string]bool)
		for _, at := range strings.Fields(c.own) {
			all = append(all, socket{netip.MustParseAddrPort(at), fmt.Sprint(len(all)), 1})
			held[all[len(all)-1].inode] = true
		}
		for _, at := range strings.Fields(c.others) {
			all = append(all, socket{netip.MustParseAddrPort(at), fmt.Sprint(len(all)), 2})
		}
		var got []string
		for _, l := range listenersAmong(all, held) {
			for _, at := range l.Addresses {
				got = append(got, at.String())
			}
		}
		want := strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestListenersOfUser: of a user's sockets none is asked whose address another socket has, too. Other users' are
// never asked.
func TestListenersOfUser(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ own, others, want string }{
		"alone":                    {own: "127.0.0.1:80 0.0.0.0:81", others: "127.0.0.1:82", want: "127.0.0.1:80 127.0.0.1:81"},
		"two of the user":          {own: "127.0.0.1:80 127.0.0.1:80 127.0.0.1:81", want: "127.0.0.1:81"},
		"narrower of the user":     {own: "0.0.0.0:80 127.0.0.1:80"},
		"narrower of another":      {own: "0.0.0.0:80", others: "127.0.0.1:80"},
		"IPv6 beside other's IPv4": {own: "[::]:80", others: "127.0.0.1:80", want: "[::1]:80"},
		"others alone":             {others: "127.0.0.1:80 0.0.0.0:81 [::]:82"},
	} {
		var all []socket
		for user, list := range map[uint32]string{1000: c.own, 0: c.others} {
			for _, at := range strings.Fields(list) {
				all = append(all, socket{netip.MustParseAddrPort(at), fmt.Sprint(len(all)), user})
			}
		}
		var got []string
		found, err := listenersOfUser(all, 1000)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, l := range found {
			if !l.OfUser {
				t.Errorf("%s: %+v is not marked", name, l)
			}
			for _, at := range l.Addresses {
				got = append(got, at.String())
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestOtherNetwork: a process in another network has no sockets here, whatever its ports.
func TestOtherNetwork(t *testing.T) {
	t.Parallel()
	program := exec.Command("cat")
	program.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET}
	stdin, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	program.ExtraFiles = []*os.File{file} // so that it holds a socket of this network
	if err := program.Start(); err != nil {
		testrun.Lacks(t, "no network of its own: %v", err)
	}
	defer program.Wait()
	defer stdin.Close()
	if got, err := LoopbackListeners(program.Process.Pid); len(got) > 0 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestParseListeners(t *testing.T) {
	t.Parallel()
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:17AC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0000000000000000 100 0 0 10 0
   1: 0100007F:17AD 0100007F:D0A2 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0000000000000000 100 0 0 10 0
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 3 1
   3: 0100000A:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4 1
   4: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 5 1
   5: 0000000000000000FFFF00000100007F:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 6 1
   6: 00000000000000000000000000000000:1F92 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 7 1
   7: 01007F:1 0 0A 0 0 0 0 0 0 8
   8: 0100007F:10000 0 0A 0 0 0 0 0 0 9
   9: x 0 0A 0 0 0 0 0 10
  10: 0100007F:17AE 00000000:0000 0A 0:0 0:0 0 4294967296 0 11 1`
	got, err := parseListeners(nil, strings.NewReader(table))
	var want []socket
	for _, s := range [][2]string{{"127.0.0.1:6060", "1"}, {"0.0.0.0:80", "3"}, {"[::1]:8080", "5"}, {"127.0.0.1:8081", "6"}, {"[::]:8082", "7"}} {
		want = append(want, socket{netip.MustParseAddrPort(s[0]), s[1], map[string]uint32{"3": 1000}[s[1]]})
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// A user with very many sockets does not make a root process compare each with all.
func TestListenersOfUserAreBounded(t *testing.T) {
	t.Parallel()
	var all []socket
	for i := range mostOfUser + 1 {
		if _, err := listenersOfUser(all, 1000); err != nil {
			t.Fatalf("%d sockets: %v", i, err)
		}
		all = append(all, socket{netip.AddrPortFrom(loopback4, uint16(1+i)), strconv.Itoa(i), 1000})
	}
	if found, err := listenersOfUser(all, 1000); err == nil {
		t.Errorf("%d of %d sockets are found", len(found), len(all))
	}
}
