package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestSwitching: a target that switches often is told so, if that can be the reason of what is missing, with the better
// engine where there is one. The figures of the first two are of two threads that hand each other numbers.
func TestSwitching(t *testing.T) {
	t.Parallel()
	const better = "engine bpf avoids that"
	for _, c := range []struct {
		what            string
		clock, missing  time.Duration
		switches        uint64
		on              float64 // part of the time in windows; 0: all
		better          string
		unseen, warning string
	}{
		{"always on", 3090 * time.Millisecond, 1090 * time.Millisecond, 458_000, 0, better,
			"its threads switch some 148,000 times in each second of CPU time, and the timers of engine perf stand still in a switch: " + better, ""},
		{"in windows", 2130 * time.Millisecond, -3 * time.Millisecond, 790_000, 0.463, better, "",
			"its threads switch some 371,000 times in each second of CPU time, and each switch pays for the timers of engine perf, which are on for 46 % of the time therefore: " +
				"there are fewer samples, and each weighs more: " + better},
		{"no other engine", 3090 * time.Millisecond, 1090 * time.Millisecond, 458_000, 0, "",
			"its threads switch some 148,000 times in each second of CPU time, and the timers of engine perf stand still in a switch", ""},
		{"few switches", 3 * time.Second, time.Second, 5_000, 0.4, better, "", ""},
		{"more is missing", 10 * time.Second, 5 * time.Second, 60_000, 0, better, "", ""},
		{"short pauses", 10 * time.Second, 0, 60_000, 0.95, better, "", ""},
		{"no clock", 0, 0, 60_000, 0, better, "", ""},
	} {
		st := sampler.Stats{Loss: ccmap.Loss{Clock: c.clock, Unaccounted: c.missing}, Overhead: sampler.Overhead{Sampled: c.on}}
		if unseen, warning := switching(st, c.switches, c.better); unseen != c.unseen || warning != c.warning {
			t.Errorf("%s: %q and %q, want %q and %q", c.what, unseen, warning, c.unseen, c.warning)
		}
	}
	if got := joined("one", "") + joined("", "two") + joined("", "") + joined("a", "b"); got != "onetwoa; b" || strings.HasSuffix(joined("a", ""), ";") {
		t.Errorf("joined: %q", got)
	}
}
