package classes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ccmapd/ccmapd/sampler/hotspot/javaname"
	"github.com/ccmapd/ccmapd/sampler/hotspot/vmstructs"
)

// ErrNotAMethod says that an address does not lead to a method, or no longer does.
var ErrNotAMethod = errors.New("not a method")

// errNotAClass says that an address does not lead to a class, or no longer does.
var errNotAClass = errors.New("not a class")

// Class is a class, an interface or an array type.
type Class struct {
	Address uint64 // of its Klass
	Name    string // as Java prints it, such as java.util.Map$Entry, without parts that differ from run to run
	Loader  string // the loader's name or class; empty for the loaders of every JVM
	Super   uint64 // address of the superclass's Klass; 0: none

	internal string // the JVM's own name, such as "java/util/Map$Entry"
	defaults uint64 // Array<Method*>*: the default methods that it inherits; 0: none
	sameAs   identity
}

// identity tells a class from a later one at the same address.
type identity struct {
	name, loader uint64 // Symbol*, ClassLoaderData*
	methods      uint64 // Array<Method*>*: a new one after each redefinition
}

// Method is a Java method.
type Method struct {
	Address    uint64 // of its Method
	Class      *Class // that declares it
	Name       string
	Descriptor string // of its parameters and result, such as "(Ljava/lang/String;I)V"
	Static     bool
	Source     string // name of the source file, such as HashMap.java; empty: not known
	CodeBegin  uint64 // address of the first bytecode
	CodeSize   int    // bytes; 0 of native and abstract methods
	Lines      []Line // by index; none: not known

	pool uint64 // ConstantPool* that its bytecode refers to
}

// maxHeld bounds the memory that a table keeps for names, bytes. A table that needs more
// begins again with none.
const maxHeld = 256 << 20

// Table has the classes and methods of one JVM that were asked for.
type Table struct {
	vm *vmstructs.VM
	l  layout

	classes map[uint64]*Class      // by Klass*
	methods map[uint64]*Method     // by Method*
	symbols map[uint64]string      // by Symbol*, decoded
	tables  map[uint64]methodTable // by Array<Method*>*
	last    *pool                  // the one that was read last
	held    int64                  // bytes, about
}

// New returns the table of a JVM. It fails if the JVM's own tables lack something.
func New(vm *vmstructs.VM) (*Table, error) {
	l, err := newLayout(vm)
	if err != nil {
		return nil, fmt.Errorf("learn the layout of classes: %w", err)
	}
	t := &Table{vm: vm, l: l}
	t.forget()
	t.learnLoaderNames()
	return t, nil
}

// forget drops everything that was read.
func (t *Table) forget() {
	t.classes, t.methods = make(map[uint64]*Class), make(map[uint64]*Method)
	t.symbols, t.tables = make(map[uint64]string), make(map[uint64]methodTable)
	t.last, t.held = nil, 0
}

// hold counts memory that the table keeps from now on.
func (t *Table) hold(bytes int) {
	if t.held += int64(bytes); t.held > maxHeld {
		t.forget()
	}
}

// Class returns the class of a Klass.
func (t *Table) Class(addr uint64) (*Class, error) {
	if c := t.classes[addr]; c != nil {
		return c, nil
	}
	raw, err := t.readClass(addr)
	if err != nil {
		return nil, err
	}
	return t.class(addr, raw)
}

// readClass reads a Klass. An array's is smaller than a class's, so memory may end in
// between.
func (t *Table) readClass(addr uint64) ([]byte, error) {
	raw := make([]byte, t.l.classSize)
	if err := t.read(addr, raw); err == nil {
		return raw, nil
	}
	raw = raw[:min(t.l.baseSize, t.l.classSize)]
	if err := t.read(addr, raw); err != nil {
		return nil, fmt.Errorf("read class at %#x: %w", addr, err)
	}
	return raw, nil
}

// class returns the class whose Klass was read.
func (t *Table) class(addr uint64, raw []byte) (*Class, error) {
	id := t.identity(raw)
	if c := t.classes[addr]; c != nil && c.sameAs == id {
		return c, nil
	}
	internal, err := t.symbol(id.name)
	if err != nil || internal == "" || !Plausible(id.loader) {
		return nil, errNotAClass
	}
	c := &Class{
		Address: addr, Name: javaName(internal), internal: internal, Super: u64(raw, t.l.classSuper), sameAs: id,
	}
	if id.methods != 0 {
		c.defaults = u64(raw, t.l.classDefaults)
	}
	c.Loader = t.loader(id.loader)
	t.classes[addr] = c
	t.hold(200 + len(c.Name))
	return c, nil
}

// identity returns the identity of the class whose Klass was read. Arrays have no
// methods.
func (t *Table) identity(raw []byte) identity {
	id := identity{name: u64(raw, t.l.className), loader: u64(raw, t.l.classLoader)}
	if int32(u32(raw, t.l.classShape)) > 0 {
		id.methods = u64(raw, t.l.classMethods)
	}
	return id
}

