package gosym

import (
	"encoding/binary"
	"iter"
	"strings"
	"unicode/utf8"
)

// module is the program counter table of one Go module: of the executable, of
// a plugin or of a Go library. It is immutable once loaded, and independent of the target,
// except that large tables stay in the file.
//
//	ftab   (nfunc+1) × {entry offset, record offset}, sorted     runtime.functab
//	funcs  function records, found through ftab                  runtime._func
//	pctab  tables of (value delta, pc delta) varints
//	names  NUL-terminated names, found by offset
//	cutab  file numbers of a compilation unit → offset in files
//	inline inline trees, at offsets from moduledata.gofunc
type module struct {
	data         uint64 // address of the moduledata
	text         uint64 // function entries are relative to it
	minpc, maxpc uint64
	quantum      uint32 // bytes per unit of a pc delta
	form         form

	nfunc        int
	ftab         []byte
	paged        *pages // of tables that are too large to hold; nil: none is
	funcs        bytesTable
	pctab        bytesTable
	cutab        []byte
	names, files string
	inline       []byte
	inlineOff    uint32 // of inline[0], from moduledata.gofunc

	ids   *funcIDs
	image *image
}

const ftabEntry = 8 // bytes: entry uint32, record uint32

// form is how function records and inlined calls are laid out (runtime._func and runtime.inlinedCall), which
// the magic number of the table tells.
type form uint8

const (
	form120 form = iota // Go 1.20 to 1.27
	form118             // Go 1.18 and 1.19: without the lines where functions begin
)

// recordSize returns the bytes of a function record before pcdata and funcdata.
func (f form) recordSize() uint32 {
	if f == form118 {
		return 40
	}
	return 44
}

// record is a runtime._func.
type record struct {
	entry, end         uint64
	nameOff            int32
	pcsp, pcfile, pcln uint32
	cuOffset           uint32
	startLine          int32
	npcdata, nfuncdata uint32
	rawID              uint8
	flags              FuncFlags
	pcdatas, funcdatas uint32 // offsets in funcs
}

func (m *module) contains(pc uint64) bool { return m.minpc <= pc && pc < m.maxpc }

// entryAt returns the address of the i-th function; i = nfunc gives the end.
func (m *module) entryAt(i int) uint64 {
	return m.text + uint64(binary.LittleEndian.Uint32(m.ftab[i*ftabEntry:]))
}

