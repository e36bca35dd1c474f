// Package ehframe unwinds the stacks of C code with the call frame information that
// compilers leave in an ELF file's section .eh_frame. For every instruction it says where
// the caller's registers are. C code of gcc -O2 keeps no frame pointer, so nothing else
// leads to its callers.
//
//  1. [New] indexes a section: one entry for each function.
//  2. [Table.Row] runs the program of a function up to one instruction. The
//     resulting [Row] holds a rule for each register, and can be kept.
//  3. [Row.Up] applies the rules to the registers of a frame, reads the saved
//     ones from the stack, and returns the caller's registers.
//
// The section is untrusted. Reading it never panics, every loop consumes input, the index
// takes time in proportion to the section, and a row takes at most maxSteps instructions,
// or fewer if the caller says so. An unknown rule, such as a branch in an expression, has
// no row.
//
// Sources: DWARF 5, sections 6.4 and 2.5; Linux Standard Base Core 5.0, 10.6 (the
// section's form and augmentations); System V ABI, AMD64, 3.6.2 (register numbers).
// Tested on the output of gcc 12 and clang 14, glibc 2.36, and the vDSO of Linux 6.18.
package ehframe

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// Table is the index of one section. It is immutable.
type Table struct {
	section []byte
	addr    uint64 // virtual address of section[0]
	funcs   []function
}

// function is one frame description entry (FDE).
type function struct {
	start, end uint64 // virtual addresses [start, end)
	cie        *common
	program    span
}

// common is a common information entry (CIE), which functions share.
type common struct {
	codeAlign  uint64
	dataAlign  int64
	ra         uint64 // register of the return address
	encoding   byte   // of addresses in functions
	augmented  bool   // functions have augmentation data
	signal     bool   // the kernel calls functions, as if from the instruction that a signal interrupted
	program    span
	understood bool
}

// A span is a piece of the section.
type span struct{ from, to int }

// Bounds of the index: functions (the largest libraries have 300,000) and CIEs, which
// linkers merge.
const (
	maxFuncs   = 1 << 19
	maxCommons = 1 << 12
)

// IndexSize returns the number of bytes of a section's index, without the section.
func IndexSize(section []byte) int {
	t := Table{section: section}
	return int(unsafe.Sizeof(function{}))*t.count() + int(unsafe.Sizeof(common{}))*maxCommons
}

// New indexes a section that is loaded at the virtual address addr. It keeps section.
// Entries that it does not understand are left out.
func New(section []byte, addr uint64) *Table {
	t := &Table{section: section, addr: addr}
	t.funcs = make([]function, 0, t.count())
	commons := map[int]*common{}
	for e := range t.functions() {
		c, known := commons[e.cie]
		if !known && len(commons) == maxCommons {
			continue
		}
		if !known {
			c = t.common(e.cie)
			commons[e.cie] = c
		}
		if f, ok := t.function(e, c); ok {
			t.funcs = append(t.funcs, f)
		}
	}
	slices.SortFunc(t.funcs, func(a, b function) int { return cmp.Compare(a.start, b.start) })
	return t
}

// IsEmpty reports whether the table has no function.
func (t *Table) IsEmpty() bool { return len(t.funcs) == 0 }

// functions yields the FDEs of the section, up to maxFuncs.
func (t *Table) functions() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		n := 0
		for e, ok := t.entry(0); ok && n < maxFuncs; e, ok = t.entry(e.to) {
			if e.cie < 0 {
				continue
			}
			if n++; !yield(e) {
				return
			}
		}
	}
}

func (t *Table) count() int {
	n := 0
	for range t.functions() {
		n++
	}
	return n
}

// entry is the head of a CIE or FDE. Its content is section[from:to].
type entry struct {
	from, to int
	cie      int // where an FDE's CIE begins; -1: the entry is a CIE
}

// entry returns the entry at an offset, or false. A length of 0 ends the section.
func (t *Table) entry(at int) (entry, bool) {
	r := t.reader(span{at, len(t.section)})
	length := uint64(r.U32())
	if length == 1<<32-1 {
		length = r.U64()
	}
	if r.Err != nil || length < 4 || length > uint64(len(r.Data)) {
		return entry{}, false
	}
	e := entry{to: r.at() + int(length), cie: -1}
	base := r.at()
	distance := uint64(r.U32()) // 4 bytes in .eh_frame, even if the length has 8
	e.from = r.at()
	if distance != 0 {
		if distance > uint64(base) {
			return entry{from: e.from, to: e.to, cie: -1}, r.Err == nil
		}
		e.cie = base - int(distance)
	}
	return e, r.Err == nil
}

