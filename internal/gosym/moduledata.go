package gosym

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
)

// moduledata is what is needed of runtime.moduledata.
type moduledata struct {
	addr                                    uint64
	header                                  pcHeader
	names, cutab, files, pctab, funcs, ftab slice
	minpc, maxpc, text                      uint64
	textSections                            uint64
	words                                   []uint64 // all of it, and some that follow it
}

// slice is a Go slice header's address and length; the length in elements.
type slice struct{ addr, len uint64 }

// maxModuledata bounds the bytes that are read of a moduledata. Go 1.27 has 576;
// the fields that are needed here must be within this in a later version.
const maxModuledata = 1024

// readModuledata reads the moduledata at an address. Its fields have moved from
// one Go version to the next, so they are not looked up at offsets but by their
// values, which the header of the program counter table and the function table
// give. A field that is found so is right in every version. A field that is not
// found is not guessed: the error is [ErrUnsupported].
func readModuledata(l *load, addr uint64) (moduledata, error) {
	size := min(l.covered(addr, maxModuledata, readable), maxModuledata)
	b, err := l.bytes(addr, size&^7)
	if err != nil {
		return moduledata{}, err
	}
	d := moduledata{addr: addr, words: make([]uint64, len(b)/8)}
	for i := range d.words {
		d.words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	if err := d.find(l); err != nil {
		return moduledata{}, fmt.Errorf("moduledata at %#x: %w", addr, err)
	}
	return d, nil
}

// find finds the fields, each by those that were found before it.
func (d *moduledata) find(l *load) error {
	if !d.isRelocated(l.maps) {
		return ErrNotReady
	}
	if err := d.findHeader(l); err != nil {
		return err
	}
	if err := d.findTables(); err != nil {
		return err
	}
	if err := d.findText(l); err != nil {
		return err
	}
	d.findTextSections(l)
	return l.spent
}

// isRelocated says whether both some of the first pointers and some of the last
// lead anywhere. The loader relocates them in the order of their addresses, so a
// program that is at it has some that do and then some that do not.
func (d *moduledata) isRelocated(sp space) bool {
	const first, last = 4, 32 // words: the header; data, types and gofunc in Go 1.18 to 1.27
	leads := func(w uint64) bool { return w != 0 && sp.rest(w) > 0 }
	return len(d.words) > last && slices.ContainsFunc(d.words[:first], leads) &&
		slices.ContainsFunc(d.words[last:min(2*last, len(d.words))], leads)
}

// findHeader finds the pointer to the header of the program counter table. It is
// the first field in Go 1.18 to 1.27.
func (d *moduledata) findHeader(l *load) error {
	err := fmt.Errorf("no pointer to a program counter table: %w", ErrUnsupported)
	for i, w := range d.words {
		if l.maps.rest(w) < pcHeaderSize {
			continue
		}
		h, bad := readPCHeader(l, w)
		if bad == nil {
			d.header = h
			return nil
		}
		if i == 0 {
			err = bad
		}
	}
	return err
}

// findTables finds the slices that are the tables: each begins where the header
// says, and ends before the next one.
func (d *moduledata) findTables() error {
	h := d.header
	if h.nfunc == 0 || h.nfunc >= maxTables/ftabEntry {
		return fmt.Errorf("%d functions in the header: %w", h.nfunc, errCorrupt)
	}
	for i, table := range []struct {
		name string
		to   *slice
	}{
		{"function names", &d.names}, {"compilation units", &d.cutab}, {"files", &d.files}, {"pc tables", &d.pctab},
	} {
		begin, end := h.addr+h.tables[i], h.addr+h.tables[i+1]
		var ok bool
		if *table.to, ok = d.findSlice(begin, func(n uint64) bool { return n <= end-begin }); !ok {
			return fmt.Errorf("no table of %s: %w", table.name, ErrUnsupported)
		}
	}
	d.cutab.len = (d.files.addr - d.cutab.addr) / 4 // Go 1.18 to 1.25 give bytes, later ones elements
	funcs, size := h.addr+h.tables[4], (h.nfunc+1)*ftabEntry
	var haveFuncs, haveFtab bool
	d.funcs, haveFuncs = d.findSlice(funcs, func(n uint64) bool { return n > size && n <= maxTables })
	d.ftab, haveFtab = d.findSlice(funcs, func(n uint64) bool { return n == h.nfunc+1 })
	if !haveFuncs || !haveFtab {
		return fmt.Errorf("no table of %d functions: %w", h.nfunc, ErrUnsupported)
	}
	return nil
}

// findSlice finds a slice by its address and length. The linker makes its capacity
// the same.
func (d *moduledata) findSlice(addr uint64, fits func(n uint64) bool) (slice, bool) {
	for i := 0; i+2 < len(d.words); i++ {
		if n := d.words[i+1]; d.words[i] == addr && d.words[i+2] == n && fits(n) {
			return slice{addr, n}, true
		}
	}
	return slice{}, false
}

// findText finds the base of function entries, by two neighbours (minpc and maxpc)
// that are as far apart as the first and the last entry, with executable memory
// between them.
func (d *moduledata) findText(l *load) error {
	var first, last [4]byte
	if err := l.readAt(first[:], d.ftab.addr); err != nil {
		return fmt.Errorf("read function table: %w", err)
	}
	if err := l.readAt(last[:], d.ftab.addr+(d.ftab.len-1)*ftabEntry); err != nil {
		return fmt.Errorf("read function table: %w", err)
	}
	begin, end := uint64(binary.LittleEndian.Uint32(first[:])), uint64(binary.LittleEndian.Uint32(last[:]))
	for i := 0; i+1 < len(d.words); i++ {
		minpc, maxpc := d.words[i], d.words[i+1]
		if minpc < maxpc && maxpc-minpc == end-begin && slices.Contains(d.words, minpc-begin) &&
			l.covered(minpc, maxpc-minpc, executable) >= maxpc-minpc {
			d.text, d.minpc, d.maxpc = minpc-begin, minpc, maxpc
			return nil
		}
	}
	return fmt.Errorf("no text of %d bytes: %w", end-begin, ErrUnsupported)
}

// findTextSections counts the sections of text, 1 where the moduledata does not
// tell: a list of runtime.textsect {vaddr, end, baseaddr}. The first of them begins
// where the text does.
func (d *moduledata) findTextSections(l *load) {
	const maxSections = 1 << 16
	d.textSections = 1
	for i := 0; i+2 < len(d.words); i++ {
		n := d.words[i+1]
		if n < 2 || n > maxSections || d.words[i+2] != n {
			continue
		}
		var b [24]byte
		if l.readAt(b[:], d.words[i]) != nil {
			continue
		}
		vaddr, end, base := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
		if vaddr == 0 && end > 0 && base == d.text {
			d.textSections = n
			return
		}
	}
}

// others yields the words of the moduledata that could be the address of another
// one: the program's next field leads to a plugin, and so on.
func (d *moduledata) others(l *load) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, w := range d.words {
			var b [8]byte
			if w == d.addr || w == 0 || w&7 != 0 || l.maps.rest(w) < maxModuledata/2 || l.readAt(b[:], w) != nil {
				continue
			}
			header := binary.LittleEndian.Uint64(b[:])
			if header == d.header.addr || l.maps.rest(header) < pcHeaderSize {
				continue
			}
			if _, err := readPCHeader(l, header); err == nil && !yield(w) {
				return
			}
		}
	}
}

