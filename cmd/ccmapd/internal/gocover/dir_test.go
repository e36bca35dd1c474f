package gocover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReadDirKeepsProgramsApart: counters go to the program with their hash, and the
// data lists the files that cannot be read.
func TestReadDirKeepsProgramsApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two, third := small(ModeCount), small(ModeSet), small(ModeCount)
	two.Hash[0], third.Hash[0] = 200, 250
	write(t, dir, "covmeta.1", encodeMeta(one))
	write(t, dir, "covmeta.2", encodeMeta(two))
	write(t, dir, "covmeta.copy", encodeMeta(one))
	write(t, dir, "covmeta.cut", encodeMeta(one)[:100])
	write(t, dir, "covcounters.1.7.1", encodeCounters(one, encodings[0], []uint32{1, 2, 3, 4, 5, 6}))
	write(t, dir, "covcounters.1.7.2", encodeCounters(one, encodings[1], []uint32{1, 0, 0, 0, 0, 1}))
	write(t, dir, "covcounters.2.8.1", encodeCounters(two, encodings[0], []uint32{1, 1, 0, 0, 0, 1}))
	write(t, dir, "covcounters.3.9.1", encodeCounters(third, encodings[0], make([]uint32, 6)))
	write(t, dir, "other", nil)
	if err := syscall.Mkfifo(filepath.Join(dir, "covcounters.pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := ReadDir(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range d.Programs {
		got = append(got, fmt.Sprint(p.Mode, p.Runs, allCounts(p)))
	}
	if diff := cmp.Diff([]string{"count 2 [2 2 3 4 5 7]", "set 1 [1 1 0 0 0 1]"}, got); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
	wantIgnored(t, d.Ignored, "covmeta.copy: ", "covmeta.cut: ", "covcounters.3.9.1: ", "covcounters.pipe: ")
}

// TestMetaDataIsBounded: many files in a directory take bounded memory.
func TestMetaDataIsBounded(t *testing.T) {
	t.Parallel()
	one := encodeMeta(small(ModeCount))
	d := Data{metaSize: maxMetaSize - len(one), memory: memory{limit: 1 << 20}}
	if err := d.addProgram(one); err != nil {
		t.Errorf("the last that has room: %v", err)
	}
	if err := d.addProgram(one); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one more: %v, want %v", err, ErrTooLarge)
	}
}

// TestMemoryIsBounded: programs of all files share the memory, and a file that does not
// fit is an error, not ignored.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range byte(3) {
		p := small(ModeCount)
		p.Hash[0] = i
		for range 100 {
			p.Packages[0].Functions = append(p.Packages[0].Functions, Function{Name: "f", File: "f.go", Blocks: make([]Block, 100)})
		}
		write(t, dir, fmt.Sprintf("covmeta.%d", i), encodeMeta(p))
	}
	const blocks = 3 * 100 * 100 * 32 // bytes
	d, err := ReadDir(dir, 2*blocks)
	if err != nil || len(d.Programs) != 3 || len(d.Ignored) > 0 || d.Memory() < blocks || d.Memory() > 2*blocks {
		t.Fatalf("%+v, %v", d, err)
	}
	for _, little := range []int64{1, 10_000, blocks / 3, blocks, d.Memory()} {
		if _, err := ReadDir(dir, little); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "covmeta.") {
			t.Errorf("in %d bytes: %v", little, err)
		}
	}
	if counters := (&memory{limit: 10}); counters.reserve(3, 4) == nil || counters.reserve(2, 5) != nil || counters.reserve(1, 1) == nil {
		t.Errorf("%+v", counters)
	}
}

func wantIgnored(t *testing.T, got []error, prefixes ...string) {
	t.Helper()
	if len(got) != len(prefixes) {
		t.Fatalf("ignored %q, want %q", got, prefixes)
	}
	for i, prefix := range prefixes {
		if !strings.HasPrefix(got[i].Error(), prefix) {
			t.Errorf("ignored %q, want %s…", got[i], prefix)
		}
	}
}

func TestReadDirWithoutData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := ReadDir(dir, 1<<20); !errors.Is(err, ErrNoData) {
		t.Errorf("empty directory: %v", err)
	}
	write(t, dir, "covmeta.1", []byte("text"))
	if _, err := ReadDir(dir, 1<<20); !errors.Is(err, ErrNoData) || !errors.Is(err, ErrFormat) {
		t.Errorf("no meta-data: %v", err)
	}
	if _, err := ReadDir(filepath.Join(dir, "none"), 1<<20); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}
