package process

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestLoopbackListeners finds the sockets of this process where loopback reaches them.
func TestLoopbackListeners(t *testing.T) {
	t.Parallel()
	var want []netip.AddrPort
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0", ":0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		want = append(want, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	}
	got, err := LoopbackListeners(os.Getpid())
	for _, at := range want {
		if !slices.Contains(got, at) {
			t.Errorf("%v, %v: without %v", got, err, at)
		}
	}
	if _, err := LoopbackListeners(1 << 30); err == nil {
		t.Error("sockets of no process")
	}
}

func TestParseListeners(t *testing.T) {
	t.Parallel()
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:17AC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0000000000000000 100 0 0 10 0
   1: 0100007F:17AD 0100007F:D0A2 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0000000000000000 100 0 0 10 0
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1
   3: 0100000A:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4 1
   4: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 5 1
   5: 0000000000000000FFFF00000100007F:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 6 1
   6: 00000000000000000000000000000000:1F92 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 7 1
   7: 01007F:1 0 0A 0 0 0 0 0 0 8
   8: 0100007F:10000 0 0A 0 0 0 0 0 0 9
   9: x 0 0A 0 0 0 0 0 10`
	got := make(map[string]netip.AddrPort)
	if err := parseListeners(strings.NewReader(table), got); err != nil {
		t.Fatal(err)
	}
	for link, want := range map[string]string{
		"socket:[1]": "127.0.0.1:6060", "socket:[3]": "127.0.0.1:80", "socket:[5]": "[::1]:8080", "socket:[6]": "127.0.0.1:8081", "socket:[7]": "127.0.0.1:8082",
	} {
		if got[link] != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %v, want %s", link, got[link], want)
		}
		delete(got, link)
	}
	if len(got) > 0 {
		t.Errorf("%v listen on loopback", got)
	}
}
