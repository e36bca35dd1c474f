package export

import (
	"errors"
	"fmt"
)

// pprofTables are a profile.proto: its samples as they lie in the file, and
// decoded all that these refer to.
//
// What google/pprof refuses is refused here: ids that are 0 or stand twice, and
// references to what is not there.
type pprofTables struct {
	records  [lastField + 1][]message // the messages and strings, by their field
	numbers  [lastField + 1]uint64    // the fields that are single numbers
	comments []uint64                 // numbers of strings

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

type pprofMapping struct {
	start, limit, offset uint64
	file, buildID        string
}

// contains reports whether an address is one of the mapping's. A mapping of which no
// range is known has none.
func (m *pprofMapping) contains(address uint64) bool { return m.start <= address && address < m.limit }

type pprofFunction struct {
	name, systemName, filename string
	startLine                  int64
	receiver                   string // as labels of ours say; of methods that were on top
}

// pprofLocation has more than one line where calls were inlined, the innermost
// first, and none where there are no symbols.
type pprofLocation struct {
	mapping uint64 // id; nobody has it where it is unknown
	address uint64
	lo, hi  uint32 // in lines
}

// frames returns how many frames the location stands for.
func (l *pprofLocation) frames() int { return max(1, int(l.hi-l.lo)) }

type pprofLine struct {
	function uint32 // index in functions
	line     int64
}

// split splits data into its records, at most limit.
func (p *pprofTables) split(data message, limit int) error {
	var f field
	for n := 0; len(data) > 0; n++ {
		if n == limit {
			return fmt.Errorf("%w: more than %d records", ErrTooLarge, limit)
		}
		if err := data.next(&f); err != nil {
			return err
		}
		if err := p.record(&f); err != nil {
			return fmt.Errorf("field %d: %w", f.number, err)
		}
	}
	return nil
}

// record takes one field of the profile. Fields that nobody knows are skipped.
func (p *pprofTables) record(f *field) error {
	switch number := f.number; {
	case number == 0 || number > lastField:
		return nil
	case number == commentField:
		return f.eachNumber(func(v uint64) { p.comments = append(p.comments, v) })
	case isMessage(number) != (f.wire == wireBytes), f.wire == wireFixed32, f.wire == wireFixed64:
		return errWireType
	case isMessage(number):
		p.records[number] = append(p.records[number], f.data)
	case number == timeField && p.numbers[timeField] != 0:
		return errors.New("it is two profiles, one behind the other")
	default:
		p.numbers[number] = f.value
	}
	return nil
}

func isMessage(number uint64) bool { return number <= stringField || number == periodTypeField }

// decode decodes what samples refer to.
func (p *pprofTables) decode() error {
	if err := p.strings.join(p.records[stringField]); err != nil {
		return err
	}
	for _, m := range p.records[sampleTypeField] {
		t, err := p.valueType(m)
		if err != nil {
			return fmt.Errorf("sample type: %w", err)
		}
		p.sampleTypes = append(p.sampleTypes, t)
	}
	for _, m := range p.records[periodTypeField] { // the last one counts
		t, err := p.valueType(m)
		if err != nil {
			return fmt.Errorf("period type: %w", err)
		}
		p.periodType = t
	}
	for _, list := range []struct {
		field int
		add   func(message) error
	}{{mappingField, p.addMapping}, {functionField, p.addFunction}, {locationField, p.addLocation}} {
		for i, m := range p.records[list.field] {
			if err := list.add(m); err != nil {
				return fmt.Errorf("%s %d: %w", tableNames[list.field], i, err)
			}
		}
	}
	for _, number := range []int{dropFramesField, keepFramesField, defaultTypeField, docField} {
		p.strings.at(p.numbers[number])
	}
	return p.strings.missing
}

var tableNames = [...]string{mappingField: "mapping", functionField: "function", locationField: "location"}

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
	return p.mappings.add(v[1], pprofMapping{
		start: v[2], limit: v[3], offset: v[4], file: p.strings.at(v[5]), buildID: p.strings.at(v[6]),
	})
}

func (p *pprofTables) addFunction(m message) error {
	var v [6]uint64
	if err := m.numbers(v[:]); err != nil {
		return err
	}
	return p.functions.add(v[1], pprofFunction{
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
	return p.locations.add(v[1], l)
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
	p.lines = append(p.lines, pprofLine{function, int64(v[2])})
	return nil
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
	for i := range p.records {
		clear(p.records[i])
		p.records[i] = p.records[i][:0]
	}
	p.numbers, p.comments = [lastField + 1]uint64{}, p.comments[:0]
	p.strings = stringTable{ends: p.strings.ends[:0]}
	p.sampleTypes, p.periodType, p.lines = p.sampleTypes[:0], valueType{}, p.lines[:0]
	p.mappings.reset()
	p.functions.reset()
	p.locations.reset()
}
