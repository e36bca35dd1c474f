// Package hostile makes programs that attack the reader of their symbols: ELF files that
// run, with a few bytes of code that spin, and with tables of Go that are huge, endless
// or contradict themselves. They need no compiler and no privilege: any user can have
// such a process, and wait for root to attach to it.
//
//  1. [All] lists them by name. A target's Write makes its file. The file is sparse
//     if it claims gigabytes.
//  2. A [program] builds a file: one piece of memory with a moduledata, a
//     program counter table and code, in the layout of Go 1.26 (runtime.moduledata,
//     runtime._func), and sections beside it.
//  3. Each kind breaks one thing in it, or makes it large.
//
// They are for tests and for `scripts/hostile targets`. Run them with limits of your own
// on the reader.
package hostile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
)

// Where a program is in memory: its moduledatas, tables and code in this order, in one
// piece that may be read, written and executed.
const (
	base      = 0x400000
	page      = 0x1000
	first     = 0x10000 // of the moduledatas, from the base; before it are the headers
	header    = 0x40    // of an ELF file, bytes
	segment   = 0x38
	section   = 0x40
	dataSize  = 0x400 // of a moduledata, bytes, with room to spare
	tableHead = 0x80  // of a program counter table
)

// program is the content of a file. Each field differs from a sound program's if the kind
// asks for it.
type program struct {
	modules int    // in a chain
	names   []byte // of functions
	gap     uint64 // zero bytes after the names, which take no room in the file
	repeat  int    // number of mappings of the names, one after another
	pctab   []byte
	funcs   []function
	trees   []byte // inline trees
	text    []byte // starts at the first function's entry
	foreign []byte // code after the functions; runs first if there is any
	start   uint64 // of the program: offset in text
	version string // of Go

	claim    uint64 // length of version
	noModule bool   // no section has the moduledata
	overlap  bool   // all tables begin where the function table does

	sections []part
	size     int64 // of the file, at least
}

// function is a record of the function table.
type function struct {
	entry    uint32 // offset in the text
	name     uint32 // offset in names
	pcsp     uint32 // offset in pctab, and so on
	pcfile   uint32
	pcln     uint32
	inlTable uint32 // pcdata of the inline tree
	tree     bool
}

// part is a section or a program header, and its content.
type part struct {
	name    string
	typ     uint32
	flags   uint64
	addr    uint64
	size    uint64 // 0: the length of the content
	link    uint32
	content []byte
	at      uint64 // offset in the file; with reuse only
	reuse   bool   // other bytes of the file are the content
}

// spin is code that jumps to itself.
var spin = []byte{0xeb, 0xfe}

// sound returns a correct program of two functions.
func sound() *program {
	return &program{
		modules: 1, repeat: 1, version: "go1.26.8",
		names: []byte("\x00main.spin\x00main.last\x00"),
		pctab: []byte{0, 2, 64, 0}, // 1: value 0 for 64 bytes
		text:  append(bytes.Clone(spin), make([]byte, 126)...),
		funcs: []function{{entry: 0, name: 1, pcsp: 1}, {entry: 64, name: 11, pcsp: 1}},
	}
}

// writer writes words at offsets.
type writer []byte

func (w writer) put32(at int, vs ...uint32) {
	for i, v := range vs {
		binary.LittleEndian.PutUint32(w[at+4*i:], v)
	}
}

func (w writer) put64(at int, vs ...uint64) {
	for i, v := range vs {
		binary.LittleEndian.PutUint64(w[at+8*i:], v)
	}
}

func align(n uint64, to uint64) uint64 { return (n + to - 1) / to * to }

// layout is the addresses of the tables.
type layout struct {
	heads, names, files, pctab, funcs, trees, text, end uint64
	tables                                              []byte // of functions, with their records
}

