package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/internal/programtest"
)

// aStoreUser is the user of a daemon whose store is another's.
const aStoreUser = 65528

// storeConfig writes a configuration that keeps files in a directory; "": in the default one.
func storeConfig(t *testing.T, dir string) (file, socket string) {
	t.Helper()
	own := programtest.PublicDir(t, 0o755)
	file, socket = filepath.Join(own, "ccmapd.toml"), filepath.Join(own, "s.sock")
	text := fmt.Sprintf("[listen]\nsocket = %q\ngroup = \"\"\n[store]\nfiles = true\n", socket)
	if dir != "" {
		text += fmt.Sprintf("dir = %q\n", dir)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, socket
}

// TestServeRefusesStores: a daemon that is to keep files does not start where it cannot write them, or where
// others could change them, and says what to do.
func TestServeRefusesStores(t *testing.T) {
	t.Parallel()
	needRoot(t)
	self, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	public := programtest.Copy(t, self, "ccmapd")
	for name, c := range map[string]struct {
		user uint32
		make func(top string) error // top/a/b is the directory
		want string
	}{
		"another user's level": {0, func(top string) error { return os.Chown(top+"/a", aStoreUser, 0) }, "/a is user 65528's"},
		"another user's link":  {0, func(top string) error { return foreignLink(top) }, "/a is user 65528's"},
		"open to all":          {0, func(top string) error { return os.Chmod(top+"/a/b", 0o777) }, "/a/b has mode 0777"},
		"not writable":         {aStoreUser, func(string) error { return nil }, "permission denied"},
		"a full path":          {0, func(top string) error { return os.WriteFile(top+"/a/b/targets", nil, 0o600) }, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := programtest.PublicDir(t, 0o755)
			for _, err := range []error{os.MkdirAll(top+"/a/b", 0o755), c.make(top)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			file, _ := storeConfig(t, top+"/a/b")
			if c.user != 0 {
				if err := os.Chown(filepath.Dir(file), int(c.user), int(c.user)); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("timeout", "--signal=KILL", "60", public, "serve", "--config", file)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "[store]") || strings.Contains(string(out), "Listening") {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
}

// foreignLink makes the first level a symbolic link of another user's.
func foreignLink(top string) error {
	for _, err := range []error{os.Rename(top+"/a", top+"/real"), os.Symlink("real", top+"/a"), os.Lchown(top+"/a", aStoreUser, aStoreUser)} {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestServeOfAUser: the default directory, which only root may make, keeps no ordinary user from serving
// without files.
func TestServeOfAUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	self, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	dir := programtest.PublicDir(t, 0o755)
	if err := os.Chown(dir, aStoreUser, aStoreUser); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programtest.Copy(t, self, "ccmapd"), "serve")
	cmd.Env = append(os.Environ(), "CCMAPD_SOCKET="+filepath.Join(dir, "s.sock"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: aStoreUser, Gid: aStoreUser}}
	waitForLine(t, startWithLines(t, cmd), "Listening on ")
}
