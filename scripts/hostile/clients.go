package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// rootUser and onlooker are users that connect to the socket.
const rootUser = 0

// webClient sends requests over connections of its own.
type webClient struct{ http.Client }

// webClient returns a client that connects to the socket as a user.
func (s *stage) webClient(user int) *webClient {
	return newWebClient(func(context.Context, string, string) (net.Conn, error) { return dialAs(user, s.served.socket) })
}

func newWebClient(dial func(context.Context, string, string) (net.Conn, error)) *webClient {
	return &webClient{http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dial, DisableCompression: true}}}
}

// dialAs connects to a socket as a user: the kernel keeps the identity of the thread that connects.
func dialAs(user int, socket string) (net.Conn, error) {
	if user == os.Geteuid() {
		return net.Dial("unix", socket)
	}
	var conn net.Conn
	err := asUser(user, func() (err error) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), socket)
		defer f.Close()
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
			return err
		}
		conn, err = net.FileConn(f)
		return err
	})
	return conn, err
}

// dialPortAs connects to a port as a user: the kernel keeps the identity of the thread that makes the socket.
func dialPortAs(user int, address string) (conn net.Conn, err error) {
	if user == os.Geteuid() {
		return net.Dial("tcp", address)
	}
	err = asUser(user, func() (err error) {
		conn, err = net.Dial("tcp", address)
		return err
	})
	return conn, err
}

// asUser does something on a thread of another user. The thread ends with it.
func asUser(user int, do func() error) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user))
		if errno != 0 {
			failed <- fmt.Errorf("become user %d: %w", user, errno)
			return
		}
		failed <- do()
	}()
	return <-failed
}

// send sends a request, reads the whole answer, and returns its status.
func (c *webClient) send(ctx context.Context, method, path string, body io.Reader) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// want sends a request whose answer must have a status, and returns how long that took.
func (c *webClient) want(ctx context.Context, status int, method, path string) (time.Duration, error) {
	began := time.Now()
	got, answer, err := c.send(ctx, method, path, nil)
	if err == nil && got != status {
		err = fmt.Errorf("%s %s: %d, want %d: %s", method, path, got, status, answer[:min(len(answer), 300)])
	}
	return time.Since(began), err
}

// open is a daemon that every user may connect to.
func (s *stage) open() order {
	return order{listen: "open = true\n", rotate: rotation, store: s.store}
}

// openTCP is one that listens on loopback, too.
func (s *stage) openTCP() order {
	s.address = "127.0.0.1:7070"
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // a port that is free
		s.address = l.Addr().String()
		l.Close()
	}
	o := s.open()
	o.listen += fmt.Sprintf("tcp = %q\n", s.address)
	return o
}

// views returns the paths of all views of a target.
func views(name, other string) []string {
	all := []string{"/v1/overlap?a=live:" + name + "&b=live:" + other, "/v1/diff?a=live:" + name + "&b=live:" + other}
	for _, view := range []string{"map", "map?format=pprof", "profile.pb.gz", "top", "contexts?match=calls", "sites", "receivers", "points", "query?path=main.calls", "meta"} {
		all = append(all, "/v1/p/live:"+name+"/"+view)
	}
	return append(all, "/v1/targets/"+name)
}

// traffic is the requests of many clients.
type traffic struct {
	mu       sync.Mutex
	answered int
	busy     int       // told to come again
	top      []float64 // seconds that answers of top took
	errs     error
}

const (
	manyClients = 100
	// bigContexts is about the number of contexts of the profile that top is asked about.
	bigContexts = 100_000
	mostTop     = 50 * time.Millisecond // 99 of 100 answers of top
)

