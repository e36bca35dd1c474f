package debuginfo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// word returns 32 bits.
func word(n int) string { return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}) }

// unit4 is a unit of version 4 with the abbreviations at an offset.
func unit4(abbreviations int, entries string) string {
	body := "\x04\x00" + word(abbreviations) + "\x04" + entries
	return word(len(body)) + body
}

func sections(abbrev, info string) Sections {
	return Sections{"abbrev": []byte(abbrev), "info": []byte(info)}
}

// bare is an abbreviation of a compilation unit without attributes.
const bare = "\x01\x11\x01\x00\x00\x00"

// Units are read up to the first malformed one.
func TestMalformedUnits(t *testing.T) {
	t.Parallel()
	good := unit4(0, "\x01\x00")
	for _, bad := range []string{"\x01", word(-1), word(-2), word(100), word(3) + "\x04\x00\x00", word(2) + "\x09\x00", word(0)} {
		if n := len(open(sections(bare, good+good+bad+"\x00")).Units()); n != 2 {
			t.Errorf("%d units before %q, want 2", n, bad)
		}
	}
}

// Entries that end inside a number end the unit.
func TestEntriesEndInANumber(t *testing.T) {
	t.Parallel()
	cut := strings.Repeat("\x80", 100)
	for name, s := range map[string]Sections{
		"in the entries":                     sections(bare, unit4(0, "\x01"+cut)),
		"in the code of an abbreviation":     sections(bare[:5]+cut, unit4(0, "\x01\x02")),
		"in the tag of an abbreviation":      sections(bare[:5]+"\x02"+cut, unit4(0, "\x01\x02")),
		"in an attribute of an abbreviation": sections(bare[:5]+"\x02\x11\x01\x03"+cut, unit4(0, "\x01\x02")),
	} {
		d := open(s)
		entries := 0
		for range d.Entries(d.Units()[0]) {
			entries++
		}
		if entries != 1 {
			t.Errorf("%s: %d entries, want 1", name, entries)
		}
	}
}

// Abbreviations may have any codes. An entry with an unknown code ends the unit.
func TestAbbreviationCodes(t *testing.T) {
	t.Parallel()
	abbrev := "\x01\x11\x00\x3b\x21\x05\x00\x00" + "\x07\x1d\x00\x59\x21\x07\x00\x00" + "\x02\x2e\x00\x3b\x0b\x00\x00" + "\x00"
	d := open(sections(abbrev, unit4(0, "\x01\x07\x02\x09\x00\x05\x01")))
	var tags []Tag
	for e := range d.Entries(d.Units()[0]) {
		tags = append(tags, e.Tag)
		want := map[Tag][2]int64{TagCompileUnit: {5, -1}, TagInlinedSubroutine: {-1, 7}, TagSubprogram: {9, -1}, 0: {-1, -1}}[e.Tag]
		if got := [2]int64{e.Number(DeclLine), e.Number(CallLine)}; got != want {
			t.Errorf("tag %#x: lines %d, want %d", e.Tag, got, want)
		}
	}
	if diff := cmp.Diff([]Tag{TagCompileUnit, TagInlinedSubroutine, TagSubprogram, 0}, tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// Attributes of every form have their standard length: the next attribute is read.
func TestForms(t *testing.T) {
	t.Parallel()
	for form, content := range map[byte]string{
		formAddr: "aaaa", formBlock2: "\x02\x00aa", formBlock4: word(2) + "aa", formData2: "aa", formData4: "aaaa", formData8: "aaaaaaaa",
		formString: "aaa\x00", formBlock: "\x02aa", formBlock1: "\x02aa", formData1: "a", formFlag: "a", formSdata: "\xff\x00",
		formStrp: "aaaa", formUdata: "\xff\x01", formRefAddr: "aaaa", formRef1: "a", formRef2: "aa", formRef4: "aaaa", formRef8: "aaaaaaaa",
		formRefUdata: "\xff\x01", formIndirect: "\x0b7", formSecOffset: "aaaa", formExprloc: "\x02aa", formFlagPresent: "",
		formStrx: "\x01", formAddrx: "\x01", formRefSup4: "aaaa", formStrpSup: "aaaa", formData16: "0123456789abcdef", formLineStrp: "aaaa",
		formRefSig8: "aaaaaaaa", formLoclistx: "\x01", formRnglistx: "\x01", formRefSup8: "aaaaaaaa",
		formStrx1: "a", formStrx2: "aa", formStrx3: "aaa", formStrx4: "aaaa", formAddrx1: "a", formAddrx2: "aa", formAddrx3: "aaa", formAddrx4: "aaaa",
	} {
		abbrev := "\x01\x2e\x00\x03" + string([]byte{form}) + "\x3b\x0b\x00\x00\x00"
		d := open(sections(abbrev, unit4(0, "\x01"+content+"\x2a")))
		if e, ok := d.Root(d.Units()[0]); !ok || e.Number(DeclLine) != 42 {
			t.Errorf("form %#x: what follows is not read", form)
		}
	}
}

// A header may claim any number of files. Missing files take no memory.
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
		table := "\x05\x00\x04\x00" + word(len(header)) + header
		d := open(Sections{"line": []byte(word(len(table)) + table)})
		if lines, ok := d.Lines(&Unit{}); ok && len(lines.files)+len(lines.dirs) > len(table) {
			t.Errorf("%s: %d files and %d directories in %d bytes", name, len(lines.files), len(lines.dirs), len(table))
		}
	}
}

