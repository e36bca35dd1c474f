package jfr

import "iter"

// Object is an event, or a value with fields. It is a view of the chunk's bytes, and cheap to
// copy. Fields that its type does not have read as zero, and all fields of the zero Object do.
type Object struct {
	chunk *Chunk
	kind  *Type
	data  []byte
}

// Type returns the type; nil of the zero Object.
func (o Object) Type() *Type { return o.kind }

// IsZero reports whether the object is missing.
func (o Object) IsZero() bool { return o.kind == nil }

// at finds a field, and reads up to it.
func (o Object) at(name string) (*Field, cursor) {
	if o.kind == nil {
		return nil, cursor{}
	}
	c := cursor{data: o.data}
	for i := range o.kind.Fields {
		f := &o.kind.Fields[i]
		if f.Name == name {
			return o.checked(f, c)
		}
		c.skip(f, 0)
	}
	return nil, c
}

// checked returns the field, unless the bytes before it are corrupt.
func (o Object) checked(f *Field, c cursor) (*Field, cursor) {
	if c.bad {
		o.chunk.corrupt++
		return nil, c
	}
	return f, c
}

// check counts a value that could not be read.
func (o Object) check(c *cursor) {
	if c.bad {
		o.chunk.corrupt++
	}
}

// Int returns a whole number, 0 or 1 of a boolean. Of a constant it returns the key.
func (o Object) Int(name string) int64 {
	f, c := o.at(name)
	if f == nil || f.Array {
		return 0
	}
	defer o.check(&c)
	if f.Constant {
		return c.varint()
	}
	if f.Type == nil {
		return 0
	}
	switch f.Type.basic { // writers differ in how many bits a negative number has
	case oneByte:
		return int64(int8(c.byte()))
	case short:
		return int64(int16(c.varint()))
	case char:
		return int64(uint16(c.varint()))
	case integer:
		return int64(int32(c.varint()))
	case long:
		return c.varint()
	}
	return 0
}

// Bool returns a boolean.
func (o Object) Bool(name string) bool { return o.Int(name) != 0 }

// Float returns a number with a fraction.
func (o Object) Float(name string) float64 {
	f, c := o.at(name)
	if f == nil || f.Array || f.Type == nil {
		return 0
	}
	defer o.check(&c)
	switch f.Type.basic {
	case singleFloat:
		return c.float()
	case doubleFloat:
		return c.double()
	}
	return 0
}

// Nanoseconds returns a time span in ns, and a point in time in ns since 1970.
func (o Object) Nanoseconds(name string) int64 {
	f, _ := o.at(name)
	if f == nil {
		return 0
	}
	v, header := o.Int(name), &o.chunk.Header
	switch f.Unit {
	case Ticks:
		return header.Nanoseconds(v)
	case Milliseconds:
		const most = 1<<63/1_000_000 - 1
		return min(max(v, -most), most) * 1_000_000
	}
	return v
}

// Time returns when an event began, ns since 1970.
func (o Object) Time() int64 {
	if o.kind == nil {
		return 0
	}
	return o.chunk.Header.Time(o.Int("startTime"))
}

// mostTexts is how many constants may stand between a field and its text.
const mostTexts = 4

// Text returns a text: the field's own, or that of the constant it refers to. Of a structure
// it is the text of the first field, as in jdk.types.Symbol. It is as the file has it: class
// names are in the modified UTF-8 of class files.
func (o Object) Text(name string) string {
	f, c := o.at(name)
	if f == nil || f.Array || f.Type == nil {
		return ""
	}
	if f.Constant {
		c.data = o.chunk.constants[f.Type.ID][c.varint()]
		if c.data == nil {
			return ""
		}
	}
	return o.chunk.text(f.Type, &c, mostTexts)
}

func (k *Chunk) text(t *Type, c *cursor, most int) string {
	switch {
	case most == 0:
		return ""
	case t.basic == notBasic:
		f := &t.Fields[0] // resolved types have one
		if f.Type == nil || f.Array {
			return ""
		}
		if f.Constant {
			return k.textConstant(f.Type, c.varint(), most)
		}
		return k.text(f.Type, c, most-1)
	case t.basic != text:
		return ""
	}
	s, key, isConstant := c.text()
	if c.bad {
		k.corrupt++
	}
	if isConstant {
		return k.textConstant(t, key, most)
	}
	return s
}

func (k *Chunk) textConstant(t *Type, key int64, most int) string {
	data := k.constants[t.ID][key]
	if data == nil {
		return ""
	}
	return k.text(t, &cursor{data: data}, most-1)
}

// Get returns a field with fields of its own: inside the object, or a constant.
func (o Object) Get(name string) Object {
	f, c := o.at(name)
	if f == nil || f.Array || f.Type == nil || f.Type.basic != notBasic {
		return Object{}
	}
	return o.element(f, &c)
}

// List walks the elements of an array that have fields of their own.
func (o Object) List(name string) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		f, c := o.at(name)
		if f == nil || !f.Array || f.Type == nil || f.Type.basic != notBasic {
			return
		}
		for range c.count() {
			element := o.element(f, &c)
			if c.bad || !yield(element) {
				break
			}
		}
		o.check(&c)
	}
}

// element reads an element of a field, and moves behind it.
func (o Object) element(f *Field, c *cursor) Object {
	if f.Constant {
		data := o.chunk.constants[f.Type.ID][c.varint()]
		if data == nil {
			return Object{}
		}
		return Object{o.chunk, f.Type, data}
	}
	data := c.data
	c.skipValue(f.Type, 0)
	if c.bad {
		return Object{}
	}
	return Object{o.chunk, f.Type, data[:len(data)-len(c.data)]}
}
