package pprofhttp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"go.uber.org/goleak"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testrun.Guard(m)) }

// encoded returns a profile of one stack of one function, of a program with a build id.
func encoded(t testing.TB, function, build string, samples int64) []byte {
	t.Helper()
	mapping := &profile.Mapping{ID: 1, Start: 0x1000, Limit: 0x2000, File: "/srv/web", BuildID: build, HasFunctions: true}
	f := &profile.Function{ID: 1, Name: function}
	at := &profile.Location{ID: 1, Mapping: mapping, Address: 0x1800, Line: []profile.Line{{Function: f, Line: 7}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7,
		Sample:   []*profile.Sample{{Location: []*profile.Location{at}, Value: []int64{samples, samples * 1e7}}},
		Location: []*profile.Location{at}, Function: []*profile.Function{f}, Mapping: []*profile.Mapping{mapping},
		Comments: []string{"said by the server"},
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// serve serves a program whose profiles a function answers; requests count from 0.
func serve(t testing.TB, answer func(w http.ResponseWriter, r *http.Request, n int)) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "/srv/web\x00-addr\x00:80")
	})
	mux.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, int(n.Add(1)-1))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// always answers each request with the same profile.
func always(profile []byte) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) { w.Write(profile) }
}

// options returns the options of a source of an address.
func options(address string) Options {
	return Options{
		URL: address, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()},
		Read: func(r io.Reader) (*ccmap.Map, error) {
			m, _, err := export.Read(r, export.ReadOptions{MaxMemory: 64 << 20})
			return m, err
		},
	}
}

// open opens a source that asks again at once.
func open(t testing.TB, o Options) *Source {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.pause, s.second = func(int) time.Duration { return 0 }, 0
	return s
}

// ending is what Run returns.
type ending struct {
	sampler.Ending
	err error
}

// start runs a source until the test or stop ends it.
func start(t testing.TB, s *Source) (done <-chan ending, stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended, left := make(chan ending, 1), make(chan struct{})
	go func() {
		defer close(left)
		e, err := s.Run(ctx)
		ended <- ending{e, err}
	}()
	t.Cleanup(func() {
		stop()
		<-left
	})
	return ended, stop
}

// TestTake: one profile is taken once, and a refusal says why.
func TestTake(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch n {
		case 0:
			w.Write(encoded(t, "main.f", "abc", 3))
		case 1:
			http.Error(w, "Could not enable CPU profiling", http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	})
	s := open(t, options(server.URL))
	m, err := s.Take(t.Context())
	if err != nil || m.Snapshot().Total().Samples != 3 || s.Info().Target.BuildID != "abc" {
		t.Errorf("%v, %v of %+v", err, m, s.Info().Target)
	}
	if _, err := s.Take(t.Context()); err == nil || !strings.Contains(err.Error(), "Could not enable") || errors.Is(err, sampler.ErrUnsupported) {
		t.Errorf("busy: %v", err)
	}
	if _, err := s.Take(t.Context()); !errors.Is(err, sampler.ErrUnsupported) {
		t.Errorf("no profiles: %v", err)
	}
}

// TestProve: a server that is busy is asked again, and what it answered last is the reason of a failure.
func TestProve(t *testing.T) {
	t.Parallel()
	busy := "cpu profiling already in use"
	server := serve(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 0 {
			http.Error(w, busy, http.StatusInternalServerError)
			return
		}
		if s := r.FormValue("seconds"); s != "1" {
			t.Errorf("asked for %s seconds", s)
		}
		w.Write(encoded(t, "main.f", "", 3))
	})
	found, err := open(t, options(server.URL)).Prove(t.Context())
	if want := "a profile of one second at " + server.URL + "/debug/pprof, with samples: 3"; err != nil || found != want {
		t.Errorf("%q, %v; want %q", found, err, want)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	never := serve(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		http.Error(w, busy, http.StatusInternalServerError)
	})
	s := open(t, options(never.URL))
	s.pause = func(failures int) time.Duration {
		if failures == 2 {
			stop()
		}
		return 0
	}
	if _, err := s.Prove(ctx); err == nil || !strings.Contains(err.Error(), busy) {
		t.Errorf("busy for ever: %v", err)
	}
}

