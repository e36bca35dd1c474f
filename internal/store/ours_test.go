package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/safepath"
)

// TestFilesStayOurs: nothing is filed, logged or removed where others have got the right to change the directory since
// the store was opened.
func TestFilesStayOurs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir, Keep: time.Hour})
	k := Key{Target: "web", Build: "b"}
	old := time.Now().Add(-100 * time.Hour)
	path := fileAt(t, s, k, old, settled(100))
	web := filepath.Join(dir, targetsDir, "web")
	if err := os.Chmod(web, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := s.File(k, old, time.Now(), settled(100)); !errors.Is(err, safepath.ErrOthers) {
		t.Errorf("others may change the target's directory: %v", err)
	}
	if err := errors.Join(os.Chmod(web, 0o750), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	frame := Frame{Stream: s.NewStream(k), From: old, To: old, Delta: settled(1)}
	if err := s.Append(frame); !errors.Is(err, safepath.ErrOthers) {
		t.Errorf("others may change the store: %v", err)
	}
	s.Retain(time.Now())
	if _, err := os.Stat(path); err != nil {
		t.Errorf("a file was removed where others may change the store: %v", err)
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(frame); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestBuildNames: a build id leads nowhere.
func TestBuildNames(t *testing.T) {
	t.Parallel()
	for build, want := range map[string]string{"": "unknown", "../../etc/passwd": "______etc_pa", "q1W-x_2": "q1W_x_2"} {
		if got := BuildName(build); got != want {
			t.Errorf("%q: %q, want %q", build, got, want)
		}
	}
}
