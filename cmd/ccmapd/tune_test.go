package main

import (
	"bufio"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTuneOnUnmodifiedBinary: a loop of 80 ms is on top at most samples, and the interval
// becomes longer. A function of 20 ms is new at every sample of each 40 ms, and the
// interval becomes shorter. The thresholds are far from 0 there, and the window is short,
// because to be sure of a rate under 1 % takes 660 verdicts, which the engine bpf has after
// minutes. A profile that settles, or a slow ccmapd that costs too much, must not lengthen
// the interval before.
func TestTuneOnUnmodifiedBinary(t *testing.T) {
	t.Parallel()
	needEngine(t)
	for _, c := range []struct {
		name, spin string
		flags      []string
		right      func(time.Duration) bool
	}{
		{"80ms", "80ms", nil, func(d time.Duration) bool { return d > 40*time.Millisecond }},
		{"20ms", "20ms", []string{"-i", "40ms", "--tune-low", "25", "--tune-high", "60"}, func(d time.Duration) bool { return d < 30*time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := holdWorkload(t, "-mode", "spin", "-spin", c.spin)
			args := append([]string{"attach", w.pid(), "-v", "--tune-window", "20", "--tune-settled", "0", "-o", t.TempDir() + "/a.json"}, c.flags...)
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

// awaitInterval reads a verbose log until repetitions have made the interval right.
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
		if strings.Contains(m[2], "repetitions") && right(d) {
			return
		}
	}
	t.Fatalf("the log ended before the interval was right: %v", log.Err())
}
