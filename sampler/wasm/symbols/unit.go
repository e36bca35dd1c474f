package symbols

import (
	"cmp"
	"debug/dwarf"
	"math"
	"slices"
	"sort"
)

// unit is a compilation unit.
type unit struct {
	unitHeader
	silent      bool   // it does not say where its code is
	base        uint64 // of ranges that are relative
	addressBase uint64 // of its addresses in ".debug_addr"
	lineOffset  int64  // in ".debug_line"; -1: it has none
	directory   string

	loaded      bool
	lines       *lineTable
	subprograms []*subprogram // by low
}

// subprogram is a function's code in one range of addresses.
type subprogram struct {
	low, high uint64
	entry     declaration
	inlined   []inlinedCall // into it, those that are not inlined into another, by low

	resolved bool   // whether file and line are read
	file     string // of its declaration; empty: unknown
	line     int32  // of its declaration; 0: unknown
}

// declaration is what an entry says of where its function is declared, and the entry
// that says the rest; 0: none.
type declaration struct {
	file, line int64 // -1: it does not say
	origin     dwarf.Offset
}

// inlinedCall is the range of addresses that code was inlined to.
type inlinedCall struct {
	low, high  uint64
	file, line int64 // of the call
}

// newUnit reads the first entry of a unit; nil where it is none of code.
func (l *lineInfo) newUnit(h unitHeader) *unit {
	r := l.data.Reader()
	r.Seek(h.first)
	e := l.next(r)
	if e == nil || e.Tag != dwarf.TagCompileUnit {
		return nil
	}
	u := &unit{
		unitHeader:  h,
		silent:      e.Val(dwarf.AttrLowpc) == nil && e.Val(dwarf.AttrRanges) == nil,
		addressBase: uint64(max(number(e, dwarf.AttrAddrBase), 0)),
		lineOffset:  number(e, dwarf.AttrStmtList),
	}
	u.base, _ = e.Val(dwarf.AttrLowpc).(uint64)
	u.directory, _ = e.Val(dwarf.AttrCompDir).(string)
	for _, p := range l.ranges(e, u) {
		l.spans = append(l.spans, span{p[0], p[1], u})
	}
	return u
}

// load reads the functions and the lines of a unit, once.
func (l *lineInfo) load(u *unit) *unit {
	if u.loaded {
		return u
	}
	u.loaded = true
	u.lines = l.lineTable(u)
	u.lines.readRows(&l.meter, l.code)
	w := unitWalk{l: l, u: u}
	r := l.data.Reader()
	r.Seek(u.first)
	for e := l.next(r); e != nil && e.Offset < u.end; e = l.next(r) {
		w.visit(e)
	}
	slices.SortFunc(u.subprograms, func(a, b *subprogram) int { return cmp.Compare(a.low, b.low) })
	for _, s := range u.subprograms {
		slices.SortFunc(s.inlined, func(a, b inlinedCall) int { return cmp.Compare(a.low, b.low) })
	}
	return u
}

// unitWalk goes over the entries of a unit in their order.
type unitWalk struct {
	l     *lineInfo
	u     *unit
	scope scope
	outer []scope // of the entries around
}

// scope is what an entry is in.
type scope struct {
	functions []*subprogram // one for each range; nil: outside of functions
	inlined   bool          // it is code that was inlined
}

func (w *unitWalk) visit(e *dwarf.Entry) {
	if e.Tag == 0 { // the end of the children
		if n := len(w.outer); n > 0 {
			w.scope, w.outer = w.outer[n-1], w.outer[:n-1]
		}
		return
	}
	inside := w.scope
	switch e.Tag {
	case dwarf.TagSubprogram:
		inside = scope{functions: w.subprograms(e)}
	case dwarf.TagInlinedSubroutine:
		if !inside.inlined {
			w.inlined(e)
		}
		inside.inlined = true
	}
	if e.Children {
		w.outer = append(w.outer, w.scope)
		w.scope = inside
	}
}

// subprograms adds a function, once for each of its ranges.
func (w *unitWalk) subprograms(e *dwarf.Entry) []*subprogram {
	const subprogramBytes = 112
	var all []*subprogram
	for _, p := range w.l.ranges(e, w.u) {
		if !w.l.meter.spend(subprogramBytes) {
			break
		}
		all = append(all, &subprogram{low: p[0], high: p[1], entry: newDeclaration(e)})
	}
	w.u.subprograms = append(w.u.subprograms, all...)
	return all
}

