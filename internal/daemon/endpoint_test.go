package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	nhpprof "net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// network is inside of this process, so that its servers live on the clock of a test.
type network struct {
	mu    sync.Mutex
	at    map[string]*listener
	dials int
}

func newNetwork() *network { return &network{at: make(map[string]*listener)} }

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	n.mu.Lock()
	n.dials++
	l := n.at[address]
	n.mu.Unlock()
	if l == nil {
		return nil, refused
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *network) dialled() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// listener accepts connections of a network.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	end    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.end.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// billingAt is the address of the program of the tests.
const billingAt = "127.0.0.1:6060"

// serve starts a program whose profiles a function answers, until end is called.
func (n *network) serve(t *testing.T, profile http.HandlerFunc) (end func()) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "/srv/billing\x00-v") })
	mux.HandleFunc("/debug/pprof/profile", profile)
	return n.listen(t, mux)
}

// listen starts a program that answers by a handler, until end is called.
func (n *network) listen(t *testing.T, h http.Handler) (end func()) {
	t.Helper()
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	n.mu.Lock()
	n.at[billingAt] = l
	n.mu.Unlock()
	go server.Serve(l)
	end = func() {
		n.mu.Lock()
		if n.at[billingAt] == l {
			delete(n.at, billingAt)
		}
		n.mu.Unlock()
		server.Close()
	}
	t.Cleanup(end)
	return end
}

// samplesAProfile is five seconds at 100 Hz.
const samplesAProfile = 500

