package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/internal/traceetest"
	"github.com/ccmapd/ccmapd/internal/view"
)

// askAs in the environment makes this test binary a client: it sends the requests in its
// arguments to the socket, and prints the statuses.
const askAs = "CCMAPD_TEST_SOCKET"

// readAs in the environment makes it read the profile of that name, and print its samples.
const readAs = "CCMAPD_TEST_READ"

func TestMain(m *testing.M) {
	traceetest.Main()
	if socket := os.Getenv(askAs); socket != "" {
		askSocket(socket, os.Args[1:])
		return
	}
	if where := os.Getenv(readAs); where != "" {
		m, err := client.Read(context.Background(), where, export.ReadOptions{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(m.Snapshot().Total().Samples, "samples")
		return
	}
	os.Exit(testrun.Guard(m).Run())
}

func askSocket(socket string, requests []string) {
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	for _, request := range requests {
		method, path, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(path, " ")
		if method == "HEAR" {
			fmt.Println(hear(client, path, body))
			continue
		}
		r, err := http.NewRequest(method, "http://ccmapd"+path, strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			continue
		}
		answer, err := client.Do(r)
		if err != nil {
			fmt.Println("no connection")
			continue
		}
		fmt.Println(answer.StatusCode)
		answer.Body.Close()
	}
}

// hear returns the targets of the events that a client hears, until one of the last target comes.
func hear(client http.Client, path, last string) string {
	answer, err := client.Get("http://ccmapd" + path)
	if err != nil {
		return "no-connection"
	}
	defer answer.Body.Close()
	heard := make(map[string]bool)
	lines := bufio.NewScanner(answer.Body)
	for !heard[last] && lines.Scan() {
		var e daemon.Event
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &e) == nil {
			heard[e.Target] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(heard)), ",")
}

const nobody = 65534

// askAsUser sends requests as a user, really, and returns the statuses.
func askAsUser(t *testing.T, program string, uid, gid uint32, socket string, requests ...string) []string {
	t.Helper()
	return askBy(t, program, traceetest.Attributes(traceetest.User{UID: uid, GID: gid}, false), socket, requests...)
}

// askProgram copies this test binary to where all users may execute it.
func askProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return programtest.Copy(t, self, "client")
}

// askBy is askAsUser for a client that is started in a way of its own.
func askBy(t *testing.T, program string, as *syscall.SysProcAttr, socket string, requests ...string) []string {
	t.Helper()
	cmd := exec.Command(program, requests...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = append(os.Environ(), askAs+"="+socket), "/", as
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root can run this test")
	}
}

// TestPeers: who a client is, by the kernel, decides what exists for it.
func TestPeers(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program := askProgram(t)
	child := exec.Command("sleep", "600")
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	attach := fmt.Sprintf(`POST /v1/targets {"pid":%d}`, child.Process.Pid)

	requests := []string{"GET /v1/info", "GET /v1/targets/web", "GET /v1/targets/db", "GET /v1/p/live:web/top", "GET /v1/p/live:db/top", "GET /metrics",
		"POST /v1/targets/web/pause", "POST /v1/reload", "DELETE /v1/targets/db", attach, `POST /v1/targets {"pid":1}`, "GET /v1/targets/host", "GET /v1/p/live:host/top",
		"GET /v1/p/live:web/top?pid=42", "GET /targets/web/map.json?pid=42", "GET /v1/p/live:db/top?pid=7"}
	for _, test := range []struct {
		name     string
		uid, gid uint32
		open     bool
		want     string
	}{
		{"root", 0, 0, false, "200 200 200 200 200 200 202 202 204 201 201 200 200 200 200 200"},
		{"group", nobody, 4321, false, "200 200 200 200 200 200 202 202 204 201 201 200 200 200 200 200"},
		{"owner of web", nobody, nobody, true, "200 200 404 200 404 404 404 404 404 201 404 404 404 200 200 404"},
		{"another", 12345, 12345, true, "200 404 404 404 404 404 404 404 404 404 404 404 404 404 404 404"},
		{"no one", nobody, nobody, false, strings.TrimSpace(strings.Repeat("no connection ", len(requests)))},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.targets[1].Owners = ownedBy(nobody)
			f.addHost()
			f.attached = daemon.TargetStatus{Name: "new", Processes: []daemon.ProcessStatus{{PID: child.Process.Pid}}, Owners: ownedBy(nobody)}
			socket := filepath.Join(programtest.PublicDir(t, 0o755), "s")
			s := newServer(t, f, Options{Socket: socket, Open: test.open})
			s.group = 4321
			listenAndServe(t, s)
			got := askAsUser(t, program, test.uid, test.gid, socket, requests...)
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("%q\ngot  %s\nwant %s", requests, text, test.want)
			}
		})
	}
}

