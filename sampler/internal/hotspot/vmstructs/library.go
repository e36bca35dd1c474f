package vmstructs

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// library is where a shared library is mapped.
type library struct {
	low, high uint64 // [low, high): from its first mapping to its last
}

const (
	maxMappings = 1 << 17 // of a process; vm.max_map_count is 65,530 by default
	maxLine     = 16 << 10
)

// findLibrary finds libjvm.so in /proc/PID/maps. Of several, as in a process that has
// mapped the file once more to read it, the one with code counts.
func findLibrary(b *budget, maps io.Reader) (library, error) {
	lines := bufio.NewScanner(maps)
	lines.Buffer(nil, maxLine)
	found, openJ9 := map[string]*struct {
		library
		code bool
	}{}, false
	for n := 0; n < maxMappings && lines.Scan(); n++ {
		if b.ctx.Err() != nil {
			return library{}, b.ctx.Err()
		}
		m, ok := parseMapping(lines.Text())
		base := strings.TrimSuffix(path.Base(m.path), " (deleted)")
		openJ9 = openJ9 || strings.HasPrefix(base, "libj9vm")
		if !ok || base != "libjvm.so" {
			continue
		}
		if err := b.keeping(len(m.path)); err != nil {
			return library{}, err
		}
		f := found[m.path]
		if f == nil {
			f = new(struct {
				library
				code bool
			})
			f.low = m.start
			found[m.path] = f
		}
		f.high, f.code = m.end, f.code || m.exec
		if m.first && !f.code {
			f.low = m.start
		}
	}
	if err := lines.Err(); err != nil {
		return library{}, err
	}
	for _, f := range found {
		if f.code && !openJ9 {
			return f.library, nil
		}
	}
	if openJ9 {
		return library{}, fmt.Errorf("it is OpenJ9: %w", ErrUnsupported)
	}
	return library{}, ErrNotHotSpot
}

// mapping is a line of /proc/PID/maps.
type mapping struct {
	start, end uint64
	exec       bool
	first      bool // it maps the file's beginning
	path       string
}

