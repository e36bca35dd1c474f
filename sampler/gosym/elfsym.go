package gosym

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
)

// symbols are the functions of an ELF symbol table, sorted by address.
type symbols struct {
	list  []symbol
	names string
}

type symbol struct {
	addr, size uint64 // virtual address in the file, bytes
	name       uint32 // offset in names
}

const (
	maxSymbolTable = 1 << 28 // bytes
	symbolSize     = 24      // bytes of Elf64_Sym
)

// loadSymbols reads .symtab or, where it was stripped, .dynsym. A file without
// either, or with a broken one, has no symbols.
func loadSymbols(f *elf.File) symbols {
	for _, typ := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		if entries, names, ok := symbolTable(f, typ); ok {
			return newSymbols(entries, names)
		}
	}
	return symbols{}
}

// symbolTable returns the raw entries of a symbol table and its names.
func symbolTable(f *elf.File, typ elf.SectionType) (entries []byte, names string, ok bool) {
	table := f.SectionByType(typ)
	if table == nil || uint64(table.Link) >= uint64(len(f.Sections)) {
		return nil, "", false
	}
	entries, err := sectionBytes(table)
	if err != nil {
		return nil, "", false
	}
	b, err := sectionBytes(f.Sections[table.Link])
	return entries, string(b), err == nil
}

// sectionBytes returns the contents of a section as they are in the file.
func sectionBytes(s *elf.Section) ([]byte, error) {
	if s.FileSize > maxSymbolTable || s.ReaderAt == nil || s.Type == elf.SHT_NOBITS || s.Flags&elf.SHF_COMPRESSED != 0 {
		return nil, fmt.Errorf("section %s of %d bytes: %w", s.Name, s.FileSize, errCorrupt)
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.NewSectionReader(s.ReaderAt, 0, int64(s.FileSize)))
	if err == nil && uint64(n) != s.FileSize {
		err = io.ErrUnexpectedEOF
	}
	return b.Bytes(), err
}

func newSymbols(entries []byte, names string) symbols {
	s := symbols{names: names}
	for ; len(entries) >= symbolSize; entries = entries[symbolSize:] {
		typ := elf.ST_TYPE(entries[4])
		section := elf.SectionIndex(binary.LittleEndian.Uint16(entries[6:]))
		if typ != elf.STT_FUNC && typ != elf.STT_GNU_IFUNC || section == elf.SHN_UNDEF {
			continue
		}
		s.list = append(s.list, symbol{
			name: binary.LittleEndian.Uint32(entries),
			addr: binary.LittleEndian.Uint64(entries[8:]),
			size: binary.LittleEndian.Uint64(entries[16:]),
		})
	}
	slices.SortFunc(s.list, s.compare)
	s.list = slices.CompactFunc(s.list, func(a, b symbol) bool { return a.addr == b.addr })
	return s
}

// compare orders by address; of aliases, the name with the fewest leading
// underscores comes first: malloc before __libc_malloc.
func (s symbols) compare(a, b symbol) int {
	if c := cmp.Compare(a.addr, b.addr); c != 0 {
		return c
	}
	na, nb := terminated(s.names, a.name), terminated(s.names, b.name)
	if c := cmp.Compare(underscores(na), underscores(nb)); c != 0 {
		return c
	}
	return strings.Compare(na, nb)
}

func underscores(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }

// find returns the function at a virtual address of the file. A function of
// size 0 (assembly) reaches up to the next.
func (s symbols) find(addr uint64) (name string, entry uint64, ok bool) {
	i, exact := slices.BinarySearchFunc(s.list, addr, func(sym symbol, addr uint64) int {
		return cmp.Compare(sym.addr, addr)
	})
	if !exact {
		i--
	}
	if i < 0 || s.list[i].size != 0 && addr-s.list[i].addr >= s.list[i].size {
		return "", 0, false
	}
	name = terminated(s.names, s.list[i].name)
	return name, s.list[i].addr, name != ""
}

// ELF notes that identify a build.
const (
	noteGNUBuildID = 3 // name "GNU": NT_GNU_BUILD_ID
	noteGoBuildID  = 4 // name "Go": cmd/internal/buildid
	maxNotes       = 1 << 16
)

// buildID returns the GNU build id in hex, which C linkers and Go's write and
// runtime/pprof reports, else the Go build id, else "". Go 1.26 writes the GNU note into
// a section that no PT_NOTE segment covers, so sections are read as well.
func buildID(f *elf.File) string {
	var goID string
	for notes := range noteData(f) {
		for n, rest, ok := cutNote(notes); ok; n, rest, ok = cutNote(rest) {
			switch {
			case n.typ == noteGNUBuildID && n.name == "GNU":
				return hex.EncodeToString(n.desc)
			case n.typ == noteGoBuildID && n.name == "Go":
				goID = string(n.desc)
			}
		}
	}
	return goID
}

// noteData returns the content of a file's note segments and sections.
func noteData(f *elf.File) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		read := func(r io.ReaderAt, size uint64) bool {
			if size > maxNotes {
				return true
			}
			b := make([]byte, size)
			_, err := r.ReadAt(b, 0)
			return err != nil && err != io.EOF || yield(b)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_NOTE && !read(p, p.Filesz) {
				return
			}
		}
		for _, s := range f.Sections {
			// debug/elf gives a section that claims to be compressed no ReaderAt.
			if s.Type == elf.SHT_NOTE && s.ReaderAt != nil && !read(s, s.Size) {
				return
			}
		}
	}
}

type note struct {
	name string
	typ  uint32
	desc []byte
}

// cutNote returns the first ELF note of b and what follows it.
func cutNote(b []byte) (n note, rest []byte, ok bool) {
	if len(b) < 12 {
		return note{}, nil, false
	}
	nameSize := uint64(binary.LittleEndian.Uint32(b))
	descSize := uint64(binary.LittleEndian.Uint32(b[4:]))
	typ := binary.LittleEndian.Uint32(b[8:])
	desc := 12 + (nameSize+3)&^3
	end := desc + descSize
	if end > uint64(len(b)) {
		return note{}, nil, false
	}
	n = note{strings.TrimRight(string(b[12:12+nameSize]), "\x00"), typ, b[desc:end]}
	return n, b[min((end+3)&^3, uint64(len(b))):], true
}
