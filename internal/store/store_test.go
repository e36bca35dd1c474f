package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/process"
)

var web = Key{Target: "web", Build: "0123456789abcdef", Owner: process.Owner{UID: 1000, GID: 1000, Traceable: true}}

// settled returns a profile that can become the best one.
func settled(samples int64) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	if err := m.Merge(profile(samples)); err != nil {
		panic(err)
	}
	m.Meta().Settled = ccmap.Settled{Edges: 99, Samples: samples}
	return m.Snapshot()
}

func fileAt(t *testing.T, s *Store, k Key, from time.Time, whole *ccmap.Snapshot) string {
	t.Helper()
	path, err := s.File(k, from, from.Add(time.Hour), whole)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A second process is refused, and told who has the store; the first goes on.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir})
	_, err := Open(Options{Dir: dir})
	hint, _ := advice.Of(err)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) || hint == "" {
		t.Errorf("error %v, hint %q", err, hint)
	}
	fileAt(t, s, web, day, profile(1))
	s.Close()
	mustOpen(t, Options{Dir: dir})
	stream := s.NewStream(web)
	_, err = s.File(web, day, day, profile(1))
	if err2 := s.Append(Frame{Stream: stream, Delta: profile(1)}); !errors.Is(err, fs.ErrClosed) || !errors.Is(err2, fs.ErrClosed) {
		t.Errorf("after Close: %v, %v", err, err2)
	}
}

func TestNewerVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/format", []byte("ccmapd store 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: dir})
	_, err2 := NewReader(dir)
	if hint, _ := advice.Of(err); !errors.Is(err, ErrNewer) || !errors.Is(err2, ErrNewer) || hint == "" {
		t.Errorf("errors %v, %v", err, err2)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 { // and the lock
		t.Errorf("%d names", len(entries))
	}
}

// A directory of another user is refused with a cure.
func TestOthersDirectories(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: dir})
	if hint, ok := advice.Of(err); !ok || err == nil {
		t.Errorf("error %v, hint %q", err, hint)
	}
}

// TestReadOnlyAndFull is of a mount of its own, as root may write to any directory.
func TestReadOnlyAndFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs -o size=256k,mode=755 none %s && exec %s -test.run='^TestOnTmpfs$' -test.v", dir, os.Args[0])
	cmd := exec.Command("unshare", "-m", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "CCMAPD_STORE_TMPFS="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOnTmpfs") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestOnTmpfs fills a disk: what was acknowledged stays, the rest is counted when there is room again. Then the disk
// turns read-only.
func TestOnTmpfs(t *testing.T) {
	mount := os.Getenv("CCMAPD_STORE_TMPFS")
	if mount == "" {
		t.Skip("it is a part of TestReadOnlyAndFull")
	}
	dir := filepath.Join(mount, "store")
	s := mustOpen(t, Options{Dir: dir})
	stream := s.NewStream(web)
	if err := s.Append(Frame{Stream: stream, From: day, To: day, Delta: profile(1)}); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(mount, "filler")
	for size := 1 << 18; size > 0; size /= 2 {
		f, err := os.OpenFile(filler, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		f.Write(make([]byte, size))
		f.Close()
	}
	failed := 0
	for range 100 { // the last page has room for some
		if err := s.Append(Frame{Stream: stream, From: day, To: day, Delta: profile(0)}); errors.Is(err, unix.ENOSPC) {
			failed++
		}
	}
	if _, err := s.File(web, day, day.Add(time.Hour), profile(1), stream); failed == 0 || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%d appends failed, file: %v", failed, err)
	}
	os.Remove(filler)
	if err := s.Append(Frame{Stream: stream, From: day, To: day, Delta: profile(2)}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = mustOpen(t, Options{Dir: dir})
	if r := only(t, s.Recovered()); r.Map.Snapshot().Total().Samples != 3 {
		t.Errorf("%d samples, want 3", r.Map.Snapshot().Total().Samples)
	}
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	} else if errors.Is(err, unix.EBUSY) { // the segment is open
		s.journal.Close()
		s.lock.Close()
		if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Append(Frame{Stream: stream, From: day, To: day, Delta: profile(2)}); !errors.Is(err, unix.EROFS) {
		t.Errorf("append: %v", err)
	}
	if _, err := s.File(web, day, day.Add(time.Hour), profile(3), stream); !errors.Is(err, unix.EROFS) {
		t.Errorf("file: %v", err)
	}
	s.lock.Close()
	_, err := Open(Options{Dir: dir})
	if hint, ok := advice.Of(err); !errors.Is(err, unix.EROFS) || !ok {
		t.Errorf("open: %v, hint %q", err, hint)
	}
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	if e := only(t, r.List(Filter{Running: true}).Entries); e.Kind != KindRunning {
		t.Errorf("%+v", e)
	}
}

// TestCloseUnlocks: a child holds the lock's file between its fork and the program that it executes.
func TestCloseUnlocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir})
	child, err := unix.Dup(int(s.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	s.Close()
	mustOpen(t, Options{Dir: dir}).Close()
}

// A damaged index is made anew; nothing depends on it.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir})
	fileAt(t, s, web, day, settled(100))
	fileAt(t, s, web, day.Add(time.Hour), settled(50))
	want := s.Reader().List(Filter{}).Entries
	s.Close()
	whole, err := os.ReadFile(dir + "/index")
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{nil, []byte("x"), whole[:len(whole)-1], slices.Concat(whole[:30], []byte{1}, whole[31:]), make([]byte, 100)} {
		if err := os.WriteFile(dir+"/index", damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, Options{Dir: dir})
		if l := s.Reader().List(Filter{}); len(l.Entries) != len(want) || l.Entries[0].Quality != nil {
			t.Errorf("%d entries, quality %v", len(l.Entries), l.Entries[0].Quality)
		}
		s.Retain(day)
		if diff := cmp.Diff(want, s.Reader().List(Filter{}).Entries, exported); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		s.Close()
	}
}

