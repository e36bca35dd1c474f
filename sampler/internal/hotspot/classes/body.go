package classes

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// Bounds of a body.
const (
	maxConstants     = 1 << 13 // that its bytecode refers to, and these in turn
	maxConstantText  = 1 << 20 // bytes of their names
	maxConstantDepth = 8       // of a constant that is made of others
)

// bodyLayout is where the JVM keeps what else a bytecode refers to. A JVM whose tables lack some of it has no bodies.
type bodyLayout struct {
	known bool

	tags, operands        uint64     // in a constant pool: arrays of its constants' kinds, and of arguments of bootstrap methods
	references            uint64     // in a cache: array of the constants that are objects
	bytesData, shortsData uint64     // of arrays of such numbers
	fields, dynamic       callLayout // of the entries of fields and of invokedynamic; no entries: they are among those of calls
}

func newBodyLayout(vm *vmstructs.VM, calls callLayout) bodyLayout {
	q := vm.Query()
	l := bodyLayout{
		tags: q.Offset("ConstantPool._tags"), operands: q.Offset("ConstantPool._operands"),
		references: q.Offset("ConstantPoolCache._reference_map"),
		bytesData:  q.Offset("Array<u1>._data"), shortsData: q.Offset("Array<u2>._data"),
		fields: calls, dynamic: calls,
	}
	own := func(c *callLayout, array, entry string) {
		if at, ok := vm.Offset("ConstantPoolCache." + array); ok {
			*c = callLayout{
				entries: at, cacheHeader: q.Offset("Array<" + entry + ">._data"), entrySize: q.Size(entry), entryPool: q.Offset(entry + "._cpool_index"),
			}
		}
	}
	own(&l.fields, "_resolved_field_entries", "ResolvedFieldEntry")
	own(&l.dynamic, "_resolved_indy_entries", "ResolvedIndyEntry")
	l.known = q.Err() == nil
	for _, n := range []uint64{l.bytesData, l.shortsData, l.fields.entrySize, l.fields.cacheHeader, l.dynamic.entrySize, l.dynamic.cacheHeader} {
		l.known = l.known && n <= maxStructure
	}
	return l
}

// linkage is what a constant pool and its cache say of its constants.
type linkage struct {
	tags, operands, references []byte
	fields, calls, dynamic     []byte // entries
}

// Body returns the hash of a method's bytecode: the same in each JVM that has loaded the same method, whatever it has
// written over it. An operand that is an index of a constant counts as what the constant says: a method or field with
// its class, a class, a text, a number. Left out are handlers of exceptions and line numbers. The hash is 0 where it
// is not known: for native and abstract methods, beside a breakpoint, beyond the bounds, for what changed meanwhile,
// and for classes that are made at run time, as several have one name in a map. It is never all bits.
//
// cost is how many bytes of code and names it has taken, about. The caller must find out afterwards whether the JVM
// still has the class (see [Table.Refresh]): memory of another one gives any hash.
func (t *Table) Body(m *Method) (hash uint64, cost int) {
	const least = 64
	code := t.Code(m)
	if code == nil || !t.l.body.known || m.Class.isMade() {
		return 0, least
	}
	p, err := t.pool(m.pool)
	if err != nil {
		return 0, least
	}
	b := body{t: t, p: p, hash: xxhash.New()}
	ok := b.code(code)
	cost = least + len(code) + b.text + 16*b.constants + b.read/32 // a constant takes some reads
	if !ok {
		return 0, cost
	}
	return min(max(b.hash.Sum64(), 1), 1<<64-2), cost
}

// body hashes a bytecode.
type body struct {
	t    *Table
	p    *pool
	hash *xxhash.Digest

	constants, text int // that were read, and the bytes of their names
	read            int // bytes of the linkage
	failed          bool
}

// code hashes all instructions, and reports whether it could.
func (b *body) code(code []byte) bool {
	for at := 0; at < len(code) && !b.failed; {
		i, next, ok := nextInstruction(code, at)
		if !ok {
			return false
		}
		b.number(uint64(i.op))
		b.raw(i.rest[b.operand(i):])
		at = next
	}
	return !b.failed
}

