package symbols

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
)

// unit is a compilation unit.
type unit struct {
	*debuginfo.Unit
	loaded      bool
	rows        rows
	subprograms []*subprogram // by low
}

// subprogram is a function's code in one range of addresses.
type subprogram struct {
	low, high uint64
	entry     declaration
	inlined   []inlinedCall // the outermost inlined calls, by low

	file string // of its declaration; empty: unknown
	line int32  // of its declaration; 0: unknown
}

// declaration is an entry's declaration of its function, and the entry with the rest of
// the declaration; 0: no such entry.
type declaration struct {
	file, line int64  // -1: missing
	origin     uint64 // offset
}

// inlinedCall is the range of addresses that code was inlined to.
type inlinedCall struct {
	low, high  uint64
	file, line int64 // of the call
}

// load reads the functions and the lines of a unit, once.
func (l *lineInfo) load(u *unit) *unit {
	if u.loaded {
		return u
	}
	u.loaded = true
	u.rows = l.rows(u.Unit)
	w := unitWalk{l: l, u: u}
	for e := range l.data.Entries(u.Unit) {
		if w.visit(e); len(w.outer) > maxNesting {
			break
		}
	}
	slices.SortFunc(u.subprograms, func(a, b *subprogram) int { return cmp.Compare(a.low, b.low) })
	for _, s := range u.subprograms {
		slices.SortFunc(s.inlined, func(a, b inlinedCall) int { return cmp.Compare(a.low, b.low) })
	}
	return u
}

// maxNesting bounds the nesting of entries.
const maxNesting = 1 << 12

// unitWalk visits the entries of a unit in order.
type unitWalk struct {
	l     *lineInfo
	u     *unit
	scope scope
	outer []scope // of the entries around
}

// scope is the surrounding of an entry.
type scope struct {
	functions []*subprogram // one for each range; nil: outside of functions
	inlined   bool          // inlined code
}

func (w *unitWalk) visit(e *debuginfo.Entry) {
	if e.Tag == 0 { // the end of the children
		if n := len(w.outer); n > 0 {
			w.scope, w.outer = w.outer[n-1], w.outer[:n-1]
		}
		return
	}
	inside := w.scope
	switch e.Tag {
	case debuginfo.TagSubprogram:
		inside = scope{functions: w.subprograms(e)}
	case debuginfo.TagInlinedSubroutine:
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
func (w *unitWalk) subprograms(e *debuginfo.Entry) []*subprogram {
	const subprogramBytes = 112
	var all []*subprogram
	for _, p := range w.l.ranges(w.u.Unit, e) {
		if !w.l.budget.Keep(subprogramBytes) {
			break
		}
		all = append(all, &subprogram{low: p.Low, high: p.High, entry: newDeclaration(e)})
	}
	w.u.subprograms = append(w.u.subprograms, all...)
	return all
}

// inlined adds a call that was inlined into the functions around.
func (w *unitWalk) inlined(e *debuginfo.Entry) {
	const callBytes = 32
	file, line := e.Number(debuginfo.CallFile), e.Number(debuginfo.CallLine)
	for _, p := range w.l.ranges(w.u.Unit, e) {
		for _, s := range w.scope.functions {
			if !w.l.budget.Keep(callBytes) {
				return
			}
			if p.Low < s.high && s.low < p.High {
				s.inlined = append(s.inlined, inlinedCall{p.Low, p.High, file, line})
			}
		}
	}
}

func newDeclaration(e *debuginfo.Entry) declaration {
	d := declaration{file: e.Number(debuginfo.DeclFile), line: e.Number(debuginfo.DeclLine)}
	for _, a := range []debuginfo.Attribute{debuginfo.AbstractOrigin, debuginfo.Specification} {
		if origin, ok := e.Reference(a); ok {
			d.origin = origin
		}
	}
	return d
}

// subprogram returns a function's subprogram. If it has no entry, only its code is known.
func (u *unit) subprogram(f *function) *subprogram {
	begin, end := uint64(f.begin), uint64(f.end)
	i := sort.Search(len(u.subprograms), func(i int) bool { return u.subprograms[i].low >= end })
	if i > 0 && u.subprograms[i-1].high > begin {
		return u.subprograms[i-1]
	}
	if !u.rows.covers(begin, end) {
		return nil
	}
	return &subprogram{low: begin, high: end, entry: declaration{file: -1, line: -1}}
}

// declared returns a function's declaration: from its own entry, or else from the entry
// that it is an instance of, maybe in another unit.
func (l *lineInfo) declared(u *unit, s *subprogram) (file string, line int32) {
	const maxHops = 4
	at, d := u.Unit, s.entry
	for range maxHops {
		if file == "" && at != nil {
			file = l.data.FileName(at, d.file)
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
		at = l.data.UnitAt(d.origin)
		d = l.declarationAt(at, d.origin)
	}
	return l.firstLine(u, s)
}

// declarationAt reads the entry at an offset in a unit. A nil unit gives no declaration.
func (l *lineInfo) declarationAt(u *debuginfo.Unit, offset uint64) declaration {
	if u != nil {
		if e, ok := l.data.EntryAt(u, offset); ok {
			return newDeclaration(e)
		}
	}
	return declaration{file: -1, line: -1}
}

// firstLine returns the position of the first instruction with a line.
func (l *lineInfo) firstLine(u *unit, s *subprogram) (file string, line int32) {
	row := u.rows.firstIn(s.low, s.high)
	return l.data.FileName(u.Unit, int64(row.file)), row.line
}

// position returns the source position of an address in a function, or the position of
// the inlined call there.
func (l *lineInfo) position(u *unit, s *subprogram, address uint64) (file string, line int32) {
	i := sort.Search(len(s.inlined), func(i int) bool { return s.inlined[i].low > address })
	if i > 0 && address < s.inlined[i-1].high {
		c := s.inlined[i-1]
		return l.data.FileName(u.Unit, c.file), int32(max(c.line, 0))
	}
	row := u.rows.at(s.low, address)
	return l.data.FileName(u.Unit, int64(row.file)), row.line
}