// canned returns a profile of one method, with a label.
func canned(t *testing.T, method, build string) []byte {
	t.Helper()
	mapping := &profile.Mapping{ID: 1, Start: 0x1000, Limit: 0x2000, File: "/srv/billing", BuildID: build, HasFunctions: true}
	f := &profile.Function{ID: 1, Name: method}
	at := &profile.Location{ID: 1, Mapping: mapping, Address: 0x1800, Line: []profile.Line{{Function: f, Line: 7}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7,
		Sample: []*profile.Sample{{
			Location: []*profile.Location{at}, Value: []int64{samplesAProfile, samplesAProfile * 1e7}, Label: map[string][]string{"tenant": {"acme"}},
		}},
		Location: []*profile.Location{at}, Function: []*profile.Function{f}, Mapping: []*profile.Mapping{mapping},
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// taking answers with the same profile after the seconds that were asked for, as net/http/pprof
// does.
func taking(profile []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := time.ParseDuration(r.FormValue("seconds") + "s")
		if err != nil {
			panic(err)
		}
		select {
		case <-time.After(d):
			w.Write(profile)
		case <-r.Context().Done():
		}
	}
}

// billingConfig has one target, which follows the program of the tests.
func billingConfig(change ...func(*config.Target)) *config.Config {
	c := webConfig()
	one := config.Target{Name: "billing", Match: config.Match{URL: "http://" + billingAt + "/debug/pprof"}, Settings: c.Defaults}
	for _, f := range change {
		f(&one)
	}
	c.Targets = []config.Target{one}
	return c
}

// await waits until the target is in a state, with a reason that has a text.
func await(t *testing.T, d *Daemon, state State, reason string) TargetStatus {
	t.Helper()
	var s TargetStatus
	for range 900 {
		if s = mustTarget(t, d, "billing"); s.State == state && strings.Contains(s.Reason, reason) {
			return s
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%v with %q is awaited in vain: %+v", state, reason, s)
	return s
}

// awaitSamples waits until a method has samples, and returns all.
func awaitSamples(t *testing.T, d *Daemon, method string) map[string]int64 {
	t.Helper()
	return awaitSamplesFor(t, d, method, 900)
}

// awaitSamplesFor is awaitSamples with a bound in seconds.
func awaitSamplesFor(t *testing.T, d *Daemon, method string, seconds int) map[string]int64 {
	t.Helper()
	for range seconds {
		if _, err := d.Snapshot(t.Context(), "billing", 0); !errors.Is(err, ErrNoProfile) {
			if got := samplesOf(t, d, "billing", 0); got[method] > 0 {
				return got
			}
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%s is awaited in vain: %+v", method, mustTarget(t, d, "billing"))
	return nil
}

// TestEndpoint: the profiles of a program that serves them become its map, and its state says whose
// they are.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	inDaemon(t, billingConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.network.serve(t, taking(canned(t, "main.bill", "build-1")))
		await(t, d, Sampling, "")
		begun := time.Now()
		time.Sleep(time.Minute)
		got := samplesOf(t, d, "billing", 0)["main.bill"]
		if most := int64(time.Since(begun)/(5*time.Second)) * samplesAProfile; got > most || got < most-2*samplesAProfile || got%samplesAProfile != 0 {
			t.Errorf("%d samples in a minute, want at most %d", got, most)
		}
		s := mustTarget(t, d, "billing")
		if s.Rule != "url http://127.0.0.1:6060/debug/pprof" || s.Status.Samples != uint64(got) || s.Status.IntervalNS != int64(10*time.Millisecond) || len(s.Processes) != 1 {
			t.Fatalf("%+v", s)
		}
		p := s.Processes[0]
		if p.Engine != "pprofhttp" || p.BuildID != "build-1" || p.Exe != "/srv/billing" || p.Why == "" || len(s.Owners) != 1 || s.Owners[0] != process.Unowned {
			t.Errorf("%+v", p)
		}
		text, err := json.Marshal(s)
		if err != nil || bytes.Contains(text, []byte(`"pid"`)) || bytes.Contains(text, []byte(`"start"`)) {
			t.Errorf("an endpoint has neither pid nor start: %s, %v", text, err)
		}
		profile, err := d.Snapshot(t.Context(), "billing", 0)
		if err != nil {
			t.Fatal(err)
		}
		recent, ok := profile.Recent()
		if meta := profile.Meta(); !ok || recent.Total().Samples == 0 || !strings.Contains(strings.Join(meta.Comments, "\n"), "receivers are not known") {
			t.Errorf("the profile does not say what it lacks, or has no window: %+v", meta)
		}
	})
}

// TestEndpointAway: a program that is away is asked for ever more rarely. Its map goes on when it is
// there again.
func TestEndpointAway(t *testing.T) {
	t.Parallel()
	inDaemon(t, billingConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		if s := await(t, d, Waiting, "connection refused"); s.Cure == "" || s.NextTry == nil || s.Failures != 0 || s.Restarts != 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * time.Minute)
		// 1 + 2 + 4 + … + 60 s, 20 % more or less: at least 600 s in steps of 72 s, and the first ones.
		if n := h.network.dialled(); n < 12 || n > 22 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		end := h.network.serve(t, taking(canned(t, "main.bill", "build-1")))
		awaitSamples(t, d, "main.bill")
		time.Sleep(longLife)
		end()
		gone := time.Now()
		s := await(t, d, Waiting, "connection refused")
		if took := time.Since(gone); took > 10*time.Second || s.Restarts != 1 {
			t.Errorf("waits after %v: %+v", took, s)
		}
		before := samplesOf(t, d, "billing", 0)["main.bill"]
		h.network.serve(t, taking(canned(t, "main.again", "build-1")))
		back := time.Now()
		if got := awaitSamples(t, d, "main.again"); got["main.bill"] != before {
			t.Errorf("after a restart: %v, %d before", got, before)
		}
		if took := time.Since(back); took > 15*time.Second {
			t.Errorf("a minute of life ends the delay, and the next profile came after %v", took)
		}
	})
}

// TestEndpointOfAnotherBuild: profiles of two builds are never in one map or file, and all of a
// build's are in its files, whether the program was away between them or not.
func TestEndpointOfAnotherBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := billingConfig(func(one *config.Target) { one.Labels = false })
	c.Store.Files, c.Store.Dir = true, dir
	var had [3]int64
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		for i, away := range []time.Duration{0, 5 * time.Minute, 0} {
			method := fmt.Sprint("main.f", i)
			end := h.network.serve(t, taking(canned(t, method, fmt.Sprint("build", i))))
			awaitSamples(t, d, method)
			time.Sleep(time.Minute)
			got := samplesOf(t, d, "billing", 0)
			if had[i] = got[method]; len(got) != 1 {
				t.Errorf("build %d: %v", i, got)
			}
			end()
			time.Sleep(away)
		}
	})
	names, all := filesIn(t, dir)
	var filed [3]int64
	for i, name := range names {
		build := 2 // the log has the last one
		if _, err := fmt.Sscanf(name, "targets/billing/build%d/", &build); err != nil && name != "log" {
			t.Fatalf("%s: %v", name, err)
		}
		for m := range all[i].Methods() {
			if n := m.Total().Samples; n > 0 && m.Method().Name != fmt.Sprint("main.f", build) {
				t.Errorf("%s has %d samples of %s", name, n, m.Method().Name)
			}
		}
		filed[build] += all[i].Total().Samples
	}
	for i := range filed {
		if filed[i] < had[i] || filed[i] > had[i]+2*samplesAProfile {
			t.Errorf("build %d: files have %d samples, the map had %d", i, filed[i], had[i])
		}
	}
}

