package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStoreOfAnotherUser: nobody but its user reads a store, not even root, and the hint says who does. A store of
// root's that others may write to is root's to mend.
func TestStoreOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives a directory to another user")
	}
	dir := filepath.Join(t.TempDir(), "store")
	file := filepath.Join(t.TempDir(), "p.folded")
	if err := os.WriteFile(file, []byte("a;b 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runWith([]string{"store", "add", "--dir", dir, "--target", "web", file}, nil); code != exitOK {
		t.Fatal(stderr)
	}
	t.Setenv(storeVariable, dir)
	refused := func(hint string) {
		t.Helper()
		for _, args := range [][]string{{"store", "list"}, {"top", "best:web"}} {
			code, _, stderr := runWith(args, nil)
			if code == exitOK || !strings.Contains(stderr, hint) {
				t.Errorf("%v: exit code %d, want advice %q:\n%s", args, code, hint, stderr)
			}
		}
	}
	if err := os.Chown(dir, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	refused("sudo -u '#65533' env " + storeVariable + "=" + dir)
	if err := os.Chown(dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	refused("chmod go-w " + dir)
}

// The store of root is the daemon's; others have their own.
func TestDefaultStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		euid int
		env  map[string]string
		want string
	}{
		{0, map[string]string{"XDG_STATE_HOME": "/x"}, "/var/lib/ccmapd"},
		{7, map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/ccmapd"},
		{0, map[string]string{"CCMAPD_STORE": "/s"}, "/s"},
		{7, map[string]string{"CCMAPD_STORE": "/s", "XDG_STATE_HOME": "/x"}, "/s"},
		{7, map[string]string{"CCMAPD_STORE": "s", "XDG_STATE_HOME": "/x"}, "/x/ccmapd"},
		{7, map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/ccmapd"},
	} {
		if got := defaultStore(c.euid, func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
