package pages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

const policy = "default-src 'none'; frame-ancestors 'none'"

func newShell(t *testing.T) *Shell {
	t.Helper()
	s, err := NewShell(fstest.MapFS{
		"index.html":     {Data: []byte("<!doctype html>the shell" + strings.Repeat(" ", 200))},
		"app-1a2b3c.js":  {Data: []byte("script")},
		"app-1a2b3c.css": {Data: []byte("style")},
		"LICENSES":       {Data: []byte("MIT")},
	}, policy)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newTestServer returns a server at a port, whose data says what it was asked for.
func newTestServer(t *testing.T) *Server {
	t.Helper()
	return NewServer(idle{port: 4321}, newShell(t), NewGate(nil), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "data of %s %s, headers %v", r.Method, r.URL, len(r.Header))
	}))
}

type request struct {
	method, path string
	header       map[string]string
	host         string // "": the server's
}

func (s *Server) do(of request) *httptest.ResponseRecorder {
	r := httptest.NewRequest(of.method, of.path, nil)
	r.Host = "127.0.0.1:" + s.port
	if of.host != "" {
		r.Host = of.host
	}
	for name, value := range of.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func enter(t *testing.T, s *Server) (session string) {
	t.Helper()
	w := s.do(request{"POST", "/session", map[string]string{"Authorization": "Bearer " + s.gate.Token(), "Sec-Fetch-Site": "same-origin"}, ""})
	if w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("exchange: %d %s", w.Code, w.Body)
	}
	session, _, _ = strings.Cut(strings.TrimPrefix(w.Body.String(), `{"session":"`), `"`)
	return session
}

// TestRequests: pages are for visits and for themselves, and data for the session.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	session := enter(t, s)
	in := func(more ...string) map[string]string {
		h := map[string]string{"Authorization": "Bearer " + session}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	visit := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	for _, test := range []struct {
		request
		status   int
		contains string
	}{
		{request{"GET", "/", nil, ""}, 200, "the shell"},
		{request{"GET", "/", visit, ""}, 200, "the shell"},
		{request{"GET", "/p/file:1/flame?focus=a", visit, "localhost:4321"}, 200, "the shell"},
		{request{"GET", "/compare?a=file:1&b=file:2", visit, "LOCALHOST:4321"}, 200, "the shell"},
		{request{"GET", "/app-1a2b3c.js", map[string]string{"Sec-Fetch-Site": "same-origin"}, ""}, 200, "script"},
		{request{"GET", "/none", nil, ""}, 404, ""},
		{request{"GET", "/../../etc/passwd", nil, ""}, 307, ""},
		{request{"POST", "/", nil, ""}, 405, ""},
		{request{"GET", "/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, ""}, 403, "another site"},
		{request{"GET", "/", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, ""}, 403, "another site"},
		{request{"GET", "/", nil, "127.0.0.1"}, 421, "another host"},
		{request{"GET", "/", nil, "127.0.0.1:4322"}, 421, "another host"},
		{request{"GET", "/", nil, "evil.example:4321"}, 421, "another host"},
		{request{"GET", "/v1/targets", in(), "evil.example:4321"}, 421, "another host"},

		{request{"GET", "/v1/targets?x=1", in("Sec-Fetch-Site", "same-origin"), ""}, 200, "data of GET /v1/targets?x=1, headers 0"},
		{request{"GET", "/v1/targets", in("Sec-Fetch-Site", "none", "If-None-Match", `"x"`, "Cookie", "a=b"), ""}, 200, "headers 1"},
		{request{"HEAD", "/v1/targets", in(), ""}, 200, ""},
		{request{"POST", "/v1/uploads", in("Origin", "http://127.0.0.1:4321"), ""}, 200, "data of POST"},
		{request{"GET", "/v1/targets", nil, ""}, 401, "no session"},
		{request{"GET", "/v1/targets", map[string]string{"Authorization": "Bearer "}, ""}, 401, "no session"},
		{request{"GET", "/v1/targets", map[string]string{"Authorization": session}, ""}, 401, "no session"},
		{request{"GET", "/v1/targets", map[string]string{"Authorization": "Bearer " + s.gate.Token()}, ""}, 401, "no session"},
		{request{"GET", "/v1/targets", in("Sec-Fetch-Site", "cross-site"), ""}, 403, "another site"},
		{request{"GET", "/v1/targets", in("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), ""}, 403, "another site"},
		{request{"GET", "/v1/targets", in("Sec-Fetch-Site", "same-site"), ""}, 403, "another site"},
		{request{"POST", "/v1/uploads", in("Origin", "http://evil.example"), ""}, 403, "another site"},
		{request{"POST", "/v1/targets", in(), ""}, 403, "change nothing"},
		{request{"POST", "/v1/reload", in(), ""}, 403, "change nothing"},
		{request{"POST", "/v1/targets/web/pause", in(), ""}, 403, "change nothing"},
		{request{"DELETE", "/v1/targets/web", in(), ""}, 403, "change nothing"},
		{request{"PUT", "/v1/uploads", in(), ""}, 403, "change nothing"},
		{request{"GET", "/v1/events", in(), ""}, 403, "change nothing"},
		{request{"GET", "/session", in(), ""}, 405, ""},
		{request{"POST", "/session", map[string]string{"Authorization": "Bearer " + s.gate.Token(), "Sec-Fetch-Site": "cross-site"}, ""}, 403, "another site"},
		{request{"POST", "/session", map[string]string{"Authorization": "Bearer wrong"}, ""}, 401, "wrong"},
		{request{"GET", "/v1/targets", in(), ""}, 200, "data"}, // none of these has ended the session
	} {
		w := s.do(test.request)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%+v: %d %.200s, want %d %s", test.request, w.Code, w.Body, test.status, test.contains)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%+v: %s is %q", test.request, name, got)
			}
		}
		if w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%+v: there is a cookie", test.request)
		}
	}
}

// TestSecondUseEndsSession: whoever uses the token again ends the session, also of who was first.
func TestSecondUseEndsSession(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	session := enter(t, s)
	again := request{"POST", "/session", map[string]string{"Authorization": "Bearer " + s.gate.Token()}, ""}
	for range 2 {
		if w := s.do(again); w.Code != 401 {
			t.Errorf("a second use: %d %s", w.Code, w.Body)
		}
	}
	if w := s.do(request{"GET", "/v1/targets", map[string]string{"Authorization": "Bearer " + session}, ""}); w.Code != 401 {
		t.Errorf("the session goes on: %d %s", w.Code, w.Body)
	}
	if <-s.gate.Shut(); !errors.Is(s.gate.Why(), ErrUsedTwice) {
		t.Error(s.gate.Why())
	}
}

// TestTokenExpires: after a minute the token is worth nothing, and the server ends; a session goes on.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		wait time.Duration
		in   bool
	}{{TokenKept - 1, true}, {TokenKept, false}, {time.Hour, false}} {
		now := time.Now()
		g := NewGate(func() time.Time { return now })
		now = now.Add(test.wait)
		session, err := g.Exchange(g.Token())
		if (err == nil) != test.in || test.in != g.Allows(session) || !test.in && !errors.Is(g.Why(), ErrNotOpened) {
			t.Errorf("after %v: %v, %v", test.wait, err, g.Why())
		}
		now = now.Add(24 * time.Hour)
		if g.Expire(); g.Allows(session) != test.in {
			t.Errorf("after %v and a day: %v", test.wait, g.Why())
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(idle{make(chan struct{}), 1}, newShell(t), NewGate(nil), http.NotFoundHandler())
		if err := s.Serve(t.Context()); !errors.Is(err, ErrNotOpened) {
			t.Errorf("nobody came: %v", err)
		}
	})
}

