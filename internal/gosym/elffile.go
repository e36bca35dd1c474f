package gosym

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// elfFile is what is needed of an ELF file's headers. Package debug/elf reads what
// the headers claim, however much, and expands sections that are compressed; here
// everything draws from a budget.
type elfFile struct {
	r        io.ReaderAt
	machine  elf.Machine
	segments []segment
	sections []section
}

// segment is a program header.
type segment struct {
	typ            elf.ProgType
	flags          elf.ProgFlag
	off, vaddr     uint64
	fileSize, size uint64 // bytes
}

func (s *segment) isLoaded() bool { return s.typ == elf.PT_LOAD }

// section is a section header. Only sections that something asks for are kept.
type section struct {
	name      string
	typ       elf.SectionType
	flags     elf.SectionFlag
	addr, off uint64
	size      uint64 // in the file, bytes
	link      uint32
	index     int
}

// Bounds of an ELF file's headers. The names of sections are at most maxSectionNames
// bytes, and those that are looked for at most maxSectionName.
const (
	maxSectionNames = 1 << 20
	maxSectionName  = 32
	elfHeader       = 64
	segmentSize     = 56
	sectionSize     = 64
)

// readELF reads the headers of a file.
func readELF(b *budget, r io.ReaderAt) (*elfFile, error) {
	var h elf.Header64
	if err := readStruct(b, r, 0, elfHeader, &h); err != nil {
		return nil, fmt.Errorf("read ELF header: %w", err)
	}
	if string(h.Ident[:4]) != elf.ELFMAG {
		return nil, fmt.Errorf("not an ELF file: %w", errCorrupt)
	}
	class, data := elf.Class(h.Ident[elf.EI_CLASS]), elf.Data(h.Ident[elf.EI_DATA])
	if class != elf.ELFCLASS64 || data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("%v %v: %w", class, data, ErrUnsupported)
	}
	if h.Phnum > 0 && h.Phentsize != segmentSize || h.Shnum > 0 && h.Shentsize != sectionSize {
		return nil, fmt.Errorf("ELF headers of %d and %d bytes: %w", h.Phentsize, h.Shentsize, errCorrupt)
	}
	f := &elfFile{r: r, machine: elf.Machine(h.Machine)}
	if err := f.readSegments(b, h); err != nil {
		return nil, fmt.Errorf("read program headers: %w", err)
	}
	if err := f.readSections(b, h); err != nil {
		return nil, fmt.Errorf("read section headers: %w", err)
	}
	return f, nil
}

func (f *elfFile) readSegments(b *budget, h elf.Header64) error {
	all := make([]elf.Prog64, h.Phnum)
	if err := readStruct(b, f.r, h.Phoff, len(all)*segmentSize, all); err != nil {
		return err
	}
	for _, p := range all {
		f.segments = append(f.segments, segment{
			typ: elf.ProgType(p.Type), flags: elf.ProgFlag(p.Flags),
			off: p.Off, vaddr: p.Vaddr, fileSize: p.Filesz, size: p.Memsz,
		})
	}
	return nil
}

// readSections keeps the sections that have one of the names that are looked for,
// symbol tables with their names, and notes. A file whose names cannot be read has
// sections without names.
func (f *elfFile) readSections(b *budget, h elf.Header64) error {
	all := make([]elf.Section64, h.Shnum)
	if err := readStruct(b, f.r, h.Shoff, len(all)*sectionSize, all); err != nil {
		return err
	}
	var names string
	if int(h.Shstrndx) < len(all) {
		if s := all[h.Shstrndx]; elf.SectionFlag(s.Flags)&elf.SHF_COMPRESSED == 0 && s.Size <= maxSectionNames {
			raw, err := readFile(b, f.r, s.Off, s.Size)
			if errors.Is(err, ErrTooMuch) {
				return err
			}
			names = asString(raw)
		}
	}
	linked := make(map[uint32]bool)
	for _, s := range all {
		if typ := elf.SectionType(s.Type); typ == elf.SHT_SYMTAB || typ == elf.SHT_DYNSYM {
			linked[s.Link] = true
		}
	}
	for i, raw := range all {
		s := section{
			name: shortName(names, raw.Name), typ: elf.SectionType(raw.Type), flags: elf.SectionFlag(raw.Flags),
			addr: raw.Addr, off: raw.Off, size: raw.Size, link: raw.Link, index: i,
		}
		if s.isOfUse() || linked[uint32(i)] {
			f.sections = append(f.sections, s)
		}
	}
	return nil
}

// usefulSections are the names that are looked for.
var usefulSections = []string{
	".go.module", ".gopclntab", ".data.rel.ro.gopclntab", ".go.buildinfo", ".eh_frame",
	".debug_abbrev", ".debug_info", ".gnu_debuglink", SectionSVM,
}

