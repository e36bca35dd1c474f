package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/process"
)

// dialPortAs connects to a port of 127.0.0.1 as a user, really: the kernel notes the user of the thread that makes a
// socket. The thread ends with it.
func dialPortAs(t *testing.T, uid, port int) net.Conn {
	t.Helper()
	var c net.Conn
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			made <- fmt.Errorf("become user %d: %w", uid, errno)
			return
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			made <- err
			return
		}
		f := os.NewFile(uintptr(fd), "connection")
		defer f.Close()
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		if err == nil {
			c, err = net.FileConn(f)
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// askPortAs asks for a path as a user, and returns the status.
func askPortAs(t *testing.T, uid, port int, path string) int {
	t.Helper()
	c := dialPortAs(t, uid, port)
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
	return status(bufio.NewReader(c))
}

// TestOneUserLeavesRoom: a user of this machine opens 64 connections and sends nothing, or half a request. Other
// users are answered as before, and the log names the user.
func TestOneUserLeavesRoom(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for _, sent := range []string{"", "GET /healthz HTT"} {
		t.Run(fmt.Sprintf("%q", sent), func(t *testing.T) {
			t.Parallel()
			var log syncedLog
			s := newServer(t, newFake(), Options{TCP: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, nil))})
			s.header = time.Hour
			listenAndServe(t, s)
			port := s.Addr().(*net.TCPAddr).Port
			var open []net.Conn
			for range mostOverTCP {
				c := dialPortAs(t, nobody, port)
				io.WriteString(c, sent)
				open = append(open, c)
			}
			for _, uid := range []int{12345, 0} {
				for _, path := range []string{"/metrics", "/healthz"} {
					if got := askPortAs(t, uid, port, path); got != 200 {
						t.Errorf("user %d, %s: %d", uid, path, got)
					}
				}
			}
			for i, c := range open[mostOfOneLocal:] {
				if got := status(bufio.NewReader(c)); got != 503 {
					t.Errorf("connection %d of the user: %d", mostOfOneLocal+i, got)
				}
			}
			if !strings.Contains(log.String(), fmt.Sprintf("uid=%d ", nobody)) {
				t.Errorf("the log does not name the user: %s", log.String())
			}
		})
	}
}

// syncedLog is a log that several goroutines write.
type syncedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// callers is a listener whose connections a test makes.
type callers struct {
	net.Listener
	come   chan net.Conn
	closed chan struct{}
}

func (l callers) Accept() (net.Conn, error) {
	select {
	case c := <-l.come:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l callers) Close() error { close(l.closed); return nil }

// caller is a connection from an address.
type caller struct {
	net.Conn
	from *net.TCPAddr
}

func (c caller) RemoteAddr() net.Addr { return c.from }
func (caller) LocalAddr() net.Addr    { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070} }

// lobby is a server at whose port connections come from addresses that a test chooses. The user of a port of
// loopback is its thousands; ports from 60,000 on have none.
type lobby struct {
	*bounded
	callers  callers
	in       []net.Conn
	looks    int
	accepted chan struct{}
}

func newLobby(t *testing.T, cost time.Duration) *lobby {
	s := newServer(t, newFake(), Options{})
	l := &lobby{callers: callers{come: make(chan net.Conn), closed: make(chan struct{})}, accepted: make(chan struct{})}
	l.bounded = newBounded(l.callers, s, false)
	s.crowd.cost = func(look func()) time.Duration { look(); return cost }
	s.crowd.spans = func() []span { return parseSpans(strings.NewReader("someone:20:10\n")) }
	s.crowd.owners = func(of []process.Ends) (map[process.Ends]uint32, error) {
		l.looks++
		owners := make(map[process.Ends]uint32)
		for _, e := range of {
			if port := e.Local.Port(); port < 60000 {
				owners[e] = uint32(port / 1000)
			}
		}
		return owners, nil
	}
	go l.receive()
	go func() {
		defer close(l.accepted)
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			l.in = append(l.in, c)
		}
	}()
	return l
}

