package gosym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// lookEverywhere asks a table for everything it can tell, at addresses in and
// around its code.
func lookEverywhere(table *Table, first, last uint64) {
	names := ccmap.NewNames()
	step := max((last-first)/64, 1)
	for n, pc := 0, first-1; n < 70; n, pc = n+1, pc+step {
		table.Func(pc)
		table.Kind(pc)
		table.SPDelta(pc)
		table.inlined(pc, true, nil)
		table.MethodAt(pc, names)
		table.InWrapper(pc)
		table.Stack([]uint64{pc, pc, pc}, names, nil)
	}
}

// FuzzModule takes any bytes for the memory of a process, with a moduledata at
// its start.
func FuzzModule(f *testing.F) {
	f.Add(madeModule().b)
	f.Add(madeModuleOf(form118).b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := bytesMemory{madeBase, b}
		im := &image{path: "/made", maps: mem.space()}
		table := newTable(0, mem, "/made", Options{})
		table.images = []*image{im}
		if len(b) == 0 {
			return
		}
		scanForModuledata(mem.load(), im)
		if err := table.loadChain(mem.load(), madeBase); err != nil {
			return
		}
		for _, m := range table.modules {
			lookEverywhere(table, m.minpc, m.maxpc)
		}
	})
}

// FuzzTables takes any bytes for the tables behind a sound function table, of each form.
func FuzzTables(f *testing.F) {
	made := make(map[bool]*module)
	for old, form := range map[bool]form{false: form120, true: form118} {
		m, err := loadMade(madeModuleOf(form))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(old, m.funcs.bytes, m.pctab.bytes, m.cutab, m.inline, m.names, m.files)
		made[old] = m
	}
	f.Fuzz(func(t *testing.T, old bool, funcs, pctab, cutab, inline []byte, names, files string) {
		m := made[old]
		fuzzed := *m
		fuzzed.funcs.bytes, fuzzed.pctab.bytes, fuzzed.cutab, fuzzed.inline = funcs, pctab, cutab, inline
		fuzzed.names, fuzzed.files = names, files
		fuzzed.ids = new(funcIDs)
		fuzzed.ids.learn(&fuzzed)
		table := newTable(0, bytesMemory{}, "", Options{})
		table.modules = []*module{&fuzzed}
		lookEverywhere(table, m.minpc, m.maxpc)
		b := testBudget()
		b.steps, b.look = 1<<20, 1<<20
		table.eachCall(b, anyName, func(Call) {})
	})
}

// bytesFile is an ELF file in memory.
type bytesFile struct{ *bytes.Reader }

func (bytesFile) Close() error { return nil }

// vdso returns the vDSO of this process: a small ELF file that every seed
// corpus can have.
func vdso(tb testing.TB) []byte {
	maps, err := readMaps(testBudget(), os.Getpid())
	if err != nil {
		tb.Fatal(err)
	}
	for _, im := range groupImages(maps) {
		if im.isVDSO() {
			l := &load{budget: testBudget(), mem: &processMemory{pid: os.Getpid()}, maps: maps}
			b, err := l.bytes(im.start, im.end-im.start)
			if err != nil {
				tb.Fatal(err)
			}
			return b
		}
	}
	tb.Skip("no vDSO")
	return nil
}

// FuzzELF takes any bytes for an executable file.
func FuzzELF(f *testing.F) {
	b := vdso(f)
	f.Add(b)
	f.Add(b[:elfHeader])
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := openELF(testBudget(), "/made", bytesFile{bytes.NewReader(b)}, Options{})
		if err != nil {
			return
		}
		lookEverywhere(table, table.modules[0].minpc, table.modules[0].maxpc)
	})
}

