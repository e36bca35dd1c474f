package rootfs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"pgregory.net/rapid"
)

func open(tb testing.TB, directory string) *FS {
	tb.Helper()
	f, err := Open(directory)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	return f
}

// TestNothingLeadsOut tries every operation on paths that leave the directory.
func TestNothingLeadsOut(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	inner := filepath.Join(outer, "inner")
	for _, name := range []string{inner, filepath.Join(outer, "secret")} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(outer, "secret", "file")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"up": "..", "file": "../secret/file", "absolute": secret, "chain": "up/secret", "new": "../new"}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(inner, name)); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, inner)
	before := listing(t, outer)
	for _, name := range []string{
		"../secret/file", "up/secret/file", "file", "absolute", "chain/file", "new", "up", "../../../../../../etc/passwd", "new/x",
	} {
		for what, errno := range attempts(f, name) {
			if errno == 0 {
				t.Errorf("%s %s succeeds", what, name)
			}
		}
	}
	if d := cmp.Diff(before, listing(t, outer)); d != "" {
		t.Errorf("files changed:\n%s", d)
	}
}

// attempts uses a path in all ways that follow its last component.
func attempts(f *FS, name string) map[string]experimental.Errno {
	errnos := make(map[string]experimental.Errno)
	for what, flags := range map[string]experimental.Oflag{
		"read": experimental.O_RDONLY, "write": experimental.O_RDWR, "create": experimental.O_RDWR | experimental.O_CREAT,
		"truncate": experimental.O_WRONLY | experimental.O_TRUNC, "list": experimental.O_DIRECTORY,
		"read link": experimental.O_NOFOLLOW,
	} {
		opened, errno := f.OpenFile(name, flags, 0o600)
		if errno == 0 {
			opened.Close()
		}
		errnos[what] = errno
	}
	_, errnos["stat"] = f.Stat(name)
	errnos["chmod"] = f.Chmod(name, 0o777)
	errnos["times"] = f.Utimens(name, 0, 0)
	errnos["make under"] = f.Mkdir(name+"/made", 0o777)
	errnos["rename into"] = f.Rename("up", name+"/moved")
	errnos["link to"] = f.Link(name+"/file", "linked")
	errnos["remove under"] = f.Unlink(name + "/file")
	return errnos
}

// TestReadOnlyChangesNothing opens a file in all ways that make or change one.
func TestReadOnlyChangesNothing(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "a"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := listing(t, directory)
	f := open(t, directory).ReadOnly()
	for _, flags := range []experimental.Oflag{
		experimental.O_CREAT, experimental.O_TRUNC, experimental.O_RDWR, experimental.O_WRONLY | experimental.O_APPEND,
		experimental.O_CREAT | experimental.O_EXCL | experimental.O_WRONLY,
	} {
		for _, name := range []string{"a", "b"} {
			if opened, errno := f.OpenFile(name, flags, 0o600); errno == 0 {
				opened.Close()
				t.Errorf("%s opens with %#x", name, flags)
			}
		}
	}
	opened, errno := f.OpenFile("a", experimental.O_RDONLY, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer opened.Close()
	if errno := opened.Truncate(0); errno == 0 {
		t.Error("truncated")
	}
	if d := cmp.Diff(before, listing(t, directory)); d != "" {
		t.Errorf("files changed:\n%s", d)
	}
}

func TestUnreadableDirectories(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, file + ".missing"} {
		if f, err := Open(name); err == nil {
			t.Errorf("%s opens as %v", name, f)
		}
	}
}

// TestLikeADirectoryMount does random operations inside two directories, one of this
// package and one of wazero, and compares the results.
func TestLikeADirectoryMount(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		var systems [2]experimental.FS
		var directories [2]string
		for i := range directories {
			directories[i] = filepath.Join(base, fmt.Sprint(runs, "-", i))
			if err := os.Mkdir(directories[i], 0o755); err != nil {
				t.Fatal(err)
			}
		}
		ours, err := Open(directories[0])
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		systems[0], systems[1] = ours, sysfs.DirFS(directories[1])
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			o := drawOperation(t)
			if d := cmp.Diff(o.on(systems[1]), o.on(systems[0])); d != "" {
				t.Fatalf("%+v: wazero's to ours:\n%s", o, d)
			}
		}
		if d := cmp.Diff(listing(t, directories[1]), listing(t, directories[0])); d != "" {
			t.Fatalf("wazero's to ours:\n%s", d)
		}
	})
}

// operation is an operation of a guest.
type operation struct {
	kind     string
	name, to string
	flags    experimental.Oflag
	text     string
	offset   int64
}

func drawOperation(t *rapid.T) operation {
	names := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/e", "d/e/a", "d/../a"})
	flags := rapid.SampledFrom([]experimental.Oflag{
		experimental.O_RDONLY, experimental.O_RDWR, experimental.O_RDWR | experimental.O_CREAT, experimental.O_RDWR | experimental.O_CREAT,
		experimental.O_WRONLY | experimental.O_CREAT | experimental.O_EXCL, experimental.O_RDWR | experimental.O_TRUNC,
		experimental.O_WRONLY | experimental.O_APPEND, experimental.O_DIRECTORY, experimental.O_NOFOLLOW,
	})
	kinds := []string{"open", "open", "open", "mkdir", "mkdir", "rename", "rmdir", "unlink", "link", "symlink", "readlink", "stat", "lstat", "chmod"}
	return operation{
		kind:   rapid.SampledFrom(kinds).Draw(t, "kind"),
		name:   names.Draw(t, "name"),
		to:     names.Draw(t, "to"),
		flags:  flags.Draw(t, "flags"),
		text:   rapid.StringN(0, 8, 8).Draw(t, "text"),
		offset: rapid.Int64Range(0, 12).Draw(t, "offset"),
	}
}

