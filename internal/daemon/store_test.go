package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/safepath"
)

// TestPrepareStore: a store that cannot be written, or that others can change, is an error with a cure before
// anything is sampled. Without files nothing is looked at.
func TestPrepareStore(t *testing.T) {
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
		err = d.PrepareStore()
		if c.want == "" {
			if _, made := os.Stat(filepath.Join(dir, targetsDir)); err != nil || (made == nil) != c.files {
				t.Errorf("%s: %v, made %v", dir, err, made)
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
		err := prepareStore(filing("/none").Store, func(string) error { <-answer; return nil })
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "does not answer") || took != storeTime {
			t.Errorf("%v after %v", err, took)
		}
		close(answer)
	})
}

// TestReloadOfStore: a configuration whose store cannot be used is refused, and the old one stays. A store that has
// become unusable keeps no other change from taking effect.
func TestReloadOfStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inDaemon(t, filing(dir), func(t *testing.T, _ *fakeHost, d *Daemon) {
		next := *d.Config()
		d.load = func() (*config.Config, error) { c := next; return &c, nil }
		next.Store.Dir = "/proc/self/none"
		if err := d.Reload(); err == nil || d.Config().Store.Dir != dir || d.LastReload() == nil {
			t.Errorf("%v, files go to %s", err, d.Config().Store.Dir)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		next.Store.Dir, next.Budget.CPU = dir, 0.25
		if err := d.Reload(); err != nil || d.Config().Budget.CPU != 0.25 {
			t.Errorf("%v", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFilesStayOurs: no period is filed, and no file removed, where others have got the right to change the
// directory meanwhile. The error names the path, and not a descriptor.
func TestFilesStayOurs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := filing(dir)
	c.Store.Keep = time.Hour
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }}, newFakeHost())
	if err != nil {
		t.Fatal(err)
	}
	old, s := time.Now().Add(-100*time.Hour), profiletest.Thicket(1).Snapshot()
	path := d.periods.path("web", "b", old, old)
	if err := d.periods.write(path, s); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, targetsDir, "web"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := d.periods.write(d.periods.path("web", "b", old, time.Now()), s); !errors.Is(err, safepath.ErrOthers) {
		t.Errorf("others may change the target's directory: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d.periods.removeOld(time.Now())
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it was removed where others may change the store: %v", err)
	}
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chmod(filepath.Join(dir, targetsDir, "web"), 0o700)); err != nil {
		t.Fatal(err)
	}
	name := d.periods.path("web", "b", old, old.Add(time.Second))
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.periods.write(name, s); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "/proc/self/fd") {
		t.Errorf("a directory in place of the file: %v", err)
	}
}
