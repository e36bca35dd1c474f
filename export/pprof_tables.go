package export

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
)

// pprofTables are a profile.proto: its samples as they lie in the file, and
// decoded all that these refer to. The records of a field are not listed: they are
// found again between the first and the last.
//
// As google/pprof does, they refuse ids that are 0 or stand twice, and references to
// records that are missing.
type pprofTables struct {
	memory   memory // for all lists
	profile  message
	records  [lastField + 1]records // the messages and strings, by their field
	numbers  [lastField + 1]uint64  // the fields that are single numbers
	comments []uint64               // numbers of strings

	strings     stringTable
	sampleTypes []valueType
	periodType  valueType
	mappings    table[pprofMapping]
	functions   table[pprofFunction]
	locations   table[pprofLocation]
	lines       []pprofLine // of the locations
}

// Numbers of the fields of message Profile.
const (
	sampleTypeField  = 1
	sampleField      = 2
	mappingField     = 3
	locationField    = 4
	functionField    = 5
	stringField      = 6
	dropFramesField  = 7
	keepFramesField  = 8
	timeField        = 9
	durationField    = 10
	periodTypeField  = 11
	periodField      = 12
	commentField     = 13
	defaultTypeField = 14
	docField         = 15
	lastField        = docField
)

// records are the messages or strings of one field.
type records struct {
	first, end int // offsets in the profile: of the first one, and after the last
	count      int
	bytes      int // of all
}

type pprofMapping struct {
	start, limit, offset uint64
	file, buildID        string
}

// contains reports whether an address is one of the mapping's. A mapping without a known
// range has none.
func (m *pprofMapping) contains(address uint64) bool { return m.start <= address && address < m.limit }

type pprofFunction struct {
	name, systemName, filename string
	startLine                  int64
	receiver                   string // as labels of ours say; of methods that were on top
}

// pprofLocation has more than one line where calls were inlined, the innermost
// first, and none where there are no symbols.
type pprofLocation struct {
	mapping uint64 // id; 0, or the id of no mapping, where it is unknown
	address uint64
	lo, hi  uint32 // in lines
}

// frames returns how many frames the location stands for.
func (l *pprofLocation) frames() int { return max(1, int(l.hi-l.lo)) }

type pprofLine struct {
	function uint32 // index in functions
	line     int64
}

// split finds the records of a profile.
func (p *pprofTables) split(profile message) error {
	p.profile = profile
	var f field
	for rest := profile; len(rest) > 0; {
		first := len(profile) - len(rest)
		if err := rest.next(&f); err != nil {
			return err
		}
		if err := p.record(&f, first, len(profile)-len(rest)); err != nil {
			return fmt.Errorf("field %d: %w", f.number, err)
		}
	}
	return nil
}

// record takes one field of the profile, which lies at these offsets. Unknown fields are
// skipped.
func (p *pprofTables) record(f *field, first, end int) (err error) {
	switch number := f.number; {
	case number == 0 || number > lastField:
		return nil
	case number == commentField:
		listErr := f.eachNumber(func(v uint64) {
			if err == nil {
				p.comments, err = keep(&p.memory, p.comments, v)
			}
		})
		return cmp.Or(err, listErr)
	case isMessage(number) != (f.wire == wireBytes), f.wire == wireFixed32, f.wire == wireFixed64:
		return errWireType
	case isMessage(number):
		p.records[number].add(f, first, end)
	case number == timeField && p.numbers[timeField] != 0:
		return errors.New("it is two profiles, one behind the other")
	default:
		p.numbers[number] = f.value
	}
	return nil
}

func (r *records) add(f *field, first, end int) {
	if r.count == 0 {
		r.first = first
	}
	r.end = end
	r.count++
	r.bytes += len(f.data)
}

// each calls yield with the records of a field, from 0, up to an error, which says which
// record it is.
func (p *pprofTables) each(number uint64, yield func(message) error) error {
	r := &p.records[number]
	var f field
	for i, rest := 0, p.profile[r.first:r.end]; len(rest) > 0; {
		if err := rest.next(&f); err != nil {
			return err // split has found none
		}
		if f.number != number {
			continue
		}
		if err := yield(f.data); err != nil {
			return fmt.Errorf("%s %d: %w", recordNames[number], i, err)
		}
		i++
	}
	return nil
}