// clients lets many clients loop over all views.
func (s *stage) clients(ctx context.Context) (string, error) {
	var file bytes.Buffer
	if err := export.Write(&file, export.JSON, thicket(s.hostile, bigContexts).Snapshot()); err != nil {
		return "", err
	}
	status, ref, err := s.webClient(rootUser).send(ctx, http.MethodPost, "/v1/uploads", &file)
	if err != nil || status != http.StatusCreated {
		return "", fmt.Errorf("upload a profile: %d %s: %w", status, ref, err)
	}
	up, _, _ := strings.Cut(string(ref[bytes.Index(ref, []byte("up:")):]), `"`)
	ctx2, end := context.WithTimeout(ctx, s.span)
	defer end()
	var t traffic
	var all sync.WaitGroup
	for i := range manyClients {
		dial := func(context.Context, string, string) (net.Conn, error) { return dialAs(rootUser, s.served.socket) }
		paths := []string{}
		if i%3 > 0 {
			user := i % 4 * onlooker // a user has a quarter of the port
			dial = func(context.Context, string, string) (net.Conn, error) { return dialPortAs(user, s.address) }
		} else {
			paths = []string{"/v1/p/" + url.PathEscape(up) + "/top"}
		}
		for _, m := range s.members {
			paths = append(paths, views(m.name, s.members[0].name)...)
		}
		paths = append(paths, "/v1/targets", "/v1/info", "/metrics", "/healthz", "/readyz")
		offset := s.IntN(len(paths))
		all.Go(func() { t.loop(ctx2, newWebClient(dial), paths, offset) })
	}
	all.Wait()
	if t.answered == 0 {
		t.errs = errors.Join(t.errs, errors.New("no request was answered"))
	}
	slices.Sort(t.top)
	p99 := "–"
	if n := len(t.top); n > 0 {
		at := t.top[(n-1)*99/100]
		p99 = report.Number(1000*at, 0) + " ms"
		if most := mostTop * s.slack(); at > most.Seconds() {
			t.errs = errors.Join(t.errs, fmt.Errorf("of 100 answers of top, 99 took up to %s, want %v", p99, most))
		}
	}
	return fmt.Sprintf("%s answers, %s told to come again; top: 99 of 100 within %s", report.Count(float64(t.answered)), report.Count(float64(t.busy)), p99),
		errors.Join(t.errs, s.goesOn(ctx))
}

// clientsAtRest is clients of targets that rest, once each has a profile.
func (s *stage) clientsAtRest(ctx context.Context) (string, error) {
	const enough = 50 // samples of a target
	err := s.resume()
	if err == nil {
		err = s.served.awaits(ctx, "have a profile", s.names(), func(t daemon.TargetStatus) bool { return t.Status.Samples >= enough })
	}
	if err = errors.Join(err, s.rest()); err != nil {
		return "", err
	}
	return s.clients(ctx)
}

// loop asks for paths in turn.
func (t *traffic) loop(ctx context.Context, c *webClient, paths []string, at int) {
	defer c.CloseIdleConnections()
	for n := at; ctx.Err() == nil; n++ {
		path := paths[n%len(paths)]
		big := strings.HasSuffix(path, "/top") && strings.Contains(path, "/up")
		if big {
			path += fmt.Sprintf("?limit=%d", 10+n%1000) // so that no other answer serves
		}
		began := time.Now()
		status, answer, err := c.send(ctx, http.MethodGet, path, nil)
		if ctx.Err() != nil {
			return
		}
		if t.note(path, status, answer, err); big && status == http.StatusOK {
			t.took(time.Since(began))
		}
		if status == http.StatusServiceUnavailable || err != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (t *traffic) took(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.top = append(t.top, d.Seconds())
}

// note counts an answer. A connection that was turned away may be cut.
func (t *traffic) note(path string, status int, answer []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil || status == http.StatusServiceUnavailable:
		t.busy++
	case status == http.StatusOK:
		t.answered++
	default:
		t.errs = fmt.Errorf("%s: %d %s", path, status, answer[:min(len(answer), 300)])
	}
}

const (
	manySlow = 1000
	mostSlow = 2 * time.Second // for one answer beside them
)

// loris lets clients send their requests a byte at a time, and asks for targets and metrics beside them.
func (s *stage) loris(ctx context.Context) (string, error) {
	end, err := s.startSlow(ctx)
	if err != nil {
		return "", err
	}
	var waits []float64
	_, err = s.repeat(ctx, 20*time.Millisecond, func() error {
		took, err := s.asks(ctx)
		waits = append(waits, took.Seconds())
		return errors.Join(err, s.scrapes(ctx))
	})
	cut, err2 := end()
	err = errors.Join(err, err2)
	if slowest := slices.Max(waits); slowest > (mostSlow * s.slack()).Seconds() {
		err = errors.Join(err, fmt.Errorf("an answer took %.1f s", slowest))
	}
	return fmt.Sprintf("%s of their connections were cut; another client waits %s", report.Count(float64(cut)), medianAndMost(waits)), err
}

// slowCommand makes this program the slow clients of an address and a socket: they would hold up all that this
// process does itself.
const slowCommand = "slow-clients"

// startSlow starts the slow clients. end ends them, and returns how many of their connections were cut.
func (s *stage) startSlow(ctx context.Context) (end func() (cut int64, err error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, slowCommand, s.address, s.served.socket)
	cmd.Stderr = s.Log
	var out bytes.Buffer
	cmd.Stdout = &out
	stdin, err := cmd.StdinPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		return nil, fmt.Errorf("start slow clients: %w", err)
	}
	return func() (cut int64, err error) {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			return 0, fmt.Errorf("end slow clients: %w", err)
		}
		_, err = fmt.Sscan(out.String(), &cut)
		return cut, err
	}, nil
}

