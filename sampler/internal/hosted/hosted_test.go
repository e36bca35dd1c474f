package hosted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program hosts one session, "vm", whose map a test changes.
type program struct {
	mu sync.Mutex
	m  *ccmap.Map
}

func newProgram() *program {
	p := &program{m: ccmap.New(ccmap.Options{})}
	p.m.Meta().Start = time.Now()
	return p
}

// run takes n samples of a method, with a label.
func (p *program) run(method string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	label := ccmap.LabelsMethod([]ccmap.Label{{Key: "tenant", Value: "acme"}})
	frames := []ccmap.Frame{{Method: p.m.Names().Intern(ccmap.Method{Name: method}), Offset: 1}, {Method: p.m.Names().Intern(label)}}
	for range n {
		p.m.Fold(&ccmap.Sample{Frames: frames, Thread: 1, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
	p.m.Meta().Known += uint64(n)
}

func (p *program) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/v1/targets":
		io.WriteString(w, `{"targets": [{"name": "vm", "hosted": true, "processes": [{"exe": "/srv/vm"}]}]}`)
	case "/v1/p/live:vm/map":
		if err := export.Write(w, export.JSON, p.m.Snapshot()); err != nil {
			panic(err)
		}
	default:
		http.NotFound(w, r)
	}
}

// open opens a source of a handler.
func open(t *testing.T, h http.Handler, change func(*Options)) *Source {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	o := Options{
		URL: server.URL, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}, Every: time.Millisecond,
		Read: func(r io.Reader, memory int64) (*ccmap.Map, error) {
			m, _, err := export.Read(r, export.ReadOptions{MaxMemory: memory})
			return m, err
		},
	}
	if change != nil {
		change(&o)
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// looks makes a source look, and returns what it would deliver.
func looks(t *testing.T, s *Source) *look {
	t.Helper()
	l, err := s.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.keep(l)
	return l
}

// TestGains: a look has what a session has gained since the last, and nothing where it has gained nothing. Labels are
// left out where that is asked for.
func TestGains(t *testing.T) {
	t.Parallel()
	for _, bare := range []bool{false, true} {
		p := newProgram()
		p.run("old", 5)
		s := open(t, p, func(o *Options) { o.NoLabels = bare })
		if l := looks(t, s); !l.isEmpty() {
			t.Errorf("the first look has %+v", l.sum.Snapshot().Total())
		}
		p.run("f", 3)
		l := looks(t, s)
		var out bytes.Buffer
		if err := export.Write(&out, export.Folded, l.sum.Snapshot()); err != nil {
			t.Fatal(err)
		}
		if total := l.sum.Snapshot().Total(); total.Samples != 3 || l.sum.Meta().Known != 3 || strings.Contains(out.String(), "acme") == bare {
			t.Errorf("without labels %v: %+v\n%s", bare, total, &out)
		}
		if l := looks(t, s); !l.isEmpty() {
			t.Errorf("nothing has run, and the look has %+v", l.sum.Snapshot().Total())
		}
		if info := s.Info(); info.Engine != Engine || info.Target.Executable != "/srv/vm" || info.Lacks == "" || s.Stats().Counts[sampler.Samples] != 3 {
			t.Errorf("%+v, %+v", info, s.Stats())
		}
	}
}

// TestTake: one profile has all that the program has counted.
func TestTake(t *testing.T) {
	t.Parallel()
	p := newProgram()
	p.run("old", 5)
	if m, err := open(t, p, nil).Take(t.Context()); err != nil || m.Snapshot().Total().Samples != 5 {
		t.Errorf("%v, %v", m, err)
	}
}

// TestUndelivered: what could not be delivered comes with the next look.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	p := newProgram()
	s := open(t, p, nil)
	looks(t, s)
	p.run("f", 3)
	if _, err := s.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.run("f", 4)
	if got := looks(t, s).sum.Snapshot().Total().Samples; got != 7 {
		t.Errorf("%d samples, want 7", got)
	}
}

// TestNamesAreBounded: a program that counts ever new names ends the session.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	p := newProgram()
	s := open(t, p, func(o *Options) { o.MaxNames = 1 << 16 })
	looks(t, s)
	p.run(strings.Repeat("f", 1<<16), 1)
	if _, err := s.look(t.Context()); !errors.Is(err, served.ErrNames) || !served.IsRefusal(err) {
		t.Error(err)
	}
}