// TestTwoProgramsAtOneAddress: two builds that answer in turn do not make a map for each profile.
func TestTwoProgramsAtOneAddress(t *testing.T) {
	t.Parallel()
	inDaemon(t, billingConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		var requests atomic.Int64
		both := [2]http.HandlerFunc{taking(canned(t, "main.a", "a")), taking(canned(t, "main.b", "b"))}
		h.network.serve(t, func(w http.ResponseWriter, r *http.Request) { both[requests.Add(1)%2](w, r) })
		time.Sleep(30 * time.Minute)
		if n := requests.Load(); n < 20 || n > 90 {
			t.Errorf("%d requests in half an hour, want two a minute", n)
		}
		if n := len(slotsOf(d)); n > 1 {
			t.Errorf("%d maps are left", n)
		}
	})
}

// TestEndpointRefuses: what a server answers in place of a profile is the reason, with the cure. It is
// asked again, and sampled once it serves its profiles.
func TestEndpointRefuses(t *testing.T) {
	t.Parallel()
	large := make([]byte, mostBody+1)
	large[0], large[1] = 0x1f, 0x8b
	for name, c := range map[string]struct {
		answer       http.HandlerFunc
		reason, cure string
	}{
		"unauthorized": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, "401", "bearer_file"},
		"missing":      {http.NotFound, "404", "match.url"},
		"text":         {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret;stuff it\n") }, "no profile", "match.url"},
		"in use": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Could not enable CPU profiling: cpu profiling already in use", http.StatusInternalServerError)
		}, "already in use", ""},
		"large":  {func(w http.ResponseWriter, _ *http.Request) { w.Write(large) }, "more than 8 MiB", ""},
		"broken": {func(w http.ResponseWriter, _ *http.Request) { w.Write(canned(t, "main.f", "")[:40]) }, "unexpected EOF", ""},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "deadline exceeded", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inDaemon(t, billingConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
				end := h.network.serve(t, c.answer)
				s := await(t, d, Refused, c.reason)
				if !strings.Contains(s.Cure, c.cure) || s.NextTry == nil || s.Failures == 0 || strings.Contains(s.Reason, "secret") {
					t.Errorf("%+v", s)
				}
				end()
				h.network.serve(t, taking(canned(t, "main.bill", "")))
				awaitSamples(t, d, "main.bill")
			})
		})
	}
}

// TestCredentialsOfEndpoint: the secret is read from its file at each request, the file is refused where
// every user may read it, and the secret is nowhere else, even if the server repeats it.
func TestCredentialsOfEndpoint(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, c := range map[string]struct {
		auth func(file string) config.Auth
		want func(r *http.Request, secret string) bool
	}{
		"bearer": {
			func(file string) config.Auth { return config.Auth{BearerFile: file} },
			func(r *http.Request, secret string) bool { return r.Header.Get("Authorization") == "Bearer "+secret },
		},
		"basic": {
			func(file string) config.Auth { return config.Auth{User: "ccmapd", PasswordFile: file} },
			func(r *http.Request, secret string) bool {
				user, password, ok := r.BasicAuth()
				return ok && user == "ccmapd" && password == secret
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "secret")
			keep := func(text string, mode os.FileMode) {
				if err := errors.Join(os.WriteFile(file, []byte(text+"\n"), mode), os.Chmod(file, mode)); err != nil {
					t.Fatal(err)
				}
			}
			keep(secret, 0o644)
			var log lockedBuffer
			conf := billingConfig(func(one *config.Target) { one.Auth = c.auth(file) })
			inLoggingDaemon(t, conf, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), func(t *testing.T, h *fakeHost, d *Daemon) {
				events, cancel := d.Events(0)
				defer cancel()
				var wanted atomic.Pointer[string]
				first, second := secret, secret+"-renewed"
				wanted.Store(&first)
				profile := taking(canned(t, "main.bill", ""))
				h.network.serve(t, func(w http.ResponseWriter, r *http.Request) {
					if !c.want(r, *wanted.Load()) {
						user, password, _ := r.BasicAuth()
						http.Error(w, r.Header.Get("Authorization")+user+password, http.StatusUnauthorized)
						return
					}
					profile(w, r)
				})
				s := await(t, d, Refused, "every user may read")
				if !strings.Contains(s.Cure, "chmod o=") || h.network.dialled() != 0 {
					t.Errorf("a file for everybody: %+v, %d connections", s, h.network.dialled())
				}
				keep(secret, 0o640)
				awaitSamples(t, d, "main.bill")
				wanted.Store(&second)
				s = await(t, d, Refused, "401")
				keep(second, 0o600)
				await(t, d, Sampling, "")
				cancel()
				all := fmt.Sprintf("%+v\n%+v\n%s", s, d.Targets(), log.String())
				for e := range events {
					all += e.Text
				}
				if strings.Contains(all, secret) {
					t.Errorf("the secret is told:\n%s", all)
				}
			})
		})
	}
}