var recordNames = [...]string{
	sampleTypeField: "sample type", sampleField: "sample", mappingField: "mapping", locationField: "location",
	functionField: "function", stringField: "string", periodTypeField: "period type",
}

func isMessage(number uint64) bool { return number <= stringField || number == periodTypeField }

// decode decodes the records that samples refer to.
func (p *pprofTables) decode() error {
	if err := p.joinStrings(); err != nil {
		return err
	}
	if err := p.makeRoom(); err != nil {
		return err
	}
	for _, list := range []struct {
		field uint64
		add   func(message) error
	}{
		{sampleTypeField, p.addSampleType}, {periodTypeField, p.setPeriodType},
		{mappingField, p.addMapping}, {functionField, p.addFunction}, {locationField, p.addLocation},
	} {
		if err := p.each(list.field, list.add); err != nil {
			return err
		}
	}
	for _, number := range []int{dropFramesField, keepFramesField, defaultTypeField, docField} {
		p.strings.at(p.numbers[number])
	}
	return p.strings.missing
}

// joinStrings joins the strings of the table.
func (p *pprofTables) joinStrings() error {
	r := p.records[stringField]
	if err := p.memory.reserve(int64(r.bytes)); err != nil {
		return err
	}
	if err := p.strings.makeRoom(&p.memory, r.count, r.bytes); err != nil {
		return err
	}
	err := p.each(stringField, func(m message) error { p.strings.add(m); return nil })
	if err != nil {
		return err
	}
	return p.strings.finish()
}

// makeRoom makes room for the entries of each table.
func (p *pprofTables) makeRoom() (err error) {
	m := &p.memory
	if p.sampleTypes, err = room(m, p.sampleTypes, p.records[sampleTypeField].count); err != nil {
		return err
	}
	if p.mappings.entries, err = room(m, p.mappings.entries, p.records[mappingField].count); err != nil {
		return err
	}
	if p.functions.entries, err = room(m, p.functions.entries, p.records[functionField].count); err != nil {
		return err
	}
	p.locations.entries, err = room(m, p.locations.entries, p.records[locationField].count)
	return err
}

func (p *pprofTables) addSampleType(m message) error {
	t, err := p.valueType(m)
	p.sampleTypes = append(p.sampleTypes, t)
	return err
}

// setPeriodType sets the type of the period: the last one counts.
func (p *pprofTables) setPeriodType(m message) (err error) {
	p.periodType, err = p.valueType(m)
	return err
}

func (p *pprofTables) valueType(m message) (valueType, error) {
	var v [3]uint64
	err := m.numbers(v[:])
	return valueType{p.strings.at(v[1]), p.strings.at(v[2])}, err
}

func (p *pprofTables) addMapping(m message) error {
	var v [11]uint64
	if err := m.numbers(v[:]); err != nil {
		return err
	}
	return p.mappings.add(&p.memory, v[1], pprofMapping{
		start: v[2], limit: v[3], offset: v[4], file: p.strings.at(v[5]), buildID: p.strings.at(v[6]),
	})
}

func (p *pprofTables) addFunction(m message) error {
	var v [6]uint64
	if err := m.numbers(v[:]); err != nil {
		return err
	}
	return p.functions.add(&p.memory, v[1], pprofFunction{
		name: p.strings.at(v[2]), systemName: p.strings.at(v[3]), filename: p.strings.at(v[4]), startLine: int64(v[5]),
	})
}

// addLocation decodes the one message that has both numbers and messages.
func (p *pprofTables) addLocation(m message) error {
	const line, lastNumber = 4, 5
	l := pprofLocation{lo: uint32(len(p.lines))}
	var v [lastNumber + 1]uint64
	for len(m) > 0 {
		var f field
		if err := m.next(&f); err != nil {
			return err
		}
		switch {
		case f.number == 0 || f.number > lastNumber:
		case (f.number == line) != (f.wire == wireBytes), f.wire == wireFixed32, f.wire == wireFixed64:
			return errWireType
		case f.number == line:
			if err := p.addLine(f.data); err != nil {
				return err
			}
		default:
			v[f.number] = f.value
		}
	}
	l.mapping, l.address, l.hi = v[2], v[3], uint32(len(p.lines))
	return p.locations.add(&p.memory, v[1], l)
}