// Hostile names are counted and skipped, also pipes, which nobody may wait for, and links.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir})
	path := fileAt(t, s, web, day, profile(1))
	in := filepath.Dir(path)
	name := func(hour int) string {
		return filepath.Join(in, fileName{from: day.Add(time.Duration(hour) * time.Hour), to: day.Add(time.Duration(hour+1) * time.Hour), owner: process.Unowned}.String())
	}
	for i, err := range []error{
		unix.Mkfifo(name(1), 0o600),
		os.Symlink("/etc/passwd", name(2)),
		os.Mkdir(name(3), 0o700),
		os.WriteFile(filepath.Join(in, "core"), nil, 0o600),
		os.WriteFile(filepath.Join(in, "20261120T000000.000Z-x.json.zst"), nil, 0o600),
		os.WriteFile(filepath.Join(in, strings.TrimSuffix(filepath.Base(name(4)), ".json.zst")+".u01g1.json.zst"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "targets", "file"), nil, 0o600),
		os.Symlink("/", filepath.Join(dir, "targets", "link")),
		os.WriteFile(filepath.Join(dir, "targets", "web", "file"), nil, 0o600),
		unix.Mkfifo(filepath.Join(dir, "log", "0000000009-0011223344556677.seg"), 0o600),
	} {
		if errors.Is(err, fs.ErrNotExist) { // no log yet
			err = errors.Join(os.Mkdir(filepath.Join(dir, "log"), 0o700), unix.Mkfifo(filepath.Join(dir, "log", "0000000009-0011223344556677.seg"), 0o600))
		}
		if err != nil {
			t.Fatal(i, err)
		}
	}
	if err := os.WriteFile(name(5), []byte("no profile"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := s.Reader().List(Filter{Running: true})
	if periods := slices.DeleteFunc(slices.Clone(l.Entries), func(e Entry) bool { return e.Kind != KindPeriod }); len(periods) != 2 || l.Skipped != 9 || l.First == nil {
		t.Errorf("%d periods, %d skipped, first %v", len(periods), l.Skipped, l.First)
	}
	for _, e := range l.Entries {
		if _, err := s.Reader().Read(e); (err != nil) != (e.Path == name(5)) {
			t.Errorf("%s: %v", e.Path, err)
		}
	}
	s.Retain(day)
	if done, err := s.Compact(t.Context(), day.AddDate(0, 1, 0)); err != nil || done.Parts != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	s.Close()
	mustOpen(t, Options{Dir: dir})
}

// Files of earlier versions lie in the directory of their build: they are of CPU time, for masters alone.
func TestEarlierFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "targets", "web", "0123456789ab")
	if err := os.MkdirAll(old, 0o750); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		from := day.Add(time.Duration(i) * time.Hour)
		if err := export.WriteFile(filepath.Join(old, fileName{from: from, to: from.Add(time.Hour), owner: process.Unowned}.String()), profile(5)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries := r.List(Filter{Event: "cpu"}).Entries
	if len(entries) != 2 || entries[0].Owner != process.Unowned || entries[0].Build != "0123456789ab" {
		t.Errorf("%+v", entries)
	}
	s := mustOpen(t, Options{Dir: dir})
	if done, err := s.Compact(t.Context(), day.AddDate(0, 1, 0)); err != nil || done.Parts != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	e := only(t, r.List(Filter{}).Entries)
	if m, err := r.Read(e); err != nil || m.Snapshot().Total().Samples != 10 || e.Level != LevelDay {
		t.Errorf("%+v, error %v", e, err)
	}
}