func (l *lobby) end() {
	l.Close()
	<-l.accepted
}

// comes has connections come from ports of a host, and returns how many are let in.
func (l *lobby) comes(host string, port, n int) int {
	before := len(l.in)
	for i := range n {
		ours, _ := net.Pipe()
		l.callers.come <- caller{ours, &net.TCPAddr{IP: net.ParseIP(host), Port: port + i}}
	}
	synctest.Wait()
	return len(l.in) - before
}

// TestCrowd: a user of this machine, by whatever numbers and addresses, has 16 connections at a time, and so have all
// together whose user is not known. While there are few in all, no table is read.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		come []string // host, first port, number
		want string   // let in
	}{
		{"one user", []string{"127.0.0.1 1000 64", "::1 1100 1", "127.0.0.2 1200 1", "2.2.2.2 1 16"}, "16 0 0 16"},
		{"four", []string{"127.0.0.1 1000 17", "127.0.0.1 2000 17", "127.0.0.1 3000 17", "127.0.0.1 4000 17", "127.0.0.1 5000 1"}, "16 16 16 16 0"},
		{"few of each", []string{"127.0.0.1 1000 8", "127.0.0.1 2000 8", "127.0.0.1 1100 9", "127.0.0.1 2100 9"}, "8 8 8 8"},
		{"unknown", []string{"127.0.0.1 60000 64", "127.0.0.1 1000 17"}, "16 16"},
		{"root", []string{"127.0.0.1 1 64", "127.0.0.1 1000 1"}, "16 1"},
		{"subordinates", []string{"127.0.0.1 20000 10", "127.0.0.1 25000 10", "127.0.0.1 29000 1", "127.0.0.1 30000 17"}, "10 6 0 16"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLobby(t, 0)
			defer l.end()
			var got []string
			for _, come := range test.come {
				var host string
				var port, n int
				fmt.Sscan(come, &host, &port, &n)
				got = append(got, fmt.Sprint(l.comes(host, port, n)))
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("%s: %s of %q are let in, want %s", test.name, text, test.come, test.want)
			}
		})
	}
}

// TestCrowdLooksWhenItMust: few connections cost no look, those that leave make room, and a machine whose tables
// cannot be read has the room of one user.
func TestCrowdLooksWhenItMust(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, 0)
		defer l.end()
		if n := l.comes("127.0.0.1", 1000, mostOfOneLocal); n != mostOfOneLocal || l.looks > 0 {
			t.Errorf("%d few are let in, by %d looks", n, l.looks)
		}
		if n := l.comes("127.0.0.1", 1100, 1); n != 0 || l.looks != 1 {
			t.Errorf("%d more is let in, by %d looks", n, l.looks)
		}
		for range 2 {
			l.in[0].Close() // the second time it makes no more room
		}
		if n := l.comes("127.0.0.1", 1200, 2); n != 1 {
			t.Errorf("%d are let in, in the place of one", n)
		}
		l.server.crowd.owners = func([]process.Ends) (map[process.Ends]uint32, error) { return nil, errors.New("no table") }
		if n := l.comes("127.0.0.1", 2000, 1) + l.comes("127.0.0.1", 3000, 64); n != mostOfOneLocal {
			t.Errorf("%d are let in that nobody can tell apart", n)
		}
	})
}

// TestLooksAreBounded: clients that connect in a loop, with tables that take 100 ms to read, cost a tenth of a CPU, and
// others are let in.
func TestLooksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const cost, span = 100 * time.Millisecond, 10 * time.Second
		l := newLobby(t, cost)
		defer l.end()
		for began, n := time.Now(), 0; time.Since(began) < span; n++ {
			ours, _ := net.Pipe()
			l.callers.come <- caller{ours, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1000 + n%1000}}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if most := int(span/(pauseOfLooks*cost)) + 1; l.looks < 2 || l.looks > most {
			t.Errorf("%d looks in %v, want %d at most", l.looks, span, most)
		}
		before := len(l.in)
		ours, _ := net.Pipe()
		l.callers.come <- caller{ours, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2000}}
		time.Sleep(pauseOfLooks * cost)
		synctest.Wait()
		if before != mostOfOneLocal || len(l.in) != before+1 {
			t.Errorf("%d of the first user are let in, and then %d", before, len(l.in)-before)
		}
	})
}

