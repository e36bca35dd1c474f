package main

import (
	"bufio"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// TestTuneOnUnmodifiedBinary: a loop of 80 ms is on top at most samples, and the
// interval becomes longer; a function of 5 ms is new at every sample, and it
// becomes shorter. For the second the thresholds are far from 0, because to be
// sure of a rate under 1 % takes 660 verdicts.
func TestTuneOnUnmodifiedBinary(t *testing.T) {
	t.Parallel()
	needEngine(t)
	for _, c := range []struct {
		name, spin string
		flags      []string
		right      func(time.Duration) bool
	}{
		{"80ms", "80ms", nil, func(d time.Duration) bool { return d > 40*time.Millisecond }},
		{"5ms", "5ms", []string{"--tune-low", "20", "--tune-high", "60"}, func(d time.Duration) bool { return d < 5*time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := holdWorkload(t, "-mode", "spin", "-spin", c.spin)
			args := append([]string{"attach", w.pid(), "-v", "--tune-window", "100", "-o", t.TempDir() + "/a.json"}, c.flags...)
			cmd := exec.Command("ccmapd", args...)
			log, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			start(t, cmd)
			w.stdin.Close()
			awaitInterval(t, bufio.NewScanner(log), c.right)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		})
	}
}

var intervalSet = regexp.MustCompile(`msg="set interval" to=(\S+) .*reason=(.*)`)

// awaitInterval reads a verbose log until the interval is right.
func awaitInterval(t *testing.T, log *bufio.Scanner, right func(time.Duration) bool) {
	t.Helper()
	for log.Scan() {
		m := intervalSet.FindStringSubmatch(log.Text())
		if m == nil {
			continue
		}
		t.Log(m[1], m[2])
		d, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if right(d) {
			return
		}
	}
	t.Fatalf("the log ended before the interval was right: %v", log.Err())
}
