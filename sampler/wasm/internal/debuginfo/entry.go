package debuginfo

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// Tag is the kind of an entry (DWARF 5, section 7.5.3).
type Tag uint16

// The tags that readers use. 0 ends a list of children.
const (
	TagCompileUnit       Tag = 0x11
	TagInlinedSubroutine Tag = 0x1d
	TagSubprogram        Tag = 0x2e
)

// Attribute is a kept attribute of an entry. All others are skipped.
type Attribute uint8

// The attributes have DWARF's names (section 7.5.4).
const (
	LowPC Attribute = iota
	HighPC
	Ranges
	StmtList
	CompDir
	AddrBase
	StrOffsetsBase
	RnglistsBase
	DeclFile
	DeclLine
	CallFile
	CallLine
	CallColumn
	AbstractOrigin
	Specification
	attributes // their number; also stands for skipped ones
)

// attributeOf returns the attribute with a number in DWARF.
func attributeOf(number uint64) Attribute {
	switch number {
	case 0x10:
		return StmtList
	case 0x11:
		return LowPC
	case 0x12:
		return HighPC
	case 0x1b:
		return CompDir
	case 0x31:
		return AbstractOrigin
	case 0x3a:
		return DeclFile
	case 0x3b:
		return DeclLine
	case 0x47:
		return Specification
	case 0x55:
		return Ranges
	case 0x57:
		return CallColumn
	case 0x58:
		return CallFile
	case 0x59:
		return CallLine
	case 0x72:
		return StrOffsetsBase
	case 0x73:
		return AddrBase
	case 0x74:
		return RnglistsBase
	}
	return attributes
}

// Entry is an entry of ".debug_info".
type Entry struct {
	Offset   uint64
	Tag      Tag
	Children bool // child entries follow, up to one with tag 0

	values [attributes + 1]value
}

// Has reports whether the entry has an attribute.
func (e *Entry) Has(a Attribute) bool { return e.values[a].class != classNone }

// Number returns an attribute that is a number of 31 bits or an offset, or -1.
func (e *Entry) Number(a Attribute) int64 {
	v := e.values[a]
	if v.class == classNumber && v.number <= math.MaxInt32 {
		return int64(v.number)
	}
	return -1
}

// Reference returns the offset of another entry, or false.
func (e *Entry) Reference(a Attribute) (offset uint64, ok bool) {
	v := e.values[a]
	return v.number, v.class == classReference
}

// value is the value of an attribute.
type value struct {
	class  class
	number uint64
}

// class is the meaning of a value's number.
type class uint8

const (
	classNone           class = iota
	classOther                // not used
	classNumber               // a number, or an offset in another section
	classAddress              // an address
	classAddressIndex         // an index in ".debug_addr"
	classListIndex            // an index in ".debug_rnglists"
	classReference            // the offset of an entry
	classText                 // the offset of a text in ".debug_info"
	classTextOffset           // the offset of a text in ".debug_str"
	classLineTextOffset       // the offset of a text in ".debug_line_str"
	classTextIndex            // an index in ".debug_str_offsets"
)

// Entries visits the entries of a unit in order, up to the first malformed one. An entry
// is valid until the next.
func (d *Data) Entries(u *Unit) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		r := d.entryReader(u, u.first)
		for r.next() && yield(&r.entry) {
		}
	}
}

// EntryAt returns the entry at an offset in a unit.
func (d *Data) EntryAt(u *Unit, offset uint64) (*Entry, bool) {
	r := d.entryReader(u, offset)
	if !r.next() {
		return nil, false
	}
	return &r.entry, true
}

// entryReader reads entries of a unit.
type entryReader struct {
	cursor.Cursor
	unit   *Unit
	budget *Budget
	tables *abbreviations
	entry  Entry
}

func (d *Data) entryReader(u *Unit, offset uint64) *entryReader {
	r := &entryReader{unit: u, budget: d.budget, tables: d.abbreviationsAt(u)}
	if offset >= u.first && offset < u.end {
		r.Data = d.sections["info"][offset:u.end]
	}
	return r
}

// next reads the next entry, and reports whether there was one.
func (r *entryReader) next() bool {
	if r.Empty() {
		return false
	}
	r.entry = Entry{Offset: r.unit.end - uint64(len(r.Data))}
	code := r.Uleb()
	if code == 0 {
		return r.Err == nil && r.budget.Step(1)
	}
	a, ok := r.tables.find(code)
	if !ok || !r.budget.Step(1+len(a.fields)) {
		return false
	}
	r.entry.Tag, r.entry.Children = a.tag, a.children
	for i := range a.fields {
		f := &a.fields[i]
		r.entry.values[f.attribute] = r.value(f.form, f.constant)
	}
	return r.Err == nil
}

