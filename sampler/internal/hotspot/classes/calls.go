package classes

import "encoding/binary"

// The opcodes of calls: Java's own, and two that the JVM writes over them.
const (
	opInvokeVirtual   = 182
	opInvokeSpecial   = 183
	opInvokeStatic    = 184
	opInvokeInterface = 185
	opInvokeFinal     = 227 // over invokevirtual: the method is final
	opInvokeHandle    = 233 // over invokevirtual of a MethodHandle or VarHandle
)

// Callee is the method that a call in the bytecode names.
type Callee struct {
	Class      string // in Java's form; the receiver's may be a subclass
	Name       string
	Descriptor string

	key methodKey
}

// methodKey is a method's name and descriptor, as addresses of Symbols. The JVM has each
// symbol once.
type methodKey struct{ name, descriptor uint64 }

// methodTable has methods of a class, by name and descriptor.
type methodTable map[methodKey]uint64

// methodTables are the methods that a class declares, and those that it inherits of its
// interfaces.
type methodTables struct{ declared, defaults methodTable }

// Callee returns the method that the call at an index of a method's bytecode names. It
// returns false where no method is named: at other bytecodes, at invokedynamic, and at
// calls that the JVM has not resolved.
func (t *Table) Callee(m *Method, index int) (Callee, bool) {
	if index < 0 || index+3 > m.CodeSize {
		return Callee{}, false
	}
	var op [3]byte
	if t.memory().Read(m.CodeBegin+uint64(index), op[:]) != nil {
		return Callee{}, false
	}
	switch op[0] {
	case opInvokeVirtual, opInvokeSpecial, opInvokeStatic, opInvokeInterface, opInvokeFinal, opInvokeHandle:
		return t.named(m, binary.LittleEndian.Uint16(op[1:])) // the JVM has changed it to its own byte order
	}
	return Callee{}, false
}

// named returns the method that an entry of a class's pool names.
func (t *Table) named(m *Method, entry uint16) (c Callee, ok bool) {
	p, err := t.pool(m.pool)
	if err != nil {
		return c, false
	}
	reference := p.slot(t.reference(p, entry))
	class, nameAndType := p.slot(uint16(reference)), p.slot(uint16(reference>>16))
	c.key = methodKey{p.slot(uint16(nameAndType)), p.slot(uint16(nameAndType >> 16))}
	internal, err1 := t.symbol(p.slot(uint16(class >> 16))) // below is the index of the resolved class
	name, err2 := t.symbol(c.key.name)
	descriptor, err3 := t.symbol(c.key.descriptor)
	if err1 != nil || err2 != nil || err3 != nil || name == "" || descriptor == "" || descriptor[0] != '(' {
		return c, false
	}
	c.Class, c.Name, c.Descriptor = javaName(internal), name, descriptor
	return c, true
}

// maxSupers bounds a chain of superclasses.
const maxSupers = 1 << 12

// Find returns the method that a call reaches if the receiver is of class c: the class's
// own or inherited one, or else a default method. It returns nil if there is none, as in a
// class that is being loaded.
func (t *Table) Find(c *Class, callee Callee) *Method {
	if m := t.find(c, callee.key, (*Table).declared); m != nil {
		return m
	}
	return t.find(c, callee.key, (*Table).inherited)
}

// find looks in a class and its superclasses.
func (t *Table) find(c *Class, key methodKey, methods func(*Table, *Class) methodTable) *Method {
	for range maxSupers {
		if addr, ok := methods(t, c)[key]; ok {
			m, _ := t.Method(addr)
			return m
		}
		super, err := t.Class(c.Super)
		if err != nil {
			return nil
		}
		c = super
	}
	return nil
}

// declared returns the methods that a class declares.
func (t *Table) declared(c *Class) methodTable { return t.methodsOf(c).declared }

// inherited returns the default methods that a class has of its interfaces.
func (t *Table) inherited(c *Class) methodTable { return t.methodsOf(c).defaults }

// methodsOf returns the methods of a class. They go with the class: another one may have the
// same addresses later.
func (t *Table) methodsOf(c *Class) methodTables {
	if found, known := t.tables[c]; known {
		return found
	}
	found := methodTables{t.methodTable(c.sameAs.methods), t.methodTable(c.defaults)}
	t.tables[c] = found
	t.hold(128 + 48*(len(found.declared)+len(found.defaults)))
	return found
}
