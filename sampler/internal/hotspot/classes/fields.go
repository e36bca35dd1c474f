package classes

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// errNoField says that a class does not declare a field, or that where it has it is not known.
var errNoField = errors.New("no such field")

// fieldLayout is where the JVM keeps what a class says of its fields. A JVM whose tables lack some of it has no fields.
type fieldLayout struct {
	known bool

	pool       uint64 // in a class: its constant pool
	list       uint64 // in a class: the array of its fields
	data       uint64 // in that array: where its numbers begin
	count      uint64 // in a class: how many fields it declares, JDK 20 and earlier
	compressed bool   // numbers are of one to five bytes: JDK 21 and later

	symbols, manySymbols uint64 // address of the array of the JVM's own symbols, and its length; 0: not known
}

func newFieldLayout(vm *vmstructs.VM) fieldLayout {
	q := vm.Query()
	l := fieldLayout{pool: q.Offset("InstanceKlass._constants")}
	if l.list, l.compressed = vm.Offset("InstanceKlass._fieldinfo_stream"); l.compressed {
		l.data = q.Offset("Array<u1>._data")
	} else {
		l.list, l.count, l.data = q.Offset("InstanceKlass._fields"), q.Offset("InstanceKlass._java_fields_count"), q.Offset("Array<u2>._data")
	}
	l.known = q.Err() == nil && max(l.pool, l.list, l.count, l.data) <= maxStructure
	if many, ok := vm.Const("vmSymbols::SID_LIMIT"); ok && 0 < many && many <= 1<<16 {
		var found bool
		if l.symbols, found = vm.Static("Symbol._vm_symbols[0]"); found {
			l.manySymbols = uint64(many)
		}
	}
	return l
}

// A field of a class.
type field struct {
	name, descriptor uint16 // slots of the constant pool or, of a field that the JVM has added, numbers of its own symbols
	offset           uint64 // bytes from the object's beginning; of a static one, from the class's own object
	initial          uint16 // slot of a constant's value; 0: none, or not known
	static           bool
}

// Bounds of fields.
const (
	maxFields = 1 << 16 // of a class (JVMS 4.1)
	// maxOffset bounds where an object has a field, bytes: it may have 65,535 fields of 8 bytes.
	maxOffset = 1 << 20
)

// Field returns where objects have a field that a class itself declares, in bytes from the object's beginning.
func (t *Table) Field(c *Class, name, descriptor string) (offset uint64, err error) {
	f, _, err := t.findField(c, name, descriptor, false)
	return f.offset, err
}

// Static returns where a class has a static field: in bytes from the beginning of its java.lang.Class.
func (t *Table) Static(c *Class, name, descriptor string) (offset uint64, err error) {
	f, _, err := t.findField(c, name, descriptor, true)
	return f.offset, err
}

// Added returns where objects have a field that the JVM has added to a class, in bytes from the object's beginning. They
// are known from JDK 21 on.
func (t *Table) Added(c *Class, name, descriptor string) (offset uint64, err error) {
	fields, err := t.fields(c)
	if err != nil {
		return 0, fmt.Errorf("read the fields of %s: %w", c.Name, err)
	}
	for _, f := range fields.added {
		if !f.static && 0 < f.offset && f.offset <= maxOffset && t.ownSymbol(f.name) == name && t.ownSymbol(f.descriptor) == descriptor {
			return f.offset, nil
		}
	}
	return 0, fmt.Errorf("find %s.%s, a field of the JVM's own: %w", c.Name, name, errNoField)
}

// ownSymbol returns the text of one of the symbols that the JVM itself uses; "": it has no such symbol.
func (t *Table) ownSymbol(number uint16) string {
	l := &t.l.fields
	if uint64(number) >= l.manySymbols {
		return ""
	}
	at, err := t.word(l.symbols + 8*uint64(number))
	if err != nil {
		return ""
	}
	text, _ := t.symbol(at)
	return text
}

// Constant returns the value of a constant of a class, an int.
func (t *Table) Constant(c *Class, name string) (int32, error) {
	f, pool, err := t.findField(c, name, "I", true)
	if err == nil && f.initial == 0 {
		err = fmt.Errorf("find the value of %s.%s: %w", c.Name, name, errNoField)
	}
	if err != nil {
		return 0, err
	}
	return int32(pool.slot(f.initial)), nil
}