// Method returns the method at the address of a Method.
func (t *Table) Method(addr uint64) (*Method, error) {
	if m := t.methods[addr]; m != nil {
		return m, nil
	}
	m, err := t.readMethod(addr)
	if err != nil {
		return nil, fmt.Errorf("read method at %#x: %w", addr, err)
	}
	t.methods[addr] = m
	t.hold(200 + len(m.Lines)*4)
	return m, nil
}

// readMethod reads a method. Its words lead to its class and to a descriptor, or it is no
// method.
func (t *Table) readMethod(addr uint64) (*Method, error) {
	header := make([]byte, t.l.methodSize)
	if err := t.read(addr, header); err != nil {
		return nil, err
	}
	constant := u64(header, t.l.methodConst)
	raw, err := t.readConst(constant)
	if err != nil {
		return nil, err
	}
	pool, err := t.pool(u64(raw, t.l.constPool))
	if err != nil {
		return nil, err
	}
	class, err := t.Class(pool.holder)
	if err != nil {
		return nil, err
	}
	name, err := t.symbol(pool.slot(u16(raw, t.l.constName)))
	if err != nil {
		return nil, err
	}
	descriptor, err := t.symbol(pool.slot(u16(raw, t.l.constSignature)))
	if err != nil {
		return nil, err
	}
	if name == "" || !strings.HasPrefix(descriptor, "(") {
		return nil, ErrNotAMethod
	}
	m := &Method{
		Address: addr, Class: class, Name: name, Descriptor: descriptor, Source: t.source(pool), pool: pool.address,
		Static:    u32(header, t.l.methodAccess)&accStatic != 0,
		CodeBegin: constant + t.l.constHeader, CodeSize: int(u16(raw, t.l.constCodeSize)),
	}
	m.Lines = t.lines(raw, m.CodeSize)
	return m, nil
}

// accStatic is the flag of static methods (JVMS 4.6).
const accStatic = 0x8

// maxConst bounds a ConstMethod: 64 KB of bytecode, a line table, and other tables that
// are not read.
const maxConst = 1 << 20

// readConst reads a ConstMethod with its bytecode and what follows: with one read if it is
// short.
func (t *Table) readConst(addr uint64) ([]byte, error) {
	const most = 512 // bytes: most methods have fewer
	raw := make([]byte, max(t.l.constHeader, most))
	if err := t.read(addr, raw); err != nil { // the memory may end there
		raw = raw[:t.l.constHeader]
		if err := t.read(addr, raw); err != nil {
			return nil, err
		}
	}
	const wordSize = 8
	size := uint64(u32(raw, t.l.constSize)) * wordSize
	if size < t.l.constHeader+uint64(u16(raw, t.l.constCodeSize)) || size > maxConst {
		return nil, ErrNotAMethod
	}
	if size <= uint64(len(raw)) {
		return raw[:size], nil
	}
	raw = make([]byte, size)
	return raw, t.read(addr, raw)
}

// lines returns the lines of a ConstMethod, whose table is behind the bytecode.
func (t *Table) lines(raw []byte, codeSize int) []Line {
	if u32(raw, t.l.constFlags)&t.l.hasLines == 0 { // the flags have 16 bits on JDK 17, and the bit is below
		return nil
	}
	return decodeLines(raw[t.l.constHeader+uint64(codeSize):], codeSize, t.l.numberOffset)
}

// source returns the name of a class's source file.
func (t *Table) source(p *pool) string {
	if p.source == 0 {
		return ""
	}
	file, _ := t.symbol(p.slot(p.source)) // without one, the name of the class says it
	return file
}

// symbol returns the text of a Symbol.
func (t *Table) symbol(addr uint64) (string, error) {
	if s, known := t.symbols[addr]; known {
		return s, nil
	}
	raw, err := t.readSymbol(addr)
	if err != nil {
		return "", err
	}
	s := javaname.Text(raw)
	t.symbols[addr] = s
	t.hold(64 + len(s))
	return s, nil
}

// readSymbol reads the bytes of a Symbol: with one read if it is short.
func (t *Table) readSymbol(addr uint64) ([]byte, error) {
	const most = 64 // bytes: nearly all symbols are shorter
	body := t.l.symbolBody
	first := make([]byte, body+most)
	if err := t.read(addr, first); err != nil { // the memory may end there
		first = first[:body]
		if err := t.read(addr, first); err != nil {
			return nil, err
		}
	}
	length := uint64(u16(first, t.l.symbolLength))
	if body+length <= uint64(len(first)) {
		return first[body : body+length], nil
	}
	text := make([]byte, length)
	return text, t.vm.Memory.Read(addr+body, text)
}
