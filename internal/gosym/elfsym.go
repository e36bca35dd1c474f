package gosym

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
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

const symbolSize = 24 // bytes of Elf64_Sym

// functions reads .symtab or .dynsym, by its type. It reports whether the file has such a table, and a sound one.
func (f *elfFile) functions(b *budget, typ elf.SectionType) (s symbols, ok bool) {
	table, names := f.ofType(typ)
	if table == nil {
		return symbols{}, false
	}
	s, err := readSymbols(b, f, table, names)
	if err != nil {
		return symbols{}, false
	}
	return s, true
}

func readSymbols(b *budget, f *elfFile, table, names *section) (s symbols, err error) {
	raw, err := f.expanded(b, names)
	if err != nil {
		return s, err
	}
	if err := shared.share(b, &raw); err != nil {
		return s, err
	}
	s.names = asString(raw)
	for entries, err := range f.symbolTable(b, table) {
		if err == nil {
			err = s.add(b, entries)
		}
		if err != nil {
			return s, err
		}
	}
	return s, s.sort(b)
}

// symbolTable yields the raw entries of a symbol table, piece by piece. A piece is
// valid until the next.
func (f *elfFile) symbolTable(b *budget, table *section) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r, off, size, err := f.opened(b, table)
		if err != nil {
			yield(nil, err)
			return
		}
		const most = symbolSize << 12
		buf := make([]byte, min(most, size))
		for at := uint64(0); at < size; at += most {
			piece := buf[:min(most, size-at)]
			err := readFull(b, r, piece, off+at)
			if !yield(piece, err) || err != nil {
				return
			}
		}
	}
}

// findObject returns the address of a variable in an unstripped file. It looks for
// the name first, and then compares one number of each symbol.
func findObject(b *budget, f *elfFile, name string) (addr uint64, ok bool) {
	table, names := f.ofType(elf.SHT_SYMTAB)
	if table == nil || names.inFile() != nil {
		return 0, false
	}
	offsets := f.find(b, names, name+"\x00")
	for entries, err := range f.symbolTable(b, table) {
		if err != nil || b.work(len(entries)/symbolSize) != nil {
			return 0, false
		}
		for ; len(entries) >= symbolSize; entries = entries[symbolSize:] {
			isObject := elf.ST_TYPE(entries[4]) == elf.STT_OBJECT
			if isObject && slices.Contains(offsets, binary.LittleEndian.Uint32(entries)) {
				return binary.LittleEndian.Uint64(entries[8:]), true
			}
		}
	}
	return 0, false
}

// find returns the first offsets of a text in a section.
func (f *elfFile) find(b *budget, s *section, text string) (offsets []uint32) {
	const most = 4 // other names may end with it
	buf := make([]byte, min(window+uint64(len(text)), s.size))
	for at := uint64(0); at < s.size; at += window {
		piece := buf[:min(uint64(len(buf)), s.size-at)]
		if readFull(b, f.r, piece, s.off+at) != nil {
			return offsets
		}
		for from := 0; len(offsets) < most; {
			i := bytes.Index(piece[from:], []byte(text))
			if i < 0 {
				break
			}
			offsets = append(offsets, uint32(at)+uint32(from+i))
			from += i + 1
		}
	}
	return offsets
}

// symbolCost is the cost of sorting one symbol, in steps.
const symbolCost = 32

// add takes the functions of raw entries in.
func (s *symbols) add(b *budget, entries []byte) error {
	n := len(entries) / symbolSize
	if err := b.work(symbolCost * n); err != nil {
		return err
	}
	if err := b.holding(2 * symbolSize * n); err != nil { // the slice grows
		return err
	}
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
	return nil
}

// sort sorts by address. Of aliases it keeps the one with the fewest leading
// underscores, malloc of __libc_malloc, then the shortest, free of cfree, and then the first by name.
func (s *symbols) sort(b *budget) error {
	slices.SortStableFunc(s.list, func(a, b symbol) int { return cmp.Compare(a.addr, b.addr) })
	kept := s.list[:0]
	for _, sym := range s.list {
		last := len(kept) - 1
		switch {
		case last < 0 || kept[last].addr != sym.addr:
			kept = append(kept, sym)
		case s.prefers(sym, kept[last]):
			kept[last] = sym
		}
		if err := b.work(symbolCost); err != nil {
			return err
		}
	}
	s.list = kept
	return nil
}

// prefers says whether of two aliases the first is to stand for both.
func (s *symbols) prefers(a, b symbol) bool {
	na, nb := cutName(s.names, a.name, maxAlias), cutName(s.names, b.name, maxAlias)
	return cmp.Or(cmp.Compare(underscores(na), underscores(nb)), cmp.Compare(len(na), len(nb)), strings.Compare(na, nb)) < 0
}

// maxAlias is how much of a name tells it from others of its address, bytes.
const maxAlias = 256

// underscores counts those that a name begins with. glibc's prefix for calls within itself, as in __GI___clone,
// makes them more.
func underscores(s string) int {
	plain := strings.TrimPrefix(s, "__GI_")
	return len(s) - len(strings.TrimLeft(plain, "_"))
}

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
	if at := strings.IndexByte(name, '@'); at > 0 { // the version of a library's symbol: realpath@@GLIBC_2.3
		name = name[:at]
	}
	return name, s.list[i].addr, name != ""
}
