package classpath

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/programtest"
)

// TestPrivate: of a target of another user only that is read which all users can get to and read, whatever this user
// may, and whatever links lead there.
func TestPrivate(t *testing.T) {
	t.Parallel()
	dir := programtest.PublicDir(t, 0o755)
	write := func(name string, folder, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		for _, err := range []error{os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("x"), 0o600), os.Chmod(name, mode), os.Chmod(filepath.Dir(name), folder)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return name
	}
	link := func(to, name string) string {
		name = filepath.Join(dir, name)
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	public, secret, hidden := write("p/a.jar", 0o755, 0o644), write("s/a.jar", 0o755, 0o640), write("h/a.jar", 0o750, 0o644)
	deep := write("h/d/a.jar", 0o755, 0o644)
	for name, c := range map[string]struct {
		path  string
		reads bool
	}{
		"for all users":             {public, true},
		"by a link":                 {link(public, "l"), true},
		"by two links":              {link("l", "m"), true},
		"of a group":                {secret, false},
		"in a folder of a group":    {hidden, false},
		"below a folder of a group": {deep, false},
		"by a link to there":        {link("h/d/a.jar", "n"), false},
		"by a loop of links":        {link("o", "o"), false},
		"that is missing":           {dir + "/none", false},
		"a folder":                  {dir + "/p", false},
		"a device":                  {"/dev/null", false},
	} {
		other := newTarget(process.Facts{PID: os.Getpid(), UID: -1}, nil)
		f, err := other.open(c.path, isFile)
		if (err == nil) != c.reads {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
		own := newTarget(process.Facts{PID: os.Getpid(), UID: os.Geteuid()}, nil)
		if f, err := own.open(c.path, isFile); err == nil {
			f.Close()
		} else if c.path == secret || c.path == hidden || c.path == deep {
			t.Errorf("%s: this user's own target: %v", name, err)
		}
	}
}
