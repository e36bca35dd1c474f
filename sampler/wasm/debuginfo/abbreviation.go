package debuginfo

import (
	"errors"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

var errSpent = errors.New("it costs more than any compiler's")

// abbreviations say which attributes the entries of a unit have (DWARF 5, section 7.5.3).
type abbreviations struct {
	dense []abbreviation           // code i+1, as compilers number them
	other map[uint64]*abbreviation // by code
}

type abbreviation struct {
	tag      Tag
	children bool
	fields   []field
}

// field is an attribute and its form.
type field struct {
	attribute Attribute
	form      uint64
	constant  int64 // of formImplicitConst
}

// find returns the abbreviation with a code.
func (t *abbreviations) find(code uint64) (*abbreviation, bool) {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1], true
	}
	a, ok := t.other[code]
	return a, ok
}

func (t *abbreviations) add(code uint64, a abbreviation) {
	switch {
	case code == uint64(len(t.dense))+1:
		t.dense = append(t.dense, a)
	case code > uint64(len(t.dense)):
		if t.other == nil {
			t.other = map[uint64]*abbreviation{}
		}
		t.other[code] = &a
	}
}

// abbreviationsAt returns the abbreviations of a unit, once for all units that share
// them. Those after a defect are missing.
func (d *Data) abbreviationsAt(u *Unit) *abbreviations {
	if u.tables == nil {
		t, ok := d.abbreviations[u.abbreviations]
		if !ok {
			t = d.readAbbreviations(u.abbreviations)
			d.abbreviations[u.abbreviations] = t
		}
		u.tables = t
	}
	return u.tables
}

func (d *Data) readAbbreviations(offset uint64) *abbreviations {
	const abbreviationBytes = 96
	t := &abbreviations{}
	c := cursor.Cursor{Data: from(d.sections["abbrev"], offset)}
	for code := c.Uleb(); code != 0; code = c.Uleb() {
		a := abbreviation{tag: Tag(c.Uleb()), children: c.Byte() != 0}
		a.fields = d.readFields(&c)
		if c.Err != nil || !d.budget.Keep(abbreviationBytes) {
			break
		}
		t.add(code, a)
	}
	return t
}

func (d *Data) readFields(c *cursor.Cursor) []field {
	const fieldBytes = 48 // a slice that grows has been larger
	var fields []field
	for {
		number, form := c.Uleb(), c.Uleb()
		if number == 0 && form == 0 {
			return fields
		}
		f := field{attribute: attributeOf(number), form: form}
		if form == formImplicitConst {
			f.constant = c.Sleb()
		}
		if !d.budget.Step(1) || !d.budget.Keep(fieldBytes) {
			c.Fail(errSpent)
		}
		fields = append(fields, f)
	}
}
