package gosym

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

// bytesMemory is an address space that is one piece of memory.
type bytesMemory struct {
	base uint64
	b    []byte
}

func (m bytesMemory) readAt(p []byte, addr uint64) error {
	if addr < m.base || addr-m.base > uint64(len(m.b)) || uint64(len(p)) > uint64(len(m.b))-(addr-m.base) {
		return errors.New("not mapped")
	}
	copy(p, m.b[addr-m.base:])
	return nil
}

func (m bytesMemory) space() space {
	return space{{start: m.base, end: m.base + uint64(len(m.b)), read: true, write: true, exec: true, path: "/made"}}
}

// load reads all of the memory, within a budget of its own.
func (m bytesMemory) load() *load {
	return &load{budget: testBudget(), mem: m, maps: m.space()}
}

func testBudget() *budget { return newBudget(context.Background(), 0) }

// madeModule writes a module of Go 1.20 or later by hand.
func madeModule() bytesMemory { return madeModuleOf(form120) }

// madeModuleOf writes a module of two functions by hand, 4 KiB of memory with the
// moduledata at its start:
//
//	main.outer  64 bytes at madeText, line 10; bytes 16–31 are main.inner,
//	            declared in line 30 and called from line 12
//	main.last   64 bytes behind it, without tables
func madeModuleOf(f form) bytesMemory {
	const header, names, cutab, files, pctab, funcs, trees, sections = 0x300, 0x400, 0x440, 0x460, 0x480, 0x600, 0x800, 0x880
	m := bytesMemory{madeBase, make([]byte, 0x1000)}
	put32 := func(at int, vs ...uint32) {
		for i, v := range vs {
			binary.LittleEndian.PutUint32(m.b[at+4*i:], v)
		}
	}
	put64 := func(at int, vs ...uint64) {
		for i, v := range vs {
			binary.LittleEndian.PutUint64(m.b[at+8*i:], v)
		}
	}
	list := func(at int, to, n uint64) { put64(at, madeBase+to, n, n) }

	put64(0, madeBase+header)
	list(8, names, 0x40)
	list(32, cutab, 2)
	list(56, files, 0x20)
	list(80, pctab, 0x100)
	list(104, funcs, 0x200)
	list(128, funcs, 3)
	put64(160, madeText, madeText+128, madeText)
	put64(320, madeBase+trees)
	list(madeSections, sections, 1)

	put32(header, magicGo120, 1<<16|8<<24)
	put64(header+8, 2)
	put64(header+32, names-header, cutab-header, files-header, pctab-header, funcs-header)
	copy(m.b[names:], "\x00main.outer\x00main.inner\x00main.last\x00")
	put32(cutab, 0)
	copy(m.b[files:], "/src/main.go\x00")
	copy(m.b[pctab:], []byte{
		0,               // no table at offset 0
		2, 4, 16, 60, 0, // 1: SP delta 0 for 4 bytes, 8 for 60 (zigzag: 1 → 2, 8 → 16)
		2, 64, 0, // 6: file 0
		22, 16, 42, 16, 37, 32, 0, // 9: line 10, 31 in the inlined, 12
		0, 16, 2, 16, 1, 32, 0, // 16: inline index -1, 0, -1
	})
	put32(funcs, 0, 0x40, 64, 0xc0, 128, 0)
	if f == form118 { // has no start lines, and a call's parent, file and line: -1, 0, 12
		put32(header, magicGo118)
		put32(funcs+0x40, 0, 1, 0, 0, 1, 6, 9, 3, 0, 4<<24, 0, 0, 16, ^uint32(0), ^uint32(0), ^uint32(0), 0)
		put32(funcs+0xc0, 64, 23, 0, 0, 0, 0, 0, 0, 0, uint32(FlagTopFrame)<<8)
		put32(trees, 0xffff, 0, 12, 12, 40)
	} else {
		put32(funcs+0x40, 0, 1, 0, 0, 1, 6, 9, 3, 0, 10, 4<<24, 0, 0, 16, ^uint32(0), ^uint32(0), ^uint32(0), 0)
		put32(funcs+0xc0, 64, 23, 0, 0, 0, 0, 0, 0, 0, 50, uint32(FlagTopFrame)<<8)
		put32(trees, 0, 12, 40, 30)
	}
	put64(sections, 0, 128, madeText)
	return m
}

const (
	madeBase = 0x400000
	madeText = madeBase + 0xc00

	madeSections = 336 // offset of the moduledata's textsectmap
)

func loadMade(m bytesMemory) (*module, error) {
	l := m.load()
	d, err := readModuledata(l, m.base)
	if err != nil {
		return nil, err
	}
	module, err := loadModule(l, d, nil)
	if err != nil {
		return nil, err
	}
	module.ids, module.image = new(funcIDs), &image{}
	return module, nil
}

func madeTable(tb testing.TB) *Table { return madeTableOf(tb, form120) }

