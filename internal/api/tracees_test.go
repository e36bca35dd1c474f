package api

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/traceetest"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// The daemon of these tests is real but for its engine, which samples any process.

// lateEngine notices an exec only after some more samples, as an engine may.
var lateEngine = engine.Engine{Name: "late", Open: func(_ context.Context, o sampler.ProcessOptions) (engine.Source, error) {
	fd, err := process.Open(o.PID)
	if err != nil {
		return nil, err
	}
	first, err := process.IdentityOf(o.PID)
	return &lateSource{o: o, fd: fd, first: first}, err
}}

type lateSource struct {
	o     sampler.ProcessOptions
	fd    int
	first process.Identity
}

const afterExec = "after.exec"

func (s *lateSource) Run(ctx context.Context) (sampler.Ending, error) {
	defer s.Close()
	ring := s.o.Sink.Queue.Ring()
	defer ring.Close()
	for late := 0; late < 20; time.Sleep(time.Millisecond) {
		name := "main.work"
		switch now, err := process.IdentityOf(s.o.PID); {
		case ctx.Err() != nil:
			return sampler.Ending{Reason: "stopped"}, nil
		case process.Ended(s.fd):
			return sampler.Ending{Reason: "target exited", Exited: true}, nil
		case err == nil && !s.first.SameProgram(now):
			name = afterExec
			late++
		}
		id := s.o.Sink.Names.Intern(ccmap.Method{Name: name})
		ring.Push(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id, Offset: 1}}, Thread: 1, Weight: 1, Fresh: ccmap.FreshUnknown})
		ring.Publish()
	}
	return sampler.Ending{Reason: "target replaced itself", Exited: true}, nil
}

func (s *lateSource) Close() error { return unix.Close(s.fd) }

func (s *lateSource) Info() sampler.Info {
	return sampler.Info{Target: ccmap.Target{PID: s.o.PID}, Engine: "late", Sink: s.o.Sink}
}

func (s *lateSource) Stats() sampler.Stats { return sampler.Stats{Interval: time.Millisecond} }