// runSlow is slow clients until the standard input ends, half of them by TCP, half as another user. It prints
// how many connections were cut.
func runSlow(address, socket string, stdout io.Writer) {
	slow, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var cut atomic.Int64
	for i := range manySlow {
		dial := func() (net.Conn, error) { return net.Dial("tcp", address) }
		if i%2 > 0 {
			dial = func() (net.Conn, error) { return dialAs(onlooker, socket) }
		}
		all.Go(func() { trickle(slow, dial, &cut) })
	}
	io.Copy(io.Discard, os.Stdin)
	end()
	all.Wait()
	fmt.Fprintln(stdout, cut.Load())
}

// asks asks for the targets by the command. Its priority is high: no other program must hold it up.
func (s *stage) asks(ctx context.Context) (time.Duration, error) {
	args := append(strings.Fields(first), s.Ccmapd, "targets", "--json")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "CCMAPD_SOCKET="+s.served.socket)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ask for the targets: %w\n%s", err, tail(string(out)))
	}
	return time.Since(began), err
}

// scrapes asks the port for metrics as another user than the slow clients.
func (s *stage) scrapes(ctx context.Context) error {
	c := newWebClient(func(context.Context, string, string) (net.Conn, error) { return dialPortAs(onlooker, s.address) })
	defer c.CloseIdleConnections()
	_, err := c.want(ctx, http.StatusOK, http.MethodGet, "/metrics")
	return err
}

// trickle connects again and again, and sends a byte a second.
func trickle(ctx context.Context, dial func() (net.Conn, error), cut *atomic.Int64) {
	for ctx.Err() == nil {
		c, err := dial()
		if err == nil {
			_, err = io.WriteString(c, "GET /v1/targets HTTP/1.1\r\nHost: localhost\r\nX: ")
		}
		for err == nil && ctx.Err() == nil {
			rest(ctx, time.Second)
			_, err = io.WriteString(c, "x")
		}
		if c != nil {
			c.Close()
		}
		cut.Add(1)
		rest(ctx, time.Second)
	}
}

// rest lets time pass, unless ctx is done.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// badRequests are refused, each for a reason of its own.
func badRequests() map[string]string {
	head := func(lines string) string { return "GET /v1/targets HTTP/1.1\r\nHost: localhost\r\n" + lines + "\r\n" }
	long := strings.Repeat("x", 1<<20)
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
	return map[string]string{
		"a header of a mebibyte": head("X: " + long + "\r\n"), "ten thousand headers": head(strings.Repeat("X: y\r\n", 10_000)),
		"a path of a mebibyte": get("/v1/" + long), "no request": "\x16\x03\x01\x00\xa5\x01\x00\x00", "no version": "GET /\r\n\r\n",
		"two lengths": head("Content-Length: 1\r\nContent-Length: 2\r\n"), "a negative length": head("Content-Length: -1\r\n"),
		"a bad chunk": "POST /v1/targets HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"no host":     "GET /v1/targets HTTP/1.1\r\n\r\n", "a folded header": head("X: y\r\n z: w\r\nA b: c\r\n"),
		"a body that is not JSON": post("/v1/targets", "{"), "a body that is too long": post("/v1/targets", `{"pid":1`+strings.Repeat(" ", 1<<20)+"}"),
		"a process that is not": post("/v1/targets", `{"pid":2147483647}`), "a number that is too large": post("/v1/targets", `{"pid":1e99}`),
		"an upload of noise": post("/v1/uploads", long), "an upload that is too long": post("/v1/uploads", strings.Repeat("x", 65<<20)),
		"an unknown parameter": get("/v1/p/live:t00/top?x=1"), "a bad number": get("/v1/p/live:t00/top?limit=99999999999999999999"),
		"a bad expression": get("/v1/p/live:t00/top?match=%28%28"), "a path of dots": get("/v1/p/..%2f..%2fetc%2fpasswd/map"),
		"a target of control characters": get("/v1/targets/%00%1b%5b2J"), "an unknown method": "BREW /v1/targets HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a day of seconds, negative": get("/v1/p/live:t00/profile.pb.gz?seconds=-86400"),
	}
}