// idle is a listener without connections.
type idle struct {
	closed chan struct{}
	port   int
}

func (l idle) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l idle) Close() error              { close(l.closed); return nil }
func (l idle) Addr() net.Addr            { return &net.TCPAddr{Port: l.port} }

// TestManyConnections: a thousand connections of others that say nothing keep a browser out of nothing, and the
// server's own are bounded.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	l, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(l, newShell(t), NewGate(nil), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "data") }))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	at := "127.0.0.1:" + s.port
	var others []net.Conn
	for range 1000 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, c)
	}
	u, err := url.Parse(s.URL("/p/file:1/flame"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := url.ParseQuery(u.Fragment)
	if err != nil || u.Host != at || u.Path != "/p/file:1/flame" {
		t.Fatal(u, err)
	}
	r, _ := http.NewRequest("POST", "http://"+at+"/session", nil)
	r.Header.Set("Authorization", "Bearer "+token.Get("token"))
	response, err := http.DefaultClient.Do(r)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	response.Body.Close()
	closed := 0
	for _, c := range others[:1000-mostConnections] {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := bufio.NewReader(c).ReadByte(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			closed++
		}
		c.Close()
	}
	if closed != 1000-mostConnections {
		t.Errorf("%d of the first connections are closed", closed)
	}
	for _, c := range others {
		c.Close()
	}
	if cancel(); <-ended != nil {
		t.Error("the end of the command is an error")
	}
}

// TestShell: files are sent packed to who takes that, those with a hash in their names for ever, and a shell without
// its page is none.
func TestShell(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	w := s.do(request{"GET", "/", map[string]string{"Accept-Encoding": "br, gzip"}, ""})
	if w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Cache-Control") != "no-cache" || w.Body.Len() > 100 {
		t.Errorf("%v, %d bytes", w.Header(), w.Body.Len())
	}
	if w := s.do(request{"GET", "/", map[string]string{"Accept-Encoding": "gzip;q=0"}, ""}); w.Header().Get("Content-Encoding") != "" {
		t.Error("a client that takes no gzip gets some")
	}
	for path, want := range map[string]string{"/app-1a2b3c.js": "text/javascript; charset=utf-8", "/app-1a2b3c.css": "text/css; charset=utf-8", "/LICENSES": "text/plain; charset=utf-8"} {
		w := s.do(request{"GET", path, nil, ""})
		if got := w.Header(); got.Get("Content-Type") != want || strings.Contains(got.Get("Cache-Control"), "immutable") == (path == "/LICENSES") {
			t.Errorf("%s: %v", path, got)
		}
	}
	shell := newShell(t)
	for address, want := range map[string]bool{
		"/": true, "/t/web": true, "/p/live:web/flame": true, "/compare": true, "/app-1a2b3c.js": true,
		"/v1/targets": false, "/compare/x": false, "/t": false, "": false, "/metrics": false, "/targets/web/top": false,
	} {
		if got := shell.Has(address); got != want {
			t.Errorf("%q is a page's: %v", address, got)
		}
	}
	if _, err := NewShell(fstest.MapFS{"app.js": {}}, policy); err == nil {
		t.Error("a shell without a page")
	}
}