// openDaemon runs a daemon that all users may connect to, with targets for programs by their files.
func openDaemon(t *testing.T, scope process.Scope, files map[string][]string) (d *daemon.Daemon, socket string) {
	t.Helper()
	c := config.Default()
	c.Listen.Open, c.Store.Files = true, false
	c.Budget.Scan = 50 * time.Millisecond
	for name, paths := range files {
		for i, path := range paths {
			full := name
			if i > 0 {
				full = fmt.Sprint(name, i)
			}
			c.Targets = append(c.Targets, config.Target{Name: full, Match: config.Match{Exe: path}, Settings: c.Defaults})
		}
	}
	d, err := daemon.New(daemon.Options{Load: func() (*config.Config, error) { return c, nil }, Engines: []engine.Engine{lateEngine}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	socket = filepath.Join(programtest.PublicDir(t, 0o755), "s")
	s, err := New(Options{Daemon: d, Socket: socket, Open: true})
	if err != nil {
		t.Fatal(err)
	}
	s.scope = func() process.Scope { return scope }
	s.doctors.diagnose = func(_ context.Context, pid int) engine.Report { return engine.Report{Auto: fmt.Sprint(pid)} }
	listenAndServe(t, s)
	return d, socket
}

// awaitTarget waits until a target is as it should be.
func awaitTarget(t *testing.T, d *daemon.Daemon, name, what string, is func(daemon.TargetStatus) bool) {
	t.Helper()
	var s daemon.TargetStatus
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s, _ = d.Target(name); is(s) {
			return
		}
	}
	t.Fatalf("target %s is not %s: %+v", name, what, s)
}

func isSampled(s daemon.TargetStatus) bool { return s.Status.Samples > 0 }

// TestTraceesAgainstKernel: what a user of the socket can do with a process of any kind, and whether it sees the
// process's targets, events and profiles, is what the kernel allows that user.
func TestTraceesAgainstKernel(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program := traceetest.Program(t)
	self := askProgram(t)
	files, pids := make(map[string][]string), make(map[string]int)
	kinds := traceetest.Kinds()
	plain := kinds[0].Start(t, program)
	asker := traceetest.Ask(t, program, traceetest.Nobody, false)
	allowed := make(map[string]bool)
	for i, kind := range kinds {
		name := fmt.Sprintf("kind%02d", i)
		p := kind.Start(t, program)
		files[name], pids[name] = []string{p.File}, p.PID
		allowed[name] = asker.Access(t, p.PID) == process.AttachAccess && !kind.Strict
	}
	d, socket := openDaemon(t, process.ScopeClassic, files)
	for name := range files {
		awaitTarget(t, d, name, "sampled", isSampled)
	}
	// The last event: all others were raised before.
	last, err := d.Attach(t.Context(), plain.PID)
	if err != nil {
		t.Fatal(err)
	}
	heard := askAsUser(t, self, nobody, nobody, socket, "HEAR /v1/events "+last)
	want := []string{last}
	for i, kind := range kinds {
		name := fmt.Sprintf("kind%02d", i)
		status := map[bool]string{true: "200", false: "404"}[allowed[name]]
		got := askAsUser(t, self, nobody, nobody, socket, "GET /v1/targets/"+name, "GET /v1/p/live:"+name+"/top",
			fmt.Sprintf("GET /v1/p/live:%s/top?pid=%d", name, pids[name]), "GET /targets/"+name+"/profile.pb.gz",
			fmt.Sprintf("GET /v1/overlap?a=live:%s&b=live:%s", last, name), fmt.Sprintf("GET /v1/doctor?pid=%d", pids[name]),
			fmt.Sprintf(`POST /v1/targets {"pid":%d}`, pids[name]))
		wants := slices.Repeat([]string{status}, 6)
		wants = append(wants, map[bool]string{true: "201", false: "404"}[allowed[name]])
		if !slices.Equal(got, wants) {
			t.Errorf("%s: %v, want %v", kind.Name, got, wants)
		}
		if allowed[name] {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if text := strings.Join(want, ","); len(want) != 2 || len(heard) != 1 || heard[0] != text {
		t.Errorf("events of %v are heard, want %s", heard, text)
	}
	for name, as := range map[string]traceetest.User{"newgrp": traceetest.OtherGroup, "another user": traceetest.Other} {
		if got := askAsUser(t, self, as.UID, as.GID, socket, "GET /v1/targets/kind00", "GET /v1/p/live:kind00/top"); !slices.Equal(got, []string{"404", "404"}) {
			t.Errorf("%s sees a plain process: %v", name, got)
		}
	}
}

// TestPeerInContainer: a user in a user namespace of its own sees nothing, as the kernel has it.
func TestPeerInContainer(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program := traceetest.Program(t)
	p := traceetest.KindNamed(t, "plain").Start(t, program)
	d, socket := openDaemon(t, process.ScopeClassic, map[string][]string{"own": {p.File}})
	awaitTarget(t, d, "own", "sampled", isSampled)
	requests := []string{"GET /v1/targets/own", "GET /v1/p/live:own/top", fmt.Sprintf("GET /v1/doctor?pid=%d", p.PID), fmt.Sprintf(`POST /v1/targets {"pid":%d}`, p.PID)}
	self := askProgram(t)
	if got := askAsUser(t, self, nobody, nobody, socket, requests...); !slices.Equal(got, []string{"200", "200", "200", "201"}) {
		t.Errorf("outside: %v", got)
	}
	if got := askBy(t, self, traceetest.Attributes(traceetest.Nobody, true), socket, requests...); !slices.Equal(got, []string{"404", "404", "404", "404"}) {
		t.Errorf("in the container: %v", got)
	}
}

// TestExecOfTracee: after a process has executed a program that its user may not trace, the user has none of it,
// neither of the samples before the engine notices. What was sampled before stays the user's.
func TestExecOfTracee(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program, self := traceetest.Program(t), askProgram(t)
	for _, kind := range traceetest.Kinds() {
		if !kind.ByExec() {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			p := traceetest.KindNamed(t, "plain").Start(t, program)
			d, socket := openDaemon(t, process.ScopeClassic, nil)
			attach := fmt.Sprintf(`POST /v1/targets {"pid":%d}`, p.PID)
			if got := askAsUser(t, self, nobody, nobody, socket, attach); !slices.Equal(got, []string{"201"}) {
				t.Fatalf("attach: %v", got)
			}
			name := d.Targets()[0].Name
			awaitTarget(t, d, name, "sampled", isSampled)
			p.Exec(t, kind.File(t, program))
			got := askAsUser(t, self, nobody, nobody, socket, fmt.Sprintf("GET /v1/doctor?pid=%d", p.PID), attach)
			if !slices.Equal(got, []string{"404", "404"}) {
				t.Errorf("after the exec: %v", got)
			}
			awaitTarget(t, d, name, "ended", func(s daemon.TargetStatus) bool { return s.State == daemon.Ended })
			s, err := d.Snapshot(t.Context(), name, 0)
			if err != nil {
				t.Fatal(err)
			}
			for m := range s.Methods() {
				if m.Method().Name == afterExec {
					t.Errorf("%+v samples of after the exec are in the profile", m.Self())
				}
			}
			if loss := s.Meta().Loss.Source; loss == 0 {
				t.Error("the samples that were left out count nowhere")
			}
		})
	}
}

// TestUndumpableTracee: a process that forbids its user to read its memory is the user's no more, and nothing that was
// sampled since is shown.
func TestUndumpableTracee(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program, self := traceetest.Program(t), askProgram(t)
	p := traceetest.KindNamed(t, "plain").Start(t, program)
	d, socket := openDaemon(t, process.ScopeClassic, map[string][]string{"own": {p.File}})
	awaitTarget(t, d, "own", "sampled", isSampled)
	p.SetDumpable(t, false)
	if got := askAsUser(t, self, nobody, nobody, socket, "GET /v1/p/live:own/top", "GET /v1/targets/own"); !slices.Equal(got, []string{"404", "404"}) {
		t.Errorf("not dumpable: %v", got)
	}
	awaitTarget(t, d, "own", "sampled for root", func(s daemon.TargetStatus) bool {
		return isSampled(s) && !slices.ContainsFunc(s.Owners, func(o process.Owner) bool { return o.Traceable })
	})
	p.SetDumpable(t, true)
	awaitTarget(t, d, "own", "its user's again", func(s daemon.TargetStatus) bool {
		return len(askAsUser(t, self, nobody, nobody, socket, "GET /v1/p/live:own/top")) == 1 && isSampled(s)
	})
}

// TestScopeOfYama: where users may only trace their children, they see samples without labels; where nobody may trace,
// nothing.
func TestScopeOfYama(t *testing.T) {
	t.Parallel()
	needRoot(t)
	program, self := traceetest.Program(t), askProgram(t)
	p := traceetest.KindNamed(t, "plain").Start(t, program)
	for scope, want := range map[process.Scope]string{process.ScopeRestricted: "200", process.ScopeAdmin: "404", process.ScopeNone: "404"} {
		d, socket := openDaemon(t, scope, map[string][]string{"own": {p.File}})
		awaitTarget(t, d, "own", "sampled", isSampled)
		if got := askAsUser(t, self, nobody, nobody, socket, "GET /v1/p/live:own/top", "GET /v1/targets/own"); !slices.Equal(got, []string{want, want}) {
			t.Errorf("scope %d: %v, want %s", scope, got, want)
		}
		if got := askAsUser(t, self, 0, 0, socket, "GET /v1/p/live:own/top"); !slices.Equal(got, []string{"200"}) {
			t.Errorf("scope %d: root gets %v", scope, got)
		}
	}
}

// TestLabelsByScope: a user who may not read the memory of its processes sees no texts out of it.
func TestLabelsByScope(t *testing.T) {
	t.Parallel()
	const token = "xyzzy-4711"
	for scope, want := range map[process.Scope]bool{process.ScopeClassic: true, process.ScopeRestricted: false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			web := f.maps["web"]
			f.looked = func() {
				labels := web.Names().Intern(ccmap.LabelsMethod([]ccmap.Label{{Key: "token", Value: token}}))
				work := web.Names().Intern(ccmap.Method{Name: "main.work"})
				web.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: work, Offset: 1}, {Method: labels, Offset: ccmap.NoOffset}}, Thread: 5, Weight: 7, Fresh: ccmap.FreshUnknown})
			}
			f.looked()
			s := newServer(t, f, Options{})
			s.scope = func() process.Scope { return scope }
			for _, query := range []string{"/v1/p/live:web/map?format=folded", "/v1/p/live:web/map?format=json", "/v1/p/live:web/profile.pb.gz?seconds=2", "/v1/p/live:web/top?by=label"} {
				w := get(s, userOf(1000), query)
				text := w.Body.String()
				if w.Header().Get("Content-Encoding") == "" && strings.HasPrefix(text, "\x1f\x8b") {
					z, err := gzip.NewReader(w.Body)
					if err != nil {
						t.Fatal(err)
					}
					unpacked, err := io.ReadAll(z)
					if err != nil {
						t.Fatal(err)
					}
					text = string(unpacked)
				}
				if has := strings.Contains(text, token); has != want || w.Code != 200 || len(text) < 100 {
					t.Errorf("scope %d, %s: labels %v, want %v; %d %.300q", scope, query, has, want, w.Code, text)
				}
			}
		})
	}
}