func (p *pprofTables) addLine(m message) error {
	var v [4]uint64
	if err := m.numbers(v[:]); err != nil {
		return err
	}
	function, found := p.functions.find(v[1])
	if !found {
		return fmt.Errorf("a line of function %d, which is not there", v[1])
	}
	var err error
	p.lines, err = keep(&p.memory, p.lines, pprofLine{function, int64(v[2])})
	return err
}

// mappingOf returns the mapping of a location; nil if it has none.
func (p *pprofTables) mappingOf(l *pprofLocation) *pprofMapping {
	if i, found := p.mappings.find(l.mapping); found {
		return &p.mappings.entries[i]
	}
	return nil
}

// reset makes room for another profile, and keeps the buffers.
func (p *pprofTables) reset() {
	p.profile, p.records = nil, [lastField + 1]records{}
	p.numbers, p.comments = [lastField + 1]uint64{}, p.comments[:0]
	p.strings = stringTable{ends: p.strings.ends[:0]}
	p.sampleTypes, p.periodType, p.lines = p.sampleTypes[:0], valueType{}, p.lines[:0]
	p.mappings.reset()
	p.functions.reset()
	p.locations.reset()
}

// table holds the records of a profile.proto that have ids. Nearly always the ids are 1,
// 2, 3 …
type table[T any] struct {
	entries []T
	inOrder uint64            // so many entries have the ids from 1 on
	others  map[uint64]uint32 // index of the entries after them, by id
}

// find returns the index of the entry with an id.
func (t *table[T]) find(id uint64) (index uint32, found bool) {
	if id-1 < t.inOrder {
		return uint32(id - 1), true
	}
	index, found = t.others[id]
	return index, found
}

// add adds an entry. There is room for it.
func (t *table[T]) add(m *memory, id uint64, entry T) error {
	if id == 0 {
		return errors.New("its id is 0")
	}
	if _, found := t.find(id); found {
		return fmt.Errorf("its id %d stands twice", id)
	}
	if index := uint64(len(t.entries)); index == t.inOrder && id == index+1 {
		t.inOrder++
	} else {
		const other = 3 * (8 + 4) // bytes in the map, while that grows
		if err := m.reserve(other); err != nil {
			return err
		}
		if t.others == nil {
			t.others = make(map[uint64]uint32)
		}
		t.others[id] = uint32(index)
	}
	t.entries = append(t.entries, entry)
	return nil
}

// reset makes room for another profile, and keeps the buffer.
func (t *table[T]) reset() {
	clear(t.entries) // their strings keep others alive
	*t = table[T]{entries: t.entries[:0]}
}

// stringTable holds the strings of a profile.proto as parts of one.
type stringTable struct {
	text    strings.Builder
	ends    []uint32 // of the strings, in text
	missing error    // the first reference to a string that is not there
}

// makeRoom makes room for so many strings of so many bytes, which are taken already.
func (t *stringTable) makeRoom(m *memory, count, bytes int) (err error) {
	if int64(bytes) > math.MaxUint32 {
		return fmt.Errorf("%w: strings of %d bytes", ErrTooMany, bytes)
	}
	t.text.Grow(bytes)
	t.ends, err = room(m, t.ends, count)
	return err
}

func (t *stringTable) add(s message) {
	t.text.Write(s)
	t.ends = append(t.ends, uint32(t.text.Len()))
}

// finish checks that the first string is the empty one.
func (t *stringTable) finish() error {
	if len(t.ends) == 0 || t.ends[0] > 0 {
		return errors.New("the first string is not the empty one")
	}
	return nil
}

// has reports whether the table has a text.
func (t *stringTable) has(text string) bool {
	for number := range t.ends {
		if t.at(uint64(number)) == text {
			return true
		}
	}
	return false
}

// at returns a string by its number. It shares memory with all others: a caller
// that keeps it must clone it.
func (t *stringTable) at(number uint64) string {
	switch {
	case number >= uint64(len(t.ends)):
		if t.missing == nil {
			t.missing = fmt.Errorf("string %d of %d", number, len(t.ends))
		}
		return ""
	case number == 0:
		return ""
	}
	return t.text.String()[t.ends[number-1]:t.ends[number]]
}
