package ehframe

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"unsafe"
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
	ra         uint64 // register that stands for the return address
	encoding   byte   // of addresses in functions
	augmented  bool   // functions have augmentation data
	signal     bool   // functions are called by the kernel, as if by the instruction that a signal interrupted
	program    span
	understood bool
}

// A span is a piece of the section.
type span struct{ from, to int }

// Bounds of the index: functions (the largest libraries have 300,000) and CIEs,
// which linkers merge.
const (
	maxFuncs   = 1 << 19
	maxCommons = 1 << 12
)

// IndexSize returns how many bytes the index of a section takes, the section not
// included.
func IndexSize(section []byte) int {
	t := Table{section: section}
	return int(unsafe.Sizeof(function{}))*t.count() + int(unsafe.Sizeof(common{}))*maxCommons
}

// New indexes a section that is loaded at the virtual address addr. It keeps
// section. Entries that it does not understand are left out.
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
	cie      int // where an FDE's CIE begins; -1 for a CIE
}

// entry returns the entry at an offset, if there is one. A length of 0 ends the
// section.
func (t *Table) entry(at int) (entry, bool) {
	r := reader{b: t.section, at: at, end: len(t.section)}
	length := uint64(r.u32())
	if length == 1<<32-1 {
		length = r.u64()
	}
	if r.bad || length < 4 || length > uint64(r.end-r.at) {
		return entry{}, false
	}
	e := entry{to: r.at + int(length), cie: -1}
	base := r.at
	distance := uint64(r.u32()) // 4 bytes in .eh_frame, even if the length has 8
	e.from = r.at
	if distance != 0 {
		if distance > uint64(base) {
			return entry{from: e.from, to: e.to, cie: -1}, !r.bad
		}
		e.cie = base - int(distance)
	}
	return e, !r.bad
}

// common parses the CIE at an offset. One that is not understood is marked so.
func (t *Table) common(at int) *common {
	c := &common{}
	e, ok := t.entry(at)
	if !ok || e.cie >= 0 {
		return c
	}
	r := reader{b: t.section, at: e.from, end: e.to}
	version := r.u8()
	augmentation := r.terminated()
	c.codeAlign, c.dataAlign = r.uleb(), r.sleb()
	if version == 1 {
		c.ra = uint64(r.u8())
	} else {
		c.ra = r.uleb()
	}
	ok = (version == 1 || version == 3) && r.augmentation(augmentation, c)
	c.program = span{r.at, e.to}
	c.understood = ok && !r.bad
	return c
}

// augmentation parses what the letters of a CIE announce.
func (r *reader) augmentation(letters []byte, c *common) bool {
	if len(letters) == 0 {
		return true
	}
	if letters[0] != 'z' {
		return false
	}
	c.augmented = true
	size := r.uleb()
	if r.bad || size > uint64(r.end-r.at) {
		return false
	}
	end := r.at + int(size)
	for _, letter := range letters[1:] {
		switch letter {
		case 'R':
			c.encoding = r.u8()
		case 'P': // personality routine
			r.pointer(r.u8(), 0)
		case 'L': // encoding of language specific data
			r.u8()
		case 'S':
			c.signal = true
		case 'B': // pointer authentication, not on amd64
		default:
			return false
		}
	}
	r.at = end
	return true
}

// function parses an FDE.
func (t *Table) function(e entry, c *common) (function, bool) {
	if !c.understood {
		return function{}, false
	}
	r := reader{b: t.section, at: e.from, end: e.to}
	start := r.pointer(c.encoding, t.addr)
	size := r.pointer(c.encoding&encodingForm, 0)
	if c.augmented {
		r.skip(r.uleb())
	}
	f := function{start: start, end: start + size, cie: c, program: span{r.at, e.to}}
	return f, !r.bad && start != 0 && f.end > start
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

// reader reads b[at:end]. Reading beyond the end gives zeros and sets bad.
type reader struct {
	b       []byte
	at, end int
	bad     bool
}

func (r *reader) more() bool { return r.at < r.end && !r.bad }

func (r *reader) take(n int) []byte {
	if r.bad || n > r.end-r.at {
		r.bad = true
		return nil
	}
	b := r.b[r.at : r.at+n]
	r.at += n
	return b
}

func (r *reader) skip(n uint64) {
	if r.bad || n > uint64(r.end-r.at) {
		r.bad = true
		return
	}
	r.at += int(n)
}

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := r.u8()
		if r.bad || shift > 63 {
			r.bad = true
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v
		}
	}
}

func (r *reader) sleb() int64 {
	var v int64
	for shift := uint(0); ; {
		b := r.u8()
		if r.bad || shift > 63 {
			r.bad = true
			return 0
		}
		v |= int64(b&0x7f) << shift
		shift += 7
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// terminated reads up to a zero byte, which it drops.
func (r *reader) terminated() []byte {
	n := bytes.IndexByte(r.b[min(r.at, r.end):r.end], 0)
	if n < 0 {
		r.bad = true
		return nil
	}
	b := r.take(n)
	r.u8()
	return b
}

// pointer reads a pointer of an encoding. base is the address of b[0].
func (r *reader) pointer(encoding byte, base uint64) uint64 {
	at := base + uint64(r.at)
	var v uint64
	switch encoding & encodingForm {
	case 0x00, 0x04, 0x0c: // absptr, udata8, sdata8
		v = r.u64()
	case 0x01:
		v = r.uleb()
	case 0x02:
		v = uint64(r.u16())
	case 0x03:
		v = uint64(r.u32())
	case 0x09:
		v = uint64(r.sleb())
	case 0x0a:
		v = uint64(int16(r.u16()))
	case 0x0b:
		v = uint64(int32(r.u32()))
	default:
		r.bad = true
	}
	switch encoding & encodingRelative {
	case 0x00:
	case pcRelative:
		v += at
	default:
		r.bad = r.bad || base != 0
	}
	r.bad = r.bad || base != 0 && encoding&indirect != 0
	return v
}
