package symbols

import (
	"debug/dwarf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Our ranges, lines and names of files are those of debug/dwarf, which reads well-formed
// ones.
func TestLinesAgainstStandardLibrary(t *testing.T) {
	t.Parallel()
	guests := filepath.Join(wazero(t), "internal/testing/dwarftestdata/testdata")
	for _, path := range []string{
		"testdata/dwarf4.wasm", "testdata/dwarf5.wasm",
		filepath.Join(guests, "tinygo/main.wasm"), filepath.Join(guests, "zig/main.wasm"), filepath.Join(guests, "zig-cc/main.wasm"),
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		l := mustRead(t, data).lines
		l.open()
		comparePeerRanges(t, path, l)
		for _, u := range l.units {
			ours := namedRows(l.load(u))
			if diff := gocmp.Diff(peerRows(t, l, u), ours); diff != "" {
				t.Errorf("%s, unit at %#x (-debug/dwarf +ours):\n%s", path, u.first, diff)
			}
		}
	}
}

// comparePeerRanges compares those of all entries, with what the linker has dropped.
func comparePeerRanges(t *testing.T, path string, l *lineInfo) {
	t.Helper()
	data := withLines(t, l)
	for _, u := range l.units {
		r := l.data.Reader()
		r.Seek(u.first)
		for e, _ := r.Next(); e != nil && e.Offset < u.end; e, _ = r.Next() {
			want, err := data.Ranges(e)
			if got := append(oneRange(e), l.rangeList(e, u)...); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, entry at %#x: ranges %x, want %x, %v", path, e.Offset, got, want, err)
			}
		}
	}
}

// namedRow is a row with the base name of its file.
type namedRow struct {
	Address uint64
	Line    int
	File    string
	End     bool
}

func namedRows(u *unit) []namedRow {
	var rows []namedRow
	for _, r := range u.lines.rows {
		n := namedRow{Address: uint64(r.address), Line: int(r.line), End: r.line == 0}
		if r.line > 0 {
			n.File = filepath.Base(u.lines.fileName(int64(r.file), u.directory))
		}
		rows = append(rows, n)
	}
	return rows
}

// peerRows returns the rows of code that was linked and is on a line, sorted as ours are.
func peerRows(t *testing.T, l *lineInfo, u *unit) []namedRow {
	t.Helper()
	r := l.data.Reader()
	r.Seek(u.first)
	e, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	data := withLines(t, l)
	lines, err := data.LineReader(e)
	if err != nil || lines == nil {
		t.Fatalf("unit at %#x has no lines: %v", u.first, err)
	}
	var rows, sequence []namedRow
	var entry dwarf.LineEntry
	for lines.Next(&entry) == nil {
		n := namedRow{Address: entry.Address, Line: entry.Line, End: entry.EndSequence}
		if n.End {
			n.Line = 0
		}
		if n.Line > 0 {
			n.File = filepath.Base(entry.File.Name)
		}
		if sequence = append(sequence, n); !n.End {
			continue
		}
		if first := sequence[0].Address; first > 0 && first < n.Address && n.Address <= l.code {
			rows = append(rows, sequence...)
		}
		sequence = nil
	}
	slices.SortStableFunc(rows, func(a, b namedRow) int {
		return compareRows(row{address: uint32(a.Address), line: int32(a.Line)}, row{address: uint32(b.Address), line: int32(b.Line)})
	})
	return slices.DeleteFunc(rows, func(r namedRow) bool { return r.Line == 0 && !r.End })
}

// withLines returns the DWARF with the lines and ranges, which debug/dwarf is not given
// otherwise.
func withLines(t *testing.T, l *lineInfo) *dwarf.Data {
	t.Helper()
	s := l.sections
	data, err := dwarf.New(s["abbrev"], nil, nil, s["info"], s["line"], nil, s["ranges"], s["str"])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"addr", "line_str", "rnglists", "str_offsets"} {
		if err := data.AddSection(debugPrefix+name, s[name]); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// A header may claim any number of files: what is not there takes no memory.
func TestLineTableOfManyFiles(t *testing.T) {
	t.Parallel()
	const huge = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
	for name, files := range map[string]string{
		"of no bytes":  "\x00" + huge + "\x00" + huge,
		"of one form":  "\x01\x01\x1f" + huge + "\x01\x01\x08" + huge,
		"of no form":   "\x01\x01\x77" + huge,
		"without end":  "\x01\x01\x08" + "\x03abc",
		"of no format": "\xff",
	} {
		header := "\x01\x01\x01\xfb\x0e\x01" + files
		unit := "\x05\x00\x04\x00" + word(len(header)) + header
		m := &meter{1 << 20}
		table := newLineTable([]byte(word(len(unit))+unit), debugSections{}, m)
		if len(table.files)+len(table.dirs) > len(unit) {
			t.Errorf("%s: %d files and %d directories in %d bytes", name, len(table.files), len(table.dirs), len(unit))
		}
		table.readRows(m, 100)
	}
}

// word returns 32 bits.
func word(n int) string { return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}) }

func TestRefusedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	table := "\x01\x11\x01" + strings.Repeat("\x03\x08", 3) + "\x00\x00\x00" // one abbreviation
	for want, section := range map[string]struct {
		data    string
		offsets []uint64
	}{
		"":                                  {table + table, []uint64{0, 12, 12, 0}},
		"tables of abbreviations overlap":   {table, []uint64{0, 1}},
		"it ends too early":                 {table[:5], []uint64{0}},
		"an entry of more than 128":         {"\x01\x11\x01" + strings.Repeat("\x03\x08", 200), []uint64{0}},
		"tables of abbreviations overlap, ": {table, []uint64{99}},
	} {
		units := make([]unitHeader, len(section.offsets))
		for i, offset := range section.offsets {
			units[i].abbrev = offset
		}
		err := checkAbbreviations([]byte(section.data), units)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q at %d: %v, want %q", section.data, section.offsets, err, want)
		}
	}
	if err := checkStrings(make([]byte, 100)); err != nil {
		t.Error(err)
	}
	if err := checkStrings([]byte(strings.Repeat("x", maxString+1))); err == nil {
		t.Error("a string of any length is read")
	}
}

// debug/dwarf would find entries without end in a number without end.
func TestEndlessEntries(t *testing.T) {
	t.Parallel()
	unit := func(entries string) string {
		unit := "\x04\x00" + word(0) + "\x04" + entries
		return word(len(unit)) + unit
	}
	good, bad := unit("\x01\x00"), unit("\x01"+strings.Repeat("\x80", 100))
	units, end := unitHeaders([]byte(good + good + bad + good))
	if len(units) != 2 || end != 2*len(good) {
		t.Errorf("%d units in %d bytes, want 2 in %d", len(units), end, 2*len(good))
	}
}

func TestRangeKinds(t *testing.T) {
	t.Parallel()
	address := func(a int) string { return word(a) }
	sections := debugSections{
		"addr": []byte("head" + address(0x100) + address(0x200)),
		"ranges": []byte(address(1) + address(2) + address(-1) + address(0x50) + address(3) + address(4) + address(0) + address(0) +
			address(5) + address(6)),
		"rnglists": []byte("\x04\x01\x02" + "\x01\x01\x04\x01\x02" + "\x02\x00\x01" + "\x03\x01\x08" +
			"\x05" + address(0x30) + "\x04\x01\x02" + "\x06" + address(0x40) + address(0x41) + "\x07" + address(0x50) + "\x09" + "\x00" +
			"\x04\x05\x06"),
	}
	for version, want := range map[uint16][][2]uint64{
		4: {{0x1001, 0x1002}, {0x53, 0x54}},
		5: {{0x1001, 0x1002}, {0x201, 0x202}, {0x100, 0x200}, {0x200, 0x208}, {0x31, 0x32}, {0x40, 0x41}, {0x50, 0x59}},
	} {
		l := &lineInfo{sections: sections, meter: meter{1000}}
		u := &unit{unitHeader: unitHeader{version: version, addressSize: 4}, base: 0x1000, addressBase: 4}
		e := &dwarf.Entry{Field: []dwarf.Field{{Attr: dwarf.AttrRanges, Val: int64(0), Class: dwarf.ClassRangeListPtr}}}
		if diff := gocmp.Diff(want, l.rangeList(e, u)); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
	}
}

// Any number of entries may name one list: also of what says nothing, all is paid for.
func TestRangesArePaidFor(t *testing.T) {
	t.Parallel()
	const length = 1000
	base := map[uint16]string{4: word(-1) + word(1), 5: "\x05" + word(1)}
	for version, selection := range base {
		list := []byte(strings.Repeat(selection, length))
		l := &lineInfo{sections: debugSections{"ranges": list, "rnglists": list}, meter: meter{1 << 20}}
		u := &unit{unitHeader: unitHeader{version: version, addressSize: 4}}
		l.rangeList(&dwarf.Entry{Field: []dwarf.Field{{Attr: dwarf.AttrRanges, Val: int64(0)}}}, u)
		if spent := 1<<20 - l.meter.left; spent < length {
			t.Errorf("version %d: %d ranges for %d", version, length, spent)
		}
	}
}

// What a module's DWARF may cost is bounded by its size: then nothing more is known.
func TestMeter(t *testing.T) {
	t.Parallel()
	table := read(t, "dwarf5.wasm")
	table.lines.meter.left = 0
	for i := range table.Len() {
		if f := table.Function(i); f.File != "" || table.Line(i, 1) != 0 || f.Name == "" {
			t.Errorf("%+v is known without reading", f)
		}
	}
}

// Whoever asks often takes nothing from what may be read for others.
func TestAskingAgainIsFree(t *testing.T) {
	t.Parallel()
	table := read(t, "dwarf5.wasm")
	first := describe(table)
	left := table.lines.meter.left
	if again := describe(table); again != first || table.lines.meter.left != left {
		t.Errorf("%d bytes left, then %d\n%s", left, table.lines.meter.left, gocmp.Diff(first, again))
	}
}
