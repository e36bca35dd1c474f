package hostile

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// Target is a hostile program.
type Target struct {
	Name string
	Make func() Program
}

// Program can be written to a file, which can then be executed.
type Program interface{ Write(path string) error }

func (p *program) Write(path string) error { return p.write(path) }

const (
	million = 1 << 20
	giga    = 1 << 30
)

// Large is a sound program with larger tables than a reader holds.
const Large = "half a million sound functions with tables of 126 MB"

// All returns all kinds.
func All() []Target {
	kinds := []struct {
		name string
		make func(*program)
	}{
		{"256 modules in a chain, over pages that were never written", chained},
		{"debug information that expands to 16 GB", debugBomb},
		{"800,000 functions whose names, 512 MB, do not end", endlessNames},
		{"a million objects with one name of 20 MB", objects},
		{"inlined calls in a circle, a table of a million steps", circle},
		{"functions with names of 16 MB", longNames},
		{"half a million names of 4 KB, all sampled", manyNames},
		{Large, large},
		{"a stack of 8,000 addresses, each after 200,000 steps", deepStack},
		{"a program counter table that is all of its tables", selfTable},
		{"65,000 sections of notes", notes},
		{"section names of 16 EB, compressed", sectionNames},
		{"build information with a version of 4 EB", version},
		{"a symbol table of 4 million functions at one address", symbols},
		{"call frames of a million functions, run for every address", callFrames},
		{"an executable of 1 TB", huge},
		{"a memory map of 60,000 lines", manyMappings},
		{"code that is mapped and unmapped all the time", mapping},
		{"a program that replaces itself all the time", replacing},
	}
	var all []Target
	for _, k := range kinds {
		all = append(all, Target{k.name, func() Program {
			p := sound()
			k.make(p)
			return p
		}})
	}
	return all
}

func chained(p *program) {
	p.modules = 256
	p.gap = giga * 7 / 8
}

// debugBomb has a Go version that readers look up in its debug information, which is
// compressed in the two possible ways. In the older way only the content has the size.
func debugBomb(p *program) {
	p.version = "go1.99"
	const claim = 16 * giga
	old := append([]byte("ZLIB"), binary.BigEndian.AppendUint64(nil, claim)...)
	old = append(old, zeros(claim)[24:]...)
	p.sections = append(p.sections,
		part{name: ".debug_abbrev", typ: uint32(elf.SHT_PROGBITS), content: []byte("\x01\x13\x00\x03\x08\x00\x00\x00")},
		part{name: ".debug_info", typ: uint32(elf.SHT_PROGBITS), flags: uint64(elf.SHF_COMPRESSED), content: zeros(giga / 8)},
		part{name: ".zdebug_line", typ: uint32(elf.SHT_PROGBITS), content: old},
	)
}

// zeros returns a compressed section that expands to n zeros: the same block over and
// over.
func zeros(n uint64) []byte {
	var block, head bytes.Buffer
	z := zlib.NewWriter(&block)
	z.Write(make([]byte, million))
	z.Flush()
	first := block.Len()
	z.Write(make([]byte, million))
	z.Flush()
	binary.Write(&head, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: n, Addralign: 1})
	head.Write(block.Bytes()[:first])
	for range n/million - 1 {
		head.Write(block.Bytes()[first:])
	}
	return head.Bytes()
}

// many gives the program n functions of one byte each. The functions that a loader looks
// at first have a sound name.
func (p *program) many(n int, name func(i int) uint32) {
	p.funcs = make([]function, n)
	for i := range p.funcs {
		p.funcs[i] = function{entry: uint32(i), name: name(i), pcsp: 1}
	}
	p.text = bytes.Repeat([]byte{0x90}, n)                                      // nop
	p.foreign = append([]byte{0xe9}, make([]byte, 4)...)                        // jmp to the first
	binary.LittleEndian.PutUint32(p.foreign[1:], uint32(-int32(len(p.text)+5))) // falls through from the last
}

func endlessNames(p *program) {
	const size, n = million, 800_000
	p.names = append([]byte("\x00main.spin\x00"), bytes.Repeat([]byte("x"), size-11)...)
	p.repeat = 512
	p.many(n, func(i int) uint32 {
		if i%(n/256) == 0 {
			return 1
		}
		return uint32(512*million - 1 - i)
	})
}

func objects(p *program) {
	symbol := make(writer, 24)
	symbol.put32(0, 1, uint32(elf.STT_OBJECT)|1<<16)
	names := append(append([]byte{0}, bytes.Repeat([]byte("f"), 20*million)...), 0)
	p.sections = append(p.sections,
		part{name: ".strtab", typ: uint32(elf.SHT_STRTAB), content: names},
		part{name: ".symtab", typ: uint32(elf.SHT_SYMTAB), link: 2, content: bytes.Repeat(symbol, million)},
	)
	p.noModule = true
}

