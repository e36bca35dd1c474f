package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/api"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// fakeDaemon has targets that nothing samples.
type fakeDaemon struct {
	mu      sync.Mutex
	targets []daemon.TargetStatus
	events  chan daemon.Event
	sick    error
}

func (f *fakeDaemon) Targets() []daemon.TargetStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.targets)
}

func (f *fakeDaemon) Target(name string) (daemon.TargetStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.targets, func(t daemon.TargetStatus) bool { return t.Name == name })
	if i < 0 {
		return daemon.TargetStatus{}, daemon.ErrNoTarget
	}
	return f.targets[i], nil
}

func (f *fakeDaemon) Snapshot(context.Context, string, int) (*ccmap.Snapshot, error) {
	return profiletest.Thicket(1).Snapshot(), nil
}

func (f *fakeDaemon) Stored() *store.Reader { return nil }

func (f *fakeDaemon) Keeping() (daemon.Keeping, bool) { return daemon.Keeping{}, false }

func (f *fakeDaemon) Recheck(string) (daemon.TargetStatus, error) {
	return daemon.TargetStatus{}, daemon.ErrNoTarget
}

func (f *fakeDaemon) Attach(_ context.Context, pid int) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := fmt.Sprint("pid-", pid)
	f.targets = append(f.targets, daemon.TargetStatus{Name: name, State: "attaching", Processes: []daemon.ProcessStatus{{PID: pid, Exe: "/bin/\x1b[31mred"}}})
	return name, nil
}

func (f *fakeDaemon) Detach(string) error                                { return nil }
func (f *fakeDaemon) Pause(string) error                                 { return nil }
func (f *fakeDaemon) Resume(string) error                                { return nil }
func (f *fakeDaemon) Rotate(context.Context, string) error               { return nil }
func (f *fakeDaemon) Reload() error                                      { return nil }
func (*fakeDaemon) LastReload() error                                    { return nil }
func (f *fakeDaemon) Events(uint64) (<-chan daemon.Event, func())        { return f.events, func() {} }
func (f *fakeDaemon) History(string, time.Time) ([]daemon.Minute, error) { return nil, nil }
func (f *fakeDaemon) Ready() error                                       { return nil }
func (f *fakeDaemon) Healthy() error                                     { return f.sick }

// serveFake serves a fake with engines until the test ends.
func serveFake(t *testing.T, f *fakeDaemon, engines ...engine.Engine) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	s, err := api.New(api.Options{Daemon: f, Engines: engines, Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// TestTargets: targets are listed with their troubles, attach --daemon adds one, and top reads one.
func TestTargets(t *testing.T) {
	t.Parallel()
	f := &fakeDaemon{targets: []daemon.TargetStatus{
		{Name: "db", Rule: "exe /db", State: "refused", Reason: "not permitted", Cure: "Run it as root.", Processes: []daemon.ProcessStatus{}},
		{Name: "web", Rule: "exe /web", State: "sampling", Status: daemon.Figures{Samples: 45}, Counters: daemon.Counters{Samples: 12345}, Processes: []daemon.ProcessStatus{
			{PID: 7, Exe: "/srv/web", State: "sampling", Engine: "bpf", Why: "the best engine"}, {PID: 8, Exe: "/srv/web", State: "refused", Reason: "too many files"},
		}},
	}}
	socket := serveFake(t, f)
	for _, test := range []struct {
		args string
		code int
		want []string
	}{
		{"targets", exitOK, []string{"web     sampling   12,345         0  7 8   web", "db: exe /db\n  refused: not permitted\n  Run it as root."}},
		{"attach --daemon 4242", exitOK, []string{"The daemon samples 4242 as target pid-4242. Next: ccmapd top @pid-4242"}},
		{"targets -v", exitOK, []string{"pid-4242", "\ufffd[31mred", "web: exe /web\n  7 sampling by bpf: the best engine\n  8 refused: too many files\n"}},
		{"attach --daemon 4242 -i 1ms", exitUsage, nil},
		{"top @web", exitOK, []string{"2,000 samples"}},
		{"top @none", exitNoTarget, nil},
		{"top @web:8", exitOK, []string{"2,000 samples"}},
		{"top @web:9", exitNoTarget, nil},
	} {
		got := ccmapdAt(t, socket, strings.Fields(test.args)...)
		for _, want := range test.want {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("ccmapd %s prints\n%s%s\nwithout %q", test.args, got.stdout, got.stderr, want)
			}
		}
		if got.code != test.code {
			t.Errorf("ccmapd %s exits with %d: %s", test.args, got.code, got.stderr)
		}
	}
	var list targetList
	if got := ccmapdAt(t, socket, "targets", "--json"); json.Unmarshal([]byte(got.stdout), &list) != nil || len(list.Targets) != 3 {
		t.Errorf("JSON:\n%s", got.stdout)
	}
	completed := ""
	for range 100 { // on a busy machine the limit may come before the answer
		if completed = ccmapdAt(t, socket, "__complete", "top", "@web", "a").stdout; strings.HasPrefix(completed, "a\n") {
			return
		}
	}
	t.Errorf("a shell completes %q", completed)
}

// TestTargetsNameAllPrograms: a rule may fit several programs, and replicas of one.
func TestTargetsNameAllPrograms(t *testing.T) {
	t.Parallel()
	got := executablesOf(daemon.TargetStatus{Processes: []daemon.ProcessStatus{
		{PID: 1, Exe: "/srv/web"}, {PID: 2, Exe: "/opt/web"}, {PID: 3}, {PID: 4, Exe: "/srv/billing"},
	}})
	if want := "web billing"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
