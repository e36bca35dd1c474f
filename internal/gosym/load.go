package gosym

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTables bounds the offsets in the tables of one module, bytes. Kubernetes'
// largest binary has 40 MB of them.
const maxTables = 1 << 30

// recordCost is the cost of decoding a function record, in steps.
const recordCost = 8

// loadModule copies the tables of a moduledata, which belongs to an image or to none, checks
// them against each other and the memory map, and finds the inline trees.
func loadModule(l *load, d moduledata, im *image) (*module, error) {
	if d.textSections > 1 {
		return nil, fmt.Errorf("text in %d sections: %w", d.textSections, ErrUnsupported)
	}
	m := &module{
		data: d.addr, text: d.text, minpc: d.minpc, maxpc: d.maxpc,
		quantum: uint32(d.header.quantum), nfunc: int(d.header.nfunc), form: d.header.form,
	}
	if err := m.copyTables(l, d, im); err != nil {
		return nil, err
	}
	if err := m.verify(l.budget); err != nil {
		return nil, err
	}
	if err := m.copyInlineTrees(l, d.words); err != nil {
		return nil, err
	}
	return m, m.share(l.budget)
}

// copyTables copies all tables, which lie together, from the header on. Each has memory of its own, which other
// processes of the program may share. Where all tables together would take half of the memory that is left, the
// two largest stay in the image's file.
func (m *module) copyTables(l *load, d moduledata, im *image) error {
	d.ftab.len *= ftabEntry
	d.cutab.len *= 4
	begin, end := d.header.addr, d.header.addr
	for _, s := range []slice{d.names, d.cutab, d.files, d.pctab, d.funcs, d.ftab} {
		if s.addr < begin || s.len > maxTables || s.addr+s.len < s.addr {
			return fmt.Errorf("table of %d bytes at %#x: %w", s.len, s.addr, errCorrupt)
		}
		end = max(end, s.addr+s.len)
	}
	if end-begin > l.covered(begin, end-begin, readable) {
		return cmp.Or(l.spent, fmt.Errorf("tables [%#x, %#x) are not mapped: %w", begin, end, errCorrupt))
	}
	if end-begin > uint64(l.hold/2) {
		m.paged = pagesOf(l, im)
	}
	var errs [6]error
	m.names, errs[0] = l.text(d.names.addr, d.names.len)
	m.files, errs[1] = l.text(d.files.addr, d.files.len)
	m.cutab, errs[2] = l.sharedBytes(d.cutab.addr, d.cutab.len)
	m.pctab, errs[3] = l.table(d.pctab, m.paged, im)
	m.funcs, errs[4] = l.table(d.funcs, m.paged, im)
	m.ftab, errs[5] = l.sharedBytes(d.ftab.addr, d.ftab.len)
	if err := cmp.Or(errs[:]...); err != nil {
		return fmt.Errorf("read program counter table: %w", err)
	}
	return nil
}

// table copies a table, or leaves it in a file if there is one.
func (l *load) table(s slice, file *pages, im *image) (bytesTable, error) {
	if file != nil {
		if t, ok := file.inFile(im, s); ok {
			return t, nil
		}
	}
	b, err := l.sharedBytes(s.addr, s.len)
	return bytesTable{bytes: b}, err
}

// verify checks the function table as runtime.moduledataverify1 does, and whether
// function records are such as are known here.
func (m *module) verify(b *budget) error {
	if err := b.work(recordCost * m.nfunc); err != nil {
		return err
	}
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
	return m.verifyRecords(b)
}

// verifySamples is how many functions, and how many inline trees, are looked at to
// verify a layout.
const verifySamples = 256

// verifyRecords says by an error if functions have no names, or have at their
// entries something on the stack below the return address. A few may.
func (m *module) verifyRecords(b *budget) error {
	looked, good := 0, 0
	for i := 0; i < m.nfunc; i += max(m.nfunc/verifySamples, 1) {
		r, _ := m.record(i)
		looked++
		if m.isName(r.nameOff) && m.value(b, r, r.pcsp, r.entry) <= 0 {
			good++
		}
	}
	if b.spent != nil {
		return b.spent
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
func (m *module) copyInlineTrees(l *load, words []uint64) error {
	if err := l.work(2 * recordCost * m.nfunc); err != nil {
		return err
	}
	lo, hi, count := ^uint32(0), uint32(0), 0
	for t := range m.trees() {
		lo, hi, count = min(lo, t.off), max(hi, t.off), count+1
	}
	if count == 0 {
		return nil // nothing was inlined
	}
	trees := m.someTrees(count)
	for i, gofunc := range words {
		rest := l.maps.rest(gofunc + uint64(hi))
		if rest == 0 || slices.Contains(words[:i], gofunc) || !m.areTrees(l, gofunc, trees) {
			continue
		}
		b, err := l.sharedBytes(gofunc+uint64(lo), uint64(hi-lo)+min(rest, maxTree))
		if err != nil {
			return fmt.Errorf("read inline trees: %w", err)
		}
		m.inline, m.inlineOff = b, lo
		return nil
	}
	return cmp.Or(l.spent, fmt.Errorf("no inline trees of %d functions: %w", len(trees), ErrUnsupported))
}

// trees yields the inline trees of all functions.
func (m *module) trees() iter.Seq[tree] {
	return func(yield func(tree) bool) {
		for i := range m.nfunc {
			r, _ := m.record(i)
			off, ok := m.funcdata(r, funcdataInlTree)
			if ok && !yield(tree{off, uint32(min(r.end-r.entry, 1<<32-1))}) {
				return
			}
		}
	}
}

// someTrees returns up to twice verifySamples of the inline trees, evenly.
func (m *module) someTrees(count int) (some []tree) {
	every, i := max(count/verifySamples, 1), 0
	for t := range m.trees() {
		if i%every == 0 {
			some = append(some, t)
		}
		i++
	}
	return some
}

// tree is where the inline tree of a function is.
type tree struct {
	off  uint32 // from moduledata.gofunc
	size uint32 // of the function, bytes
}

// areTrees says whether the module's inline trees can begin at an address.
func (m *module) areTrees(l *load, gofunc uint64, trees []tree) bool {
	b := make([]byte, m.form.inlinedSize())
	for _, t := range trees {
		if l.readAt(b, gofunc+uint64(t.off)) != nil {
			return false
		}
		call := m.form.inlinedCall(b)
		zero := call == inlinedCall{} // a variable that was not set yet
		if zero || !m.isName(call.nameOff) || call.parentPC >= t.size {
			return false
		}
	}
	return true
}