// TestWholeHostIsForMasters: the profile of the whole host has the programs of all users, so for those who may
// not do everything there is none.
func TestWholeHostIsForMasters(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.addHost()
	s := newServer(t, f, Options{})
	for _, test := range []struct {
		name   string
		peer   peer
		status int
	}{
		{"root or the group", master, 200},
		{"a reader on loopback", onTCP, 404},
		{"a user of the port", peer{known: true, tcp: true, reads: true, user: "reader"}, 404},
		{"another user", userOf(1000), 404},
		{"the user of an unknown owner", userOf(math.MaxUint32), 404},
	} {
		for _, path := range []string{
			"/v1/targets/host", "/v1/p/live:host/top", "/v1/p/live:host:0/top", "/v1/p/live:host/top?pid=0", "/v1/p/live:host/map", "/v1/p/live:host/profile.pb.gz",
			"/targets/host/map.json", "/v1/overlap?a=live:host&b=live:host", "/v1/diff?a=live:host&b=live:host",
		} {
			if w := get(s, test.peer, path); w.Code != test.status {
				t.Errorf("%s, %s: %d %.300s", test.name, path, w.Code, w.Body)
			}
		}
		listed := strings.Contains(get(s, test.peer, "/v1/targets").Body.String(), "the whole host")
		heard := test.peer.hears(daemon.Event{Target: "host", OfHost: true, Owner: ownedBy(1000)[0]})
		if sees := test.status == 200; listed != sees || heard != sees {
			t.Errorf("%s: the target is listed: %v, its events are heard: %v", test.name, listed, heard)
		}
	}
	if w := get(s, onTCP, "/v1/targets/web"); w.Code != 200 {
		t.Errorf("other targets: %d", w.Code)
	}
}

// TestRefusalsAreBounded: refusals are logged, so many a second, and the rest is counted.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newServer(t, newFake(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 1000 {
			if w := ask(s, onTCP, httptest.NewRequest("POST", "/v1/reload", nil)); w.Code != 403 {
				t.Fatal(w.Code)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != mostLogged {
			t.Errorf("%d lines", n)
		}
		time.Sleep(time.Second)
		ask(s, onTCP, httptest.NewRequest("POST", "/v1/reload", nil))
		if !strings.Contains(log.String(), fmt.Sprint("times=", 1000-mostLogged)) {
			t.Errorf("not said how many more: %s", log.String()[max(0, log.Len()-300):])
		}
		if w := ask(s, userOf(4242), httptest.NewRequest("POST", "/v1/reload", nil)); w.Code != 404 || !strings.Contains(log.String(), "uid=4242") {
			t.Errorf("another user's request is answered %d, and not logged: %s", w.Code, log.String()[max(0, log.Len()-300):])
		}
	})
}

