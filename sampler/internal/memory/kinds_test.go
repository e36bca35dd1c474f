package memory

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// sampleKind samples a program of testdata/kinds every 5 ms, until a function has half a second, and returns the session with
// the waits that the program has had a second.
func sampleKind(t *testing.T, function, path string, args ...string) (s *session, rate float64) {
	t.Helper()
	g := enginetest.Start(t, path, args...)
	s = attach(t, g.PID(), sampler.ProcessOptions{Unit: Wait, Interval: 5 * time.Millisecond, Idle: 200 * time.Millisecond})
	for deadline := time.Now().Add(time.Minute); s.cum[function] < int64(500*time.Millisecond) && time.Now().Before(deadline); {
		s.await(t, 100*time.Millisecond)
	}
	g.Proceed(t)
	var waits, during int64
	if _, err := fmt.Sscan(g.Line(t), &waits, &during); err != nil {
		t.Fatal(err)
	}
	s.end(t)
	t.Logf("%v: %d waits in %v: %v", args, waits, time.Duration(during), s.flat)
	return s, float64(waits) / time.Duration(during).Seconds()
}

// TestCoroutines: a coroutine of iter.Pull waits below its own functions, and is never idle, however often it is found at
// the same place.
func TestCoroutines(t *testing.T) {
	t.Parallel()
	s, _ := sampleKind(t, "main.yields", build(t, "kinds"), "pull")
	if s.cum["main.yields"] < int64(500*time.Millisecond) || s.cum["[idle] main.yields"] > 0 {
		t.Errorf("main.yields %v, [idle] %v", time.Duration(s.cum["main.yields"]), time.Duration(s.cum["[idle] main.yields"]))
	}
}

// TestPingPong: goroutines that wait for each other 100,000 times a second are not taken for ones that wait for long: the
// number of their waits has come round to the same value, perhaps, at the next look.
func TestPingPong(t *testing.T) {
	t.Parallel()
	s, rate := sampleKind(t, "main.plays", build(t, "kinds"), "pingpong")
	t.Logf("%.0f waits a second", rate)
	if s.cum["main.plays"] < int64(500*time.Millisecond) || s.cum["[idle] main.plays"] > 0 {
		t.Errorf("main.plays %v, [idle] %v", time.Duration(s.cum["main.plays"]), time.Duration(s.cum["[idle] main.plays"]))
	}
}

// TestRaceDetector: a program with the race detector, and so with cgo, has waits as others.
func TestRaceDetector(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	if _, err := exec.LookPath("gcc"); err != nil {
		testrun.Lacks(t, "no C compiler: install gcc and libc6-dev")
	}
	s, _ := sampleKind(t, "main.yields", build(t, "kinds", "-race"), "pull")
	if s.cum["main.yields"] < int64(500*time.Millisecond) || s.cum["[sleep] main.pulls"] == 0 {
		t.Errorf("%v", s.cum)
	}
}

// TestPlugin: goroutines that wait in the code of a plugin, and others of the program that has loaded it.
func TestPlugin(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	if _, err := exec.LookPath("gcc"); err != nil {
		testrun.Lacks(t, "no C compiler: install gcc and libc6-dev")
	}
	const inPlugin = "github.com/ccmapd/ccmapd/sampler/internal/memory/testdata/plugged/plugin.Rests"
	s, _ := sampleKind(t, inPlugin, build(t, "plugged"), build(t, "plugged/plugin", "-buildmode=plugin"))
	if least := int64(400 * time.Millisecond); s.cum[inPlugin] < least || s.cum["main.sleeps"] < least || s.cum["main.main"] < least {
		t.Errorf("%v", s.cum)
	}
}
