package gosym

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTables bounds the tables of one module, bytes. Kubernetes' largest binary
// has 40 MB of them.
const maxTables = 1 << 30

// loadModule copies the tables of a moduledata, checks them against each other and
// the memory map, and finds the inline trees.
func loadModule(mem memory, sp space, d moduledata) (*module, error) {
	if d.textSections > 1 {
		return nil, fmt.Errorf("text in %d sections: %w", d.textSections, ErrUnsupported)
	}
	m := &module{
		data: d.addr, text: d.text, minpc: d.minpc, maxpc: d.maxpc,
		quantum: uint32(d.header.quantum), nfunc: int(d.header.nfunc),
	}
	if err := m.copyTables(mem, sp, d); err != nil {
		return nil, err
	}
	if err := m.verify(); err != nil {
		return nil, err
	}
	return m, m.copyInlineTrees(mem, sp, d.words)
}

// copyTables reads all tables by one bulk read: they lie together, from the
// header on.
func (m *module) copyTables(mem memory, sp space, d moduledata) error {
	d.ftab.len *= ftabEntry
	d.cutab.len *= 4
	begin, end := d.header.addr, d.header.addr
	for _, s := range []slice{d.names, d.cutab, d.files, d.pctab, d.funcs, d.ftab} {
		if s.addr < begin || s.len > maxTables || s.addr+s.len < s.addr {
			return fmt.Errorf("table of %d bytes at %#x: %w", s.len, s.addr, errCorrupt)
		}
		end = max(end, s.addr+s.len)
	}
	if end-begin > sp.covered(begin, readable) {
		return fmt.Errorf("tables [%#x, %#x) are not mapped: %w", begin, end, errCorrupt)
	}
	all, err := readBytes(mem, begin, end-begin, maxTables)
	if err != nil {
		return fmt.Errorf("read program counter table: %w", err)
	}
	cut := func(s slice) []byte { return all[s.addr-begin:][:s.len:s.len] }
	m.names, m.files = string(cut(d.names)), string(cut(d.files))
	m.cutab, m.pctab, m.funcs, m.ftab = cut(d.cutab), cut(d.pctab), cut(d.funcs), cut(d.ftab)
	return nil
}

// verify checks the function table as runtime.moduledataverify1 does, and whether
// function records are such as are known here.
func (m *module) verify() error {
	for i := range m.nfunc {
		if m.entryAt(i) > m.entryAt(i+1) {
			return fmt.Errorf("function table not sorted at %d: %w", i, errCorrupt)
		}
		if _, ok := m.record(i); !ok {
			return fmt.Errorf("function record %d: %w", i, errCorrupt)
		}
	}
	if m.entryAt(0) != m.minpc || m.entryAt(m.nfunc) != m.maxpc {
		return fmt.Errorf("functions at [%#x, %#x), module says [%#x, %#x): %w",
			m.entryAt(0), m.entryAt(m.nfunc), m.minpc, m.maxpc, errCorrupt)
	}
	return m.verifyRecords()
}

// verifySamples is how many functions, and how many inline trees, are looked at to
// verify a layout.
const verifySamples = 256

// verifyRecords says by an error if functions have no names, or have at their
// entries something on the stack below the return address. A few may.
func (m *module) verifyRecords() error {
	looked, good := 0, 0
	for i := 0; i < m.nfunc; i += max(m.nfunc/verifySamples, 1) {
		r, _ := m.record(i)
		looked++
		if m.isName(r.nameOff) && m.value(r, r.pcsp, r.entry) <= 0 {
			good++
		}
	}
	if good < looked-looked/8 {
		return fmt.Errorf("%d of %d function records make sense: %w", good, looked, ErrUnsupported)
	}
	return nil
}

// isName says whether a name begins at an offset in the table: printable, and
// after the end of another.
func (m *module) isName(off int32) bool {
	if off < 0 || int(off) >= len(m.names) || off > 0 && m.names[off-1] != 0 {
		return false
	}
	name := m.name(off)
	return name != "" && !strings.ContainsFunc(name, unicode.IsControl) && utf8.ValidString(name)
}

// maxTree is what is read for the last inline tree, whose length nothing tells,
// bytes.
const maxTree = 1 << 20

// copyInlineTrees reads from the first inline tree to the end of the last. Their
// base, moduledata.gofunc, is the word that leads to trees of this module.
func (m *module) copyInlineTrees(mem memory, sp space, words []uint64) error {
	lo, hi := ^uint32(0), uint32(0)
	var trees []tree
	for i := range m.nfunc {
		r, _ := m.record(i)
		if off, ok := m.funcdata(r, funcdataInlTree); ok {
			lo, hi = min(lo, off), max(hi, off)
			trees = append(trees, tree{off, uint32(min(r.end-r.entry, 1<<32-1))})
		}
	}
	if len(trees) == 0 {
		return nil // nothing was inlined
	}
	for i, gofunc := range words {
		rest := sp.rest(gofunc + uint64(hi))
		if rest == 0 || slices.Contains(words[:i], gofunc) || !m.areTrees(mem, gofunc, trees) {
			continue
		}
		b, err := readBytes(mem, gofunc+uint64(lo), uint64(hi-lo)+min(rest, maxTree), maxTables)
		if err != nil {
			return fmt.Errorf("read inline trees: %w", err)
		}
		m.inline, m.inlineOff = b, lo
		return nil
	}
	return fmt.Errorf("no inline trees of %d functions: %w", len(trees), ErrUnsupported)
}

// tree is where the inline tree of a function is.
type tree struct {
	off  uint32 // from moduledata.gofunc
	size uint32 // of the function, bytes
}

// areTrees says whether the module's inline trees can begin at an address.
func (m *module) areTrees(mem memory, gofunc uint64, trees []tree) bool {
	for i := 0; i < len(trees); i += max(len(trees)/verifySamples, 1) {
		var b [inlinedCallSize]byte
		if mem.readAt(b[:], gofunc+uint64(trees[i].off)) != nil {
			return false
		}
		call := parseInlinedCall(b[:])
		zero := call == inlinedCall{} // a variable that was not set yet
		if zero || !m.isName(call.nameOff) || call.parentPC >= trees[i].size {
			return false
		}
	}
	return true
}