// TestHiddenIsRefused: a request for what is another user's is answered as if it were not there, logged with the
// user, and counted. A request for what is not there is no refusal.
func TestHiddenIsRefused(t *testing.T) {
	t.Parallel()
	self := os.Getpid()
	user := userOf(uint32(os.Getuid() + 1))
	for _, test := range []struct {
		name          string
		peer          peer
		request, body string
		refused       bool
	}{
		{"a foreign target", user, "GET /v1/targets/db", "", true},
		{"a foreign profile", user, "GET /v1/p/live:db/top", "", true},
		{"a foreign process", user, "GET /v1/p/live:db:7/top", "", true},
		{"a foreign process by its number", user, "GET /targets/db/top?pid=7", "", true},
		{"profiles to compare", user, "GET /v1/overlap?a=live:db&b=live:db", "", true},
		{"detach a foreign target", user, "DELETE /v1/targets/db", "", true},
		{"attach to a foreign process", user, "POST /v1/targets", fmt.Sprintf(`{"pid": %d}`, self), true},
		{"a report on a foreign process", user, fmt.Sprint("GET /v1/doctor?pid=", self), "", true},
		{"the whole host, on loopback", onTCP, "GET /v1/targets/host", "", true},
		{"an upload of another user", user, "GET /v1/p/up:x/top", "", true},
		{"no target", user, "GET /v1/targets/none", "", false},
		{"no profile", user, "GET /v1/p/live:none/top", "", false},
		{"no process to attach to", user, "POST /v1/targets", `{"pid": 2147483647}`, false},
		{"no process to report on", user, "GET /v1/doctor?pid=2147483647", "", false},
		{"no target, for a master", master, "GET /v1/targets/none", "", false},
		{"no process, for a master", master, "GET /v1/p/live:db:8/top", "", false},
	} {
		var log strings.Builder
		f := newFake()
		f.addHost()
		s := newServer(t, f, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s.uploads.of["x"] = &uploaded{owner: "0", until: time.Now().Add(uploadKept)}
		method, path, _ := strings.Cut(test.request, " ")
		w := ask(s, test.peer, httptest.NewRequest(method, path, strings.NewReader(test.body)))
		if w.Code != 404 || strings.Contains(w.Body.String(), "peer") {
			t.Errorf("%s: %d %s", test.name, w.Code, w.Body)
		}
		counted := strings.Contains(get(s, master, "/metrics").Body.String(), "\nccmapd_http_refused_total 1\n")
		logged := strings.Contains(log.String(), "uid="+test.peer.name()+" ")
		if counted != test.refused || logged != test.refused {
			t.Errorf("%s: counted %v, want %v; log %q", test.name, counted, test.refused, log.String())
		}
	}
}

// ownProcess returns a process that an ordinary user may trace, and that user.
func ownProcess(t *testing.T) (pid int, user peer) {
	t.Helper()
	if os.Getuid() != 0 {
		return os.Getpid(), peer{known: true, uid: uint32(os.Getuid()), gid: uint32(os.Getgid()), free: true}
	}
	return traceetest.KindNamed(t, "plain").Start(t, traceetest.Program(t)).PID, userOf(nobody)
}

// TestOwnProcesses: a user attaches to so many processes, and to none that a target has together with processes
// of others.
func TestOwnProcesses(t *testing.T) {
	t.Parallel()
	self, user := ownProcess(t)
	uid := int(user.uid)
	attach := func(targets ...daemon.TargetStatus) *httptest.ResponseRecorder {
		f := newFake()
		f.targets = targets
		f.attached = daemon.TargetStatus{Name: "new", Owners: ownedBy(uid)}
		body := strings.NewReader(fmt.Sprintf(`{"pid": %d}`, self))
		return ask(newServer(t, f, Options{}), user, httptest.NewRequest("POST", "/v1/targets", body))
	}
	if w := attach(); w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	mixed := daemon.TargetStatus{Name: "mixed", Processes: []daemon.ProcessStatus{{PID: self}}, Owners: ownedBy(uid, 70000)}
	if w := attach(mixed); w.Code != 403 || strings.Contains(w.Body.String(), "mixed") {
		t.Errorf("with processes of others: %d %s", w.Code, w.Body)
	}
	many := slices.Repeat([]daemon.TargetStatus{{Name: "own", Attached: true, Owners: ownedBy(uid)}}, mostAttached)
	if w := attach(many...); w.Code != 503 || !strings.Contains(w.Body.String(), "DELETE") {
		t.Errorf("one too many: %d %s", w.Code, w.Body)
	}
}

// TestNoRoomToAttach: a daemon that is full or ends is busy, and says what helps.
func TestNoRoomToAttach(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("attach to process 1: %w, 256", daemon.ErrFull), `"hint":"Raise budget.targets, or detach a target: DELETE /v1/targets/NAME."`},
		{fmt.Errorf("attach to process 1: %w", daemon.ErrEnds), `"detail":"attach to process 1: the daemon ends"`},
	} {
		f := newFake()
		f.attach = func(context.Context) error { return test.err }
		w := ask(newServer(t, f, Options{}), master, httptest.NewRequest("POST", "/v1/targets", strings.NewReader(`{"pid": 1}`)))
		if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%v: %d, retry after %q: %s", test.err, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
}

