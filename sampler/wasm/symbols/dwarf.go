package symbols

import (
	"cmp"
	"debug/dwarf"
	"fmt"
	"slices"
	"sort"
	"sync"
)

const debugPrefix = ".debug_"

// debugSections are the contents of the sections of DWARF, by name without prefix.
type debugSections map[string][]byte

func (s debugSections) size() int {
	n := 0
	for _, data := range s {
		n += len(data)
	}
	return n
}

// lineInfo is the DWARF of a module. Who first asks for something finds out where the
// units lie, and who first asks for a function of a unit reads that unit. All of it is
// under mu.
type lineInfo struct {
	mu       sync.Mutex
	sections debugSections
	code     uint64 // bytes of the code section's content: addresses are under it
	meter    meter
	opened   bool
	data     *dwarf.Data // nil: there is none that can be read
	units    []*unit
	spans    []span               // of all units, by low
	tables   map[int64]*lineTable // by offset in ".debug_line"
}

// span is a range of addresses that a unit has code in.
type span struct {
	low, high uint64
	unit      *unit
}

func newLineInfo(m *module) *lineInfo {
	const decodedPerByte, least = 64, 1 << 20 // compilers' output takes 8 to 14
	return &lineInfo{
		sections: m.debug, code: uint64(m.code), tables: make(map[int64]*lineTable),
		meter: meter{decodedPerByte*int64(m.debug.size()) + least},
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
		switch file, at := u.position(s, address); {
		case file == s.file:
			line = at
		case at == 0 && u.lines.covers(address, s.high): // what comes before its first line
			line = s.line
		}
	})
	return line
}

// read calls use with what is known of the code of a function, if anything is.
func (l *lineInfo) read(f *function, use func(*unit, *subprogram)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.opened {
		l.opened = true
		l.open()
	}
	for _, u := range l.unitsOf(f) {
		if s := l.load(u).subprogram(f); s != nil {
			l.resolve(u, s)
			use(u, s)
			return
		}
	}
}

// open finds the units. On an error there are none.
func (l *lineInfo) open() {
	headers, err := l.check()
	if err == nil && len(headers) > 0 {
		l.data, err = l.parse()
	}
	if err != nil || l.data == nil {
		return
	}
	for _, h := range headers {
		if u := l.newUnit(h); u != nil {
			l.units = append(l.units, u)
		}
	}
	slices.SortFunc(l.spans, func(a, b span) int { return cmp.Compare(a.low, b.low) })
}

// check cuts off the units that are malformed, and refuses what cannot be read in
// linear time.
func (l *lineInfo) check() ([]unitHeader, error) {
	headers, end := unitHeaders(l.sections["info"])
	l.sections["info"] = l.sections["info"][:end]
	for _, name := range []string{"str", "line_str"} {
		if err := checkStrings(l.sections[name]); err != nil {
			return nil, err
		}
	}
	return headers, checkAbbreviations(l.sections["abbrev"], headers)
}

func (l *lineInfo) parse() (data *dwarf.Data, err error) {
	defer catch(&err)
	s := l.sections
	data, err = dwarf.New(s["abbrev"], nil, nil, s["info"], nil, nil, nil, s["str"])
	if err != nil {
		return nil, fmt.Errorf("read units: %w", err)
	}
	for _, name := range []string{"addr", "line_str", "rnglists", "str_offsets"} {
		if err := data.AddSection(debugPrefix+name, s[name]); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return data, nil
}

// unitsOf returns the units that may have the code of a function: the one with the
// last span that begins before the function ends, or all that do not say where theirs is.
func (l *lineInfo) unitsOf(f *function) []*unit {
	i := sort.Search(len(l.spans), func(i int) bool { return l.spans[i].low >= uint64(f.end) })
	if i > 0 && l.spans[i-1].high > uint64(f.begin) {
		return []*unit{l.spans[i-1].unit}
	}
	var silent []*unit
	for _, u := range l.units {
		if u.silent {
			silent = append(silent, u)
		}
	}
	return silent
}

// next returns the next entry of a reader, nil at its end and where the meter is at
// its own.
func (l *lineInfo) next(r *dwarf.Reader) *dwarf.Entry {
	e, err := readEntry(r)
	if err != nil || e == nil || !l.meter.spend(entryBytes(e)) {
		return nil
	}
	return e
}

func readEntry(r *dwarf.Reader) (e *dwarf.Entry, err error) {
	defer catch(&err)
	return r.Next()
}

// entryBytes returns about how many bytes an entry takes in memory.
func entryBytes(e *dwarf.Entry) int {
	const entry, field = 48, 48
	n := entry + field*len(e.Field)
	for _, f := range e.Field {
		if s, ok := f.Val.(string); ok {
			n += len(s)
		}
	}
	return n
}