// operand hashes the constant that an instruction refers to, and returns the bytes of its index.
func (b *body) operand(i instruction) (size int) {
	native := func() uint16 { return binary.LittleEndian.Uint16(i.rest) }
	index := func() uint16 { return binary.BigEndian.Uint16(i.rest) }
	switch {
	case i.op >= opGetStatic && i.op <= opPutField:
		b.member(entryAt(b.linkage().fields, b.t.l.body.fields, uint32(native())))
		return 2
	case i.op >= opInvokeVirtual && i.op <= opInvokeInterface:
		b.member(entryAt(b.linkage().calls, b.t.l.calls, uint32(native())))
		return 2
	case i.op == opInvokeDyn:
		n := binary.LittleEndian.Uint32(i.rest)
		if int32(n) < 0 { // until JDK 22 or so
			n = ^n
		}
		b.dynamic(entryAt(b.linkage().dynamic, b.t.l.body.dynamic, n), 0)
		return 4
	case i.op == opNew, i.op == opANewArray, i.op == opCheckCast, i.op == opInstanceOf, i.op == opMultiArray:
		b.class(index())
		return 2
	case i.own == opLdc:
		b.constant(uint16(i.rest[0]), 0)
		return 1
	case i.own == opLdcWide, i.own == opLdc2:
		b.constant(index(), 0)
		return 2
	case i.own == opFastALdc:
		b.constant(b.reference(uint16(i.rest[0])), 0)
		return 1
	case i.own == opFastALdcW:
		b.constant(b.reference(native()), 0)
		return 2
	}
	return 0
}

// entryAt returns the index in the constant pool of an entry of a cache, 0 if there is none.
func entryAt(entries []byte, l callLayout, n uint32) uint16 {
	return u16(entries, uint64(n)*l.entrySize+l.entryPool)
}

// reference returns the index in the constant pool of a constant that is an object, 0 if there is none.
func (b *body) reference(n uint16) uint16 { return u16(b.linkage().references, 2*uint64(n)) }

// linkage reads what the pool says of its constants, once.
func (b *body) linkage() *linkage {
	t, p := b.t, b.p
	if p.linkage != nil {
		return p.linkage
	}
	l := &t.l.body
	k := &linkage{
		tags: t.array(p.tags, l.bytesData, 1), operands: t.array(p.operands, l.shortsData, 2), calls: t.callEntries(p.cache, t.l.calls),
	}
	if at, err := t.word(p.cache + l.references); err == nil {
		k.references = t.array(at, l.shortsData, 2)
	}
	k.fields, k.dynamic = k.calls, k.calls
	if l.fields != t.l.calls {
		k.fields = t.callEntries(p.cache, l.fields)
	}
	if l.dynamic != t.l.calls {
		k.dynamic = t.callEntries(p.cache, l.dynamic)
	}
	b.read = len(k.tags) + len(k.operands) + len(k.references) + len(k.fields) + len(k.calls) + len(k.dynamic) + len(p.slots)
	p.linkage = k
	return k
}

// array reads an array of numbers of so many bytes, nil if there is none.
func (t *Table) array(addr, data, size uint64) []byte {
	length, err := t.word(addr)
	if err != nil || uint32(length) == 0 || uint32(length) > maxSlots {
		return nil
	}
	raw := make([]byte, uint64(uint32(length))*size)
	if t.memory().Read(addr+data, raw) != nil {
		return nil
	}
	return raw
}

// slot returns a slot of the pool that a constant is made of.
func (b *body) slot(index uint16) uint64 {
	if b.constants++; b.constants > maxConstants || index == 0 || uint64(index) >= uint64(len(b.p.slots))/8 {
		b.failed = true
		return 0
	}
	return b.p.slot(index)
}

