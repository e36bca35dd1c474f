package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/store"
)

// TestOpenStore: a store that cannot be written, or that others can change, is an error with a cure before
// anything is sampled. Without files nothing is looked at.
func TestOpenStore(t *testing.T) {
	t.Parallel()
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for dir, c := range map[string]struct {
		files bool
		want  string
	}{
		t.TempDir(): {true, ""},
		filepath.Join(t.TempDir(), "missing", "levels"): {true, ""},
		"/proc/self/none":  {true, "/none"},
		"/proc/self/other": {false, ""},
		open:               {true, "has mode 0777"},
	} {
		d, err := newDaemon(Options{Load: func() (*config.Config, error) {
			c := filing(dir)
			c.Store.Files = c.Store.Files && dir != "/proc/self/other"
			return c, nil
		}}, newFakeHost())
		if err != nil {
			t.Fatal(err)
		}
		err = d.OpenStore()
		if c.want == "" {
			if _, made := os.Stat(filepath.Join(dir, "lock")); err != nil || (made == nil) != c.files {
				t.Errorf("%s: %v, made %v", dir, err, made)
			}
			if c.files {
				d.periods.keeper.Close()
			}
			continue
		}
		if cure, _ := advice.Of(err); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(cure, "[store]") {
			t.Errorf("%s: %v, cure %q", dir, err, cure)
		}
	}
}

// TestStoreHangs: a disk that does not answer is an error.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer, began := make(chan struct{}), time.Now()
		_, err := openStore(filing("/none").Store, func(config.Store) (*store.Store, error) { <-answer; return nil, nil })
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "does not answer") || took != storeTime {
			t.Errorf("%v after %v", err, took)
		}
		close(answer)
	})
}

// TestTwoDaemonsOnOneStore: the second daemon does not start, and names the first.
func TestTwoDaemonsOnOneStore(t *testing.T) {
	t.Parallel()
	c := filing(t.TempDir())
	made := func() *Daemon {
		d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }}, newFakeHost())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	openStoreOf(t, made())
	if err := made().OpenStore(); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("a second daemon: %v", err)
	}
}

// TestReloadOfStore: a reload changes how long files are kept, and where they are at the next start.
func TestReloadOfStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inDaemon(t, filing(dir), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		time.Sleep(10 * time.Minute)
		before, _ := periodsIn(t, dir)
		next := *d.Config()
		d.load = func() (*config.Config, error) { c := next; return &c, nil }
		events, cancel := d.Events(0)
		defer cancel()
		next.Store.Dir, next.Store.Keep = "/proc/self/none", 3*time.Minute
		if err := d.Reload(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if now, _ := periodsIn(t, dir); len(now) == 0 || len(now) > 5 || len(before) < 8 {
			t.Errorf("%d files are kept of three minutes, and %d before", len(now), len(before))
		}
		for e := range events {
			if e.Kind == EventReload {
				if !strings.Contains(e.Text, "the store") {
					t.Errorf("%s", e.Text)
				}
				break
			}
		}
	})
}
