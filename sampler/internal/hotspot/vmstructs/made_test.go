package vmstructs_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// base is where the made-up libjvm.so is mapped.
const base = 0x7f0000000000

// image is the memory of a made-up libjvm.so. Beyond it nothing is mapped.
type image []byte

func (im image) Read(addr uint64, buf []byte) error {
	if addr < base || addr-base > uint64(len(im)) || uint64(len(buf)) > uint64(len(im))-(addr-base) {
		return errors.New("not mapped")
	}
	copy(buf, im[addr-base:])
	return nil
}

func (im image) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	for i := range addrs {
		if err := im.Read(addrs[i], bufs[i]); err != nil {
			return i, err
		}
	}
	return len(addrs), nil
}

func (im image) maps() string {
	return fmt.Sprintf("400000-401000 r-xp 00000000 fd:01 7 /usr/bin/java\n%x-%x r--p 00000000 fd:01 9 /opt/a jdk/libjvm.so\n%x-%x r-xp 00001000 fd:01 9 /opt/a jdk/libjvm.so\n",
		base, base+4096, base+4096, base+len(im))
}

// open reads its tables.
func (im image) open() (*vmstructs.VM, error) {
	return vmstructs.Open(context.Background(), im, strings.NewReader(im.maps()))
}

// maker makes an image, piece by piece.
type maker struct {
	image
	symbols map[string]uint64 // virtual addresses
}

func (m *maker) put(words ...uint64) uint64 {
	at := uint64(len(m.image))
	for _, w := range words {
		m.image = binary.LittleEndian.AppendUint64(m.image, w)
	}
	return at
}

func (m *maker) text(s string) uint64 {
	at := uint64(len(m.image))
	m.image = append(m.image, s...)
	m.image = append(m.image, make([]byte, 8-len(s)%8)...)
	return base + at
}

// table puts a table of entries of words, and its symbols. The columns are in the order of
// the words.
func (m *maker) table(name, entry string, columns []string, rows ...[]uint64) {
	at := uint64(len(m.image))
	for _, r := range append(rows, make([]uint64, len(columns))) {
		m.put(r...)
	}
	m.symbols["gHotSpotVM"+name] = m.put(base + at)
	m.symbols["gHotSpotVM"+entry+"EntryArrayStride"] = m.put(uint64(8 * len(columns)))
	for i, c := range columns {
		m.symbols["gHotSpotVM"+entry+"Entry"+c+"Offset"] = m.put(uint64(8 * i))
	}
}

// makeImage makes a libjvm.so with a few fields, types, constants and flags.
func makeImage() image {
	m := &maker{image: make([]byte, 64+3*56), symbols: map[string]uint64{}}
	fields := func(owner string, words ...[]uint64) (rows [][]uint64) {
		for _, w := range words {
			rows = append(rows, append([]uint64{m.text(owner)}, w...))
		}
		return rows
	}
	flags := m.put(m.text("Answer"), base+8, 1, m.text("Fraction"), base+8, 7, 0, 0, 0)
	table, count := m.put(base+flags), m.put(3)
	version := m.put(m.text("17.0.15+6"))
	rows := fields("JVMFlag",
		[]uint64{m.text("flags"), m.text("JVMFlag*"), 1, 0, base + table},
		[]uint64{m.text("numFlags"), m.text("size_t"), 1, 0, base + count},
		[]uint64{m.text("_name"), m.text("const char*"), 0, 0, 0},
		[]uint64{m.text("_addr"), 0, 0, 8, 0},
		[]uint64{m.text("_type"), m.text("int"), 0, 16, 0})
	rows = append(rows, fields("Abstract_VM_Version", []uint64{m.text("_s_vm_release"), m.text("const char*"), 1, 0, base + version})...)
	m.table("Structs", "Struct", []string{"TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"}, rows...)
	m.table("Types", "Type", []string{"TypeName", "SuperclassName", "Size"}, []uint64{m.text("JVMFlag"), m.text("Object"), 24})
	m.table("IntConstants", "IntConstant", []string{"Name", "Value"}, []uint64{m.text("minus"), 0xffffffff})
	m.table("LongConstants", "LongConstant", []string{"Name", "Value"}, []uint64{m.text("large"), 1 << 40})
	m.finish()
	m.image = append(m.image, make([]byte, 8192-len(m.image)%4096)...) // strings are read by pages
	return m.image
}

