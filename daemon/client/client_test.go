package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/view"
)

// profile returns a profile, and its bytes as a daemon sends them.
func profile(t *testing.T) (*ccmap.Snapshot, []byte) {
	t.Helper()
	s := profiletest.Thicket(1).Snapshot()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(export.Write(z, export.JSON, s), z.Close()); err != nil {
		t.Fatal(err)
	}
	return s, b.Bytes()
}

// listen serves on a socket in a directory of its own.
func listen(t *testing.T, h http.HandlerFunc) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

// TestRead: a profile reads the same from a file, standard input, a URL and a socket.
func TestRead(t *testing.T) {
	t.Parallel()
	s, data := profile(t)
	asked := make(chan string, 10)
	serve := func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.EscapedPath()
		w.Header().Set("Content-Encoding", "zstd")
		w.Write(data)
	}
	web := httptest.NewServer(http.HandlerFunc(serve))
	t.Cleanup(web.Close)
	socket := listen(t, serve)
	file := filepath.Join(t.TempDir(), "web.json.zst")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{file, Stdin, web.URL + "/a", "unix:" + socket + "#web", "@web", "@web:42", "@up:x", "@a/b"} {
		r := Reader{Stdin: bytes.NewReader(data), Sockets: []string{filepath.Join(t.TempDir(), "none"), socket}}
		m, err := r.Read(t.Context(), where, export.ReadOptions{})
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		if got, want := m.Snapshot().Total(), s.Total(); got != want {
			t.Errorf("%s: %v, want %v", where, got, want)
		}
	}
	for _, want := range []string{"/a", "/v1/p/live:web/map", "/v1/p/live:web/map", "/v1/p/live:web:42/map", "/v1/p/up:x/map", "/v1/p/live:a%2Fb/map"} {
		if got := <-asked; got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	}
}

// TestFetchedOnce: what was fetched is read without a connection, as often as one likes, within
// the bound.
func TestFetchedOnce(t *testing.T) {
	t.Parallel()
	_, data := profile(t)
	var asked atomic.Int32
	socket := listen(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.Write(data) })
	r := Reader{Sockets: []string{socket}}
	if _, err := r.Fetch(t.Context(), "@web", int64(len(data))-1); !errors.Is(err, export.ErrMemory) {
		t.Errorf("one byte too many: %v", err)
	}
	n, err := r.Fetch(t.Context(), "@web", int64(len(data)))
	if err != nil || n != int64(len(data)) {
		t.Fatalf("fetched %d bytes, %v", n, err)
	}
	for range 2 {
		if _, err := r.Read(t.Context(), "@web", export.ReadOptions{}); err != nil {
			t.Error(err)
		}
	}
	if n, err := r.Fetch(t.Context(), "file", 1); n != 0 || err != nil {
		t.Errorf("of a file %d bytes were fetched, %v", n, err)
	}
	if size, again := r.Size("@web"); size != int64(len(data)) || !again || asked.Load() != 2 {
		t.Errorf("%d bytes, again: %v, asked %d times", size, again, asked.Load())
	}
}

// TestErrors: each way to fail has its code, and says what to do.
func TestErrors(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	problem := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", ProblemType)
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"title": "no target", "status": 404, "detail": "there is no target \"web\"", "hint": "There is db.", "code": "no-target"}`)
	})
	plain := listen(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "go away", http.StatusForbidden) })
	cut := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "half")
	})
	for _, test := range []struct {
		where, socket, want string
		code                view.Code
		hint                string
	}{
		{"@web", none, "@web: no daemon answers on " + none, view.CodeFailed, "ccmapd serve"},
		{"@web", problem, `@web: there is no target "web"`, view.CodeNoTarget, "There is db."},
		{"@web", plain, "@web: the server answers 403 Forbidden", view.CodeNotPermitted, ""},
		{"@web", cut, "read @web: unexpected EOF", view.CodeFailed, ""},
		{"@", none, `"@" names no profile`, view.CodeUsage, ""},
		{"unix:/a", none, `"unix:/a" names no profile`, view.CodeUsage, ""},
		{"http://", none, `"http://" names no profile`, view.CodeUsage, ""},
	} {
		r := Reader{Sockets: []string{test.socket}}
		_, err := r.Read(t.Context(), test.where, export.ReadOptions{})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.where, err, test.want)
			continue
		}
		if coded := view.ErrorOf(err); coded.Code != test.code || !strings.Contains(coded.Hint, test.hint) {
			t.Errorf("%s: code %s, hint %q", test.where, coded.Code, coded.Hint)
		}
	}
	if _, err := Read(t.Context(), filepath.Join(none, "x"), export.ReadOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestCancel: a request ends with its context, for its cause.
func TestCancel(t *testing.T) {
	t.Parallel()
	began, stop := make(chan bool, 1), make(chan bool)
	socket := listen(t, func(_ http.ResponseWriter, r *http.Request) {
		began <- true
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	go func() { <-began; cancel(gone) }()
	r := Reader{Sockets: []string{socket}}
	if _, err := r.Read(ctx, "@web", export.ReadOptions{}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// TestNames: passwords of URLs are not shown.
func TestNames(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]string{
		Stdin: "standard input", "a.json": "a.json", "@web": "@web", "https://me:secret@host/p": "https://me:xxxxx@host/p",
	} {
		if got := Name(where); got != want {
			t.Errorf("Name(%q) = %q", where, got)
		}
	}
}

// TestDaemon asks for the targets of a daemon, and sends it a command.
func TestDaemon(t *testing.T) {
	t.Parallel()
	socket := listen(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"targets": [{"name": "%s %s %s"}]}`, r.Method, r.URL.Path, strings.ReplaceAll(string(text), `"`, ""))
	})
	d := Daemon{Sockets: []string{socket}}
	if names, err := d.Names(t.Context()); err != nil || fmt.Sprint(names) != "[GET /v1/targets ]" {
		t.Errorf("%q, %v", names, err)
	}
	var answer struct{ Targets []struct{ Name string } }
	if err := d.Post(t.Context(), map[string]int{"pid": 42}, &answer, "targets"); err != nil || fmt.Sprint(answer) != "{[{POST /v1/targets {pid:42}}]}" {
		t.Errorf("%q, %v", answer, err)
	}
}