// outcome is the guest's view of an operation's result.
type outcome struct {
	Errnos []experimental.Errno
	Text   []string
}

func (o operation) on(f experimental.FS) (out outcome) {
	one := func(errno experimental.Errno) outcome { return outcome{Errnos: []experimental.Errno{errno}} }
	switch o.kind {
	case "open":
		return o.open(f)
	case "mkdir":
		return one(f.Mkdir(o.name, 0o755))
	case "rename":
		return one(f.Rename(o.name, o.to))
	case "rmdir":
		return one(f.Rmdir(o.name))
	case "unlink":
		return one(f.Unlink(o.name))
	case "link": // if both paths are wrong, either error is right
		errno := f.Link(o.name, o.to)
		return outcome{Text: []string{fmt.Sprint(errno == 0)}}
	case "symlink":
		return one(f.Symlink(filepath.Base(o.to), o.name))
	case "readlink":
		to, errno := f.Readlink(o.name)
		return outcome{[]experimental.Errno{errno}, []string{to}}
	case "stat":
		st, errno := f.Stat(o.name)
		return outcome{[]experimental.Errno{errno}, []string{st.Mode.String()}}
	case "lstat":
		st, errno := f.Lstat(o.name)
		return outcome{[]experimental.Errno{errno}, []string{st.Mode.String()}}
	}
	return one(f.Chmod(o.name, 0o700))
}

// open opens a file, and uses it in all ways.
func (o operation) open(f experimental.FS) (out outcome) {
	opened, errno := f.OpenFile(o.name, o.flags, 0o600)
	out.Errnos = append(out.Errnos, errno)
	if errno != 0 {
		return out
	}
	note := func(n int64, errno experimental.Errno) {
		out.Errnos, out.Text = append(out.Errnos, errno), append(out.Text, fmt.Sprint(n))
	}
	buf := make([]byte, 16)
	isDir, errno := opened.IsDir()
	note(0, errno)
	n, errno := opened.Write([]byte(o.text))
	note(int64(n), errno)
	if !opened.IsAppend() { // a guest cannot rely on the effect of Pwrite there
		n, errno = opened.Pwrite([]byte(o.text), o.offset)
		note(int64(n), errno)
	}
	n, errno = opened.Pread(buf, o.offset)
	note(int64(n), errno)
	note(opened.Seek(0, io.SeekStart))
	n, errno = opened.Read(buf)
	note(int64(n), errno)
	out.Text = append(out.Text, string(buf))
	if isDir {
		entries, errno := opened.Readdir(-1)
		note(int64(len(entries)), errno)
		slices.SortFunc(entries, func(a, b experimental.Dirent) int { return int(a.Name[0]) - int(b.Name[0]) })
		for _, e := range entries {
			out.Text = append(out.Text, e.Name, e.Type.String())
		}
	}
	note(0, opened.Truncate(o.offset/2))
	st, errno := opened.Stat()
	if isDir {
		st.Size = 0
	}
	note(st.Size, errno)
	note(0, opened.Close())
	_, errno = opened.Read(buf)
	note(0, errno)
	return out
}

// fataler is listing's part of a test, or of one of its random runs.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// listing returns all files below a directory with their modes and contents.
func listing(t fataler, directory string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(directory, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		said := info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			said += " " + string(content)
		}
		relative, err := filepath.Rel(directory, name)
		files[relative] = said
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTimesAndAppending(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir())
	opened, errno := f.OpenFile("a", experimental.O_RDWR|experimental.O_CREAT, 0o600)
	if errno != 0 {
		t.Fatal(errno)
	}
	defer opened.Close()
	const early, late = int64(1_000_000_007), int64(2_000_000_009)
	checkTimes(t, f, "both of the path", f.Utimens("a", early, late), early, late)
	checkTimes(t, f, "one of the path", f.Utimens("a", late, experimental.UTIME_OMIT), late, late)
	checkTimes(t, f, "one of the file", opened.Utimens(experimental.UTIME_OMIT, early), late, early)
	for _, appending := range []bool{true, false} {
		if errno := opened.SetAppend(appending); errno != 0 || opened.IsAppend() != appending {
			t.Errorf("set append to %v: %v, it is %v", appending, errno, opened.IsAppend())
		}
	}
}

func checkTimes(t *testing.T, f *FS, what string, errno experimental.Errno, atim, mtim int64) {
	t.Helper()
	st, failed := f.Stat("a")
	if errno != 0 || failed != 0 || st.Atim != atim || st.Mtim != mtim {
		t.Errorf("%s: %v, %v; times %d, %d, want %d, %d", what, errno, failed, st.Atim, st.Mtim, atim, mtim)
	}
}