// place computes all addresses.
func (p *program) place() layout {
	var l layout
	l.tables = p.functionTable()
	l.heads = base + first + align(uint64(p.modules)*dataSize, page)
	l.names = align(l.heads+uint64(p.modules)*tableHead, page)
	l.files = l.names + align(uint64(len(p.names)), page)*uint64(p.repeat) + align(p.gap, page)
	l.pctab = l.files + page
	l.funcs = align(l.pctab+uint64(len(p.pctab)), page)
	l.trees = align(l.funcs+uint64(len(l.tables)), page)
	l.text = align(l.trees+uint64(len(p.trees))+page, page)
	l.end = align(l.text+uint64(len(p.text)+len(p.foreign)), page)
	return l
}

// functionTable returns ftab and the records.
func (p *program) functionTable() []byte {
	const record, tail = 44, 4 * 7 // bytes; three pcdata and four funcdata
	head := 8 * (len(p.funcs) + 1)
	w := make(writer, head+len(p.funcs)*(record+tail))
	for i, f := range p.funcs {
		at := head + i*(record+tail)
		w.put32(8*i, f.entry, uint32(at))
		none := ^uint32(0)
		tree := none
		if f.tree {
			tree = 0
		}
		w.put32(at, f.entry, f.name, 0, 0, f.pcsp, f.pcfile, f.pcln, 3, 0, 1, 4<<24, 0, 0, f.inlTable, none, none, none, tree)
	}
	w.put32(8*len(p.funcs), uint32(len(p.text)))
	return w
}

// write makes the file.
func (p *program) write(path string) error {
	l := p.place()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer f.Close()
	nameSize := align(uint64(len(p.names)), page)
	// The file has the names once, with any number of mappings. The rest comes earlier.
	saved := nameSize * uint64(p.repeat-1)
	offset := func(addr uint64) int64 {
		if addr >= l.files {
			addr -= saved
		}
		return int64(addr - base)
	}
	put := func(addr uint64, b []byte) {
		if err == nil {
			_, err = f.WriteAt(b, offset(addr))
		}
	}
	for i := range p.modules {
		put(base+first+uint64(i)*dataSize, p.moduledata(l, i))
		put(l.heads+uint64(i)*tableHead, p.tableHeader(l, i))
	}
	put(l.names, p.names)
	put(l.files, []byte("/src/main.go\x00"))
	put(l.pctab, p.pctab)
	put(l.funcs, l.tables)
	put(l.trees, p.trees)
	put(l.text, append(bytes.Clone(p.text), p.foreign...))
	start := l.text + p.start
	if p.foreign != nil {
		start = l.text + uint64(len(p.text))
	}
	heads, err2 := p.headers(f, l, start, saved, nameSize, offset(l.end))
	if err == nil {
		err = err2
	}
	put(base, heads)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() >= max(p.size, offset(l.end)) {
		return err
	}
	return f.Truncate(max(p.size, offset(l.end)))
}

// moduledata returns the i-th one, with a pointer to the next.
func (p *program) moduledata(l layout, i int) []byte {
	w := make(writer, dataSize)
	list := func(at int, addr, n uint64) { w.put64(at, addr, n, n) }
	w.put64(0, l.heads+uint64(i)*tableHead)
	list(8, l.names, l.files-l.names)
	list(32, l.files, 0)
	list(56, l.files, page)
	list(80, l.pctab, l.funcs-l.pctab)
	list(104, l.funcs, uint64(len(l.tables)))
	list(128, l.funcs, uint64(len(p.funcs))+1)
	if p.overlap {
		for _, at := range []int{8, 32, 56, 80} {
			list(at, l.funcs, 0)
		}
	}
	w.put64(160, l.text, l.text+uint64(len(p.text)), l.text)
	w.put64(320, l.trees)
	if i+1 < p.modules {
		w.put64(584, base+first+uint64(i+1)*dataSize)
	}
	return w
}

func (p *program) tableHeader(l layout, i int) []byte {
	w := make(writer, tableHead)
	at := l.heads + uint64(i)*tableHead
	const magic = 0xfffffff1 // Go 1.20
	w.put32(0, magic, 1<<16|8<<24)
	w.put64(8, uint64(len(p.funcs)))
	w.put64(32, l.names-at, l.files-at, l.files-at, l.pctab-at, l.funcs-at)
	if p.overlap {
		w.put64(32, l.funcs-at, l.funcs-at, l.funcs-at, l.funcs-at)
	}
	return w
}

