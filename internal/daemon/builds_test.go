package daemon

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// TestBuildsAreCompared: when a target's program was replaced by another build, an event says once how the new build
// differs from the one before, and nothing is said of the first build.
func TestBuildsAreCompared(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		body   uint64
		want   []string
	}{
		"the same":   {"main.work", 1, []string{"build build_2 beside build_1", "same within noise"}},
		"other code": {"main.work", 2, []string{"same within noise", "other code in 1 method with 100.0 %"}},
		"different":  {"main.other", 1, []string{"build build_2 beside build_1", "differs", "main.other 0.0 → "}},
	} {
		t.Run(name, func(t *testing.T) {
			inDaemon(t, filing(t.TempDir()), func(t *testing.T, h *fakeHost, d *Daemon) {
				events, cancel := d.Events(0)
				defer cancel()
				p := web(10)
				p.body = 1
				first := h.start(p)
				time.Sleep(5 * time.Minute)
				h.kill(first)
				next := web(11)
				next.build, next.file, next.method, next.body = "build/2", process.FileID{Inode: 2}, c.method, c.body
				h.start(next)
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				var said []string
				for len(events) > 0 {
					if e := <-events; e.Kind == EventBuild {
						said = append(said, e.Text)
					}
				}
				if len(said) != 1 {
					t.Fatalf("%d events: %q", len(said), said)
				}
				for _, part := range c.want {
					if !strings.Contains(said[0], part) {
						t.Errorf("%q lacks %q", said[0], part)
					}
				}
			})
		})
	}
}

// TestRollback: build A, then B of a later commit, then A again: each is compared with the one that ran before, and
// going back is called a rollback. Where commits are not known, the order is the one of the first run.
func TestRollback(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		commits [2]time.Time
		want    []string
	}{
		"commits in order": {[2]time.Time{day, day.AddDate(0, 0, 1)}, []string{
			"build a beside b, committed 2026-11-21 12:00:00, a later build: a rollback: ", "build b beside a, committed 2026-11-20 12:00:00: ",
		}},
		"no commits": {[2]time.Time{}, []string{"build a beside b, a later build: a rollback: ", "build b beside a: "}},
		"B of an earlier commit": {[2]time.Time{day, day.AddDate(0, 0, -1)}, []string{
			"build a beside b, committed 2026-11-19 12:00:00: ", "build b beside a, committed 2026-11-20 12:00:00, a later build: a rollback: ",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inDaemon(t, filing(t.TempDir()), func(t *testing.T, h *fakeHost, d *Daemon) {
				events, cancel := d.Events(0)
				defer cancel()
				h.every = 50 * time.Millisecond
				for i, build := range []string{"a", "b", "a"} {
					p := web(10 + i)
					p.build, p.commit, p.file = build, c.commits[i%2], process.FileID{Inode: uint64(i%2 + 1)}
					running := h.start(p)
					time.Sleep(5 * time.Minute)
					h.kill(running)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				var said []string
				for len(events) > 0 {
					if e := <-events; e.Kind == EventBuild {
						said = append(said, e.Text)
					}
				}
				slices.Sort(said)
				if len(said) != len(c.want) {
					t.Fatalf("%d events: %q", len(said), said)
				}
				for i, begin := range c.want {
					if !strings.HasPrefix(said[i], begin) {
						t.Errorf("%q, want %q…", said[i], begin)
					}
				}
			})
		})
	}
}