// finish puts symbols, notes and headers.
func (m *maker) finish() {
	names := slices.Sorted(maps.Keys(m.symbols))
	var strtab, symtab, chain []byte
	symtab = make([]byte, 24)
	strtab = []byte{0}
	for i, name := range names {
		symtab = binary.LittleEndian.AppendUint32(symtab, uint32(len(strtab)))
		symtab = append(symtab, 0x11, 0, 1, 0)
		symtab = binary.LittleEndian.AppendUint64(symtab, m.symbols[name])
		symtab = binary.LittleEndian.AppendUint64(symtab, 8)
		strtab = append(append(strtab, name...), 0)
		hash := uint32(5381)
		for _, c := range []byte(name) {
			hash = hash*33 + uint32(c)
		}
		hash &^= 1
		if i == len(names)-1 {
			hash |= 1
		}
		chain = binary.LittleEndian.AppendUint32(chain, hash)
	}
	raw := func(b []byte) uint64 {
		at := uint64(len(m.image))
		m.image = append(m.image, append(b, make([]byte, 16-len(b)%8)...)...)
		return at
	}
	symbols, texts := raw(symtab), raw(strtab)
	hash := binary.LittleEndian.AppendUint32(nil, 1)
	for _, w := range []uint32{1, 1, 0, 0, 0, 1} { // the first symbol, words of the filter, its shift, the filter, the bucket
		hash = binary.LittleEndian.AppendUint32(hash, w)
	}
	hashes := raw(append(hash, chain...))
	dynamic := m.put(uint64(elf.DT_SYMTAB), symbols, uint64(elf.DT_STRTAB), base+texts, uint64(elf.DT_STRSZ), uint64(len(strtab)), uint64(elf.DT_GNU_HASH), base+hashes, 0, 0)
	note := m.put(4|20<<32, 3|uint64(binary.LittleEndian.Uint32([]byte("GNU\x00")))<<32, 1, 2, 3)
	size := uint64(len(m.image))
	var head bytes.Buffer
	for _, part := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Phoff: 64, Phentsize: 56, Phnum: 3},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Memsz: size},
		elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Vaddr: dynamic, Memsz: 80},
		elf.Prog64{Type: uint32(elf.PT_NOTE), Vaddr: note, Memsz: 36},
	} {
		if err := binary.Write(&head, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	copy(m.image, head.Bytes())
}

func TestMadeUp(t *testing.T) {
	t.Parallel()
	vm, err := makeImage().open()
	if err != nil {
		t.Fatal(err)
	}
	minus, _ := vm.Const("minus")
	large, _ := vm.Const("large")
	size, _ := vm.Size("JVMFlag")
	answer, ok := vm.Flag("Answer") // its value is in the ELF header
	if minus != -1 || large != 1<<40 || size != 24 || vm.Super("JVMFlag") != "Object" || !ok || answer != 0 {
		t.Errorf("constants %d and %d, size %d, superclass %q, flag %d, %v", minus, large, size, vm.Super("JVMFlag"), answer, ok)
	}
	if vm.Version != "17.0.15+6" || vm.Info != "" || vm.BuildID != "0100000000000000020000000000000003000000" {
		t.Errorf("version %q, info %q, build %q", vm.Version, vm.Info, vm.BuildID)
	}
	if _, ok := vm.Flag("Fraction"); ok {
		t.Error("a fraction is a number")
	}
}

// TestCut cuts the library off at every word: an error, or what was there.
func TestCut(t *testing.T) {
	t.Parallel()
	im := makeImage()
	for n := 0; n < len(im); n += 8 {
		if vm, err := im[:n].open(); err == nil && n < 4096 {
			t.Fatalf("of %d bytes: version %q", n, vm.Version)
		}
	}
}

func TestMaps(t *testing.T) {
	t.Parallel()
	im := makeImage()
	for _, c := range []struct {
		maps string
		want error
	}{
		{"", vmstructs.ErrNotHotSpot},
		{"7f0000000000-7f0000001000 r--p 0 fd:01 9 /a/libjvm.so\n", vmstructs.ErrNotHotSpot},
		{im.maps() + "7f1000000000-7f1000001000 r-xp 0 fd:01 9 /a/libj9vm29.so\n", vmstructs.ErrUnsupported},
		{strings.ReplaceAll(im.maps(), "libjvm.so", "libjvm.so (deleted)"), nil},
		{"600000000000-600000001000 r--p 0 fd:01 9 /b/libjvm.so\n" + im.maps(), nil}, // somebody has mapped the file to read it
	} {
		if _, err := vmstructs.Open(context.Background(), im, strings.NewReader(c.maps)); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.maps, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := vmstructs.Open(ctx, im, strings.NewReader(im.maps())); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
}

// FuzzOpen reads tables of any bytes.
func FuzzOpen(f *testing.F) {
	im := makeImage()
	f.Add([]byte(im.maps()), []byte(im), uint16(0), uint64(0))
	for _, at := range []uint16{56, 64, 200, 400, 1000, 2000} {
		f.Add([]byte(im.maps()), []byte(im), at, base+uint64(at))
	}
	f.Fuzz(func(t *testing.T, maps, memory []byte, at uint16, word uint64) {
		if len(memory) > 1<<16 {
			return
		}
		memory = slices.Clone(memory)
		if int(at)+8 <= len(memory) {
			binary.LittleEndian.PutUint64(memory[at:], word)
		}
		vm, err := vmstructs.Open(context.Background(), image(memory), bytes.NewReader(maps))
		if err == nil {
			vm.Flag("Answer")
		}
	})
}