func (s section) isOfUse() bool {
	return s.typ == elf.SHT_SYMTAB || s.typ == elf.SHT_DYNSYM || s.typ == elf.SHT_NOTE || slices.Contains(usefulSections, s.name)
}

// shortName returns a name that sections can have which are looked for.
func shortName(names string, off uint32) string {
	name := cutName(names, off, maxSectionName)
	if len(name) == maxSectionName {
		return ""
	}
	return string([]byte(name)) // lets go of the others
}

// section returns the section of a name, or nil.
func (f *elfFile) section(name string) *section {
	for i := range f.sections {
		if f.sections[i].name == name {
			return &f.sections[i]
		}
	}
	return nil
}

// ofType returns the first section of a type and the one that it links to.
func (f *elfFile) ofType(typ elf.SectionType) (table, names *section) {
	for i := range f.sections {
		if f.sections[i].typ == typ {
			table = &f.sections[i]
			break
		}
	}
	for i := range f.sections {
		if table != nil && f.sections[i].index == int(table.link) {
			return table, &f.sections[i]
		}
	}
	return nil, nil
}

// inFile says by an error whether a section has its content as it is in the file.
func (s *section) inFile() error {
	if s.typ == elf.SHT_NOBITS || s.flags&elf.SHF_COMPRESSED != 0 {
		return fmt.Errorf("section %s is not in the file as it is: %w", s.name, errCorrupt)
	}
	return nil
}

// content returns a section as it is in the file.
func (f *elfFile) content(b *budget, s *section) ([]byte, error) {
	if err := s.inFile(); err != nil {
		return nil, err
	}
	return readFile(b, f.r, s.off, s.size)
}

// expanded returns a section that may be compressed, as Go's linker compresses debug
// information.
func (f *elfFile) expanded(b *budget, s *section) ([]byte, error) {
	if s.flags&elf.SHF_COMPRESSED == 0 {
		return f.content(b, s)
	}
	var h elf.Chdr64
	const size = 24
	if err := readStruct(b, f.r, s.off, size, &h); err != nil {
		return nil, err
	}
	if elf.CompressionType(h.Type) != elf.COMPRESS_ZLIB || s.size < size {
		return nil, fmt.Errorf("section %s is compressed by method %d: %w", s.name, h.Type, ErrUnsupported)
	}
	packed, err := readFile(b, f.r, s.off+size, s.size-size)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("expand section %s: %w", s.name, err)
	}
	return expand(b, z, h.Size)
}

// opened returns where the content of a section can be read, compressed or not.
func (f *elfFile) opened(b *budget, s *section) (r io.ReaderAt, off, size uint64, err error) {
	if s.flags&elf.SHF_COMPRESSED == 0 {
		return f.r, s.off, s.size, s.inFile()
	}
	raw, err := f.expanded(b, s)
	return bytes.NewReader(raw), 0, uint64(len(raw)), err
}

// expand reads n bytes from a decompressor.
func expand(b *budget, r io.Reader, n uint64) ([]byte, error) {
	if err := b.holding(bounded(n)); err != nil {
		return nil, err
	}
	all := make([]byte, n)
	for rest := all; len(rest) > 0; {
		step := min(len(rest), 1<<20)
		if err := b.reading(step); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(r, rest[:step]); err != nil {
			return nil, fmt.Errorf("expand: %w", err)
		}
		rest = rest[step:]
	}
	return all, nil
}

// bounded turns a size that the target gives into one that any budget refuses if it
// is too large.
func bounded(n uint64) int { return int(min(n, 1<<62)) }

// readFile returns n bytes of a file.
func readFile(b *budget, r io.ReaderAt, off, n uint64) ([]byte, error) {
	if err := b.holding(bounded(n)); err != nil {
		return nil, err
	}
	all := make([]byte, n)
	for at := uint64(0); at < n; at += chunk {
		if err := readFull(b, r, all[at:min(at+chunk, n)], off+at); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readFull fills p from a file.
func readFull(b *budget, r io.ReaderAt, p []byte, off uint64) error {
	if err := b.reading(len(p)); err != nil {
		return err
	}
	if off >= 1<<63 {
		return fmt.Errorf("offset %#x: %w", off, errCorrupt)
	}
	start := time.Now()
	n, err := r.ReadAt(p, int64(off))
	if n < len(p) {
		return fmt.Errorf("read %d bytes at %#x: %w", len(p), off, err)
	}
	return b.waited(start)
}

// readStruct reads size bytes of a file into a struct, or a slice of them.
func readStruct(b *budget, r io.ReaderAt, off uint64, size int, into any) error {
	raw, err := readFile(b, r, off, uint64(size))
	if err != nil {
		return err
	}
	_, err = binary.Decode(raw, binary.LittleEndian, into)
	return err
}
