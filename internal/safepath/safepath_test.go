package safepath

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// other is another user, and the number of its group.
const other = 65529

// needRoot skips a test that gives files to another user.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root can give files away")
	}
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// tree makes the directories a/b/c, and returns the path of the first one.
func tree(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(top, "a/b/c"), 0o755))
	return top
}

// TestOpenDir: what others can do on any level is seen, and the error names the level and the cure.
func TestOpenDir(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for name, c := range map[string]struct {
		make func(top string) error
		want string // in the error; "": none
	}{
		"safe":          {func(string) error { return nil }, ""},
		"own group":     {func(top string) error { return os.Chmod(top+"/a/b", 0o775) }, ""},
		"foreign level": {func(top string) error { return os.Chown(top+"/a", other, 0) }, "/a is user 65529's"},
		"foreign last":  {func(top string) error { return os.Chown(top+"/a/b/c", other, 0) }, "/a/b/c is user 65529's"},
		"world":         {func(top string) error { return os.Chmod(top+"/a", 0o777) }, "/a has mode 0777"},
		"sticky level":  {func(top string) error { return os.Chmod(top+"/a", 0o777|os.ModeSticky) }, ""},
		"sticky last":   {func(top string) error { return os.Chmod(top+"/a/b/c", 0o777|os.ModeSticky) }, "/a/b/c has mode 1777"},
		"foreign in stick": {func(top string) error {
			return errors.Join(os.Chmod(top+"/a", 0o777|os.ModeSticky), os.Chown(top+"/a/b", other, 0))
		}, "/a/b is user 65529's"},
		"foreign sticky": {func(top string) error {
			return errors.Join(os.Chmod(top+"/a", 0o755|os.ModeSticky), os.Chown(top+"/a", other, 0))
		}, "/a is user 65529's"},
		"foreign group": {func(top string) error { return errors.Join(os.Chown(top+"/a", 0, other), os.Chmod(top+"/a", 0o775)) }, "/a has mode 0775 and group 65529"},
		"root's link":   {func(top string) error { return link(top, "/a", "real", 0) }, ""},
		"absolute link": {func(top string) error { return link(top, "/a", top+"/real", 0) }, ""},
		"up and down":   {func(top string) error { return link(top, "/a", "./b0/../real", 0, "b0") }, ""},
		"foreign link":  {func(top string) error { return link(top, "/a", "real", other) }, "/a is user 65529's"},
		"link to foreign": {func(top string) error {
			return errors.Join(link(top, "/a", "real", 0), os.Chown(top+"/real", other, 0))
		}, "/real is user 65529's"},
		"loop": {func(top string) error { return errors.Join(os.RemoveAll(top+"/a"), os.Symlink("a", top+"/a")) }, "too many levels"},
		"a file": {func(top string) error {
			return errors.Join(os.RemoveAll(top+"/a/b"), os.WriteFile(top+"/a/b", nil, 0o644))
		}, "not a directory"},
		"nothing": {func(top string) error { return os.RemoveAll(top + "/a/b") }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := tree(t)
			check(t, c.make(top))
			dir, err := OpenDir(top + "/a/b/c")
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				check(t, os.WriteFile(At(dir, "file"), nil, 0o600), dir.Close())
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if text, cured := advice.Of(err); errors.Is(err, ErrOthers) != cured || cured && text == "" {
				t.Errorf("%v has advice %q", err, text)
			}
		})
	}
}

// link makes a level a symbolic link of a user to what it was, which gets the name real.
func link(top, level, to string, owner int, dirs ...string) error {
	err := errors.Join(os.Rename(top+level, top+"/real"), os.Symlink(to, top+level), os.Lchown(top+level, owner, owner))
	for _, dir := range dirs {
		err = errors.Join(err, os.Mkdir(filepath.Join(top, dir), 0o755))
	}
	return err
}