// TestProfiles: profiles come one after another, without their descriptions, and tell of the
// program.
func TestProfiles(t *testing.T) {
	t.Parallel()
	var asked atomic.Pointer[string]
	server := serve(t, func(w http.ResponseWriter, r *http.Request, n int) {
		query := r.URL.RawQuery
		asked.Store(&query)
		w.Write(encoded(t, fmt.Sprint("main.f", n), "abc", int64(n+1)))
	})
	s := open(t, options(server.URL+"/debug/pprof/"))
	done, stop := start(t, s)
	for n := range 3 {
		m := <-s.Profiles()
		if total := m.Snapshot().Total(); total.Samples != int64(n+1) || total.Time != int64(n+1)*1e7 {
			t.Errorf("profile %d has %+v", n, total)
		}
		if meta := m.Meta(); len(meta.Comments)+len(meta.Interval)+len(meta.Target.Executable) > 0 || meta.Unit != ccmap.CPUTime {
			t.Errorf("profile %d is described: %+v", n, meta)
		}
	}
	stop()
	if e := <-done; e.err != nil || e.Exited {
		t.Errorf("ends with %+v", e)
	}
	if q := *asked.Load(); q != "seconds=5" {
		t.Errorf("asked for %s", q)
	}
	info, stats := s.Info(), s.Stats()
	if target := info.Target; target.BuildID != "abc" || target.Executable != "/srv/web" || !slices.Equal(target.CommandLine, []string{"/srv/web", "-addr", ":80"}) {
		t.Errorf("target %+v", target)
	}
	if info.Lacks == "" || info.Engine != Engine || stats.NoCalls == "" || stats.Warning != "" || stats.Interval != 10*time.Millisecond || stats.Counts[sampler.Samples] < 6 {
		t.Errorf("info %+v, stats %+v", info, stats)
	}
}

// TestFailuresAreRetried: a server that restarts, is busy or answers nonsense is asked again, and
// the failures are counted.
func TestFailuresAreRetried(t *testing.T) {
	t.Parallel()
	whole := encoded(t, "main.f", "", 1)
	failures := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) {
			http.Error(w, "Could not enable CPU profiling: cpu profiling already in use", http.StatusInternalServerError)
		},
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, // the connection breaks
		func(w http.ResponseWriter) { w.Write(whole[:len(whole)/2]) },
		func(w http.ResponseWriter) { w.Write([]byte("\x00 no profile")) },
		func(http.ResponseWriter) {}, // empty
	}
	server := serve(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n < len(failures) {
			failures[n](w)
			return
		}
		w.Write(whole)
	})
	s := open(t, options(server.URL))
	done, stop := start(t, s)
	if total := (<-s.Profiles()).Snapshot().Total(); total.Samples != 1 {
		t.Errorf("%+v", total)
	}
	stop()
	if e := <-done; e.err != nil {
		t.Error(e.err)
	}
	var counted int
	// The transport itself repeats a request whose connection breaks.
	if _, err := fmt.Sscanf(s.Stats().Warning, "%d of ", &counted); err != nil || counted < len(failures)-1 || counted > len(failures) {
		t.Errorf("%d requests failed, and the warning is %q", len(failures), s.Stats().Warning)
	}
}

// TestRefusals: what would stay as it is ends the session, with the reason.
func TestRefusals(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another host was asked") }))
	t.Cleanup(elsewhere.Close)
	heap := encodedHeap(t)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		want   error
		text   string
	}{
		"unauthorized": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, sampler.ErrPermission, "401"},
		"forbidden":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, sampler.ErrPermission, "403"},
		"missing":      {http.NotFound, sampler.ErrUnsupported, "404"},
		"other unit":   {func(w http.ResponseWriter, _ *http.Request) { w.Write(heap) }, sampler.ErrUnsupported, "not of CPU time"},
		"other host":   {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, nil, "another host"},
		"circle":       {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, nil, "in a circle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) { c.answer(w, r) })
			done, _ := start(t, open(t, options(server.URL)))
			e := <-done
			if e.err == nil || c.want != nil && !errors.Is(e.err, c.want) || !strings.Contains(e.err.Error(), c.text) {
				t.Errorf("ends with %v", e.err)
			}
		})
	}
}

// encodedHeap returns a profile of bytes.
func encodedHeap(t testing.TB) []byte {
	t.Helper()
	p, err := profile.ParseData(encoded(t, "main.f", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	p.SampleType[1] = &profile.ValueType{Type: "inuse_space", Unit: "bytes"}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestAnotherProgram: profiles of two builds are not added up.
func TestAnotherProgram(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Write(encoded(t, "main.f", []string{"one", "two"}[min(n, 1)], 1))
	})
	s := open(t, options(server.URL))
	done, _ := start(t, s)
	<-s.Profiles()
	if e := <-done; e.err != nil || !e.Exited || !strings.Contains(e.Reason, "another program") {
		t.Errorf("ends with %+v", e)
	}
	o := options(server.URL)
	o.Build = "one"
	if done, _ := start(t, open(t, o)); !(<-done).Exited {
		t.Error("the first profile was of another build than the source was told")
	}
}

// TestNamesAreBounded: a server that sends ever new names does not fill the memory.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	server := serve(t, always(encoded(t, "main."+strings.Repeat("f", 1<<16), "", 1)))
	o := options(server.URL)
	o.MaxNames = 1 << 15
	done, _ := start(t, open(t, o))
	if e := <-done; e.err == nil || !strings.Contains(e.err.Error(), "names") {
		t.Errorf("ends with %v", e.err)
	}
}