func (b *body) number(n uint64) { b.raw(binary.LittleEndian.AppendUint64(nil, n)) }
func (b *body) raw(bytes []byte) {
	if !b.failed {
		b.hash.Write(bytes)
	}
}

// say hashes a text, so that none can be taken for two.
func (b *body) say(text string) {
	b.number(uint64(len(text)))
	if b.text += len(text); b.text > maxConstantText {
		b.failed = true
	}
	if !b.failed {
		b.hash.WriteString(text)
	}
}

// symbol returns the text in a slot.
func (b *body) symbol(index uint16) string {
	slot := b.slot(index)
	if b.failed {
		return ""
	}
	text, err := b.t.symbol(slot)
	if err != nil {
		b.failed = true
	}
	return text
}

// class hashes a class, by its name without parts that differ from run to run. The upper half of its slot has the
// index of its name, whether it is resolved or not.
func (b *body) class(index uint16) { b.say(javaName(b.symbol(uint16(b.slot(index) >> 16)))) }

// member hashes a field or method: its class, its name and its descriptor.
func (b *body) member(index uint16) {
	slot := b.slot(index)
	b.class(uint16(slot))
	b.nameAndType(uint16(slot >> 16))
}

func (b *body) nameAndType(index uint16) {
	slot := b.slot(index)
	b.say(b.symbol(uint16(slot)))
	b.say(b.symbol(uint16(slot >> 16)))
}

// dynamic hashes a call or constant that a bootstrap method makes: by its name and type, that method, and its
// arguments.
func (b *body) dynamic(index uint16, depth int) {
	slot := b.slot(index)
	b.nameAndType(uint16(slot >> 16))
	operands := b.linkage().operands
	short := func(i uint64) uint16 { return u16(operands, 2*i) }
	n := uint64(uint16(slot))
	at := uint64(short(2*n)) | uint64(short(2*n+1))<<16 // the array begins with where each method is in it
	if 2*at+4 > uint64(len(operands)) {
		b.failed = true
		return
	}
	b.constant(short(at), depth+1)
	count := uint64(short(at + 1))
	b.number(count)
	for i := uint64(0); i < count && !b.failed; i++ {
		b.constant(short(at+2+i), depth+1)
	}
}

// Kinds of constants (JVMS 4.4), and the JVM's own (utilities/constantTag.hpp).
const (
	tagInteger, tagFloat, tagLong, tagDouble   = 3, 4, 5, 6
	tagClass, tagString                        = 7, 8
	tagField, tagMethod, tagInterfaceMethod    = 9, 10, 11
	tagHandle, tagType, tagDynamic             = 15, 16, 17
	tagUnresolvedClass, tagClassInError        = 100, 103
	tagHandleInError, tagTypeInError, tagDynIE = 104, 105, 106
)

// constant hashes a constant by its kind, the same whether it is resolved or not.
func (b *body) constant(index uint16, depth int) {
	tags := b.linkage().tags
	if int(index) >= len(tags) || depth > maxConstantDepth {
		b.failed = true
	}
	slot := b.slot(index)
	if b.failed {
		return
	}
	tag := tags[index]
	if at := slices.Index([]byte{tagUnresolvedClass, tagClassInError, tagHandleInError, tagTypeInError, tagDynIE}, tag); at >= 0 {
		tag = [...]byte{tagClass, tagClass, tagHandle, tagType, tagDynamic}[at]
	}
	b.number(uint64(tag))
	switch tag {
	case tagInteger, tagFloat:
		b.number(slot & (1<<32 - 1))
	case tagLong, tagDouble:
		b.number(slot)
	case tagClass:
		b.class(index)
	case tagString:
		b.say(b.symbol(index))
	case tagField, tagMethod, tagInterfaceMethod:
		b.member(index)
	case tagHandle:
		b.number(slot & 0xffff)
		b.constant(uint16(slot>>16), depth+1)
	case tagType:
		b.say(b.symbol(uint16(slot)))
	case tagDynamic:
		b.dynamic(index, depth)
	default:
		b.failed = true
	}
}