// FuzzVDSO takes any bytes for the vDSO of a process, and for a library.
func FuzzVDSO(f *testing.F) {
	b := vdso(f)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		mem := bytesMemory{madeBase, b}
		table := newTable(0, mem, "/made", Options{})
		im := &image{path: vdsoPath, start: madeBase, end: madeBase + uint64(len(b)), maps: mem.space(), text: mem.space()[0]}
		if im.openVDSO(mem.load()) != nil {
			return
		}
		im.moduledataInFile(testBudget())
		im.built(testBudget())
		for pc := im.start; pc < im.end; pc += 64 {
			if name, entry, ok := table.lookup(im, pc); ok && (name == "" || entry > pc) {
				t.Errorf("symbol %q at %#x for %#x", name, entry, pc)
			}
		}
	})
}

// A file can claim that its notes are compressed. A fuzzer found that this ended
// ccmapd.
func TestCompressedNotesAreLeftOut(t *testing.T) {
	t.Parallel()
	const shentsize, header = 64, 64
	file := make([]byte, header+2*shentsize)
	copy(file, "\x7fELF\x02\x01\x01")
	put := binary.LittleEndian
	put.PutUint16(file[16:], uint16(elf.ET_EXEC))
	put.PutUint16(file[18:], uint16(elf.EM_X86_64))
	put.PutUint32(file[20:], uint32(elf.EV_CURRENT))
	put.PutUint64(file[40:], header) // section headers
	put.PutUint16(file[52:], header)
	put.PutUint16(file[58:], shentsize)
	put.PutUint16(file[60:], 2)
	names, notes := file[header:], file[header+shentsize:]
	put.PutUint32(names[4:], uint32(elf.SHT_STRTAB))
	put.PutUint32(notes[4:], uint32(elf.SHT_NOTE))
	put.PutUint64(notes[8:], uint64(elf.SHF_COMPRESSED))
	put.PutUint64(notes[24:], header)
	put.PutUint64(notes[32:], 24) // an Elf64_Chdr
	f, err := readELF(testBudget(), bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if id := buildID(testBudget(), f); id != "" {
		t.Errorf("build id %q", id)
	}
}

// FuzzNotes takes any bytes for a segment of ELF notes, and of code.
func FuzzNotes(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\x03\x00\x00\x00\x03\x00\x00\x00GNU\x00abc\x00\x04\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00Go\x00\x00x"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x00\x00GNU\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := segment{typ: elf.PT_NOTE, fileSize: uint64(len(b))}
		code := segment{typ: elf.PT_LOAD, fileSize: p.fileSize + uint64(len(b)%3)*1e18, off: uint64(len(b)/100) << 62}
		buildID(testBudget(), &elfFile{r: bytes.NewReader(b), segments: []segment{p, code}})
		n := 0
		for _, rest, ok := cutNote(b); ok; _, rest, ok = cutNote(rest) {
			if n++; n > len(b) {
				t.Fatal("notes do not end")
			}
		}
	})
}

// FuzzMaps takes any text for a memory map.
func FuzzMaps(f *testing.F) {
	f.Add("00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a program\n")
	f.Add("7ffe2b7a4000-7ffe2b7a6000 r-xp 00000000 00:00 0                          [vdso]")
	f.Fuzz(func(t *testing.T, text string) {
		maps, err := parseMaps(testBudget(), strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range maps {
			if m.start >= m.end {
				t.Errorf("mapping [%#x, %#x)", m.start, m.end)
			}
			(&load{budget: testBudget(), maps: maps}).covered(m.start, 1<<62, readable)
		}
		table := newTable(0, bytesMemory{}, "", Options{})
		table.areas = areasOf(groupImages(maps))
		for _, m := range maps {
			table.image(m.start)
		}
	})
}

// FuzzReceiver takes any text for a symbol name.
func FuzzReceiver(f *testing.F) {
	f.Add("net/http.(*conn).serve")
	f.Add("sync/atomic.(*Pointer[go.shape.int]).Load")
	f.Add("go:(*struct { *main.T }).main.m")
	f.Fuzz(func(t *testing.T, name string) { receiver(name) })
}
