package classes

import (
	"encoding/binary"
	"fmt"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// layout is where the JVM keeps what this package reads. Numbers are bytes from the
// beginning of a structure, unless said otherwise.
type layout struct {
	head uint64 // address of the pointer to the first loader

	loaderNext, loaderClasses, loaderSize uint64
	loaderName                            uint64 // of the Symbol* with name and id; 0: not found

	classShape, className, classSuper, classLoader, classNext, classSize, baseSize uint64 // shape: > 0 of an instance class
	classMethods, classDefaults                                                    uint64
	classSerial                                                                    uint64 // of JFR's number of the class; 0: not found

	methodConst, methodData, methodCode, methodAccess, methodSize uint64

	constPool, constSize, constFlags, constCodeSize, constName, constSignature uint64
	constHeader                                                                uint64 // size of the part before the bytecode
	hasLines                                                                   uint32 // the bit in the flags

	poolHolder, poolCache, poolLength, poolSource, poolHeader uint64

	symbolLength, symbolBody uint64
	arrayLength, arrayData   uint64 // of an Array of pointers

	calls  callLayout
	body   bodyLayout
	fields fieldLayout

	numberOffset byte // see numbers
}

// callLayout is where the JVM keeps what the calls in a bytecode name.
type callLayout struct {
	cacheHeader, entrySize uint64 // JDK 17: entries follow the cache's header
	entries                uint64 // JDK 25: offset of the pointer to an array of entries; 0: not there
	entryPool              uint64 // in an entry: the index in the constant pool
}

// noNulls is the JDK from which on no byte of a compressed number is 0 (JDK-8292758).
const noNulls = 20

// newLayout looks up the layout in the JVM's tables.
func newLayout(vm *vmstructs.VM) (layout, error) {
	q := vm.Query()
	l := layout{
		head: q.Static("ClassLoaderDataGraph._head"),

		loaderNext: q.Offset("ClassLoaderData._next"), loaderClasses: q.Offset("ClassLoaderData._klasses"),
		loaderSize: q.Size("ClassLoaderData"),

		classShape: q.Offset("Klass._layout_helper"), className: q.Offset("Klass._name"),
		classSuper: q.Offset("Klass._super"), classLoader: q.Offset("Klass._class_loader_data"),
		classNext: q.Offset("Klass._next_link"), classSize: q.Size("InstanceKlass"), baseSize: q.Size("Klass"),
		classMethods: q.Offset("InstanceKlass._methods"), classDefaults: q.Offset("InstanceKlass._default_methods"),

		methodConst: q.Offset("Method._constMethod"), methodData: q.Offset("Method._method_data"),
		methodCode: q.Offset("Method._code"), methodAccess: q.Offset("Method._access_flags"), methodSize: q.Size("Method"),

		constPool: q.Offset("ConstMethod._constants"), constSize: q.Offset("ConstMethod._constMethod_size"),
		constFlags:    q.Offset("ConstMethod._flags", "ConstMethod._flags._flags"),
		constCodeSize: q.Offset("ConstMethod._code_size"), constName: q.Offset("ConstMethod._name_index"),
		constSignature: q.Offset("ConstMethod._signature_index"),
		constHeader:    q.Size("ConstMethod"),
		hasLines:       uint32(q.Const("ConstMethod::_has_linenumber_table", "ConstMethodFlags::_misc_has_linenumber_table")),

		poolHolder: q.Offset("ConstantPool._pool_holder"), poolCache: q.Offset("ConstantPool._cache"),
		poolLength: q.Offset("ConstantPool._length"), poolSource: q.Offset("ConstantPool._source_file_name_index"),
		poolHeader: q.Size("ConstantPool"),

		symbolLength: q.Offset("Symbol._length"), symbolBody: q.Offset("Symbol._body", "Symbol._body[0]"),
		arrayLength: q.Offset("Array<int>._length"), arrayData: q.Offset("Array<Method*>._data"),
	}
	l.calls = newCallLayout(vm, q)
	l.body = newBodyLayout(vm, l.calls)
	l.fields = newFieldLayout(vm)
	major := q.Static("Abstract_VM_Version._vm_major_version")
	if err := q.Err(); err != nil {
		return l, err
	}
	return l, l.learnVersion(vm, major)
}

// newCallLayout finds either of the two forms that calls have.
func newCallLayout(vm *vmstructs.VM, q *vmstructs.Query) callLayout {
	if at, ok := vm.Offset("ConstantPoolCache._resolved_method_entries"); ok {
		return callLayout{
			entries: at, cacheHeader: q.Offset("Array<ResolvedMethodEntry>._data"),
			entrySize: q.Size("ResolvedMethodEntry"), entryPool: q.Offset("ResolvedMethodEntry._cpool_index"),
		}
	}
	return callLayout{
		cacheHeader: q.Size("ConstantPoolCache"), entrySize: q.Size("ConstantPoolCacheEntry"),
		entryPool: q.Offset("ConstantPoolCacheEntry._indices"),
	}
}

// learnVersion reads the JDK's number, from which the encoding of numbers follows.
func (l *layout) learnVersion(vm *vmstructs.VM, major uint64) error {
	var buf [4]byte
	if err := vm.Memory.Read(major, buf[:]); err != nil {
		return fmt.Errorf("read the JVM's version: %w", err)
	}
	if binary.LittleEndian.Uint32(buf[:]) >= noNulls {
		l.numberOffset = 1
	}
	return l.check()
}

// maxStructure bounds the structures that are read whole, in bytes. The largest one, of a
// class, has 472.
const maxStructure = 4096

// check refuses a layout that cannot be one, so that readers may allocate by it.
func (l *layout) check() error {
	for _, size := range []uint64{l.loaderSize, l.classSize, l.methodSize, l.constHeader, l.poolHeader, l.calls.entrySize, l.calls.cacheHeader} {
		if size > maxStructure {
			return fmt.Errorf("a structure of %d bytes in the JVM's tables: %w", size, vmstructs.ErrUnsupported)
		}
	}
	for _, offset := range []uint64{l.symbolBody, l.arrayData, l.arrayLength, l.symbolLength} {
		if offset > maxStructure {
			return fmt.Errorf("an offset of %d bytes in the JVM's tables: %w", offset, vmstructs.ErrUnsupported)
		}
	}
	return nil
}
