package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

// TestStatus: the daemon's state is in a few lines, with what is refused and its cure; a daemon that is not healthy
// gives exit code 1. What a target is called by others is printed harmless.
func TestStatus(t *testing.T) {
	t.Parallel()
	f := &fakeDaemon{targets: []daemon.TargetStatus{
		{Name: "web", State: daemon.Sampling, Processes: []daemon.ProcessStatus{{PID: 7}, {PID: 8}}, Counters: daemon.Counters{Samples: 990, LostQueue: 10, SampledNS: 9.9e9}},
		{Name: "db", State: daemon.Refused, Reason: "not permitted\x1b[2J", Cure: "run as root", Processes: []daemon.ProcessStatus{{PID: 9}}},
		{Name: "job", State: daemon.Waiting, Processes: []daemon.ProcessStatus{}},
	}}
	socket := serveFake(t, f)
	got := ccmapdAt(t, socket, "status")
	for _, want := range []string{
		"healthy; engines: ", "You may see all targets and change them.", "Targets: 3 (1 sampling, 1 refused, 1 waiting), 3 processes.",
		"Sampled: 990 samples, 9.9s of CPU time, 1.0% lost; ", "Refused: db: not permitted", "\n  run as root\n",
	} {
		if got.code != exitOK || !strings.Contains(got.stdout, want) || strings.Contains(got.stdout, "\x1b") {
			t.Errorf("exit code %d, lacks %q:\n%s%s", got.code, want, got.stdout, got.stderr)
		}
	}
	if lines := strings.Count(got.stdout, "\n"); lines > 10 {
		t.Errorf("%d lines:\n%s", lines, got.stdout)
	}
	var s daemonStatus
	if got := ccmapdAt(t, socket, "status", "--json"); json.Unmarshal([]byte(got.stdout), &s) != nil || s.Totals.Samples != 990 || s.States[daemon.Waiting] != 1 || len(s.Refused) != 1 || !s.Healthy || s.May != "everything" {
		t.Errorf("%+v of %s%s", s, got.stdout, got.stderr)
	}
	sick := serveFake(t, &fakeDaemon{sick: errors.New("target web: no turn for 31 s")})
	if got := ccmapdAt(t, sick, "status"); got.code != exitFailed || !strings.Contains(got.stdout, "not healthy") || !strings.Contains(got.stdout, "Targets: none, 0 processes.") || got.stderr != "" {
		t.Errorf("a sick daemon: %+v", got)
	}
}

// TestEvents: events are a line each, the ones that the daemon knows and with -f those to come, as text and as JSON.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := &fakeDaemon{events: make(chan daemon.Event, 9)}
	add := func(n uint64, text string) {
		f.events <- daemon.Event{Seq: n, At: time.Unix(1_800_000_000, 0), Kind: daemon.EventState, Target: "web", PID: 7, Text: text}
	}
	socket := serveFake(t, f)
	add(1, "sampling: bpf")
	add(2, "refused:\x1b[2J\nno")
	got := ccmapdAt(t, socket, "events")
	if lines := strings.Split(got.stdout, "\n"); got.code != exitOK || len(lines) != 3 || !strings.HasSuffix(lines[0], "  state     web (7): sampling: bpf") || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("%+v", got)
	}
	add(3, "sampling: perf")
	close(f.events) // as a daemon that ends
	got = ccmapdAt(t, socket, "events", "-f", "--json")
	var e daemon.Event
	if got.code != exitFailed || json.Unmarshal([]byte(got.stdout), &e) != nil || e.Seq != 3 || !strings.Contains(got.stderr, "the daemon has ended") {
		t.Errorf("%+v", got)
	}
}