// TestParseDaemon: a name means a daemon here, at a socket or elsewhere, or none.
func TestParseDaemon(t *testing.T) {
	t.Parallel()
	socket := listen(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", "socket "+r.URL.String()) })
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		fmt.Fprintf(w, "%q", user+password+" "+r.URL.String())
	}))
	t.Cleanup(web.Close)
	host := strings.TrimPrefix(web.URL, "http://")
	for where, want := range map[string]string{
		"unix:" + socket + "#7": "7: socket /v1/doctor?pid=42", "unix:" + socket: ": socket /v1/doctor?pid=42",
		"http://me:secret@" + host + "/v1/doctor?pid=7": "pid=7: mesecret /v1/doctor?pid=42", web.URL + "/v1": ": /v1/doctor?pid=42",
	} {
		d, rest, ok := ParseDaemon(where)
		var answer string
		if err := d.Doctor(t.Context(), 42, &answer); err != nil || !ok || rest+": "+strings.TrimSpace(answer) != want {
			t.Errorf("%s: %q, %q, %v", where, rest, answer, err)
		}
	}
	if d, rest, ok := ParseDaemon("@7"); d.URL != nil || d.Sockets != nil || rest != "7" || !ok {
		t.Errorf("@7: %+v %q %v", d, rest, ok)
	}
	for _, where := range []string{"7", "unix:", "http://host:6060/debug/pprof", "https:///v1", "http://host/v1x", "ftp://host/v1"} {
		if _, _, ok := ParseDaemon(where); ok {
			t.Errorf("%s means a daemon", where)
		}
	}
}

// TestPasswordsStayPrivate: no password crosses the network in clear text, for a profile or a question.
func TestPasswordsStayPrivate(t *testing.T) {
	t.Parallel()
	const where = "http://me:secret@192.0.2.1:7070/v1/p/live:web/map"
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is sent
	_, err := Read(ctx, where, export.ReadOptions{})
	d, _, _ := ParseDaemon(where)
	for _, err := range []error{err, d.Doctor(ctx, 0, new(any))} {
		if err == nil || !strings.Contains(err.Error(), "clear text") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

// TestRedirects: a redirect within the server is followed. One to another server is an error, which names both,
// and that one is not asked.
func TestRedirects(t *testing.T) {
	t.Parallel()
	_, data := profile(t)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server is asked") }))
	t.Cleanup(other.Close)
	answer := func(w http.ResponseWriter, r *http.Request) {
		switch to := r.URL.Query().Get("to"); {
		case r.URL.Path == "/profile":
			w.Write(data)
		case r.URL.Path == "/circle":
			http.Redirect(w, r, "/circle", http.StatusFound)
		case to == "":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, to, http.StatusFound)
		}
	}
	web := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(web.Close)
	socket := listen(t, answer)
	otherHost := strings.TrimPrefix(other.URL, "http://")
	d, _, _ := ParseDaemon(web.URL + "/v1/doctor")
	for where, want := range map[string][]string{
		web.URL + "/a?to=/profile":                                          nil,
		web.URL + "/a?to=" + web.URL + "/profile":                           nil,
		web.URL + "/circle":                                                 {web.URL, "in a circle"},
		web.URL + "/a?to=" + other.URL + "/profile":                         {web.URL, other.URL},
		web.URL + "/a?to=https://" + strings.TrimPrefix(web.URL, "http://"): {web.URL, "https://"},
		web.URL + "/a?to=//" + otherHost:                                    {web.URL, other.URL},
		"unix:" + socket + "#web":                                           {socket, other.URL},
		"daemon":                                                            {web.URL, other.URL},
	} {
		var err error
		if where == "daemon" {
			err = d.Post(t.Context(), 1, new(any), "targets")
		} else {
			_, err = Read(t.Context(), where, export.ReadOptions{})
		}
		if want == nil {
			if err != nil {
				t.Errorf("%s: %v", where, err)
			}
			continue
		}
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", where, err, part)
			}
		}
		if want[1] == other.URL && !strings.Contains(view.ErrorOf(err).Hint, "name its URL") {
			t.Errorf("%s: hint %q", where, view.ErrorOf(err).Hint)
		}
	}
}

// TestSockets: a socket that is named is the only one.
func TestSockets(t *testing.T) {
	t.Setenv("CCMAPD_SOCKET", "")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	if got := fmt.Sprint(Sockets()); got != "[/run/user/7/ccmapd.sock /run/ccmapd/ccmapd.sock]" {
		t.Error(got)
	}
	t.Setenv("CCMAPD_SOCKET", "/tmp/s")
	if got := fmt.Sprint(Sockets()); got != "[/tmp/s]" {
		t.Error(got)
	}
}