// inlined adds a call that was inlined into the functions around.
func (w *unitWalk) inlined(e *dwarf.Entry) {
	const callBytes = 32
	file, line := number(e, dwarf.AttrCallFile), number(e, dwarf.AttrCallLine)
	for _, p := range w.l.ranges(e, w.u) {
		for _, s := range w.scope.functions {
			if !w.l.meter.spend(callBytes) {
				return
			}
			if p[0] < s.high && s.low < p[1] {
				s.inlined = append(s.inlined, inlinedCall{p[0], p[1], file, line})
			}
		}
	}
}

func newDeclaration(e *dwarf.Entry) declaration {
	d := declaration{file: number(e, dwarf.AttrDeclFile), line: number(e, dwarf.AttrDeclLine)}
	for _, a := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		if origin, ok := e.Val(a).(dwarf.Offset); ok {
			d.origin = origin
		}
	}
	return d
}

// number returns an attribute that is a number, -1 where the entry has none.
func number(e *dwarf.Entry, a dwarf.Attr) int64 {
	if v, ok := e.Val(a).(int64); ok && v >= 0 && v <= math.MaxInt32 {
		return v
	}
	return -1
}

// subprogram returns what is known of a function: of one without an entry only where
// its code is.
func (u *unit) subprogram(f *function) *subprogram {
	begin, end := uint64(f.begin), uint64(f.end)
	i := sort.Search(len(u.subprograms), func(i int) bool { return u.subprograms[i].low >= end })
	if i > 0 && u.subprograms[i-1].high > begin {
		return u.subprograms[i-1]
	}
	if !u.lines.covers(begin, end) {
		return nil
	}
	return &subprogram{low: begin, high: end, entry: declaration{file: -1, line: -1}}
}

// resolve finds out where a function is declared, once: entries are paid for.
func (l *lineInfo) resolve(u *unit, s *subprogram) {
	if !s.resolved {
		s.resolved = true
		s.file, s.line = l.declared(u, s)
	}
}

// declared returns where a function is declared: where it is defined, if its own entry
// says so, else what the entry says that it is an instance of, maybe in another unit.
func (l *lineInfo) declared(u *unit, s *subprogram) (file string, line int32) {
	const maxHops = 4
	at, d := u, s.entry
	for range maxHops {
		if file == "" && at != nil {
			file = l.lineTable(at).fileName(d.file, at.directory)
		}
		if line == 0 {
			line = int32(max(d.line, 0))
		}
		if file != "" && line != 0 {
			return file, line
		}
		if d.origin == 0 {
			break
		}
		at, d = l.unitAt(d.origin), l.declarationAt(d.origin)
	}
	return u.firstLine(s)
}

// declarationAt returns what the entry at an offset says.
func (l *lineInfo) declarationAt(offset dwarf.Offset) declaration {
	r := l.data.Reader()
	r.Seek(offset)
	if e := l.next(r); e != nil {
		return newDeclaration(e)
	}
	return declaration{file: -1, line: -1}
}

// firstLine returns where the first instruction is that is on a line.
func (u *unit) firstLine(s *subprogram) (file string, line int32) {
	row := u.lines.firstIn(s.low, s.high)
	return u.lines.fileName(int64(row.file), u.directory), row.line
}

// unitAt returns the unit that an entry is in, or nil.
func (l *lineInfo) unitAt(offset dwarf.Offset) *unit {
	i := sort.Search(len(l.units), func(i int) bool { return l.units[i].end > offset })
	if i < len(l.units) && l.units[i].first <= offset {
		return l.units[i]
	}
	return nil
}

// position returns where an address of a function is in the source, or where the call
// is that was inlined to it.
func (u *unit) position(s *subprogram, address uint64) (file string, line int32) {
	i := sort.Search(len(s.inlined), func(i int) bool { return s.inlined[i].low > address })
	if i > 0 && address < s.inlined[i-1].high {
		c := s.inlined[i-1]
		return u.lines.fileName(c.file, u.directory), int32(max(c.line, 0))
	}
	row := u.lines.at(s.low, address)
	return u.lines.fileName(int64(row.file), u.directory), row.line
}