// steps is a table whose value is 0 at even bytes, and unknown at odd ones.
func steps(n int) []byte { return bytes.Repeat([]byte{2, 1, 1, 1}, n/2) }

// circle runs at thousands of addresses, so that no cache helps.
func circle(p *program) {
	const code = 4096
	p.pctab = append([]byte{0}, steps(million)...)
	p.text = append(make([]byte, million-code), bytes.Repeat([]byte{0x90}, code)...) // nop
	p.start = million - code
	back := writer(p.text[million-5:]) // jmp
	back[0] = 0xe9
	back.put32(1, ^uint32(code)+1)
	p.funcs = []function{{name: 1, pcsp: 1, pcfile: 1, pcln: 1, inlTable: 1, tree: true}}
	// A record: role, name, offset of the call in the function, line.
	tree := make(writer, 16)
	tree.put32(0, 0, 1, million-code, 1)
	p.trees = tree
}

func longNames(p *program) {
	p.names = append(append([]byte{0}, bytes.Repeat([]byte("n"), 16*million)...), 0)
	p.many(100_000, func(int) uint32 { return 1 })
}

func manyNames(p *program) {
	const n = 500_000
	r := rand.New(rand.NewPCG(1, 2))
	p.names = append([]byte("\x00main.spin\x00"), make([]byte, million)...)
	for i := range p.names[11:] {
		p.names[11+i] = 'a' + byte(r.IntN(26))
	}
	p.many(n, func(i int) uint32 {
		if i%(n/256) == 0 {
			return 1
		}
		return uint32(11 + i)
	})
}

// large gives each function a table of its own.
func large(p *program) {
	const n, size, value = 500_000, 160, "\x02\x01\x00" // 0 for a byte
	p.pctab = make([]byte, 1+n*size)
	p.names = []byte{0}
	p.many(n, func(i int) uint32 {
		copy(p.pctab[1+i*size:], value)
		at := len(p.names)
		p.names = fmt.Appendf(p.names, "main.f%d\x00", i)
		return uint32(at)
	})
	for i := range p.funcs {
		p.funcs[i].pcsp = uint32(1 + i*size)
	}
}

// deepStack makes SP point to return addresses. Each is at another place in one function
// that keeps nothing on the stack.
func deepStack(p *program) {
	const depth, size = 8000, 250_000
	p.pctab = append([]byte{0}, steps(size)...)
	p.text = make([]byte, size)
	p.funcs = []function{{name: 1, pcsp: 1, pcfile: 1, pcln: 1}}
	p.start = size - 16
	p.onStack(p.text[p.start:], depth, func(l layout, i int) uint64 { return l.text + size - 32 - 2*uint64(i) })
}

// onStack writes code that makes SP point to addresses, in place of inline trees, and
// spins.
func (p *program) onStack(code []byte, depth int, address func(layout, int) uint64) {
	const lea = 7                                                      // bytes
	copy(code, []byte{0x48, 0x8d, 0x25, 0, 0, 0, 0, 0x90, 0xeb, 0xfe}) // lea rsp, [rip+…]; nop; spin
	stack := make(writer, 8*depth)
	p.trees = stack
	l := p.place()
	for i := range depth {
		stack.put64(8*i, address(l, i))
	}
	at := l.text + p.start
	if p.foreign != nil {
		at = l.text + uint64(len(p.text))
	}
	writer(code).put32(3, uint32(l.trees-at-lea))
}

func selfTable(p *program) { p.overlap = true }

func notes(p *program) {
	note := bytes.Repeat([]byte("\x04\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00GNU\x00"), 4000)
	p.sections = append(p.sections, part{name: ".note", typ: uint32(elf.SHT_NOTE), content: note})
	for range 65_000 {
		p.sections = append(p.sections, part{name: ".note", typ: uint32(elf.SHT_NOTE), size: uint64(len(note)), at: page, reuse: true})
	}
}

func sectionNames(p *program) {
	p.sections = append(p.sections, part{
		name: shstrtab, typ: uint32(elf.SHT_STRTAB), flags: uint64(elf.SHF_COMPRESSED), content: zeros(2 * giga),
	})
}

func version(p *program) { p.claim = 1 << 62 }

func symbols(p *program) {
	symbol := make(writer, 24)
	symbol.put32(0, 1, uint32(elf.STT_FUNC)|1<<16)
	symbol.put64(8, base, 1<<40)
	names := append(append([]byte{0}, bytes.Repeat([]byte("_"), million)...), 0)
	p.sections = append(p.sections,
		part{name: ".strtab", typ: uint32(elf.SHT_STRTAB), content: names},
		part{name: ".symtab", typ: uint32(elf.SHT_SYMTAB), link: 2, content: bytes.Repeat(symbol, 4*million)},
	)
	p.foreign = spin
}