func madeTableOf(tb testing.TB, f form) *Table {
	tb.Helper()
	m, err := loadMade(madeModuleOf(f))
	if err != nil {
		tb.Fatal(err)
	}
	t := newTable(0, madeModuleOf(f), "/made", Options{})
	t.modules = []*module{m}
	return t
}

func TestMadeModule(t *testing.T) {
	t.Parallel()
	t.Run("Go 1.20", func(t *testing.T) { checkMade(t, madeTable(t), 10, 30, 50) })
	t.Run("Go 1.18", func(t *testing.T) { checkMade(t, madeTableOf(t, form118), 0, 0, 0) })
}

// checkMade looks everything up in a made module whose functions begin in these lines.
func checkMade(t *testing.T, table *Table, outerLine, innerLine, lastLine int32) {
	outer := LogicalFrame{Name: "main.outer", File: "/src/main.go", StartLine: outerLine}
	inner := LogicalFrame{Name: "main.inner", File: "/src/main.go", StartLine: innerLine}
	at := func(f LogicalFrame, line int32) LogicalFrame { f.Line = line; return f }
	for _, c := range []struct {
		pc     uint64
		caller bool
		want   []LogicalFrame
		delta  int
	}{
		{madeText, false, []LogicalFrame{at(outer, 10)}, 0},
		{madeText, true, []LogicalFrame{at(outer, 10)}, 0},
		{madeText + 4, false, []LogicalFrame{at(outer, 10)}, 8},
		{madeText + 16, false, []LogicalFrame{at(inner, 31), at(outer, 12)}, 8},
		{madeText + 16, true, []LogicalFrame{at(outer, 10)}, 8},
		{madeText + 32, true, []LogicalFrame{at(inner, 31), at(outer, 12)}, 8},
		{madeText + 63, false, []LogicalFrame{at(outer, 12)}, 8},
		{madeText + 64, false, []LogicalFrame{{Name: "main.last", StartLine: lastLine}}, -1},
		{madeText + 128, false, nil, -1},
		{madeText - 1, false, nil, -1},
	} {
		if diff := cmp.Diff(c.want, table.inlined(c.pc, c.caller, nil)); diff != "" {
			t.Errorf("frames at text+%d, caller=%t (-want +got):\n%s", c.pc-madeText, c.caller, diff)
		}
		if delta, ok := table.SPDelta(c.pc); delta != c.delta || ok != (c.delta >= 0) {
			t.Errorf("SP delta at text+%d: %d, %t; want %d", c.pc-madeText, delta, ok, c.delta)
		}
	}
	last, ok := table.Func(madeText + 100)
	want := Func{Name: "main.last", Entry: madeText + 64, End: madeText + 128, StartLine: lastLine, Flags: FlagTopFrame}
	if diff := cmp.Diff(want, last); !ok || diff != "" || !last.IsRoot() {
		t.Errorf("function (-want +got):\n%s", diff)
	}
}

// TestLinesInProfiles: a frame of a profile says its line, whether the program tells where functions begin or not.
func TestLinesInProfiles(t *testing.T) {
	t.Parallel()
	for _, form := range []form{form120, form118} {
		names := ccmap.NewNames()
		frames := madeTableOf(t, form).Stack([]uint64{madeText + 16}, names, nil)
		if got := []int32{names.Line(frames[0]), names.Line(frames[1])}; !slices.Equal(got, []int32{31, 12}) {
			t.Errorf("form %d: lines %v, want 31 and 12", form, got)
		}
	}
}

// TestLoadRefuses breaks one field of a module at a time.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at    int
		value uint64
		want  error
	}{
		"Go 1.16":            {0x300, 0x0801_0000_ffff_fffa, ErrUnsupported},
		"Go 1.2":             {0x300, 0x0801_0000_ffff_fffb, ErrUnsupported},
		"newer than known":   {0x300, 0x0801_0000_ffff_fff2, ErrUnsupported},
		"32 bits":            {0x300, 0x0401_0000_ffff_fff1, ErrUnsupported},
		"no magic":           {0x300, 0, ErrUnsupported},
		"no functions":       {0x308, 0, errCorrupt},
		"many functions":     {0x308, 1 << 60, errCorrupt},
		"tables around":      {0x320, ^uint64(0), errCorrupt},
		"many names":         {16, 1 << 60, ErrUnsupported},
		"names elsewhere":    {8, 1, ErrUnsupported},
		"names around":       {8, ^uint64(0), ErrUnsupported},
		"tables end outside": {112, 0x2000, ErrUnsupported},
		"minpc":              {160, 5, ErrUnsupported},
		"trees elsewhere":    {320, 1 << 40, ErrUnsupported},
		"other trees":        {0x800, 1 << 40, ErrUnsupported},
		"no names":           {0x640, 1<<63 | 1<<62, ErrUnsupported},
		"unsorted":           {0x608, 0xc0_0000_1000, errCorrupt},
		"record outside":     {0x600, 0xffff_0000_0000, errCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			m := madeModule()
			binary.LittleEndian.PutUint64(m.b[c.at:], c.value)
			if _, err := loadMade(m); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
	m := madeModule()
	for _, at := range []int{8, 16} {
		binary.LittleEndian.PutUint64(m.b[madeSections+at:], 2)
	}
	if _, err := loadMade(m); !errors.Is(err, ErrUnsupported) {
		t.Errorf("text in two sections: error %v, want ErrUnsupported", err)
	}
}

// TestFieldsMove loads a module whose fields are not where any Go version has
// them: words stand before one of them.
func TestFieldsMove(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 8, 32, 128, 160, 176, 184, 320, madeSections} {
		for _, words := range []int{1, 2, 7} {
			m := madeModule()
			insertWords(m.b, before, words)
			made, err := loadMade(m)
			if err != nil {
				t.Errorf("%d words before offset %d: %v", words, before, err)
				continue
			}
			table := newTable(0, m, "/made", Options{})
			table.modules = []*module{made}
			got := table.inlined(madeText+16, false, nil)
			if diff := cmp.Diff(madeTable(t).inlined(madeText+16, false, nil), got); diff != "" {
				t.Errorf("%d words before offset %d: frames (-want +got):\n%s", words, before, diff)
			}
		}
	}
}

