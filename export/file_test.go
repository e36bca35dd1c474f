package export

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
	for _, extension := range extensions {
		for _, compression := range []string{"", ".gz", ".zst"} {
			path := filepath.Join(dir, "demo"+extension.suffix+compression)
			if err := WriteFile(path, small().Snapshot()); err != nil {
				t.Fatal(err)
			}
			m, format, err := ReadFile(path, ReadOptions{})
			if err != nil || format != extension.format {
				t.Fatalf("%s: %v, %v", path, format, err)
			}
			want := small().Snapshot()
			if extension.suffix == pgoExtension {
				if want, err = ForPGO(want); err != nil {
					t.Fatal(err)
				}
			}
			if encode(t, format, m.Snapshot()) != encode(t, format, want) {
				t.Errorf("%s: not the same map", path)
			}
		}
	}
	wantNoTemp(t, dir)
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
		t.Skipf("mount a small disk: %v (needs root)", err)
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
	for format := range encoders {
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
