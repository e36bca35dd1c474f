package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/terminal"
)

func profile() *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	m.Add(m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.main"})), ccmap.Counters{Samples: 3, Time: 30})
	return m.Snapshot()
}

// samplesIn reads a profile, and returns its format and its samples.
func samplesIn(t *testing.T, path string) (export.Format, int64) {
	t.Helper()
	m, format, err := export.ReadFile(path, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return format, m.Snapshot().Total().Samples
}

// stream makes a named pipe, which has no format by its name.
func stream(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkRefused holds that an error is one of the command line, with these words.
func checkRefused(t *testing.T, err error, want string) {
	t.Helper()
	if advice.CodeOf(err) != advice.CodeCommandLine || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error of the command line: %s", err, want)
	}
}

// TestNewRefuses: an output without a format, or with two, is refused.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path   string
		format export.Format
		want   string
	}{
		{"-", 0, "standard output has no name that gives a format: say --to " + terminal.OrList(export.Formats())},
		{"/dev/stdout", 0, "standard output has no name that gives a format"},
		{"/dev/null", 0, "/dev/null has no name that gives a format"},
		{stream(t), 0, "pipe has no name that gives a format"},
		{"a.xml", export.JSON, "--to json is for standard output: the name of a.xml gives its format"},
		{"a.txt", 0, "output a.txt: "},
		{"/dev/fd/999", export.XML, "ccmapd was started without a descriptor 999"},
	} {
		_, err := New(test.path, test.format, &bytes.Buffer{})
		checkRefused(t, err, test.want)
	}
}

// TestNewWrites: each kind of output gets the profile in its format.
func TestNewWrites(t *testing.T) {
	t.Parallel()
	file, pipe := filepath.Join(t.TempDir(), "a.json.zst"), stream(t)
	var stdout bytes.Buffer
	received := make(chan []byte)
	go func() {
		data, _ := os.ReadFile(pipe) // an error fails the comparison below
		received <- data
	}()
	for _, test := range []struct {
		path       string
		to, format export.Format
	}{
		{file, 0, export.JSON},
		{StdPath, export.XML, export.XML},
		{pipe, export.Folded, export.Folded},
	} {
		o, err := New(test.path, test.to, &stdout)
		if err != nil || o.Format() != test.format {
			t.Fatalf("%s: %v, format %v", test.path, err, o.Format())
		}
		if err := o.Write(profile()); err != nil {
			t.Fatal(err)
		}
	}
	if format, samples := samplesIn(t, file); format != export.JSON || samples != 3 {
		t.Errorf("the file has %d samples as %v", samples, format)
	}
	if _, format, err := export.Read(&stdout, export.ReadOptions{}); err != nil || format != export.XML {
		t.Errorf("standard output has %v, %v", format, err)
	}
	if got := string(<-received); got != "main.main+? 30\n" {
		t.Errorf("the pipe got %q", got)
	}
}

// TestOf: the pid replaces its mark, and streams have the session's format.
func TestOf(t *testing.T) {
	t.Parallel()
	pipe := stream(t)
	for _, test := range []struct {
		pattern, path string
		format        export.Format
	}{
		{"run-%p.xml", "run-42.xml", export.XML},
		{Default, "ccmapd-42.pb.gz", export.Pprof},
		{StdPath, Stdout, export.Folded},
		{pipe, pipe, export.Folded},
	} {
		o := Of(test.pattern, 42, export.Folded, &bytes.Buffer{})
		if o.Path != test.path || o.Format() != test.format {
			t.Errorf("%s: path %s, format %v", test.pattern, o.Path, o.Format())
		}
	}
}

// TestCheck: outputs are refused before a session, not after it.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(in("folder.xml"), 0o700), os.WriteFile(in("file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		patterns []string
		want     string
	}{
		{[]string{""}, "--output names no file"},
		{[]string{"-", "a.txt"}, "output a.txt: "},
		{[]string{in("a.xml"), in("./a.xml")}, "is named twice"},
		{[]string{"-", "/dev/stdout"}, "output /dev/stdout is named twice"},
		{[]string{in("folder.xml")}, "folder.xml is a directory"},
		{[]string{in("file/a.xml")}, "file is not a directory"},
		{[]string{"/dev/fd/999"}, "without a descriptor 999"},
	} {
		checkRefused(t, Check(test.patterns), test.want)
	}
	err := Check([]string{in("missing/a.xml")})
	if tip, _ := advice.Of(err); !errors.Is(err, fs.ErrNotExist) || tip != "Make the directory first." {
		t.Errorf("a missing directory: %v, advice %q", err, tip)
	}
	if err := Check([]string{in("a.xml"), in("%p/a.xml"), in("a.pb.gz"), "-", stream(t)}); err != nil {
		t.Errorf("good outputs are refused: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("Check left something: %v, %v", left, err)
	}
}

// TestExplain: the advice fits the cause, and a missing right has its code.
func TestExplain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cause  error
		denied bool
		advice string
	}{
		{export.ErrForeignPipe, true, "Choose another name or"},
		{syscall.EACCES, true, "Choose a directory that you may write to."},
		{syscall.EROFS, true, "Choose a directory that you may write to."},
		{syscall.ENOENT, false, "Make the directory first."},
		{syscall.EEXIST, false, "A directory has that name"},
		{syscall.ENOSPC, false, "The device is full"},
		{syscall.EDQUOT, false, "The device is full"},
		{syscall.EIO, false, ""},
	} {
		err := Explain(fmt.Errorf("write: %w", test.cause))
		tip, _ := advice.Of(err)
		if !errors.Is(err, test.cause) || (advice.CodeOf(err) == advice.CodeNotPermitted) != test.denied || !strings.HasPrefix(tip, test.advice) || tip == "" != (test.advice == "") {
			t.Errorf("%v: code %q, advice %q", err, advice.CodeOf(err), tip)
		}
	}
	if err := Explain(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// TestWriteTemp: a profile that has no other place is kept, for its user only.
func TestWriteTemp(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path, err := WriteTemp(profile(), 42)
	if err != nil {
		t.Fatal(err)
	}
	if _, samples := samplesIn(t, path); samples != 3 || filepath.Base(path) != "ccmapd-42.pb.gz" {
		t.Errorf("%s has %d samples", path, samples)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info, err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	if _, err := WriteTemp(profile(), 42); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

// TestBeside: the profile of a further program has a name of its own, in the same directory and
// format, whatever the program is named.
func TestBeside(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ pattern, name, want string }{
		{"web.pb.gz", "worker", "web.worker-%p.pb.gz"},
		{"a.b/web.v2.json.zst", "worker", "a.b/web.v2.worker-%p.json.zst"},
		{"web-%p.xml", "worker", "web-%p.xml"},
		{"web.folded", "../../x\x1b[31m y", "web.______x__31m_y-%p.folded"},
		{"web.folded", "", "web.-%p.folded"},
	} {
		got := Beside(test.pattern, test.name)
		if got != test.want {
			t.Errorf("%s beside %s: %s, want %s", test.name, test.pattern, got, test.want)
		}
		if _, _, err := export.FormatOf(got); err != nil || filepath.Dir(got) != filepath.Dir(test.pattern) {
			t.Errorf("%s: %v", got, err)
		}
	}
}
