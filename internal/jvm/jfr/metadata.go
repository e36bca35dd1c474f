package jfr

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"
)

// Type is a type of events or of values.
type Type struct {
	ID     int64
	Name   string // "jdk.ExecutionSample", "int", "jdk.types.StackFrame"
	Fields []Field

	basic basicType // notBasic: it has fields
}

// Field is a field of a type.
type Field struct {
	Name     string
	Type     *Type // nil: the chunk does not describe it
	Constant bool  // the value is the key of a constant
	Array    bool
	Unit     Unit // of times

	typeID      int64
	annotations []annotation // until the types are known
}

// Unit is the unit of a field that is a time.
type Unit uint8

const (
	NoUnit Unit = iota
	Ticks
	Nanoseconds
	Milliseconds
)

// annotation says something of a field: its type's id, and its value.
type annotation struct {
	typeID int64
	value  string
}

// basicType is how the bytes of a type without fields are read.
type basicType uint8

const (
	notBasic basicType = iota
	oneByte
	short
	char
	integer
	long
	singleFloat
	doubleFloat
	text
)

var basicTypes = map[string]basicType{
	"boolean": oneByte, "byte": oneByte,
	"short": short, "char": char, "int": integer, "long": long,
	"float": singleFloat, "double": doubleFloat,
	"java.lang.String": text,
}

// types are the types of a chunk.
type types struct {
	byID   map[int64]*Type
	byName map[string]*Type
}

// deepestElement is how deep the elements of metadata nest: root, metadata, class, field,
// annotation, and some more.
const deepestElement = 16

// metadataReader reads a metadata event: a table of texts, and a tree of elements, whose
// names, keys and values are indices into the table.
type metadataReader struct {
	cursor
	texts []string
	take  func(int64) error
	err   error // of take
	types []*Type
}

// readTypes reads the body of a metadata event.
func (t *types) read(body []byte, take func(int64) error) error {
	m := metadataReader{cursor: cursor{data: body}, take: take}
	for range 3 { // start, duration, id
		m.varint()
	}
	m.readTexts()
	m.element(0, nil, nil)
	switch {
	case m.err != nil:
		return m.err
	case m.bad:
		return fmt.Errorf("%w: metadata of %d bytes", ErrCorrupt, len(body))
	}
	if t.byID == nil {
		t.byID, t.byName = make(map[int64]*Type), make(map[string]*Type)
	}
	for _, added := range m.types {
		t.byID[added.ID], t.byName[added.Name] = added, added
	}
	t.resolve()
	return nil
}

// hold takes memory from the budget.
func (m *metadataReader) hold(bytes uintptr) {
	if err := m.take(int64(bytes)); err != nil {
		m.err = err
		m.fail()
	}
}

func (m *metadataReader) readTexts() {
	n := m.count()
	m.hold(uintptr(n) * unsafe.Sizeof(""))
	m.hold(uintptr(len(m.data))) // the texts themselves
	if m.bad {
		return
	}
	m.texts = make([]string, n)
	for i := range m.texts {
		m.texts[i], _, _ = m.text()
	}
}

// nextText returns the text whose index follows.
func (m *metadataReader) nextText() string {
	if i := m.varint(); i >= 0 && i < int64(len(m.texts)) {
		return m.texts[i]
	}
	m.fail()
	return ""
}

// attributes are those that matter, of any element.
type attributes struct {
	name, value, dimension, constant string
	id, class                        int64
}

func (m *metadataReader) attributes() (a attributes) {
	for range m.count() {
		key, value := m.nextText(), m.nextText()
		switch key {
		case "name":
			a.name = value
		case "id":
			a.id = m.decimal(value)
		case "class":
			a.class = m.decimal(value)
		case "value":
			a.value = value
		case "dimension":
			a.dimension = value
		case "constantPool":
			a.constant = value
		}
	}
	return a
}

func (m *metadataReader) decimal(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		m.fail()
	}
	return v
}

// element reads an element inside a class and a field, if it is in any.
func (m *metadataReader) element(depth int, class *Type, field *Field) {
	if depth > deepestElement {
		m.fail()
		return
	}
	name := m.nextText()
	a := m.attributes()
	switch {
	case name == "class":
		m.hold(2 * unsafe.Sizeof(Type{})) // and its places in two maps
		class, field = &Type{ID: a.id, Name: a.name, basic: basicTypes[a.name]}, nil
		m.types = append(m.types, class)
	case name == "field" && class != nil:
		m.hold(2 * unsafe.Sizeof(Field{})) // lists double
		class.Fields = append(class.Fields, Field{
			Name: a.name, typeID: a.class, Constant: a.constant == "true", Array: a.dimension == "1",
		})
		field = &class.Fields[len(class.Fields)-1]
	case name == "annotation" && field != nil:
		m.hold(2 * unsafe.Sizeof(annotation{}))
		field.annotations = append(field.annotations, annotation{a.class, a.value})
	}
	for range m.count() {
		m.element(depth+1, class, field)
	}
}

// resolve finds the types of all fields. A field of a type that takes no bytes has none: in
// an array it could be repeated for ever, and in structures exponentially.
func (t *types) resolve() {
	for _, class := range t.byID {
		for i := range class.Fields {
			f := &class.Fields[i]
			f.Type = t.byID[f.typeID]
			if f.Type != nil && f.Type.basic == notBasic && len(f.Type.Fields) == 0 {
				f.Type = nil
			}
			for _, a := range f.annotations {
				f.Unit = max(f.Unit, t.unit(a))
			}
			f.annotations = nil
		}
	}
}

// unit returns the unit that an annotation gives a field.
func (t *types) unit(a annotation) Unit {
	class := t.byID[a.typeID]
	if class == nil || !strings.HasPrefix(class.Name, "jdk.jfr.Time") { // Timespan, Timestamp
		return NoUnit
	}
	switch a.value {
	case "TICKS":
		return Ticks
	case "NANOSECONDS":
		return Nanoseconds
	case "MILLISECONDS", "MILLISECONDS_SINCE_EPOCH":
		return Milliseconds
	}
	return NoUnit
}

// deepestStructure is how deep structures nest inside one value.
const deepestStructure = 16

// skip skips the value of a field.
func (c *cursor) skip(f *Field, depth int) {
	n := 1
	if f.Array {
		n = c.count()
	}
	for range n {
		if c.bad {
			return
		}
		c.skipOne(f, depth)
	}
}

// skipOne skips the value of a field, or one element of an array.
func (c *cursor) skipOne(f *Field, depth int) {
	switch {
	case f.Constant:
		c.varint()
	case f.Type == nil || depth > deepestStructure:
		c.fail()
	default:
		c.skipValue(f.Type, depth)
	}
}

// skipValue skips a value of a type.
func (c *cursor) skipValue(t *Type, depth int) {
	switch t.basic {
	case oneByte:
		c.byte()
	case short, char, integer, long:
		c.varint()
	case singleFloat:
		c.bytes(4)
	case doubleFloat:
		c.bytes(8)
	case text:
		c.skipText()
	default:
		for i := range t.Fields {
			if c.bad {
				return
			}
			c.skip(&t.Fields[i], depth+1)
		}
	}
}
