package gosym

import "fmt"

// maxTables bounds the tables of one module, bytes. Kubernetes' largest binary
// has 40 MB of them.
const maxTables = 1 << 30

// loadModule checks a moduledata against the memory map and copies its tables.
func loadModule(mem memory, sp space, d moduledata) (*module, error) {
	h, err := readPCHeader(mem, d.header)
	if err != nil {
		return nil, err
	}
	if d.textSections > 1 {
		return nil, fmt.Errorf("text in %d sections: %w", d.textSections, ErrUnsupported)
	}
	m := &module{data: d.addr, text: d.text, minpc: d.minpc, maxpc: d.maxpc, quantum: uint32(h.quantum)}
	if err := m.copyTables(mem, sp, d, h); err != nil {
		return nil, err
	}
	if err := m.verify(sp); err != nil {
		return nil, err
	}
	return m, m.copyInlineTrees(mem, sp, d.gofunc)
}

// copyTables reads all tables by one bulk read: they lie together, from the
// header on.
func (m *module) copyTables(mem memory, sp space, d moduledata, h pcHeader) error {
	if h.nfunc == 0 || d.ftab.len != h.nfunc+1 || d.ftab.len > maxTables/ftabEntry {
		return fmt.Errorf("%d functions in the header, %d in the module: %w", h.nfunc, d.ftab.len, errCorrupt)
	}
	m.nfunc = int(h.nfunc)
	d.ftab.len *= ftabEntry
	d.cutab.len *= 4
	end := d.header
	for _, s := range []slice{d.names, d.cutab, d.files, d.pctab, d.funcs, d.ftab} {
		if s.addr < d.header || s.len > maxTables || s.addr+s.len < s.addr {
			return fmt.Errorf("table of %d bytes at %#x: %w", s.len, s.addr, errCorrupt)
		}
		end = max(end, s.addr+s.len)
	}
	if end-d.header > sp.covered(d.header, readable) {
		return fmt.Errorf("tables [%#x, %#x) are not mapped: %w", d.header, end, errCorrupt)
	}
	all, err := readBytes(mem, d.header, end-d.header, maxTables)
	if err != nil {
		return fmt.Errorf("read program counter table: %w", err)
	}
	cut := func(s slice) []byte { return all[s.addr-d.header:][:s.len:s.len] }
	m.names, m.files = string(cut(d.names)), string(cut(d.files))
	m.cutab, m.pctab, m.funcs, m.ftab = cut(d.cutab), cut(d.pctab), cut(d.funcs), cut(d.ftab)
	return nil
}

// verify checks the function table as runtime.moduledataverify1 does, and that
// the text is executable memory.
func (m *module) verify(sp space) error {
	for i := range m.nfunc {
		if m.entryAt(i) > m.entryAt(i+1) {
			return fmt.Errorf("function table not sorted at %d: %w", i, errCorrupt)
		}
	}
	if m.entryAt(0) != m.minpc || m.entryAt(m.nfunc) != m.maxpc || m.minpc >= m.maxpc {
		return fmt.Errorf("functions at [%#x, %#x), module says [%#x, %#x): %w",
			m.entryAt(0), m.entryAt(m.nfunc), m.minpc, m.maxpc, errCorrupt)
	}
	if sp.covered(m.minpc, executable) < m.maxpc-m.minpc {
		return fmt.Errorf("text [%#x, %#x) is not executable: %w", m.minpc, m.maxpc, errCorrupt)
	}
	return nil
}

// maxTree is what is read for the last inline tree, whose length nothing tells,
// bytes.
const maxTree = 1 << 20

// copyInlineTrees reads from the first inline tree to the end of the last.
func (m *module) copyInlineTrees(mem memory, sp space, gofunc uint64) error {
	lo, hi := ^uint32(0), uint32(0)
	for i := range m.nfunc {
		r, ok := m.record(i)
		if !ok {
			return fmt.Errorf("function record %d: %w", i, errCorrupt)
		}
		if off, ok := m.funcdata(r, funcdataInlTree); ok {
			lo, hi = min(lo, off), max(hi, off)
		}
	}
	if lo > hi {
		return nil // nothing was inlined
	}
	m.inlineOff = lo
	rest := sp.rest(gofunc + uint64(hi))
	if rest == 0 {
		return fmt.Errorf("inline tree at %#x is not mapped: %w", gofunc+uint64(hi), errCorrupt)
	}
	trees, err := readBytes(mem, gofunc+uint64(lo), uint64(hi-lo)+min(rest, maxTree), maxTables)
	if err != nil {
		return fmt.Errorf("read inline trees: %w", err)
	}
	m.inline = trees
	return nil
}