// The names of files are read as they are written, and no others are.
func TestFileNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := func() time.Time { return time.UnixMilli(rapid.Int64Range(0, 1<<41).Draw(t, "time")).UTC() }
		n := fileName{best: rapid.Bool().Draw(t, "best"), owner: process.Unowned}
		if !n.best {
			n.from, n.to, n.level = at(), at(), Level(rapid.IntRange(0, 1).Draw(t, "level"))
		}
		if rapid.Bool().Draw(t, "owned") {
			n.owner = process.Owner{UID: rapid.IntRange(0, 1<<31-1).Draw(t, "uid"), GID: rapid.IntRange(0, 1<<31-1).Draw(t, "gid"), Traceable: true}
		}
		if got, ok := parseFileName(n.String()); !ok || got != n {
			t.Fatalf("%q: %+v", n, got)
		}
	})
}

func FuzzFileName(f *testing.F) {
	f.Add("best.u0g0.json.zst")
	f.Add("20261120T000000.000Z-20261120T010000.000Z.day.u1g2.json.zst")
	f.Fuzz(func(t *testing.T, name string) {
		if n, ok := parseFileName(name); ok && !isName(name) {
			t.Errorf("%+v", n)
		}
	})
}

func FuzzIndex(f *testing.F) {
	x := &index{files: map[string]indexed{"targets/a": {size: 1, unitBase: "bytes", quality: Quality{Samples: 3}}}}
	f.Add(x.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if files, err := parseIndex(b); err == nil {
			again, err := parseIndex((&index{files: files}).append(nil))
			if err != nil || len(again) != len(files) {
				t.Errorf("%d files, then %d, %v", len(files), len(again), err)
			}
		}
	})
}

func FuzzReference(f *testing.F) {
	f.Add("best:web@last-week")
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseReference(s); err == nil && r.String() != s && r.String()+"@" != s {
			t.Errorf("%q: %v", s, r)
		}
		ParseTime(s, day)
	})
}

// Events are names of directories.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, want string }{
		{"cpu", "cpu"}, {"alloc_space", "alloc_space"}, {"Wall-Clock", "wall_clock"}, {"../x", "___x"}, {"ü", "_"},
		{strings.Repeat("a", 99), strings.Repeat("a", 64)},
	} {
		if got := Event(ccmap.NewUnit(c.kind, "count")); got != c.want {
			t.Errorf("%q: %q, want %q", c.kind, got, c.want)
		}
	}
}

var exported = cmp.Exporter(func(reflect.Type) bool { return true })