// callFrames gives each sample in C a stack of addresses in C. Each address has a program
// of instructions that remember and recall everything.
func callFrames(p *program) {
	const n, depth = million, 8000
	p.foreign = make([]byte, 2*depth)
	p.onStack(p.foreign, depth, func(l layout, i int) uint64 { return l.text + uint64(len(p.text)+depth+i) })
	l := p.place()
	entry := l.text + uint64(len(p.text))
	cie := []byte{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x04, 0x0c, 7, 8, 0x90, 1, 0, 0} // absolute addresses of 8 bytes
	var frames bytes.Buffer
	entryOf := func(id uint32, body []byte) {
		binary.Write(&frames, binary.LittleEndian, []uint32{uint32(len(body) + 4), id})
		frames.Write(body)
	}
	entryOf(0, cie)
	fde := func(start, size uint64, program []byte) {
		body := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, start), size)
		entryOf(uint32(frames.Len()+4), append(append(body, 0), program...))
	}
	fde(entry, uint64(len(p.foreign)), append(bytes.Repeat([]byte{0x0a, 0x0b}, 8000), 0, 0, 0))
	for i := range n {
		fde(1<<40+uint64(i), 1, []byte{0, 0, 0})
	}
	p.sections = append(p.sections, part{name: ".eh_frame", typ: uint32(elf.SHT_PROGBITS), content: frames.Bytes()})
}

func huge(p *program) { p.size = 1 << 40 }

// Code of programs that map. System calls: 9 mmap, 11 munmap, 59 execve.
func manyMappings(p *program) {
	p.foreign = []byte{
		0x41, 0xbc, 0x60, 0xea, 0x00, 0x00, // mov r12d, 60000
		0x49, 0xbd, 0, 0, 0, 0, 0x20, 0, 0, 0, // mov r13, 0x2000000000
		// next:
		0x4c, 0x89, 0xef, // mov rdi, r13
		0xbe, 0x00, 0x10, 0x00, 0x00, // mov esi, 4096
		0xba, 0x05, 0x00, 0x00, 0x00, // mov edx, PROT_READ|PROT_EXEC
		0x41, 0xba, 0x32, 0x00, 0x00, 0x00, // mov r10d, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED
		0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, // mov r8, -1
		0x45, 0x31, 0xc9, // xor r9d, r9d
		0xb8, 0x09, 0x00, 0x00, 0x00, // mov eax, 9
		0x0f, 0x05, // syscall
		0x49, 0x81, 0xc5, 0x00, 0x20, 0x00, 0x00, // add r13, 8192
		0x41, 0xff, 0xcc, // dec r12d
		0x75, 0xd0, // jnz next
		0xeb, 0xfe, // spin
	}
}

func mapping(p *program) {
	p.foreign = []byte{
		// next:
		0x31, 0xff, // xor edi, edi
		0xbe, 0x00, 0x10, 0x00, 0x00, // mov esi, 4096
		0xba, 0x05, 0x00, 0x00, 0x00, // mov edx, PROT_READ|PROT_EXEC
		0x41, 0xba, 0x22, 0x00, 0x00, 0x00, // mov r10d, MAP_PRIVATE|MAP_ANONYMOUS
		0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff, // mov r8, -1
		0x45, 0x31, 0xc9, // xor r9d, r9d
		0xb8, 0x09, 0x00, 0x00, 0x00, // mov eax, 9
		0x0f, 0x05, // syscall
		0x48, 0x89, 0xc7, // mov rdi, rax
		0xb8, 0x0b, 0x00, 0x00, 0x00, // mov eax, 11
		0x0f, 0x05, // syscall
		0xeb, 0xd1, // jmp next
	}
}

func replacing(p *program) {
	p.foreign = append([]byte{
		0xb9, 0x00, 0x00, 0x00, 0x08, // mov ecx, 0x8000000: for a while
		0xff, 0xc9, 0x75, 0xfc, // dec ecx; jnz
		0x48, 0x8d, 0x3d, 0x0f, 0x00, 0x00, 0x00, // lea rdi, [rip+15]
		0x31, 0xf6, 0x31, 0xd2, // xor esi, esi; xor edx, edx
		0xb8, 0x3b, 0x00, 0x00, 0x00, // mov eax, 59
		0x0f, 0x05, // syscall
		0xeb, 0xfe, 0x90, 0x90, // spin
	}, "/proc/self/exe\x00"...)
}