// malformed sends bad requests, and mutants of a good one.
func (s *stage) malformed(ctx context.Context) (string, error) {
	mutants, n := 0, 0
	var failed error
	_, err := s.repeat(ctx, 0, func() error {
		for name, request := range badRequests() {
			status, err := s.raw(request)
			if err != nil || status/100 == 2 {
				failed = fmt.Errorf("%s: %d, %w", name, status, err)
			}
			n++
		}
		for range 100 {
			request := []byte("GET /v1/p/live:t00/top?limit=3 HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: zstd\r\nConnection: close\r\n\r\n")
			for range 1 + s.IntN(4) {
				request[s.IntN(len(request))] = byte(s.IntN(256))
			}
			if _, err := s.raw(string(request)); err != nil {
				failed = fmt.Errorf("%q: %w", request, err)
			}
			mutants++
		}
		return nil
	})
	return fmt.Sprintf("%s refused, and %s mutants of a good one", report.Count(float64(n)), report.Count(float64(mutants))), errors.Join(failed, err)
}

// raw sends bytes and the end of a request, and returns the status of the answer; 0 if the
// connection is cut.
func (s *stage) raw(request string) (int, error) {
	c, err := net.Dial("unix", s.served.socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(longestEnd))
	go func() {
		io.WriteString(c, request) // an answer may come before the end
		c.(*net.UnixConn).CloseWrite()
	}()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return 0, err
	case err != nil:
		return 0, nil
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	if errors.As(err, &late) && late.Timeout() {
		return 0, err
	}
	return response.StatusCode, nil
}

// strangers asks for everything as a user without rights.
func (s *stage) strangers(ctx context.Context) (string, error) {
	c := s.webClient(onlooker)
	defer c.CloseIdleConnections()
	type ask struct{ method, path, body string }
	asks := []ask{
		{"GET", "/metrics", ""}, {"POST", "/v1/reload", ""}, {"POST", "/v1/targets", fmt.Sprintf(`{"pid":%d}`, os.Getpid())},
		{"POST", "/v1/targets", `{"pid":1}`}, {"GET", "/v1/p/up:1/map", ""},
	}
	for _, m := range s.members {
		for _, path := range views(m.name, m.name) {
			asks = append(asks, ask{"GET", path, ""})
		}
		for _, action := range []string{"pause", "resume", "rotate"} {
			asks = append(asks, ask{"POST", "/v1/targets/" + m.name + "/" + action, ""})
		}
		asks = append(asks, ask{"DELETE", "/v1/targets/" + m.name, ""}, ask{"POST", "/v1/targets", fmt.Sprintf(`{"pid":%d}`, m.pid())},
			ask{"GET", fmt.Sprintf("/v1/p/live:%s:%d/map", m.name, m.pid()), ""})
	}
	n := 0
	var failed error
	_, err := s.repeat(ctx, 0, func() error {
		for _, a := range asks {
			status, answer, err := c.send(ctx, a.method, a.path, strings.NewReader(a.body))
			if err != nil {
				return err
			}
			if status != http.StatusNotFound {
				failed = fmt.Errorf("%s %s: %d, want 404: %s", a.method, a.path, status, answer[:min(len(answer), 300)])
			}
			n++
		}
		_, answer, err := c.send(ctx, http.MethodGet, "/v1/targets", nil)
		if bytes.Contains(answer, []byte("t00")) {
			failed = errors.Join(failed, errors.New("another user sees targets"))
		}
		return err
	})
	return fmt.Sprintf("%s requests, each answered that there is no such thing", report.Count(float64(n))), errors.Join(failed, err)
}