// findField finds a field that a class itself declares.
func (t *Table) findField(c *Class, name, descriptor string, static bool) (field, *pool, error) {
	fields, err := t.fields(c)
	if err != nil {
		return field{}, nil, fmt.Errorf("read the fields of %s: %w", c.Name, err)
	}
	pool := fields.pool
	for _, f := range fields.declared {
		if f.static != static || f.offset == 0 || f.offset > maxOffset {
			continue
		}
		if is, err := t.symbol(pool.slot(f.name)); err != nil || is != name {
			continue
		}
		if is, err := t.symbol(pool.slot(f.descriptor)); err == nil && is == descriptor {
			return f, pool, nil
		}
	}
	return field{}, nil, fmt.Errorf("find %s.%s: %w", c.Name, name, errNoField)
}

// fields are those of a class, without those that it inherits.
type fields struct {
	declared, added []field // by the class file, and by the JVM
	pool            *pool
}

// fields returns the fields of a class.
func (t *Table) fields(c *Class) (f fields, err error) {
	l := &t.l.fields
	if !l.known {
		return f, errNoField
	}
	constants, err := t.word(c.Address + l.pool)
	if err != nil {
		return f, err
	}
	if f.pool, err = t.pool(constants); err != nil {
		return f, err
	}
	list, err := t.word(c.Address + l.list)
	if err != nil {
		return f, err
	}
	if f.pool.holder != c.Address {
		return f, errNotAClass
	}
	if l.compressed {
		f.declared, f.added = compressedFields(t.array(list, l.data, 1), t.l.numberOffset)
		return f, nil
	}
	var count [2]byte
	if err := t.memory().Read(c.Address+l.count, count[:]); err != nil {
		return f, err
	}
	f.declared = plainFields(t.array(list, l.data, 2), int(u16(count[:], 0)))
	return f, nil
}

// plainFields decodes the fields of JDK 20 and earlier: six numbers of 16 bits each (oops/fieldInfo.hpp). The lowest two
// bits of the offset tell that it is one.
func plainFields(raw []byte, count int) (fields []field) {
	const size, hasOffset = 12, 1
	for ; len(raw) >= size && len(fields) < count; raw = raw[size:] {
		packed := uint64(u16(raw, 8)) | uint64(u16(raw, 10))<<16
		f := field{name: u16(raw, 2), descriptor: u16(raw, 4), static: u16(raw, 0)&accStatic != 0}
		if packed&3 == hasOffset {
			f.offset = packed >> 2
		}
		fields = append(fields, f)
	}
	return fields
}

// compressedFields decodes the fields of JDK 21 and later: the number of declared and of added ones, and for each its name,
// descriptor, offset, flags of the class file and of the JVM, and up to three more, which the JVM's flags announce
// (oops/fieldInfo.inline.hpp). Fields from the first on that is not one are left out.
func compressedFields(raw []byte, offset byte) (declared, added []field) {
	const valued = 1 << 0
	const announced = valued | 1<<2 | 1<<4 // an initial value, a generic type, a group that contends
	n := numbers{data: raw, offset: offset}
	count := int(min(n.next(), maxFields))
	fields := make([]field, 0, min(count, len(raw)))
	for all := count + int(min(n.next(), maxFields)); len(fields) < all; {
		name, descriptor, at, access, flags := n.next(), n.next(), n.next(), n.next(), n.next()
		var more [3]uint32
		for i := range bits.OnesCount32(flags & announced) {
			more[i] = n.next()
		}
		if n.overrun || name > 0xffff || descriptor > 0xffff {
			break
		}
		f := field{name: uint16(name), descriptor: uint16(descriptor), offset: uint64(at), static: access&accStatic != 0}
		if flags&valued != 0 && more[0] <= 0xffff {
			f.initial = uint16(more[0])
		}
		fields = append(fields, f)
	}
	declared = fields[:min(count, len(fields))]
	return declared, fields[len(declared):]
}
