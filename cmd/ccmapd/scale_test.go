package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestAttachToManyOfEverything samples programs at the limits of what a stack, a
// scheduler and a table of file descriptors usually hold.
func TestAttachToManyOfEverything(t *testing.T) {
	t.Parallel()
	needEngine(t)
	for _, c := range []struct {
		mode, n string
		limit   []string
		check   func(*testing.T, *ccmap.Snapshot)
	}{
		{"goroutines", "10000", []string{"-d", "2s"}, nil},
		// So much work, not time, that threads use some intervals on any machine.
		{"threads", "1000", []string{"-requests", "6000"}, nil},
		{"deep", "1000", []string{"-d", "2s"}, checkDeep},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "a.json")
			w := holdWorkload(t, append(c.limit, "-mode", c.mode, "-n", c.n)...)
			a := attachTo(t, w.pid(), "-i", "500us", "--tune=false", "-o", file)
			w.stdin.Close()
			_, cpu := w.end(t)
			s := a.end(t, file)
			// What starts a thread and ends it is seen only in part; most must be.
			if got := time.Duration(s.Total().Time); got < cpu/3 {
				t.Errorf("%v sampled of %v", got, cpu)
			}
			if meta := s.Meta(); !strings.HasPrefix(meta.Ended, "target exited") { // its code is gone once it was waited for
				t.Errorf("ended: %s, loss %+v", meta.Ended, meta.Loss)
			}
			if c.check != nil {
				c.check(t, s)
			}
		})
	}
}

// checkDeep looks for a stack with all the frames of the recursion.
func checkDeep(t *testing.T, s *ccmap.Snapshot) {
	t.Helper()
	depth := make([]int, s.Len())
	deepest := 0
	for n := range s.Nodes() {
		depth[n.ID] = depth[n.Parent]
		if n.Method != ccmap.NoMethod && strings.HasSuffix(s.Names().At(n.Method).Name, ".descend") {
			depth[n.ID]++
		}
		deepest = max(deepest, depth[n.ID])
	}
	if deepest < 1000 {
		t.Errorf("the deepest stack has %d frames of descend, want 1000", deepest)
	}
}