// Names are read up to the longest path, and joined as their system does.
func TestFileNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", maxName)
	names := []string{"a.c", "/b.c", `C:\c.c`, long, long[1:]}
	header := "\x01\x01\x01\xfb\x0e\x01" + "d\x00\x00"
	for i, name := range names {
		header += name + "\x00" + string([]byte{byte(1 - i%2)}) + "\x00\x00"
	}
	header += "\x00"
	table := "\x04\x00" + word(len(header)) + header
	d := open(Sections{"line": []byte(word(len(table)) + table)})
	for directory, want := range map[string][]string{
		"":     {"", "d/a.c", "/b.c", `C:\c.c`, "", "d/" + long[1:], ""},
		"/x":   {"", "/x/d/a.c", "/b.c", `C:\c.c`, "", "/x/d/" + long[1:], ""},
		`C:\x`: {"", `C:\x\d/a.c`, "/b.c", `C:\c.c`, "", `C:\x\d/` + long[1:], ""},
	} {
		u := &Unit{Directory: directory}
		for i, name := range want {
			if got := d.FileName(u, int64(i)); got != name {
				t.Errorf("file %d from %q is %.40q, want %.40q", i, directory, got, name)
			}
		}
	}
}

func TestRangeKinds(t *testing.T) {
	t.Parallel()
	s := Sections{
		"addr": []byte("head" + word(0x100) + word(0x200)),
		"ranges": []byte(word(1) + word(2) + word(-1) + word(0x50) + word(3) + word(4) + word(0) + word(0) +
			word(5) + word(6)),
		"rnglists": []byte("\x04\x01\x02" + "\x01\x01\x04\x01\x02" + "\x02\x00\x01" + "\x03\x01\x08" +
			"\x05" + word(0x30) + "\x04\x01\x02" + "\x06" + word(0x40) + word(0x41) + "\x07" + word(0x50) + "\x09" + "\x00" +
			"\x04\x05\x06"),
	}
	for version, want := range map[uint16][]Range{
		4: {{0x1001, 0x1002}, {0x53, 0x54}},
		5: {{0x1001, 0x1002}, {0x201, 0x202}, {0x100, 0x200}, {0x200, 0x208}, {0x31, 0x32}, {0x40, 0x41}, {0x50, 0x59}},
	} {
		u := &Unit{header: header{version: version, addressSize: 4}, base: 0x1000, addressBase: 4}
		e := &Entry{}
		e.values[Ranges] = value{class: classNumber}
		if diff := cmp.Diff(want, open(s).AppendRanges(nil, u, e)); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
	}
}

