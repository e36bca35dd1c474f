package export

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestFormatOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		format      Format
		compression Compression
	}{
		"a.pb.gz":         {Pprof, Gzip},
		"dir.xml/a.pb":    {Pprof, Plain},
		"cpu.pprof":       {Pprof, Plain},
		"a.xml":           {XML, Plain},
		"a.b.json.zst":    {JSON, Zstd},
		"a.folded":        {Folded, Plain},
		"a.folded.txt.gz": {Folded, Gzip},
	} {
		format, compression, err := FormatOf(path)
		if err != nil || format != want.format || compression != want.compression {
			t.Errorf("FormatOf(%q) = %v, %v, %v", path, format, compression, err)
		}
	}
	for _, path := range []string{"", "-", "a", "a.gz", "a.txt", "/dev/stdout", "/dev/full", "a.XML"} {
		if format, _, err := FormatOf(path); !errors.Is(err, ErrFormat) {
			t.Errorf("FormatOf(%q) = %v, %v", path, format, err)
		}
	}
}

func TestWriteFileReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, want := range Formats() {
		for _, extension := range want.Extensions() {
			for _, compression := range []string{"", ".gz", ".zst"} {
				checkWriteFile(t, filepath.Join(dir, "demo"+extension+compression), want)
			}
		}
	}
	wantNoTemp(t, dir)
}

// checkWriteFile writes a file and reads it.
func checkWriteFile(t *testing.T, path string, want Format) {
	t.Helper()
	if err := WriteFile(path, small().Snapshot()); err != nil {
		t.Fatal(err)
	}
	m, format, err := ReadFile(path, ReadOptions{})
	if err != nil || format != want {
		t.Fatalf("%s: %v, %v", path, format, err)
	}
	written := small().Snapshot()
	if IsPGO(path) {
		if written, err = ForPGO(written); err != nil {
			t.Fatal(err)
		}
	}
	if encode(t, format, m.Snapshot()) != encode(t, format, written) {
		t.Errorf("%s: not the same map", path)
	}
}

// wantNoTemp fails if a temporary file is left.
func wantNoTemp(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".ccmapd-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWriteFileReplaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	link := filepath.Join(dir, "demo.xml")
	if err := errors.Join(os.WriteFile(target, []byte("keep"), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, small().Snapshot()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || !info.Mode().IsRegular() {
		t.Errorf("link is now %v, %v", info.Mode(), err)
	}
	if kept, _ := os.ReadFile(target); string(kept) != "keep" {
		t.Errorf("the link was followed: %q", kept)
	}
}

func TestWriteFileErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	occupied := filepath.Join(dir, "demo.json")
	if err := os.Mkdir(occupied, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "none", "demo.xml"): os.ErrNotExist,
		occupied:                               os.ErrExist,
		filepath.Join(dir, "demo.txt"):         ErrFormat,
	} {
		err := WriteFile(path, small().Snapshot())
		if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "write "+path+": ") {
			t.Errorf("WriteFile(%q): %v, want %v", path, err, want)
		}
	}
	wantNoTemp(t, dir)
}

// A disk that is full leaves the old file, no other, and an error that says so.
func TestWriteFileOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		testrun.Lacks(t, "mount a small disk: %v (needs root)", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	path := filepath.Join(dir, "demo.xml")
	if err := WriteFile(path, small().Snapshot()); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, chain(10_000).Snapshot())
	if !errors.Is(err, unix.ENOSPC) || !strings.HasPrefix(err.Error(), "write "+path+": ") {
		t.Errorf("got %v", err)
	}
	if m, _, err := ReadFile(path, ReadOptions{}); err != nil || m.Len() != small().Len() {
		t.Errorf("the file that stood there: %v", err)
	}
	wantNoTemp(t, dir)
}

// Each format and compression reports what its device reports.
func TestWriteToFullDevice(t *testing.T) {
	t.Parallel()
	for _, format := range Formats() {
		for _, compression := range []Compression{Plain, Gzip, Zstd} {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skip(err)
			}
			defer full.Close()
			if err := writeCompressed(full, format, compression, small().Snapshot()); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("%v, compression %d: %v", format, compression, err)
			}
		}
	}
}

func TestReadFileErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.xml")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "none"): os.ErrNotExist,
		empty:                      ErrEmpty,
		dir:                        unix.EISDIR,
	} {
		if _, _, err := ReadFile(path, ReadOptions{}); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("ReadFile(%q): %v, want %v", path, err, want)
		}
	}
}

// readLater reads a file to its end beside the test.
func readLater(open func() (*os.File, error)) <-chan string {
	got := make(chan string, 1)
	go func() {
		f, err := open()
		if err != nil {
			got <- err.Error()
			return
		}
		defer f.Close()
		text, _ := io.ReadAll(f)
		got <- string(text)
	}()
	return got
}

func TestWriteFileToPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe.xml")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	got := readLater(func() (*os.File, error) { return os.Open(path) })
	writeSmall(t, path)
	if want := encode(t, XML, small().Snapshot()); <-got != want {
		t.Error("the reader of the pipe got another text")
	}
	if mode, _, _ := status(t, path); mode&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is now %v", mode)
	}
}

// TestWriteFileToDevice: a device is not replaced, nor is a link of this user to one.
func TestWriteFileToDevice(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "nothing.xml")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	writeSmall(t, link)
	if mode, _, _ := status(t, link); mode&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v", mode)
	}
	if err := WriteFileAs(os.DevNull, XML, small().Snapshot()); err != nil {
		t.Error(err)
	}
	if err := WriteFileAs("/dev/full", XML, small().Snapshot()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

// TestWriteFileToDescriptor: a descriptor that the process was started with is written
// to as it is, its own ones are not.
func TestWriteFileToDescriptor(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	path := "/dev/fd/" + strconv.Itoa(int(w.Fd()))
	if IsStream(path) {
		t.Error("a descriptor of the process's own is a stream")
	}
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETFD, 0); err != nil { // as one that was inherited
		t.Fatal(err)
	}
	got := readLater(func() (*os.File, error) { return r, nil })
	err = WriteFileAs(path, JSON, small().Snapshot())
	w.Close()
	if want := encode(t, JSON, small().Snapshot()); err != nil || <-got != want {
		t.Errorf("the reader of the pipe got another text; %v", err)
	}
}

func TestForeignPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(sharedDir(t), "pipe.xml")
	if err := errors.Join(unix.Mkfifo(path, 0o666), os.Chown(path, 60001, 60001)); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, small().Snapshot())
	if !errors.Is(err, ErrForeignPipe) || !strings.HasPrefix(err.Error(), "write "+path+": ") {
		t.Errorf("got %v", err)
	}
}