// TestLength: a server that permits short profiles only gets them, and the last one ends
// with the session.
func TestLength(t *testing.T) {
	t.Parallel()
	whole := encoded(t, "main.f", "", 1)
	server := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if s := r.FormValue("seconds"); s != "1" {
			http.Error(w, "profile duration exceeds server's WriteTimeout", http.StatusBadRequest)
			return
		}
		w.Write(whole)
	})
	s := open(t, options(server.URL))
	start(t, s)
	<-s.Profiles()
	for left, want := range map[time.Duration]int{time.Hour: 1, 1100 * time.Millisecond: 0, -time.Hour: 0} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		if got, ok := s.length(ctx); got != want || ok != (want > 0) {
			t.Errorf("%v before the end a profile has %d s", left, got)
		}
		cancel()
	}
	if got, _ := s.length(t.Context()); got != 1 {
		t.Errorf("a profile has %d s", got)
	}
}

// TestPace: a server that answers at once is asked no sooner than its profile would have ended.
func TestPace(t *testing.T) {
	t.Parallel()
	server := serve(t, always(encoded(t, "main.f", "", 1)))
	s := open(t, options(server.URL))
	s.second = 20 * time.Millisecond
	start(t, s)
	began := time.Now()
	for range 3 {
		<-s.Profiles()
	}
	if least := 2 * defaultSeconds * s.second; time.Since(began) < least {
		t.Errorf("three profiles after %v, want %v at least", time.Since(began), least)
	}
}

// TestCredentials: they are read anew for each request.
func TestCredentials(t *testing.T) {
	t.Parallel()
	whole := encoded(t, "main.f", "", 1)
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan string, 1)
	server := serve(t, func(w http.ResponseWriter, r *http.Request, n int) {
		got <- r.Header.Get("Authorization")
		w.Write(whole)
	})
	for _, c := range []struct {
		credentials   served.Credentials
		first, second string // of the file
		wants         [2]string
	}{
		{served.Credentials{BearerFile: file}, "one\n", "two\n", [2]string{"Bearer one", "Bearer two"}},
		{served.Credentials{BasicFile: file}, "me:a:b", "me:c", [2]string{"Basic bWU6YTpi", "Basic bWU6Yw=="}},
		{served.Credentials{User: "me", PasswordFile: file, Private: true}, "a:b", "c", [2]string{"Basic bWU6YTpi", "Basic bWU6Yw=="}},
	} {
		write(c.first)
		o := options(server.URL)
		o.Credentials = c.credentials
		s := open(t, o)
		done, stop := start(t, s)
		if first := <-got; first != c.wants[0] {
			t.Errorf("%+v: %s", c.credentials, first)
		}
		write(c.second)
		<-s.Profiles()
		if second := <-got; second != c.wants[1] {
			t.Errorf("%+v: then %s", c.credentials, second)
		}
		stop()
		<-done
	}
	write("")
	o := options(server.URL)
	o.Credentials.BearerFile = file
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has not one line") {
		t.Errorf("with an empty file: %v", err)
	}
}

// TestPrivateCredentials: a file that every user may read or change is refused if that is asked for, and
// so is a pipe.
func TestPrivateCredentials(t *testing.T) {
	t.Parallel()
	server := serve(t, always(nil))
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file  string
		mode  os.FileMode
		check bool
		want  string
	}{
		{file, 0o644, true, "every user may read or change"},
		{file, 0o602, true, "every user may read or change"},
		{file, 0o644, false, ""},
		{file, 0o640, true, ""},
		{pipe, 0o600, true, "not a regular file"},
	} {
		if err := os.Chmod(c.file, c.mode); err != nil {
			t.Fatal(err)
		}
		o := options(server.URL)
		o.Credentials = served.Credentials{BearerFile: c.file, Private: c.check}
		s, err := Open(t.Context(), o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

// TestRepeatedCredentials: a server that repeats the credentials finds them in no error.
func TestRepeatedCredentials(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusInternalServerError} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Error(w, r.Header.Get("Authorization"), status)
		})
		o := options(server.URL)
		o.Credentials.BearerFile, o.MaxFailures = file, 1
		done, _ := start(t, open(t, o))
		if e := <-done; e.err == nil || strings.Contains(e.err.Error(), "hunter2") || !strings.Contains(e.err.Error(), strconv.Itoa(status)) {
			t.Errorf("%d: ends with %v", status, e.err)
		}
	}
}

