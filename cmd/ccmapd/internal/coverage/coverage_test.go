package coverage

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/gocover"
	"github.com/ccmapd/ccmapd/export"
)

// program returns a program of one package and one file.
func program(file string, functions ...gocover.Function) *gocover.Program {
	for i := range functions {
		functions[i].File = file
	}
	return &gocover.Program{Mode: gocover.ModeCount, Runs: 1, Packages: []gocover.Package{
		{Path: "example.com/m", Name: "main", Module: "example.com/m", Functions: functions},
	}}
}

// block returns a block on some lines.
func block(first, last uint32, count uint64) gocover.Block {
	return gocover.Block{Start: gocover.Position{Line: first, Column: 1}, End: gocover.Position{Line: last, Column: 2}, Count: count}
}

// TestImportKeepsProgramsApart: functions of one name in two programs are two
// functions; those of one place are one.
func TestImportKeepsProgramsApart(t *testing.T) {
	t.Parallel()
	shared := gocover.Function{Name: "shared", Line: 50, Blocks: []gocover.Block{block(50, 52, 4)}}
	main := gocover.Function{Name: "main", Line: 10, Blocks: []gocover.Block{block(10, 12, 1)}}
	m := ccmap.New(ccmap.Options{})
	stats, err := Import(m, []*gocover.Program{
		program("example.com/m/a/main.go", main),
		program("example.com/m/b/main.go", main),
		program("example.com/m/lib.go", shared),
		program("example.com/m/lib.go", shared),
	}, "", unlimited)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"main.main"}, stats.conflicts); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	got := make(map[string]int64)
	for _, p := range m.Snapshot().Points() {
		got[m.Names().At(p.Method).Name] += p.Count
	}
	if diff := cmp.Diff(map[string]int64{"main.main": 1, "main.shared": 8}, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// TestImportOfBlocksOnOneLine: what shares its lines counts as often as the most
// frequent of it.
func TestImportOfBlocksOnOneLine(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	_, err := Import(m, []*gocover.Program{program("f.go", gocover.Function{
		Name: "f", Line: 5, Blocks: []gocover.Block{block(5, 5, 10), block(5, 5, 30), block(5, 6, 7), block(5, 5, 20)},
	})}, "", unlimited)
	if err != nil {
		t.Fatal(err)
	}
	want := []ccmap.Point{
		{Origin: ccmap.OriginImported, Kind: ccmap.PointBlock, Method: ccmap.FirstID, Count: 30, Nulls: ccmap.NullsUnknown},
		{Origin: ccmap.OriginImported, Kind: ccmap.PointBlock, Method: ccmap.FirstID, End: 1, Count: 7, Nulls: ccmap.NullsUnknown},
	}
	if diff := cmp.Diff(want, m.Snapshot().Points()); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

// TestImportOfAnyNumbers: whatever lines and counts a file has, the map is valid, and
// the same when it is read again.
func TestImportOfAnyNumbers(t *testing.T) {
	t.Parallel()
	var blocks []gocover.Block
	for _, line := range []uint32{0, 1, 1 << 20, math.MaxInt32, math.MaxUint32} {
		blocks = append(blocks, block(line, 7, math.MaxUint64), block(7, line, 1))
	}
	f := gocover.Function{Name: "f", Line: math.MaxUint32, Blocks: blocks}
	f.Branches = []gocover.Branch{{Taken: math.MaxUint64, Untaken: math.MaxUint64}}
	f.Switches = []gocover.Switch{{Cases: []gocover.Case{{Line: 0, Count: 1}, {Line: math.MaxUint32, Count: 2}}, None: math.MaxUint64}}
	m := ccmap.New(ccmap.Options{})
	if _, err := Import(m, []*gocover.Program{program("", f), program("f.go", f)}, "/nowhere", unlimited); err != nil {
		t.Fatal(err)
	}
	if err := m.CheckValid(); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := export.Write(&file, export.JSON, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	again, _, err := export.Read(&file, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Snapshot().Points(), again.Snapshot().Points()); diff != "" {
		t.Errorf("points (-written +read):\n%s", diff)
	}
}

// TestIgnoredFilesAreFew: a directory full of other files does not fill the screen.
func TestIgnoredFilesAreFew(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, maxIgnored: maxIgnored, 3000: maxIgnored + 1} {
		var out bytes.Buffer
		if err := ReportIgnored(&out, slices.Repeat([]error{errors.New("bad")}, n)); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(out.Bytes(), []byte("\n")); got != want {
			t.Errorf("%d files: %d lines, want %d:\n%s", n, got, want, out.Bytes())
		}
	}
}

func unlimited() int64 { return math.MaxInt64 }

// TestImportIsBounded: points and sources take from the memory that there is.
func TestImportIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "package a\n\nfunc f() {" + strings.Repeat("f();", 10_000) + "}\n"
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	blocks := make([]gocover.Block, 10_000)
	for i := range blocks {
		blocks[i] = block(uint32(i), uint32(i), 1)
	}
	for name, test := range map[string]struct {
		blocks []gocover.Block
		source string
		memory int64
		fits   bool
	}{
		"many blocks":     {blocks, "", 8 << 20, false},
		"blocks that fit": {blocks, "", 80 << 20, true},
		"a large source":  {blocks[:1], dir, 3 << 20, false},
		"one that fits":   {blocks[:1], dir, 40 << 20, true},
	} {
		f := gocover.Function{Name: "f", Line: 1, Blocks: test.blocks}
		spare := func() int64 { return test.memory }
		_, err := Import(ccmap.New(ccmap.Options{}), []*gocover.Program{program("a.go", f)}, test.source, spare)
		if test.fits && err != nil || !test.fits && !errors.Is(err, gocover.ErrMemory) {
			t.Errorf("%s in %d bytes: %v", name, test.memory, err)
		}
	}
}
