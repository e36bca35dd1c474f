package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestAttachUntilSettled: the session ends by itself, and not before it has the
// samples that this takes.
func TestAttachUntilSettled(t *testing.T) {
	t.Parallel()
	if testing.Short() { // as under the race detector, whose C in a test binary is [unknown]: such a profile misleads, and never settles
		t.Skip("needs a workload without the race detector")
	}
	needEngine(t)
	file := filepath.Join(t.TempDir(), "a.json")
	w := holdWorkload(t)
	a := attachTo(t, w.pid(), "-i", "1ms", "--tune=false", "--until", "methods:85%", "-o", file)
	w.stdin.Close()
	meta := a.end(t, file).Meta()
	if !strings.HasPrefix(meta.Ended, "stopped: methods are settled to ") {
		t.Errorf("ended: %s", meta.Ended)
	}
	if s := meta.Settled; s.Methods < 84 || s.Samples < 1000 {
		t.Errorf("settled %+v", s)
	}
}

// TestAttachWithinMemory: a map that was pruned many times has all samples and
// the methods that they were taken in, exactly.
func TestAttachWithinMemory(t *testing.T) {
	t.Parallel()
	needEngine(t)
	file := filepath.Join(t.TempDir(), "a.xml")
	w := holdWorkload(t, "-mode", "deep", "-n", "1500", "-d", "2s")
	a := attachTo(t, w.pid(), "-i", "1ms", "--tune=false", "--max-memory", "64KiB", "-o", file)
	w.stdin.Close()
	_, cpu := w.end(t)
	s := a.end(t, file)
	if err := s.CheckValid(); err != nil {
		t.Error(err)
	}
	if !s.Pruned() || s.Meta().Pruned.Times == 0 || s.PrunedTotal().IsZero() {
		t.Fatalf("nothing was pruned: %+v", s.Meta().Pruned)
	}
	var self ccmap.Counters
	for m := range s.Methods() {
		self = self.Add(m.Self())
	}
	if total := s.Total(); self.Samples != total.Samples || self.Time != total.Time {
		t.Errorf("methods have %+v of %+v", self, total)
	}
	if got := time.Duration(s.Total().Time); got < cpu/2 {
		t.Errorf("%v sampled of %v", got, cpu)
	}
	// Most contexts of the recursion were pruned, none of its time.
	if got := methodNamed(t, s, "descend").Cumulative().Time; got < s.Total().Time/2 {
		t.Errorf("%v are in descend, want most of %v", time.Duration(got), time.Duration(s.Total().Time))
	}
}
