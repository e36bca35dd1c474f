package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// TestFeedbackEndToEnd: a daemon that is to apply hints finds out by itself that a method of a JVM has become hot,
// gives the compiler hints about it, says what became of them, and takes them back: when the compiler has settled,
// and when it ends. It gives each hint once.
func TestFeedbackEndToEnd(t *testing.T) {
	t.Parallel()
	jdks := jvmtest.InTurn(t)
	for _, jdk := range jdks {
		t.Run(jdk.Name, func(t *testing.T) {
			needEngine(t)
			jvm := jdk.Start(t, nil, "Hot", "rests")
			s := feedbackDaemon(t, jvm)
			s.listen(t)
			awaitDirectives(t, jvm)
			jvm.Tell(t, "go")
			hints := s.awaitHints(t)
			checkHinted(t, hints[0])
			checkWithdrawn(t, jdk, jvm.PID)
			now := s.awaitTarget(t, "work", "samples", atLeast(1)).Status.Samples
			s.awaitTarget(t, "work", "more samples", atLeast(now+1000))
			if n := len(s.hints(t)); n != 1 {
				t.Errorf("%d events of hints, want one", n)
			}
			s.end(t)
		})
	}
	t.Run("end", func(t *testing.T) {
		needEngine(t)
		jdk := jdks[len(jdks)-1] // the daemon takes them back as above
		jvm := jdk.Start(t, nil, "Hot", "rests")
		s := feedbackDaemon(t, jvm)
		s.listen(t)
		awaitDirectives(t, jvm)
		s.end(t)
		checkWithdrawn(t, jdk, jvm.PID)
	})
}

func atLeast(samples uint64) func(daemon.TargetStatus) bool {
	return func(s daemon.TargetStatus) bool { return s.Status.Samples >= samples }
}

// feedbackDaemon is a daemon that applies hints for a JVM, whose methods are hot after some seconds.
func feedbackDaemon(t *testing.T, jvm *jvmtest.JVM) *servedDaemon {
	t.Helper()
	return startServed(t, fmt.Sprintf(`[[target]]
name = "work"
match = { pid = %d }
interval = "1ms"
tune = false
max_overhead = 0
hot = { method = "1s" }
[budget]
max_host_overhead = 0
[feedback]
hotspot = "apply"
`, jvm.PID))
}

// awaitDirectives waits until somebody has given directives to a JVM.
func awaitDirectives(t *testing.T, jvm *jvmtest.JVM) {
	t.Helper()
	for begin := time.Now(); directives(t, jvm.PID) == 1; time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > 5*time.Minute {
			t.Fatal("the daemon gives the JVM no directives")
		}
	}
}

// hints returns the data of the events about hints.
func (s *servedDaemon) hints(t *testing.T) (all []daemon.Hinted) {
	t.Helper()
	text, err := s.ask(t, "events", "--json")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		var e daemon.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind != daemon.EventHint {
			continue
		}
		var h daemon.Hinted
		if err := json.Unmarshal(e.Data, &h); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

func (s *servedDaemon) awaitHints(t *testing.T) (all []daemon.Hinted) {
	t.Helper()
	for begin := time.Now(); len(all) == 0; all = s.hints(t) {
		if time.Sleep(250 * time.Millisecond); time.Since(begin) > 3*time.Minute { // a question is a process
			t.Fatal("no event says what became of the hints")
		}
	}
	return all
}

// checkHinted checks that the hints of Hot.circles were given and taken, and are what 'ccmapd apply' reads.
func checkHinted(t *testing.T, h daemon.Hinted) {
	t.Helper()
	var outcomes []string
	for _, r := range h.Results {
		outcomes = append(outcomes, fmt.Sprintf("%s %s for %s: %s, %s", r.Action, r.Callee, r.Root, r.Outcome, r.Words))
	}
	taken := func(action hotspot.Action, callee string) bool {
		return slices.ContainsFunc(h.Results, func(r hotspot.Result) bool {
			return r.Action == action && strings.HasPrefix(r.Callee.String(), callee+"(") && r.Outcome == hotspot.Taken
		})
	}
	if h.Refused != "" || !taken(hotspot.Inline, "Hot.call") || !taken(hotspot.KeepOut, "Hot$Sq.area") {
		t.Errorf("refused: %q, outcomes:\n%s", h.Refused, strings.Join(outcomes, "\n"))
	}
	text, err := json.Marshal(h.Hints)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := hotspot.ReadFile(strings.NewReader(string(text))); err != nil || len(read) != len(h.Results) {
		t.Errorf("the event's hints: %d, %v; %d results", len(read), err, len(h.Results))
	}
}

// end ends the daemon as systemd does.
func (s *servedDaemon) end(t *testing.T) {
	t.Helper()
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("the daemon ends with %v", err)
	}
}