// insertWords moves what follows an offset of the made moduledata. The new words
// look like pointers to its text.
func insertWords(b []byte, at, words int) {
	const end = 0x2c0 // what follows is not the moduledata's
	copy(b[at+8*words:end], b[at:])
	for i := range words {
		binary.LittleEndian.PutUint64(b[at+8*i:], madeText+64)
	}
}

// TestScan finds the module in memory that has no section or symbol for it, as
// in stripped programs before Go 1.26.
func TestScan(t *testing.T) {
	t.Parallel()
	m := madeModule()
	im := &image{path: "/made", maps: m.space()}
	if addr, err := scanForModuledata(m.load(), im); addr != madeBase || err != nil {
		t.Errorf("moduledata at %#x, %v; want %#x", addr, err, madeBase)
	}
	binary.LittleEndian.PutUint64(m.b, 0x300) // not relocated
	if _, err := scanForModuledata(m.load(), im); !errors.Is(err, ErrNotReady) {
		t.Errorf("error %v, want ErrNotReady", err)
	}
	m.b[0x300] = magicGo116 & 0xff
	if _, err := scanForModuledata(m.load(), im); !errors.Is(err, ErrUnsupported) {
		t.Errorf("error %v, want ErrUnsupported", err)
	}
}

// TestPartlyRelocated leaves the pointers of the moduledata, from one on, as the
// linker wrote them.
func TestPartlyRelocated(t *testing.T) {
	t.Parallel()
	for _, from := range []int{0, 8, 128, 160, 176, 320} {
		m := madeModule()
		for at := from; at < 0x2c0; at += 8 {
			if w := binary.LittleEndian.Uint64(m.b[at:]); w >= madeBase {
				binary.LittleEndian.PutUint64(m.b[at:], w-madeBase)
			}
		}
		table := newTable(0, m, "/made", Options{})
		table.images = []*image{{path: "/made", maps: m.space()}}
		if err := table.loadChain(m.load(), madeBase); !errors.Is(err, ErrNotReady) {
			t.Errorf("pointers from %d on: error %v, want ErrNotReady", from, err)
		}
	}
}

// TestChainEnds follows moduledatas that point to each other.
func TestChainEnds(t *testing.T) {
	t.Parallel()
	m := madeModule()
	binary.LittleEndian.PutUint64(m.b[584:], madeBase)
	table := newTable(0, m, "/made", Options{})
	table.images = []*image{{path: "/made", maps: m.space()}}
	if err := table.loadChain(m.load(), madeBase); err != nil || len(table.modules) != 1 {
		t.Errorf("%d modules, %v; want 1", len(table.modules), err)
	}
}

// TestInlineTreeEnds has an inlined call whose parent is itself.
func TestInlineTreeEnds(t *testing.T) {
	t.Parallel()
	m := madeModule()
	binary.LittleEndian.PutUint32(m.b[0x808:], 20)
	module, err := loadMade(m)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := module.find(madeText + 20)
	if n := len(module.expand(testBudget(), r, madeText+20, nil)); n != maxInlined+1 {
		t.Errorf("%d frames, want %d", n, maxInlined+1)
	}
}

// inlined appends the logical frames of one physical pc in Go code, innermost
// first and without wrappers. caller says that pc is a return address: then the
// frame is looked up at the call, one byte before it.
func (t *Table) inlined(pc uint64, caller bool, dst []LogicalFrame) []LogicalFrame {
	dst, _ = t.expand(frameKey{pc: pc, caller: caller}, dst)
	return dst
}