// TestTCPReadsOnly: a client on loopback may be any user, who reads and changes nothing. The page
// of another site cannot even read.
func TestTCPReadsOnly(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{TCP: "127.0.0.1:0"})
	for request, want := range map[string]int{
		"GET /v1/targets": 200, "GET /v1/p/live:web/top": 200, "GET /metrics": 200, "POST /v1/reload": 403, "POST /v1/targets/web/pause": 403,
		"DELETE /v1/targets/web": 403, `POST /v1/targets`: 403,
	} {
		method, path, _ := strings.Cut(request, " ")
		if w := ask(s, onTCP, httptest.NewRequest(method, path, strings.NewReader(`{"pid": 1}`))); w.Code != want {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
	}
	for host, want := range map[string]int{"localhost:7070": 200, "127.0.0.1": 200, "[::1]:7070": 200, "evil.example": 403, "": 403} {
		r := httptest.NewRequest("GET", "/v1/targets", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(withPeer(r.Context(), onTCP)))
		if w.Code != want {
			t.Errorf("host %q: %d", host, w.Code)
		}
	}
	r := httptest.NewRequest("POST", "/v1/uploads", strings.NewReader("a 1\n"))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if w := ask(s, onTCP, r); w.Code != 403 || !strings.Contains(w.Body.String(), "another site") {
		t.Errorf("a page of another site: %d %s", w.Code, w.Body)
	}
	for _, address := range []string{"0.0.0.0:0", ":7070", "192.0.2.1:1"} {
		if _, err := New(Options{Daemon: newFake(), TCP: address}); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestSocketIsPrivate: the socket has its mode at any moment that it can be found, replaces one that
// nobody listens on, and nothing else.
func TestSocketIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	s := newServer(t, newFake(), Options{Socket: socket})
	stop := listenAndServe(t, s)
	if info, err := os.Lstat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
	if err := newServer(t, newFake(), Options{Socket: socket}).Listen(); err == nil {
		t.Error("a second daemon listens there")
	}
	stop()
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := os.WriteFile(socket, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newServer(t, newFake(), Options{Socket: socket}).Listen(); err == nil {
		t.Error("a file was replaced")
	}
}

// TestSocketModes: the socket lets in whom the server answers, and its directory is made.
func TestSocketModes(t *testing.T) {
	t.Parallel()
	const foreign = 4321 // a group that only root gives a file to
	for _, test := range []struct {
		open  bool
		group int
		want  os.FileMode
	}{
		{false, -1, 0o600}, {true, -1, 0o666}, {false, os.Getegid(), 0o660}, {true, foreign, 0o666},
	} {
		socket := filepath.Join(t.TempDir(), "run", "s")
		s := newServer(t, newFake(), Options{Socket: socket, Open: test.open})
		s.group = test.group
		stop := listenAndServe(t, s)
		if info, err := os.Lstat(socket); err != nil || info.Mode().Perm() != test.want {
			t.Errorf("%+v: %v, %v", test, info.Mode(), err)
		}
		stop()
	}
	err := newServer(t, newFake(), Options{Socket: filepath.Join(t.TempDir(), "a", "b", "s")}).Listen()
	if coded := view.ErrorOf(err); err == nil || !strings.Contains(coded.Hint, "CCMAPD_SOCKET") {
		t.Errorf("no place for the directory: %v, hint %q", err, coded.Hint)
	}
}

// listenAndServe has a server serve until stop is called or the test ends.
func listenAndServe(t *testing.T, s *Server) (stop func()) {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx); close(ended) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// status reads the status of the next answer on a connection; 0: it was closed.
func status(r *bufio.Reader) int {
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return answer.StatusCode
}

// TestSlowLoris: clients that say nothing take their share of the connections, and no more. Those
// who are turned away hear it. When they leave, there is room again.
func TestSlowLoris(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	s := newServer(t, newFake(), Options{Socket: socket})
	s.header = time.Hour // the thousand take longer on a busy machine
	listenAndServe(t, s)
	var slow []net.Conn
	for range mostOfOneUser {
		c := dial(t, socket)
		io.WriteString(c, "GET /healthz HTT")
		slow = append(slow, c)
	}
	for range 1000 {
		c := dial(t, socket)
		if got := status(bufio.NewReader(c)); got != 503 {
			t.Fatalf("a connection beyond the bound: status %d", got)
		}
		c.Close()
	}
	for _, p := range []peer{userOf(7), onTCP} { // others have room
		leave, ok := s.guard.enter(p)
		if !ok {
			t.Fatalf("no room for %+v", p)
		}
		leave()
	}
	for _, c := range slow {
		io.WriteString(c, "P/1.1\r\nHost: x\r\n\r\n")
		if got := status(bufio.NewReader(c)); got != 200 {
			t.Errorf("a slow client: status %d", got)
		}
		c.Close()
	}
	for ok := false; !ok; { // the server notices that they have left
		c := dial(t, socket)
		io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		ok = status(bufio.NewReader(c)) == 200
		c.Close()
	}
}

// TestHostsShare: a host that has not logged in, and a user over TCP, leave room for others.
func TestHostsShare(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	from := func(address string) peer {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return peer{tcp: true, host: hostOf(a, new(net.TCPAddr))}
	}
	user := func(name string) peer { return peer{known: true, tcp: true, user: name} }
	for _, test := range []struct {
		name  string
		guard *guard
		peer  peer
		room  int
	}{
		{"a host", s.guard, from("192.0.2.1:1"), mostOfOneHost},
		{"the host by IPv6", s.guard, from("[::ffff:192.0.2.1]:2"), 0},
		{"a network of IPv6", s.guard, from("[2001:db8::1]:1"), mostOfOneHost},
		{"its other addresses", s.guard, from("[2001:db8::2:1]:1"), 0},
		{"loopback", s.guard, from("127.0.0.1:1"), mostOverTCP - 2*mostOfOneHost},
		{"one more host", s.guard, from("192.0.2.2:1"), 0},
		{"the socket", s.guard, userOf(7), mostOfOneUser},
		{"streams of a user", s.streams, user("a"), mostStreamsOfUser},
		{"streams of another", s.streams, user("b"), mostStreamsOnTCP - mostStreamsOfUser},
		{"streams on the socket", s.streams, userOf(7), mostStreams - mostStreamsOnTCP},
	} {
		n := 0
		for ; n <= test.room; n++ {
			if _, ok := test.guard.enter(test.peer); !ok {
				break
			}
		}
		if n != test.room {
			t.Errorf("%s: %d enter, want %d", test.name, n, test.room)
		}
	}
}

// TestUnsentBody: a client that announces a body and does not send it is cut off, on a route that reads it and
// on one that does not.
func TestUnsentBody(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"GET /healthz", "POST /v1/targets/web/pause", "POST /v1/targets", "POST /v1/uploads"} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "s")
			s := newServer(t, newFake(), Options{Socket: socket})
			s.stall = 10 * time.Millisecond
			listenAndServe(t, s)
			c := dial(t, socket)
			io.WriteString(c, request+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("the connection stays: %v", err)
			}
		})
	}
}