// index returns which function contains pc, which must be one of the module's.
func (m *module) index(pc uint64) int {
	lo, hi := 0, m.nfunc
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if m.entryAt(mid) <= pc {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// find returns the function that contains pc.
func (m *module) find(pc uint64) (record, bool) {
	if !m.contains(pc) {
		return record{}, false
	}
	return m.record(m.index(pc))
}

// record decodes the i-th function.
func (m *module) record(i int) (record, bool) {
	off := binary.LittleEndian.Uint32(m.ftab[i*ftabEntry+4:])
	b := m.funcs.from(uint64(off))
	size := m.form.recordSize()
	if len(b) < int(size) {
		return record{}, false
	}
	role := b[size-4 : size] // the last four fields, a byte each
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	r := record{
		entry: m.entryAt(i), end: m.entryAt(i + 1),
		nameOff: int32(u32(4)),
		pcsp:    u32(16), pcfile: u32(20), pcln: u32(24),
		npcdata: u32(28), cuOffset: u32(32),
		rawID: role[0], flags: FuncFlags(role[1]), nfuncdata: uint32(role[3]),
		pcdatas: off + size,
	}
	if m.form == form120 {
		r.startLine = int32(u32(36))
	}
	tail := uint64(off) + uint64(size) + 4*(uint64(r.npcdata)+uint64(r.nfuncdata))
	if tail > m.funcs.len() {
		return record{}, false
	}
	r.funcdatas = r.pcdatas + 4*r.npcdata
	return r, true
}

// pcdata returns the value of the function's table at pc, -1 where it has none.
func (m *module) pcdata(b *budget, r record, table uint32, pc uint64) int32 {
	if table >= r.npcdata {
		return -1
	}
	return m.value(b, r, m.word(r.pcdatas+4*table), pc)
}

// funcdata returns the offset of the function's data from moduledata.gofunc.
func (m *module) funcdata(r record, table uint32) (off uint32, ok bool) {
	if table >= r.nfuncdata {
		return 0, false
	}
	off = m.word(r.funcdatas + 4*table)
	return off, off != none
}

// none stands for an offset of nothing.
const none = ^uint32(0)

// word returns a number of the function records, none where it cannot be read.
func (m *module) word(at uint32) uint32 {
	if b := m.funcs.from(uint64(at)); len(b) >= 4 {
		return binary.LittleEndian.Uint32(b)
	}
	return none
}

// value returns the value at pc of the table at off in pctab, -1 where there is
// none (runtime.pcvalue) and where the budget has no steps left to get there.
func (m *module) value(b *budget, r record, off uint32, pc uint64) int32 {
	if off == 0 {
		return -1
	}
	pos, at, val := uint64(off), r.entry, int32(-1)
	p := m.pctab.from(pos)
	step, most := 0, b.steps
	defer func() { b.work(step) }()
	for ; step <= most; step++ {
		if len(p) < 2*maxVarint && pos+uint64(len(p)) < m.pctab.len() {
			p = m.pctab.from(pos)
		}
		dv, n := varint(p)
		if n == 0 || dv == 0 && step > 0 {
			return -1
		}
		dpc, k := varint(p[n:])
		if dpc == 0 { // the linker writes none; also the end of the table's bytes
			return -1
		}
		p, pos = p[n+k:], pos+uint64(n+k)
		val += int32(-(dv & 1) ^ dv>>1)
		at += uint64(dpc * m.quantum)
		if pc < at {
			return val
		}
	}
	return -1
}

// values yields the addresses where the value of the table at off in pctab changes, with the value
// from there on (runtime.step).
func (m *module) values(b *budget, r record, off uint32) iter.Seq2[uint64, int32] {
	return func(yield func(uint64, int32) bool) {
		pos, at, val := uint64(off), r.entry, int32(-1)
		for first := true; off != 0 && at < r.end && b.work(1) == nil; first = false {
			p := m.pctab.from(pos)
			dv, n := varint(p)
			if n == 0 || dv == 0 && !first {
				return
			}
			dpc, k := varint(p[n:])
			if dpc == 0 {
				return
			}
			if val += int32(-(dv & 1) ^ dv>>1); !yield(at, val) {
				return
			}
			pos, at = pos+uint64(n+k), at+uint64(dpc*m.quantum)
		}
	}
}

// maxVarint is the size of the longest integer, bytes.
const maxVarint = 5

// varint decodes a variable-length integer and returns its size, 0 where p
// ends within it.
func varint(p []byte) (v uint32, n int) {
	for shift := uint(0); n < len(p) && n < maxVarint; shift += 7 {
		b := p[n]
		n++
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v, n
		}
	}
	return 0, 0
}

// name returns the function name at an offset in the table; empty for none. The
// runtime takes offset 0 for no name, but the linker puts one there, for example
// the name of internal/cpu.Initialize (Go 1.26) or of an inlined function (Go 1.21).
func (m *module) name(off int32) string { return terminated(m.names, uint32(off)) }

// file returns the source file of the function at pc; empty where unknown.
func (m *module) file(b *budget, r record, pc uint64) string {
	number := m.value(b, r, r.pcfile, pc)
	at := (uint64(r.cuOffset) + uint64(number)) * 4
	if number < 0 || at+4 > uint64(len(m.cutab)) {
		return ""
	}
	return terminated(m.files, binary.LittleEndian.Uint32(m.cutab[at:]))
}

// line returns the source line at pc, 0 where unknown.
func (m *module) line(b *budget, r record, pc uint64) int32 {
	return max(m.value(b, r, r.pcln, pc), 0)
}

// maxName bounds the names of functions and files, bytes: a longer one is cut. A
// target can have as many names as it likes in one string, and none may end.
const maxName = 4 << 10

// terminated returns the string at an offset, up to its NUL, or the first bytes of
// it if it is too long.
func terminated(table string, off uint32) string {
	s := cutName(table, off, maxName)
	if len(s) < maxName {
		return s
	}
	for end := len(s) - 1; end >= len(s)-utf8.UTFMax; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s
}

// cutName returns the string at an offset, up to its NUL, and at most max bytes; ""
// where the table ends before either.
func cutName(table string, off uint32, max int) string {
	if uint64(off) >= uint64(len(table)) {
		return ""
	}
	s := table[off:]
	s = s[:min(len(s), max)]
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	if len(s) < max {
		return ""
	}
	return s
}