// TestBoundsOfALook: the maps of all sessions together have one budget of bytes and memory.
func TestBoundsOfALook(t *testing.T) {
	t.Parallel()
	p := newProgram()
	for i := range 1000 {
		p.run(fmt.Sprint(strings.Repeat("f", 1000), i), 1)
	}
	for name, change := range map[string]func(*Options){
		"bytes":  func(o *Options) { o.MaxBytes = 3 << 19 },
		"memory": func(o *Options) { o.MaxMemory = 6 << 20 },
	} {
		two := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/targets" {
				io.WriteString(w, `{"targets": [{"name": "vm", "hosted": true}, {"name": "wm", "hosted": true}]}`)
				return
			}
			r.URL.Path = strings.Replace(r.URL.Path, "wm", "vm", 1)
			p.ServeHTTP(w, r)
		})
		looks(t, open(t, p, change))
		if _, err := open(t, two, change).look(t.Context()); err == nil || !strings.Contains(err.Error(), "more than") && !errors.Is(err, export.ErrMemory) {
			t.Errorf("%s: two sessions of half the size: %v", name, err)
		}
	}
}

// TestRunFinishes: what was counted before Run is told to stop is delivered after it.
func TestRunFinishes(t *testing.T) {
	t.Parallel()
	p := newProgram()
	s := open(t, p, func(o *Options) { o.Every = time.Hour })
	looks(t, s)
	p.run("f", 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx)
		ended <- err
	}()
	if n := (<-s.Profiles()).Snapshot().Total().Samples; n != 1 {
		t.Errorf("%d samples", n)
	}
	p.run("f", 2)
	stop()
	if n := (<-s.Profiles()).Snapshot().Total().Samples; n != 2 {
		t.Errorf("%d samples at the end", n)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNotHosted: other servers are told apart by what they answer.
func TestNotHosted(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Handler{
		http.NotFoundHandler(),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") }),
		http.RedirectHandler("http://192.0.2.1/", http.StatusFound),
	} {
		server := httptest.NewServer(h)
		o := Options{URL: server.URL, Sink: sampler.Sink{Names: ccmap.NewNames()}, Read: func(io.Reader, int64) (*ccmap.Map, error) { return nil, nil }}
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrNotHosted) {
			t.Error(err)
		}
		server.Close()
	}
}

// TestRest: a program that needs long for an answer is asked less often.
func TestRest(t *testing.T) {
	t.Parallel()
	s := &Source{o: Options{Every: 5 * time.Second}}
	for took, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: 20 * time.Second, time.Hour: time.Minute} {
		if got := s.rest(took); got != want {
			t.Errorf("after a look of %v: %v, want %v", took, got, want)
		}
	}
}

// TestTarget: a description that a server has chosen is bounded, and names no process of this machine.
func TestTarget(t *testing.T) {
	t.Parallel()
	long := ccmap.Target{PID: 7, Executable: strings.Repeat("e", 1<<16), CommandLine: []string{strings.Repeat("w", mostText+1)}}
	if got := targetOf(long); got.PID != 0 || len(got.Executable) != 4096 || got.CommandLine != nil {
		t.Error("a description is taken over whole")
	}
	short := ccmap.Target{Executable: "e", CommandLine: []string{"e", "-v"}, Runtime: "go1"}
	if got := targetOf(short); fmt.Sprint(got) != fmt.Sprint(short) {
		t.Errorf("%+v", got)
	}
}