// common parses the CIE at an offset. understood is false for an unknown form.
func (t *Table) common(at int) *common {
	c := &common{}
	e, ok := t.entry(at)
	if !ok || e.cie >= 0 {
		return c
	}
	r := t.reader(span{e.from, e.to})
	version := r.Byte()
	augmentation := r.Text()
	c.codeAlign, c.dataAlign = r.Uleb(), r.Sleb()
	if version == 1 {
		c.ra = uint64(r.Byte())
	} else {
		c.ra = r.Uleb()
	}
	ok = (version == 1 || version == 3) && r.augmentation(augmentation, c)
	c.program = span{r.at(), e.to}
	c.understood = ok && r.Err == nil
	return c
}

// augmentation parses the data that the letters of a CIE announce.
func (r *reader) augmentation(letters []byte, c *common) bool {
	if len(letters) == 0 {
		return true
	}
	if letters[0] != 'z' {
		return false
	}
	c.augmented = true
	data := reader{Cursor: cursor.Cursor{Data: r.Bytes(r.Uleb())}}
	for _, letter := range letters[1:] {
		switch letter {
		case 'R':
			c.encoding = data.Byte()
		case 'P': // personality routine
			data.pointer(data.Byte(), 0)
		case 'L': // encoding of language specific data
			data.Byte()
		case 'S':
			c.signal = true
		case 'B': // pointer authentication, not on amd64
		default:
			return false
		}
	}
	return data.Err == nil
}

// function parses an FDE.
func (t *Table) function(e entry, c *common) (function, bool) {
	if !c.understood {
		return function{}, false
	}
	r := t.reader(span{e.from, e.to})
	start := r.pointer(c.encoding, t.addr)
	size := r.pointer(c.encoding&encodingForm, 0)
	if c.augmented {
		r.Bytes(r.Uleb())
	}
	f := function{start: start, end: start + size, cie: c, program: span{r.at(), e.to}}
	return f, r.Err == nil && start != 0 && f.end > start
}

// find returns the function that contains a virtual address.
func (t *Table) find(pc uint64) *function {
	i, exact := slices.BinarySearchFunc(t.funcs, pc, func(f function, pc uint64) int {
		return cmp.Compare(f.start, pc)
	})
	if !exact {
		i--
	}
	if i < 0 || pc >= t.funcs[i].end {
		return nil
	}
	return &t.funcs[i]
}

// Encodings of pointers (DW_EH_PE_*).
const (
	encodingForm     = 0x0f
	encodingRelative = 0x70
	pcRelative       = 0x10
	indirect         = 0x80
)

// reader reads a piece of the section.
type reader struct {
	cursor.Cursor
	end int // offset of the piece's end in the section
}

func (t *Table) reader(piece span) reader {
	return reader{cursor.Cursor{Data: t.section[piece.from:piece.to]}, piece.to}
}

// at returns the offset of the next byte in the section.
func (r *reader) at() int { return r.end - len(r.Data) }

// errPointer is the error of an unknown encoding of a pointer.
var errPointer = errors.New("unknown pointer encoding")

// pointer reads a pointer of an encoding. base is the section's address, or 0 for a
// pointer whose value does not matter.
func (r *reader) pointer(encoding byte, base uint64) uint64 {
	at, known := base+uint64(r.at()), true
	var v uint64
	switch encoding & encodingForm {
	case 0x00, 0x04, 0x0c: // absptr, udata8, sdata8
		v = r.U64()
	case 0x01:
		v = r.Uleb()
	case 0x02:
		v = uint64(r.U16())
	case 0x03:
		v = uint64(r.U32())
	case 0x09:
		v = uint64(r.Sleb())
	case 0x0a:
		v = uint64(int16(r.U16()))
	case 0x0b:
		v = uint64(int32(r.U32()))
	default:
		known = false
	}
	switch encoding & encodingRelative {
	case 0x00:
	case pcRelative:
		v += at
	default:
		known = known && base == 0
	}
	if !known || base != 0 && encoding&indirect != 0 {
		r.Fail(errPointer)
	}
	return v
}