// Forms of attributes, and of file names (DWARF 5, section 7.5.6).
const (
	formAddr, formBlock2, formBlock4, formData2           = 0x01, 0x03, 0x04, 0x05
	formData4, formData8, formString, formBlock           = 0x06, 0x07, 0x08, 0x09
	formBlock1, formData1, formFlag, formSdata            = 0x0a, 0x0b, 0x0c, 0x0d
	formStrp, formUdata, formRefAddr, formRef1            = 0x0e, 0x0f, 0x10, 0x11
	formRef2, formRef4, formRef8, formRefUdata            = 0x12, 0x13, 0x14, 0x15
	formIndirect, formSecOffset, formExprloc              = 0x16, 0x17, 0x18
	formFlagPresent, formStrx, formAddrx                  = 0x19, 0x1a, 0x1b
	formRefSup4, formStrpSup, formData16                  = 0x1c, 0x1d, 0x1e
	formLineStrp, formRefSig8, formImplicitConst          = 0x1f, 0x20, 0x21
	formLoclistx, formRnglistx, formRefSup8               = 0x22, 0x23, 0x24
	formStrx1, formStrx2, formStrx3, formStrx4            = 0x25, 0x26, 0x27, 0x28
	formAddrx1, formAddrx2, formAddrx3, formAddrx4        = 0x29, 0x2a, 0x2b, 0x2c
	formGNURefAlt, formGNUStrpAlt                  uint64 = 0x1f20, 0x1f21
)

// value reads an attribute of a form.
func (r *entryReader) value(form uint64, constant int64) value {
	switch form {
	case formData1:
		return value{classNumber, uint64(r.Byte())}
	case formData2:
		return value{classNumber, uint64(r.U16())}
	case formData4:
		return value{classNumber, uint64(r.U32())}
	case formData8:
		return value{classNumber, r.U64()}
	case formUdata:
		return value{classNumber, r.Uleb()}
	case formSdata:
		return value{classNumber, uint64(r.Sleb())}
	case formImplicitConst:
		return value{classNumber, uint64(constant)}
	case formSecOffset:
		return value{classNumber, readOffset(&r.Cursor, r.unit.is64)}
	case formAddr:
		return value{classAddress, r.unit.readAddress(&r.Cursor)}
	case formRnglistx:
		return value{classListIndex, r.Uleb()}
	case formFlagPresent:
		return value{class: classOther}
	case formIndirect:
		if form = r.Uleb(); form == formIndirect || form == formImplicitConst {
			r.Fail(fmt.Errorf("an indirect form %#x", form))
		}
		return r.value(form, 0)
	}
	if v := r.reference(form); v.class != classNone {
		return v
	}
	if v := r.text(form); v.class != classNone {
		return v
	}
	if v := r.addressIndex(form); v.class != classNone {
		return v
	}
	r.skip(form)
	return value{class: classOther}
}

// reference reads a reference to another entry. All forms but one count from the unit's
// header.
func (r *entryReader) reference(form uint64) value {
	var offset uint64
	switch form {
	case formRef1:
		offset = uint64(r.Byte())
	case formRef2:
		offset = uint64(r.U16())
	case formRef4:
		offset = uint64(r.U32())
	case formRef8:
		offset = r.U64()
	case formRefUdata:
		offset = r.Uleb()
	case formRefAddr:
		if r.unit.version == 2 {
			return value{classReference, r.unit.readAddress(&r.Cursor)}
		}
		return value{classReference, readOffset(&r.Cursor, r.unit.is64)}
	default:
		return value{}
	}
	return value{classReference, r.unit.begin + offset}
}

// text reads the position of a text.
func (r *entryReader) text(form uint64) value {
	switch form {
	case formString:
		at := r.unit.end - uint64(len(r.Data))
		if !r.budget.Step(len(r.Text())) {
			r.Fail(errSpent)
		}
		return value{classText, at}
	case formStrp:
		return value{classTextOffset, readOffset(&r.Cursor, r.unit.is64)}
	case formLineStrp:
		return value{classLineTextOffset, readOffset(&r.Cursor, r.unit.is64)}
	case formStrx:
		return value{classTextIndex, r.Uleb()}
	case formStrx1:
		return value{classTextIndex, uint64(r.Byte())}
	case formStrx2:
		return value{classTextIndex, uint64(r.U16())}
	case formStrx3:
		return value{classTextIndex, uint64(r.U24())}
	case formStrx4:
		return value{classTextIndex, uint64(r.U32())}
	}
	return value{}
}

func (r *entryReader) addressIndex(form uint64) value {
	switch form {
	case formAddrx:
		return value{classAddressIndex, r.Uleb()}
	case formAddrx1:
		return value{classAddressIndex, uint64(r.Byte())}
	case formAddrx2:
		return value{classAddressIndex, uint64(r.U16())}
	case formAddrx3:
		return value{classAddressIndex, uint64(r.U24())}
	case formAddrx4:
		return value{classAddressIndex, uint64(r.U32())}
	}
	return value{}
}

// skip skips an attribute of a form that no reader uses.
func (r *entryReader) skip(form uint64) {
	switch form {
	case formFlag:
		r.Byte()
	case formBlock1:
		r.Bytes(uint64(r.Byte()))
	case formBlock2:
		r.Bytes(uint64(r.U16()))
	case formBlock4:
		r.Bytes(uint64(r.U32()))
	case formBlock, formExprloc:
		r.Bytes(r.Uleb())
	case formData16:
		r.Bytes(16)
	case formRefSig8, formRefSup8:
		r.U64()
	case formRefSup4:
		r.U32()
	case formStrpSup, formGNURefAlt, formGNUStrpAlt:
		readOffset(&r.Cursor, r.unit.is64)
	case formLoclistx:
		r.Uleb()
	default:
		r.Fail(fmt.Errorf("an attribute of form %#x", form))
	}
}

var errSpent = errors.New("reading costs more than any compiler's output")

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
// them. Abbreviations after a defect are missing.
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
	const fieldBytes = 48 // a growing slice copies its elements
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