// TestListenerIsClosed: a listener that is closed while connections wait closes them all.
func TestListenerIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, time.Hour)
		l.comes("127.0.0.1", 1000, 17) // the next look is after some hours
		ours, theirs := net.Pipe()
		l.callers.come <- caller{ours, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2000}}
		synctest.Wait()
		l.server.ends()
		l.end()
		if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("one that waits: %v", err)
		}
	})
}

func TestParseSpans(t *testing.T) {
	t.Parallel()
	spans := parseSpans(strings.NewReader("a:100000:65536\n\n# no line\nb:1:0\n1000:300:2\nc:x:1\nd:4294967295:4294967295\n"))
	for uid, want := range map[uint32]string{
		0: "0", 1: "1", 99999: "99999", 100000: "subordinate of a", 165535: "subordinate of a", 165536: "165536", 301: "subordinate of 1000",
		302: "302", 4294967295: "subordinate of d",
	} {
		if got := whoseIs(uid, spans); got != want {
			t.Errorf("%d: %q, want %q", uid, got, want)
		}
	}
}

func FuzzParseSpans(f *testing.F) {
	f.Add("a:100000:65536\n")
	f.Add("b:4294967295:2\n::")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseSpans(strings.NewReader(text)) {
			if s.last < s.first || !strings.Contains(text, s.user+":") {
				t.Errorf("%+v of %q", s, text)
			}
		}
	})
}

// TestWaitsOverTCP: so many requests over TCP wait at a time, and for so long. The socket is as before.
func TestWaitsOverTCP(t *testing.T) {
	t.Parallel()
	const path = "/targets/web/profile.pb.gz?seconds="
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newFake(), Options{})
		reader := peer{known: true, tcp: true, reads: true, user: "reader"}
		var mu sync.Mutex
		ended := make(map[int]int) // requests by status
		wait := func(p peer, seconds string, n int) {
			for range n {
				go func() {
					w := get(s, p, path+seconds)
					mu.Lock()
					defer mu.Unlock()
					if ended[w.Code]++; w.Code == 503 && (w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "32 requests over TCP")) {
						t.Errorf("%s", w.Body)
					}
				}()
			}
			synctest.Wait()
		}
		wait(reader, "600", mostWaitsOfUser+1)
		wait(onTCP, "600", mostWaits-mostWaitsOfUser+1)
		if got := fmt.Sprint(ended); got != "map[503:2]" {
			t.Errorf("of %d and one more of a user, and of all: %s", mostWaitsOfUser, got)
		}
		wait(master, "3600", mostWaits)
		if w := get(s, onTCP, "/metrics"); w.Code != 200 {
			t.Errorf("beside them: %d", w.Code)
		}
		time.Sleep(longestOverTCP)
		synctest.Wait()
		if got := fmt.Sprint(ended); got != "map[200:32 503:2]" {
			t.Errorf("after that: %s", got)
		}
		wait(onTCP, "1", 1)
		time.Sleep(longestProfile)
		synctest.Wait()
		if got := fmt.Sprint(ended); got != "map[200:65 503:2]" {
			t.Errorf("after an hour: %s", got)
		}
		for _, seconds := range []string{"601", "3600"} {
			if w := get(s, onTCP, path+seconds); w.Code != 400 || !strings.Contains(w.Body.String(), "600") || !strings.Contains(w.Body.String(), "socket") {
				t.Errorf("%s s over TCP: %d %s", seconds, w.Code, w.Body)
			}
		}
	})
}