// Magic numbers of a pclntab (internal/abi.PCLnTabMagic).
const (
	magicGo12  = 0xfffffffb
	magicGo116 = 0xfffffffa
	magicGo118 = 0xfffffff0
	magicGo120 = 0xfffffff1
)

// pcHeaderSize is the size of runtime.pcHeader, bytes.
const pcHeaderSize = 72

// pcHeader is what is needed of runtime.pcHeader. Its textStart is not: Go 1.26
// leaves it 0.
type pcHeader struct {
	addr    uint64
	quantum uint8
	form    form
	nfunc   uint64
	tables  [5]uint64 // of names, cutab, files, pctab and funcs: bytes from addr
}

func readPCHeader(l *load, addr uint64) (pcHeader, error) {
	b := make([]byte, pcHeaderSize)
	if err := l.readAt(b, addr); err != nil {
		return pcHeader{}, err
	}
	h, err := parsePCHeader(b)
	h.addr = addr
	return h, err
}

func parsePCHeader(b []byte) (pcHeader, error) {
	form := form120
	switch magic := binary.LittleEndian.Uint32(b); magic {
	case magicGo120:
	case magicGo118:
		form = form118
	case magicGo116:
		return pcHeader{}, fmt.Errorf("program counter table of Go 1.16 or 1.17, need Go 1.18 or later: %w", ErrUnsupported)
	case magicGo12:
		return pcHeader{}, fmt.Errorf("program counter table of Go 1.2 to 1.15, need Go 1.18 or later: %w", ErrUnsupported)
	default:
		return pcHeader{}, fmt.Errorf("program counter table with unknown magic %#x: %w", magic, ErrUnsupported)
	}
	h := pcHeader{quantum: b[6], form: form, nfunc: binary.LittleEndian.Uint64(b[8:])}
	if b[4] != 0 || b[5] != 0 || h.quantum != 1 && h.quantum != 2 && h.quantum != 4 {
		return pcHeader{}, fmt.Errorf("program counter table header % x: %w", b[:8], errCorrupt)
	}
	if b[7] != 8 {
		return pcHeader{}, fmt.Errorf("%d-byte pointers, need 8: %w", b[7], ErrUnsupported)
	}
	for i := range h.tables {
		h.tables[i] = binary.LittleEndian.Uint64(b[32+8*i:])
	}
	if !slices.IsSorted(h.tables[:]) || h.tables[0] < pcHeaderSize || h.tables[4] > maxTables {
		return pcHeader{}, fmt.Errorf("program counter table with tables at %#x: %w", h.tables, errCorrupt)
	}
	return h, nil
}
