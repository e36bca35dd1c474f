package symbols

import (
	"cmp"
	"slices"
	"sort"
	"sync"

	"github.com/ccmapd/ccmapd/sampler/wasm/debuginfo"
)

// lineInfo is the DWARF of a module. Who first asks for something finds out where the
// units lie, and who first asks for a function of a unit reads that unit. All of it is
// under mu.
type lineInfo struct {
	mu       sync.Mutex
	sections debuginfo.Sections
	budget   *debuginfo.Budget
	code     uint64 // bytes of the code section's content: addresses are under it
	data     *debuginfo.Data
	spans    []span  // of all units, by low
	silent   []*unit // those that do not say where their code is
	found    map[*function]found
}

// found is what is known of the code of a function. Without a subprogram it is nothing.
type found struct {
	*unit
	*subprogram
}

// span is a range of addresses that a unit has code in.
type span struct {
	low, high uint64
	unit      *unit
}

func newLineInfo(m *module, b *debuginfo.Budget) *lineInfo {
	return &lineInfo{
		sections: m.debug, budget: b, code: uint64(m.code), found: map[*function]found{},
	}
}

// declaration returns where a function is declared: at its first instruction, where
// nothing else is known of it.
func (l *lineInfo) declaration(f *function) (file string, line int32) {
	l.read(f, func(u *unit, s *subprogram) {
		file, line = s.file, s.line
	})
	return file, line
}

// line returns the line in the function's own file that an address is on.
func (l *lineInfo) line(f *function, address uint64) (line int32) {
	l.read(f, func(u *unit, s *subprogram) {
		switch file, at := l.position(u, s, address); {
		case file == s.file:
			line = at
		case at == 0 && u.rows.covers(address, s.high): // code before its first line
			line = s.line
		}
	})
	return line
}

// read calls use with what is known of the code of a function, if anything is.
func (l *lineInfo) read(f *function, use func(*unit, *subprogram)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data == nil {
		l.open()
	}
	k, ok := l.found[f]
	if !ok {
		k = l.find(f)
		l.found[f] = k
	}
	if k.subprogram != nil {
		use(k.unit, k.subprogram)
	}
}

// find looks for the code of a function.
func (l *lineInfo) find(f *function) found {
	for _, u := range l.unitsOf(f) {
		if !l.budget.Step(1) {
			break
		}
		if s := l.load(u).subprogram(f); s != nil {
			s.file, s.line = l.declared(u, s)
			return found{u, s}
		}
	}
	return found{}
}

// open finds the units.
func (l *lineInfo) open() {
	l.data = debuginfo.New(l.sections, l.budget)
	for _, in := range l.data.Units() {
		if !in.IsCode {
			continue
		}
		u := &unit{Unit: in}
		if !in.Located {
			l.silent = append(l.silent, u)
		}
		for _, r := range l.unitRanges(in) {
			l.spans = append(l.spans, span{r.Low, r.High, u})
		}
	}
	slices.SortFunc(l.spans, func(a, b span) int { return cmp.Compare(a.low, b.low) })
}

func (l *lineInfo) unitRanges(u *debuginfo.Unit) []debuginfo.Range {
	root, ok := l.data.Root(u)
	if !ok {
		return nil
	}
	return l.ranges(u, root)
}

// ranges returns the ranges of an entry, without code that the linker has dropped:
// wasm-ld moves it to address 0, where no code is, or to the end of the address space.
// It returns nothing where the budget has no room for them.
func (l *lineInfo) ranges(u *debuginfo.Unit, e *debuginfo.Entry) []debuginfo.Range {
	const spanBytes = 48
	all := slices.DeleteFunc(l.data.AppendRanges(nil, u, e), func(r debuginfo.Range) bool {
		return r.Low == 0 || r.Low >= r.High || r.High > l.code
	})
	if !l.budget.Keep(spanBytes * len(all)) {
		return nil
	}
	return all
}

// unitsOf returns the units that may have the code of a function: the one with the
// last span that begins before the function ends, or all that do not say where theirs is.
func (l *lineInfo) unitsOf(f *function) []*unit {
	i := sort.Search(len(l.spans), func(i int) bool { return l.spans[i].low >= uint64(f.end) })
	if i > 0 && l.spans[i-1].high > uint64(f.begin) {
		return []*unit{l.spans[i-1].unit}
	}
	return l.silent
}