// goSections returns the sections that show readers a Go program.
func (p *program) goSections(l layout) []part {
	info := append([]byte("\xff Go buildinf:\x08\x02"), make([]byte, 16)...)
	info = append(binary.AppendUvarint(info, max(p.claim, uint64(len(p.version)))), p.version...)
	module := ".go.module"
	if p.noModule {
		module = ".other"
	}
	return []part{
		{name: module, typ: uint32(elf.SHT_PROGBITS), addr: base + first, size: dataSize, reuse: true},
		{name: ".gopclntab", typ: uint32(elf.SHT_PROGBITS), addr: l.heads, size: tableHead, reuse: true},
		{name: ".go.buildinfo", typ: uint32(elf.SHT_PROGBITS), content: info},
	}
}

// headers writes the sections after the program, and returns the beginning of the
// file.
func (p *program) headers(f *os.File, l layout, start, saved, nameSize uint64, at int64) ([]byte, error) {
	sections := append(p.sections, p.goSections(l)...)
	if len(sections) == 0 || sections[0].name != shstrtab {
		names := part{name: shstrtab, typ: uint32(elf.SHT_STRTAB), content: []byte{0}}
		for _, s := range append(sections, names) {
			names.content = append(append(names.content, s.name...), 0)
		}
		sections = append([]part{names}, sections...)
	}
	names := sections[0].content
	sections = append([]part{{reuse: true}}, sections...) // the first one is not a section
	for i := range sections {
		s := &sections[i]
		if s.reuse {
			continue
		}
		s.at = uint64(at)
		if _, err := f.WriteAt(s.content, at); err != nil {
			return nil, err
		}
		at += int64(align(uint64(len(s.content)), 16))
	}
	table := make(writer, section*len(sections))
	for i, s := range sections {
		size := s.size
		if size == 0 {
			size = uint64(len(s.content))
		}
		name := max(bytes.Index(names, append([]byte(s.name), 0)), 0)
		table.put32(section*i, uint32(name), s.typ)
		table.put64(section*i+8, s.flags, s.addr, s.at, size)
		table.put32(section*i+40, s.link)
	}
	if _, err := f.WriteAt(table, at); err != nil {
		return nil, err
	}
	loads := p.loads(l, saved, nameSize)
	w := make(writer, header+segment*len(loads))
	copy(w, elf.ELFMAG+"\x02\x01\x01")
	w.put32(16, uint32(elf.ET_EXEC)|uint32(elf.EM_X86_64)<<16, uint32(elf.EV_CURRENT))
	w.put64(24, start, header, uint64(at))
	w.put32(52, header|segment<<16, uint32(len(loads))|section<<16, uint32(len(sections))|1<<16)
	for i, s := range loads {
		w.put32(header+segment*i, s.typ, uint32(s.flags))
		w.put64(header+segment*i+8, s.at, s.addr, s.addr, s.size, s.size, page)
	}
	return w, nil
}

// shstrtab is the section of sections' names.
const shstrtab = ".shstrtab"

// loads returns the segments: all of the program, and repeated mappings of the names
// between its names and the rest.
func (p *program) loads(l layout, saved, nameSize uint64) []part {
	const all = uint64(elf.PF_R | elf.PF_W | elf.PF_X)
	load := func(addr, end, at uint64) part {
		return part{typ: uint32(elf.PT_LOAD), flags: all, addr: addr, size: end - addr, at: at}
	}
	if p.repeat == 1 {
		return []part{load(base, l.end, 0)}
	}
	loads := []part{load(base, l.names+nameSize, 0)}
	for i := 1; i < p.repeat; i++ {
		from := l.names + uint64(i)*nameSize
		loads = append(loads, load(from, from+nameSize, l.names-base))
	}
	return append(loads, load(l.files, l.end, l.files-saved-base))
}