// parseMapping reads "start-end perms offset dev inode path" (proc_pid_maps(5)).
func parseMapping(line string) (mapping, bool) {
	var text [5]string
	rest := line
	for i := range text {
		text[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	lo, hi, _ := strings.Cut(text[0], "-")
	start, err1 := strconv.ParseUint(lo, 16, 64)
	end, err2 := strconv.ParseUint(hi, 16, 64)
	offset, err3 := strconv.ParseUint(text[2], 16, 64)
	if err1 != nil || err2 != nil || err3 != nil || start >= end || len(text[1]) < 3 {
		return mapping{}, false
	}
	return mapping{start, end, text[1][2] == 'x', offset == 0, strings.TrimLeft(rest, " ")}, true
}

// image is libjvm.so in memory.
type image struct {
	bias     uint64 // address of a byte minus its virtual address in the file
	symtab   uint64 // addresses
	strtab   uint64
	gnuHash  uint64
	strings  uint64 // bytes at strtab
	buildID  string
	low, end uint64 // it is at [low, end)
}

// Bounds of what is read of an ELF file.
const (
	maxSegments = 64
	maxLibrary  = 1 << 30 // bytes
	maxDynamic  = 128     // entries
	maxNotes    = 1 << 12 // bytes
	maxBuildID  = 64      // bytes
	maxChain    = 1 << 10 // symbols of one hash bucket
)

// readImage reads the ELF headers, in memory.
func (l *load) readImage(lib library) (*image, error) {
	raw, err := l.bytesAt(lib.low, 64)
	if err != nil {
		return nil, err
	}
	var h elf.Header64
	if _, err := binary.Decode(raw, binary.LittleEndian, &h); err != nil {
		return nil, err
	}
	known := string(h.Ident[:4]) == elf.ELFMAG && elf.Class(h.Ident[elf.EI_CLASS]) == elf.ELFCLASS64 &&
		elf.Data(h.Ident[elf.EI_DATA]) == elf.ELFDATA2LSB && h.Phentsize == 56
	if !known || h.Phnum == 0 || h.Phnum > maxSegments {
		return nil, fmt.Errorf("parse its ELF header: %w", errCorrupt)
	}
	raw, err = l.bytesAt(lib.low+h.Phoff, int(h.Phnum)*56)
	if err != nil {
		return nil, err
	}
	segments := make([]elf.Prog64, h.Phnum)
	if _, err := binary.Decode(raw, binary.LittleEndian, segments); err != nil {
		return nil, err
	}
	im := &image{low: lib.low, end: lib.high}
	return im, l.readSegments(im, segments)
}

func (l *load) readSegments(im *image, segments []elf.Prog64) error {
	for _, s := range segments {
		if elf.ProgType(s.Type) == elf.PT_LOAD && s.Off == 0 {
			im.bias = im.low - s.Vaddr
		}
	}
	for _, s := range segments {
		if end := im.bias + s.Vaddr + s.Memsz; elf.ProgType(s.Type) == elf.PT_LOAD && end-im.low < maxLibrary {
			im.end = max(im.end, end) // variables that begin as 0 are in no mapping of the file
		}
	}
	for _, s := range segments {
		var err error
		switch elf.ProgType(s.Type) {
		case elf.PT_DYNAMIC:
			err = l.readDynamic(im, im.bias+s.Vaddr, s.Memsz)
		case elf.PT_NOTE:
			err = l.readNotes(im, im.bias+s.Vaddr, s.Memsz)
		}
		if err != nil {
			return err
		}
	}
	if im.symtab == 0 || im.strtab == 0 || im.gnuHash == 0 {
		return fmt.Errorf("find its dynamic symbols: %w", errCorrupt)
	}
	return nil
}

// readDynamic reads the dynamic section. The dynamic linker of glibc has made addresses of
// its pointers, the one of musl has not.
func (l *load) readDynamic(im *image, addr, size uint64) error {
	raw, err := l.bytesAt(addr, int(min(size, maxDynamic*16))&^15)
	if err != nil {
		return fmt.Errorf("read its dynamic section: %w", err)
	}
	for ; len(raw) >= 16; raw = raw[16:] {
		value := binary.LittleEndian.Uint64(raw[8:])
		at := value
		if value < im.low {
			at += im.bias
		}
		switch elf.DynTag(binary.LittleEndian.Uint64(raw)) {
		case elf.DT_NULL:
			return nil
		case elf.DT_SYMTAB:
			im.symtab = at
		case elf.DT_STRTAB:
			im.strtab = at
		case elf.DT_STRSZ:
			im.strings = value
		case elf.DT_GNU_HASH:
			im.gnuHash = at
		}
	}
	return nil
}

// readNotes looks for the build id.
func (l *load) readNotes(im *image, addr, size uint64) error {
	raw, err := l.bytesAt(addr, int(min(size, maxNotes)))
	if err != nil {
		return fmt.Errorf("read its notes: %w", err)
	}
	for len(raw) >= 12 {
		name := uint64(binary.LittleEndian.Uint32(raw))
		desc := uint64(binary.LittleEndian.Uint32(raw[4:]))
		kind := binary.LittleEndian.Uint32(raw[8:])
		begin := 12 + (name+3)&^3
		end := begin + desc
		if end > uint64(len(raw)) {
			return nil
		}
		const gnuBuildID = 3 // NT_GNU_BUILD_ID
		if kind == gnuBuildID && string(raw[12:12+name]) == "GNU\x00" && desc <= maxBuildID {
			im.buildID = hex.EncodeToString(raw[begin:end])
		}
		raw = raw[min((end+3)&^3, uint64(len(raw))):]
	}
	return nil
}

// symbol returns the address of a dynamic symbol, by the hash table that the dynamic
// linker uses (DT_GNU_HASH: buckets of first symbols, then a hash a symbol, the lowest bit
// set at the end of a chain).
func (l *load) symbol(im *image, name string) (uint64, error) {
	raw, err := l.bytesAt(im.gnuHash, 16)
	if err != nil {
		return 0, err
	}
	buckets, offset := uint64(binary.LittleEndian.Uint32(raw)), uint64(binary.LittleEndian.Uint32(raw[4:]))
	bloom := uint64(binary.LittleEndian.Uint32(raw[8:]))
	if buckets == 0 {
		return 0, fmt.Errorf("find symbol %s: %w", name, errCorrupt)
	}
	hash := gnuHash(name)
	bucketAt := im.gnuHash + 16 + 8*bloom
	first, err := l.half(bucketAt + 4*(uint64(hash)%buckets))
	if err != nil {
		return 0, err
	}
	for i, n := uint64(first), 0; i >= offset && n < maxChain; i, n = i+1, n+1 {
		h, err := l.half(bucketAt + 4*buckets + 4*(i-offset))
		if err != nil {
			return 0, err
		}
		if h|1 == hash|1 {
			if addr, ok := l.symbolAt(im, i, name); ok {
				return addr, nil
			}
		}
		if h&1 != 0 {
			break
		}
	}
	return 0, fmt.Errorf("find symbol %s: %w", name, ErrNotHotSpot)
}

// symbolAt returns the address of the symbol of a number, if it has the name.
func (l *load) symbolAt(im *image, number uint64, name string) (uint64, bool) {
	const size = 24 // bytes of Elf64_Sym
	sym, err := l.bytesAt(im.symtab+size*number, size)
	if err != nil {
		return 0, false
	}
	at := uint64(binary.LittleEndian.Uint32(sym))
	if at >= im.strings || binary.LittleEndian.Uint16(sym[6:]) == uint16(elf.SHN_UNDEF) {
		return 0, false
	}
	text, err := l.bytesAt(im.strtab+at, len(name)+1)
	if err != nil || !bytes.Equal(text, append([]byte(name), 0)) {
		return 0, false
	}
	return im.bias + binary.LittleEndian.Uint64(sym[8:]), true
}

// gnuHash is the hash of symbol names that GNU linkers use.
func gnuHash(name string) uint32 {
	h := uint32(5381)
	for _, c := range []byte(name) {
		h = h*33 + uint32(c)
	}
	return h
}