// TestLongAttach: an attach may take longer than the body of its request.
func TestLongAttach(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.attached = daemon.TargetStatus{Name: "new", Owners: ownedBy(0)}
	socket := filepath.Join(t.TempDir(), "s")
	s := newServer(t, f, Options{Socket: socket})
	s.stall = 20 * time.Millisecond
	f.attach = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * s.stall):
			return nil
		}
	}
	listenAndServe(t, s)
	c := dial(t, socket)
	io.WriteString(c, "POST /v1/targets HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{\"pid\":1}")
	if got := status(bufio.NewReader(c)); got != 201 {
		t.Errorf("status %d", got)
	}
}

// TestMalformed: what is not a request of HTTP, or too large, is refused, and the server goes
// on.
func TestMalformed(t *testing.T) {
	t.Parallel()
	socket, _ := serve(t, newFake(), Options{})
	for _, test := range []struct {
		name, text string
		want       []int
	}{
		{"garbage", "\x00\xff\r\n\r\n", []int{400}},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", []int{400}},
		{"no host", "GET / HTTP/1.1\r\n\r\n", []int{400}},
		{"long header", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", headerBytes) + "\r\n\r\n", []int{431}},
		{"two lengths", "POST /v1/uploads HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", []int{400}},
		{"bad chunk", "POST /v1/uploads HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", []int{400, 500}},
		{"body of a command", "POST /v1/targets HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat(" ", 9000), []int{400}},
		{"escapes", "GET /v1/p/%00%0a/top HTTP/1.1\r\nHost: a\r\n\r\n", []int{404}},
		{"nothing", "", nil},
	} {
		c := dial(t, socket)
		io.WriteString(c, test.text)
		if test.want == nil {
			c.Close()
			continue
		}
		if got := status(bufio.NewReader(c)); !slices.Contains(test.want, got) {
			t.Errorf("%s: status %d, want %v", test.name, got, test.want)
		}
	}
	c := dial(t, socket)
	io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := status(bufio.NewReader(c)); got != 200 {
		t.Errorf("after all that: status %d", got)
	}
}

// TestNoQuestionShowsOthers: whatever the question, for another user the answer is that there is no such profile, with
// nothing of the target, and for its owner it is an answer.
func TestNoQuestionShowsOthers(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{Open: true})
	for _, q := range view.Questions() {
		path := "/v1/p/live:web/" + q.Name + "?method=a"
		switch q.Subject {
		case view.OfPath:
			path = "/v1/p/live:web/" + q.Name + "?path=a"
		case view.OfTwo, view.OfMany:
			path = "/v1/" + q.Name + "?a=live:web&b=live:web"
		}
		want := 200
		if q.Name == "heat" { // which asks for a stored time
			want = 400
		}
		if w := get(s, userOf(1000), path); w.Code != want {
			t.Errorf("%s of the own target: %d %s", path, w.Code, w.Body)
		}
		if w := get(s, userOf(70), path); w.Code != 404 || strings.Contains(w.Body.String(), "samples") {
			t.Errorf("%s of another user's target: %d %s", path, w.Code, w.Body)
		}
	}
}