// TestMaxFailures: so many failures in a row end the session. A profile between them begins the count
// anew.
func TestMaxFailures(t *testing.T) {
	t.Parallel()
	whole := encoded(t, "main.f", "", 1)
	server := serve(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 2 {
			w.Write(whole)
			return
		}
		http.Error(w, "busy", http.StatusServiceUnavailable)
	})
	o := options(server.URL)
	o.MaxFailures = 3
	s := open(t, o)
	done, _ := start(t, s)
	<-s.Profiles()
	if e := <-done; e.err == nil || !strings.Contains(e.err.Error(), "busy") {
		t.Errorf("ends with %v", e.err)
	}
	if n := s.requests(); n != 6 {
		t.Errorf("%d requests, want 2 that fail, a profile, and 3 that fail", n)
	}
	server.Close()
	o = options(server.URL)
	o.Dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	if _, err := Open(t.Context(), o); !errors.Is(err, sampler.ErrNoProcess) {
		t.Errorf("where nothing answers: %v", err)
	}
}

func (s *Source) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.requests
}

// TestAddresses: addresses that show a password, or would, are refused without repeating it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, c := range []struct {
		url         string
		credentials served.Credentials
		text        string
	}{
		{"http://me:" + secret + "@127.0.0.1:1/", served.Credentials{}, "password"},
		{"http://10.0.0.1:1/", served.Credentials{BearerFile: "token"}, "use https"},
		{"http://127.0.0.1:1/", served.Credentials{BearerFile: "token", BasicFile: "password"}, "not both"},
		{"ftp://127.0.0.1:1/", served.Credentials{}, "want http"},
		{"http:///debug", served.Credentials{}, "want http"},
		{"http://127.0.0.1:1/debug/pprof?seconds=7", served.Credentials{}, "without a query"},
		{"http://127.0.0.1:1/debug/ccmapd#vm", served.Credentials{}, "hosts VMs"},
		{"http://%zz/", served.Credentials{}, "not a URL"},
	} {
		o := options(c.url)
		o.Credentials = c.credentials
		_, err := Open(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", c.url, err)
		}
	}
	if _, err := Open(t.Context(), options("http://127.0.0.1:1")); !errors.Is(err, sampler.ErrNoProcess) {
		t.Errorf("where nothing listens: %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	plain := serve(t, always(encoded(t, "main.f", "", 1)))
	server := httptest.NewUnstartedServer(plain.Config.Handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that does not trust it
	server.StartTLS()
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), options(server.URL)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an authority that is not trusted: %v", err)
	}
	o := options(server.URL)
	o.CAFile = file
	s := open(t, o)
	start(t, s)
	<-s.Profiles()
}

// TestRealProgram: a program is found by its number alone, its profiles add up to its hot function, and the
// session ends with it.
func TestRealProgram(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "served")
	if out, err := exec.Command("go", "build", "-o", binary, "./testdata/served").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := exec.Command(binary)
	stdin, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		program.Wait()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var finder Finder
	if _, err := finder.Open(t.Context(), os.Getppid(), options("")); !errors.Is(err, ErrNoEndpoint) || !errors.Is(err, sampler.ErrUnsupported) {
		t.Errorf("a process without an endpoint: %v", err)
	}
	o := options("")
	o.Seconds = 1
	s, err := finder.Open(t.Context(), program.Process.Pid, o)
	if err != nil {
		t.Fatalf("at %s: %v", address, err)
	}
	if s.o.Rest <= 0 || !strings.Contains(s.Info().Lacks, "unaccounted") {
		t.Errorf("others have %v for their profiles, and the source lacks %s", s.o.Rest, s.Info().Lacks)
	}
	if found, err := s.Prove(t.Context()); err != nil || !strings.Contains(found, strings.TrimSpace(address)) {
		t.Errorf("proves %q, %v", found, err)
	}
	s.o.Rest = 0
	done, _ := start(t, s)
	sum := ccmap.New(ccmap.Options{Names: o.Sink.Names})
	spin := ccmap.Counters{}
	for spin.Samples < 20 { // until the test's deadline, on a machine however busy
		if err := sum.Merge((<-s.Profiles()).Snapshot()); err != nil {
			t.Fatal(err)
		}
		for m := range sum.Snapshot().Methods() {
			if m.Method().Name == "main.spin" {
				spin = m.Cumulative()
			}
		}
	}
	stdin.Close()
	program.Wait()
	for over := false; !over; {
		select {
		case <-s.Profiles():
		case e := <-done:
			if over = true; e.err != nil || !e.Exited {
				t.Errorf("the program has ended, and the session: %+v", e)
			}
		}
	}
	if l := s.Stats().Loss; l.Clock <= 0 {
		t.Errorf("the program has no clock: %+v", l)
	}
	if target := s.Info().Target; target.Executable != binary || target.PID != program.Process.Pid {
		t.Errorf("target %+v", target)
	}
}
