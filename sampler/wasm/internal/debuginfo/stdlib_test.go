package debuginfo

import (
	"debug/dwarf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// wellFormed returns modules of several compilers, with DWARF of versions 2 to 5.
func wellFormed(tb testing.TB) []string {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		tb.Fatal(err)
	}
	guests := filepath.Join(strings.TrimSpace(string(out)), "internal/testing/dwarftestdata/testdata")
	return []string{
		"../symbols/testdata/dwarf4.wasm", "../symbols/testdata/dwarf5.wasm",
		filepath.Join(guests, "tinygo/main.wasm"), filepath.Join(guests, "zig/main.wasm"), filepath.Join(guests, "zig-cc/main.wasm"),
	}
}

// sectionsOf returns the sections of a module's DWARF.
func sectionsOf(tb testing.TB, path string) Sections {
	tb.Helper()
	module, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	s := Sections{}
	for r := format.Open(module); r.More(); {
		section := r.Section()
		if section.ID != format.SectionCustom {
			continue
		}
		if name, found := strings.CutPrefix(string(section.Vector()), Prefix); found {
			s[name] = section.Data[section.At:]
		}
	}
	return s
}

func (s Sections) size() int {
	n := 0
	for _, content := range s {
		n += len(content)
	}
	return n
}

// open reads sections with a budget that fits them.
func open(s Sections) *Data { return New(s, NewBudget(s.size())) }

// peerOf returns the reader of the standard library.
func peerOf(tb testing.TB, s Sections) *dwarf.Data {
	tb.Helper()
	d, err := dwarf.New(s["abbrev"], nil, nil, s["info"], s["line"], nil, s["ranges"], s["str"])
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range []string{"addr", "line_str", "rnglists", "str_offsets"} {
		if err := d.AddSection(Prefix+name, s[name]); err != nil {
			tb.Fatal(err)
		}
	}
	return d
}

// peerAttributes are the attributes whose numbers are compared.
var peerAttributes = map[Attribute]dwarf.Attr{
	StmtList: dwarf.AttrStmtList, AddrBase: dwarf.AttrAddrBase, StrOffsetsBase: dwarf.AttrStrOffsetsBase,
	RnglistsBase: dwarf.AttrRnglistsBase, DeclFile: dwarf.AttrDeclFile, DeclLine: dwarf.AttrDeclLine,
	CallFile: dwarf.AttrCallFile, CallLine: dwarf.AttrCallLine, CallColumn: dwarf.AttrCallColumn,
}

// TestAgainstStandardLibrary compares entries, ranges, rows and file names of well-formed
// modules with debug/dwarf.
func TestAgainstStandardLibrary(t *testing.T) {
	t.Parallel()
	for _, path := range wellFormed(t) {
		s := sectionsOf(t, path)
		ours, peer := open(s), peerOf(t, s)
		r := peer.Reader()
		entries := 0
		for _, u := range ours.Units() {
			for e := range ours.Entries(u) {
				entries++
				want, err := r.Next()
				if err != nil || want == nil {
					t.Fatalf("%s: entry %#x: %v", path, e.Offset, err)
				}
				compareEntry(t, want, e)
				compareRanges(t, peer, ours, want, u, e)
			}
			compareRows(t, peer, ours, u)
		}
		if rest, err := r.Next(); entries < 10 || rest != nil || err != nil {
			t.Errorf("%s: after %d entries: %v, %v", path, entries, rest, err)
		}
	}
}

func compareEntry(t *testing.T, want *dwarf.Entry, got *Entry) {
	t.Helper()
	if want.Tag == 0 && got.Tag == 0 {
		return
	}
	if uint64(want.Offset) != got.Offset || uint32(want.Tag) != uint32(got.Tag) || want.Children != got.Children {
		t.Fatalf("entry %+v, want %v", got, want)
	}
	for ours, theirs := range peerAttributes {
		if n, ok := want.Val(theirs).(int64); ok && got.Number(ours) != n || !ok && got.Has(ours) {
			t.Errorf("%v of entry %#x is %d, want %d", theirs, got.Offset, got.Number(ours), n)
		}
	}
	for ours, theirs := range map[Attribute]dwarf.Attr{AbstractOrigin: dwarf.AttrAbstractOrigin, Specification: dwarf.AttrSpecification} {
		if offset, ok := got.Reference(ours); ok != (want.Val(theirs) != nil) || ok && dwarf.Offset(offset) != want.Val(theirs) {
			t.Errorf("%v of entry %#x is %#x, %v, want %v", theirs, got.Offset, offset, ok, want.Val(theirs))
		}
	}
}

func compareRanges(t *testing.T, peer *dwarf.Data, ours *Data, theirs *dwarf.Entry, u *Unit, e *Entry) {
	t.Helper()
	want, err := peer.Ranges(theirs)
	var got [][2]uint64
	for _, r := range ours.AppendRanges(nil, u, e) {
		got = append(got, [2]uint64{r.Low, r.High})
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("entry at %#x: ranges %x, want %x, %v", e.Offset, got, want, err)
	}
}

// namedRow is a row with its file's path.
type namedRow struct {
	Address      uint64
	Line, Column int
	File         string
	End          bool
}

func compareRows(t *testing.T, peer *dwarf.Data, ours *Data, u *Unit) {
	t.Helper()
	r := peer.Reader()
	r.Seek(dwarf.Offset(u.first))
	root, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	lines, err := peer.LineReader(root)
	if err != nil || lines == nil {
		t.Fatalf("no lines: %v", err)
	}
	var want, got []namedRow
	for entry := (dwarf.LineEntry{}); lines.Next(&entry) == nil; {
		want = append(want, namedRow{entry.Address, entry.Line, entry.Column, base(entry.File.Name), entry.EndSequence})
	}
	table, ok := ours.Lines(u)
	if !ok {
		t.Fatalf("unit at %#x: no lines", u.first)
	}
	if err := table.EachRow(func(r *Row) {
		got = append(got, namedRow{r.Address, int(r.Line), int(r.Column), base(ours.FileName(u, int64(r.File))), r.End})
	}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unit at %#x (-debug/dwarf +ours):\n%s", u.first, diff)
	}
}

// base is the last element of a path: debug/dwarf does not make paths of version 5 absolute.
func base(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
