package api_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/api"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// vm is a VM of one thread, with a session of its own.
type vm struct {
	name     string
	profiler *managed.Profiler
	thread   *managed.Thread
	session  *manager.Session
	stack    machine
	counted
}

// counted are the samples and the caught calls of a profile, each call in any context.
type counted struct{ samples, calls int64 }

func countedOf(s *ccmap.Snapshot) counted {
	c := counted{samples: s.Total().Samples}
	for _, p := range s.Points() {
		if p.Callers == nil {
			c.calls += p.Count
		}
	}
	return c
}

// newVM starts a VM whose stack has methods of its name.
func newVM(t *testing.T, name string) *vm {
	t.Helper()
	v := &vm{name: name, profiler: managed.New(managed.Options{Interval: -1, HitBudget: 1e9})}
	var err error
	if v.session, err = manager.Start(context.WithoutCancel(t.Context()), manager.Config{Source: v.profiler}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.session.Stop() })
	for i, method := range []string{"draw", "main"} {
		id := v.profiler.Sink().Names.Intern(ccmap.Method{Name: name + "." + method})
		v.stack = append(v.stack, managed.Frame{Method: id, Offset: uint32(i), Mark: new(managed.Mark)})
	}
	v.thread = v.profiler.Attach(managed.ThreadOptions{})
	t.Cleanup(v.thread.Detach)
	return v
}

// run takes n samples, every other one of a new activation, and has each call caught that is wanted. Park
// publishes all of them.
func (v *vm) run(n int) {
	v.thread.Unpark()
	for i := range n {
		if i%2 == 0 {
			v.stack[0].Mark = new(managed.Mark)
		}
		v.profiler.Mark(time.Millisecond)
		v.thread.Safepoint(v.stack)
		if v.thread.CallsWanted() {
			v.thread.Called(v.stack[0].Method, v.stack[1:])
			v.calls++
		}
	}
	v.samples += int64(n)
	v.thread.Park()
}

// await returns the profile of the session once it has all.
func (v *vm) await(t *testing.T) *ccmap.Snapshot {
	t.Helper()
	for {
		s, err := v.session.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if countedOf(s) == v.counted {
			return s
		}
	}
}

// told describes all that a profile has counted, without its ids.
func told(t *testing.T, s *ccmap.Snapshot) string {
	t.Helper()
	var out bytes.Buffer
	if err := export.Write(&out, export.Folded, s); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	name := func(id ccmap.MethodID) string { return s.Names().At(id).Name }
	for _, p := range s.Points() {
		line := fmt.Sprintf("%v %v %s+%d: %d", p.Origin, p.Kind, name(p.Method), p.Offset, p.Count)
		for _, f := range p.Callers {
			line += " < " + name(f.Method)
		}
		for _, v := range p.Values {
			line += fmt.Sprintf(" %s=%d", name(ccmap.MethodID(v.Value)), v.Count)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	meta := s.Meta()
	return fmt.Sprintf("%+v, %d of %d repeated, %d lost, exact: %v\n%s", s.Total(), meta.Repeated, meta.Known, meta.Loss.Samples(), s.ActivationsExact(), strings.Join(lines, "\n"))
}

// follow runs a daemon with one target until stop is called, which returns the profile of the target.
func follow(t *testing.T, url string) (d *daemon.Daemon, stop func() *ccmap.Snapshot) {
	t.Helper()
	c := config.Default()
	c.Store.Files = false
	c.Targets = []config.Target{{Name: "vms", Match: config.Match{URL: url}, Settings: c.Defaults}}
	d, err := daemon.New(daemon.Options{Load: func() (*config.Config, error) { return c, nil }, Engines: []engine.Engine{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return d, func() *ccmap.Snapshot {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s, err := d.Snapshot(context.WithoutCancel(ctx), "vms", 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestDaemonFollowsHostedVMs: the daemon has of a program what its sessions count while they are followed, to
// the last sample: contexts, activations, repetitions and caught calls.
func TestDaemonFollowsHostedVMs(t *testing.T) {
	t.Parallel()
	for name, followed := range map[string][]string{"": {"scripts", "guests"}, "#guests": {"guests"}} {
		t.Run("all"+name, func(t *testing.T) {
			t.Parallel()
			vms := map[string]*vm{"scripts": newVM(t, "scripts"), "guests": newVM(t, "guests")}
			sessions, before := make(map[string]api.Session), make(map[string]*ccmap.Snapshot)
			for name, v := range vms {
				v.run(10)
				sessions[name], before[name] = v.session, v.await(t)
			}
			looks := make(chan string, 1000)
			handler := http.StripPrefix("/debug/ccmapd", api.Handler(sessions))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handler.ServeHTTP(w, r)
				if strings.HasSuffix(r.URL.Path, "/map") {
					looks <- r.URL.Path
				}
			}))
			t.Cleanup(server.Close)
			d, stop := follow(t, server.URL+"/debug/ccmapd"+name)
			for range followed {
				<-looks
			}
			want := ccmap.New(ccmap.Options{})
			for i, name := range followed {
				v := vms[name]
				v.run(100 * (i + 1))
				gained, err := ccmap.Delta(before[name], v.await(t))
				if err != nil {
					t.Fatal(err)
				}
				if err := want.Merge(gained.Snapshot()); err != nil {
					t.Fatal(err)
				}
				awaitServed(t, server.URL+"/debug/ccmapd/v1/p/live:"+name+"/map", v.counted)
			}
			status, err := d.Target("vms")
			if err != nil || status.Processes[0].Engine != "hosted" || status.Processes[0].Exe == "" {
				t.Errorf("%+v, %v", status, err)
			}
			got := stop()
			if got, want := told(t, got), told(t, want.Snapshot()); got != want || !strings.Contains(got, "burst call") {
				t.Errorf("the target has\n%s\nwant\n%s", got, want)
			}
			if meta := got.Meta(); meta.Engine != "hosted" || !strings.Contains(strings.Join(meta.Comments, "\n"), "the last look") {
				t.Errorf("%+v", meta)
			}
		})
	}
}

// awaitServed waits until a server has all in its profile: it keeps one for a second.
func awaitServed(t *testing.T, url string, all counted) {
	t.Helper()
	for {
		m, err := client.Read(t.Context(), url, export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if countedOf(m.Snapshot()) == all {
			return
		}
	}
}