// TestMakeDir: missing directories are made with their mode, below those that are safe alone.
func TestMakeDir(t *testing.T) {
	t.Parallel()
	top := tree(t)
	for range 2 {
		dir, err := MakeDir(top+"/a/new/x", 0o750)
		check(t, err)
		check(t, dir.Close())
	}
	for _, made := range []string{"/a/new", "/a/new/x"} {
		if info, err := os.Stat(top + made); err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("%s: %v, %v", made, info, err)
		}
	}
	check(t, os.Chmod(top+"/a", 0o777))
	if _, err := MakeDir(top+"/a/none", 0o750); !errors.Is(err, ErrOthers) {
		t.Errorf("below a directory of all: %v", err)
	}
	if _, err := os.Stat(top + "/a/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}

// TestOpenFile: a file is the one that was checked, and a regular one.
func TestOpenFile(t *testing.T) {
	t.Parallel()
	needRoot(t)
	top := tree(t)
	name := top + "/a/file"
	check(t, os.WriteFile(name, []byte("content"), 0o644), os.Chmod(top+"/a", 0o777|os.ModeSticky))
	f, err := OpenFile(name)
	check(t, err)
	content := make([]byte, 100)
	if n, err := f.Read(content); string(content[:n]) != "content" || err != nil {
		t.Errorf("%q, %v", content[:n], err)
	}
	check(t, f.Close())
	check(t, os.Chown(name, other, other))
	if _, err := OpenFile(name); !errors.Is(err, ErrOthers) {
		t.Errorf("another user's: %v", err)
	}
	check(t, os.Remove(name), unix.Mkfifo(name, 0o600))
	for _, name := range []string{name, top + "/a"} {
		if _, err := OpenFile(name); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAccessLists: the mode alone does not tell whom an access control list lets in.
func TestAccessLists(t *testing.T) {
	t.Parallel()
	top := tree(t)
	var list []byte // of the user, another one, the group, the mask, and all (linux/posix_acl_xattr.h)
	list = binary.LittleEndian.AppendUint32(list, 2)
	for _, e := range []struct {
		tag, may uint16
		id       uint32
	}{{1, 7, 1<<32 - 1}, {2, 7, other}, {4, 5, 1<<32 - 1}, {16, 7, 1<<32 - 1}, {32, 5, 1<<32 - 1}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.may)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	if err := unix.Setxattr(top+"/a/b", "system.posix_acl_access", list, 0); errors.Is(err, unix.ENOTSUP) {
		t.Skip("this file system has no access control lists")
	} else {
		check(t, err)
	}
	if _, err := OpenDir(top + "/a/b/c"); !errors.Is(err, ErrOthers) || !strings.Contains(err.Error(), "access control list") {
		t.Error(err)
	}
}

// TestBindMounts: of a mount, what it shows counts, not what it hides.
func TestBindMounts(t *testing.T) {
	t.Parallel()
	needRoot(t)
	top := tree(t)
	check(t, os.Mkdir(top+"/foreign", 0o755), os.Mkdir(top+"/own", 0o755), os.Chown(top+"/foreign", other, other))
	type answer struct{ foreign, own error }
	answers := make(chan answer, 1)
	fails := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and its mounts with it
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount(top+"/foreign", top+"/a/b", "", unix.MS_BIND, "")); err != nil {
			fails <- err
			return
		}
		var a answer
		_, a.foreign = MakeDir(top+"/a/b/new", 0o750)
		if err := unix.Mount(top+"/own", top+"/a/b", "", unix.MS_BIND, ""); err != nil {
			fails <- err
			return
		}
		_, a.own = MakeDir(top+"/a/b/new", 0o750)
		answers <- a
	}()
	select {
	case err := <-fails:
		t.Fatal(err)
	case a := <-answers:
		if !errors.Is(a.foreign, ErrOthers) || a.own != nil {
			t.Errorf("a foreign directory: %v, an own one: %v", a.foreign, a.own)
		}
	}
	if _, err := os.Stat(top + "/own/new"); err != nil {
		t.Error(err)
	}
}

// TestReplacedMeanwhile: while another user has a name lead to two places in turn, nothing is opened at the
// foreign one.
func TestReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	needRoot(t)
	top := tree(t)
	check(t, os.MkdirAll(top+"/elsewhere/c", 0o755), os.Symlink("elsewhere", top+"/lead"), os.Lchown(top+"/lead", other, other))
	var safe, foreign unix.Stat_t
	check(t, unix.Stat(top+"/a/b/c", &safe), unix.Stat(top+"/elsewhere/c", &foreign))
	done, swapped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				swapped <- nil
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, top+"/lead", unix.AT_FDCWD, top+"/a/b", unix.RENAME_EXCHANGE); err != nil {
				swapped <- err
				return
			}
		}
	}()
	opened := 0
	for range 3000 {
		dir, err := OpenDir(top + "/a/b/c")
		if err != nil {
			if !errors.Is(err, ErrOthers) {
				t.Error(err)
			}
			continue
		}
		opened++
		var is unix.Stat_t
		if err := unix.Fstat(int(dir.Fd()), &is); err != nil || is.Ino != safe.Ino {
			t.Errorf("inode %d of elsewhere (%d) was opened: %v", is.Ino, foreign.Ino, err)
		}
		dir.Close()
	}
	close(done)
	check(t, <-swapped)
	t.Logf("%d of 3000 were opened", opened)
}

// TestRelative: a path begins at the working directory, and its links are not cleaned away.
func TestRelative(t *testing.T) {
	top := tree(t)
	t.Chdir(top)
	check(t, os.MkdirAll(top+"/x/y", 0o755), os.Symlink("x/y", top+"/leads"))
	dir, err := MakeDir("leads/../made", 0o700)
	check(t, err)
	dir.Close()
	if _, err := os.Stat(top + "/x/made"); err != nil {
		t.Error(err)
	}
}