// lockedBuffer is a log of many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// TestReloadRemovesEndpoint: a target that is not in the configuration any more is not asked again, at
// once; neither is a paused one.
func TestReloadRemovesEndpoint(t *testing.T) {
	t.Parallel()
	c := billingConfig()
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		var open atomic.Int64
		profile := taking(canned(t, "main.bill", ""))
		h.network.serve(t, func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Add(-1)
			profile(w, r)
		})
		before := awaitSamples(t, d, "main.bill")["main.bill"]
		if err := d.Pause("billing"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		asked := h.network.dialled()
		time.Sleep(10 * time.Minute)
		if s := mustTarget(t, d, "billing"); s.State != Paused || open.Load() != 0 || h.network.dialled() != asked || samplesOf(t, d, "billing", 0)["main.bill"] != before {
			t.Errorf("paused: %+v, %d requests", s, open.Load())
		}
		if err := d.Resume("billing"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if got := samplesOf(t, d, "billing", 0)["main.bill"]; got <= before {
			t.Errorf("resumed: %d samples, %d before", got, before)
		}
		next := *c
		next.Targets = nil
		d.load = func() (*config.Config, error) { return &next, nil }
		if err := d.Reload(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		asked = h.network.dialled()
		time.Sleep(10 * time.Minute)
		if _, err := d.Target("billing"); !errors.Is(err, ErrNoTarget) || open.Load() != 0 || h.network.dialled() != asked {
			t.Errorf("removed: %v, %d requests", err, open.Load())
		}
	})
}

// TestLabelsOfEndpoint: labels may hold data of users, and are left out if the configuration says so.
func TestLabelsOfEndpoint(t *testing.T) {
	t.Parallel()
	for _, labels := range []bool{true, false} {
		inDaemon(t, billingConfig(func(one *config.Target) { one.Labels = labels }), func(t *testing.T, h *fakeHost, d *Daemon) {
			h.network.serve(t, taking(canned(t, "main.bill", "build-1")))
			awaitSamples(t, d, "main.bill")
			s, err := d.Snapshot(t.Context(), "billing", 0)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := export.Write(&out, export.JSON, s); err != nil || strings.Contains(out.String(), "acme") != labels {
				t.Errorf("labels %v: %v\n%s", labels, err, out.String())
			}
			if build := mustTarget(t, d, "billing").Processes[0].BuildID; build != "build-1" {
				t.Errorf("labels %v: build %q", labels, build)
			}
		})
	}
}

// TestNamesOfEndpoint: a server that sends ever new names gets a new map when they are too many.
func TestNamesOfEndpoint(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine reads names of megabytes")
	}
	t.Parallel()
	inDaemon(t, billingConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		var n atomic.Int64
		h.network.serve(t, func(w http.ResponseWriter, r *http.Request) {
			taking(canned(t, fmt.Sprintf("main.%d%s", n.Add(1), strings.Repeat("f", mostNames/5)), ""))(w, r)
		})
		await(t, d, Waiting, "names of all profiles")
		await(t, d, Sampling, "")
		time.Sleep(12 * time.Second)
		for name := range samplesOf(t, d, "billing", 0) {
			if strings.HasPrefix(name, "main.1f") {
				t.Error("the first name is still there")
			}
		}
	})
}

// TestCheckOfEndpoint: serve --check names an endpoint, and does not connect to it.
func TestCheckOfEndpoint(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return billingConfig(), nil }, Engines: h.engines()}, h)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Check()
	if want := (Candidate{Target: "billing", URL: "http://127.0.0.1:6060/debug/pprof"}); err != nil || len(got) != 1 || got[0] != want || h.network.dialled() != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestRealEndpoint: the profiles of net/http/pprof, over a real network, have the hot function.
func TestRealEndpoint(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", nhpprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", nhpprof.Profile)
	server := httptest.NewServer(mux)
	defer server.Close()
	c := billingConfig(func(one *config.Target) { one.Match.URL = server.URL + "/debug/pprof" })
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }, Engines: []engine.Engine{}}, machine{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() {
		for ctx.Err() == nil {
			burned.Store(burn(burned.Load()))
		}
	})
	awaitSamplesFor(t, d, "github.com/ccmapd/ccmapd/internal/daemon.burn", 180) // go test ends a package after 10 minutes
	stop()
	all.Wait()
}

var burned atomic.Uint32

//go:noinline
func burn(sum uint32) uint32 {
	for range 1 << 20 {
		sum = sum*1664525 + 1013904223
	}
	return sum
}