// Units and entries may share tables, lists and names. Each use costs again.
func TestSharedPartsArePaidFor(t *testing.T) {
	t.Parallel()
	const length = 1000
	unit := &Unit{header: header{version: 4, addressSize: 4}}
	unit5 := &Unit{header: header{version: 5, addressSize: 4}}
	e := &Entry{}
	e.values[Ranges] = value{class: classNumber}
	lines := "\x04\x00" + word(9) + "\x01\x01\x01\xfb\x0e\x01\x00\x00\x00" + strings.Repeat("\x01", length)
	for name, c := range map[string]struct {
		sections Sections
		read     func(*Data)
	}{
		"ranges":   {Sections{"ranges": []byte(strings.Repeat(word(-1)+word(1), length))}, func(d *Data) { d.AppendRanges(nil, unit, e) }},
		"rnglists": {Sections{"rnglists": []byte(strings.Repeat("\x05"+word(1), length))}, func(d *Data) { d.AppendRanges(nil, unit5, e) }},
		"rows":     {Sections{"line": []byte(word(len(lines)) + lines)}, func(d *Data) { d.eachRow(unit) }},
		"fields":   {sections("\x01\x11\x00"+strings.Repeat("\x03\x19", length)+"\x00\x00\x00", unit4(0, "\x01")), func(d *Data) { d.Root(d.units[0]) }},
		"a text":   {Sections{"str": []byte(strings.Repeat("x", length) + "\x00")}, func(d *Data) { d.text(unit, value{class: classTextOffset}) }},
	} {
		d := open(c.sections)
		before := d.budget.steps
		if c.read(d); before-d.budget.steps < length {
			t.Errorf("%s: %d steps, want at least %d", name, before-d.budget.steps, length)
		}
		for d.budget.Step(1000) {
		}
		if c.read(d); d.budget.steps < -3*length {
			t.Errorf("%s: read on without a budget", name)
		}
	}
}

// eachRow runs the program of a unit.
func (d *Data) eachRow(u *Unit) {
	if t, ok := d.Lines(u); ok {
		_ = t.EachRow(func(*Row) {})
	}
}

func FuzzDebugInfo(f *testing.F) {
	for _, path := range wellFormed(f) {
		s := sectionsOf(f, path)
		if s.size() < 20_000 {
			f.Add(s["abbrev"], s["info"], s["line"], s["ranges"], s["rnglists"], s["str"], s["str_offsets"], s["addr"], s["line_str"])
		}
	}
	f.Fuzz(func(t *testing.T, abbrev, info, line, ranges, rnglists, str, strOffsets, addr, lineStr []byte) {
		s := Sections{
			"abbrev": abbrev, "info": info, "line": line, "ranges": ranges, "rnglists": rnglists,
			"str": str, "str_offsets": strOffsets, "addr": addr, "line_str": lineStr,
		}
		d := open(s)
		end := uint64(0)
		for _, u := range d.Units() {
			if u.first < end || u.end > uint64(len(info)) || d.UnitAt(u.first) != u && u.first < u.end {
				t.Fatalf("unit [%#x, %#x) after %#x of %d bytes", u.first, u.end, end, len(info))
			}
			end = u.end
			readUnit(t, d, u)
		}
		if limit := NewBudget(s.size()); d.budget.steps > limit.steps || d.budget.bytes > limit.bytes {
			t.Fatalf("the budget grew to %+v", d.budget)
		}
	})
}

// readUnit reads all of a unit.
func readUnit(t *testing.T, d *Data, u *Unit) {
	t.Helper()
	last := uint64(0)
	for e := range d.Entries(u) {
		if e.Offset < u.first || e.Offset >= u.end || e.Offset <= last {
			t.Fatalf("entry at %#x of [%#x, %#x)", e.Offset, u.first, u.end)
		}
		last = e.Offset
		d.AppendRanges(nil, u, e)
		if to, ok := e.Reference(AbstractOrigin); ok {
			if other := d.UnitAt(to); other != nil {
				d.EntryAt(other, to)
			}
		}
	}
	d.eachRow(u)
	if lines, ok := d.Lines(u); ok {
		for first, end := lines.Files(); first < end; first++ {
			if name := d.FileName(u, int64(first)); len(name) > 3*maxName+2 {
				t.Fatalf("a name of %d bytes", len(name))
			}
		}
	}
}
