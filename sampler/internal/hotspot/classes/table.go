package classes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
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
	serial       uint64 // no other class of the JVM has ever had it; 0: not known
}

// Method is a Java method.
type Method struct {
	Address    uint64 // of its Method
	Class      *Class // that declares it
	Name       string
	Descriptor string // of its parameters and result, such as "(Ljava/lang/String;I)V"
	Static     bool
	Final      bool   // no class overrides it
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

	classes map[uint64]*Class       // by Klass*
	methods map[uint64]*Method      // by Method*
	tables  map[*Class]methodTables // that Find looked into
	held    int64                   // bytes, about

	unnumbered bool // classes have no serial number

	last    *pool             // the one that was read last
	pieces  *pieces           // of the present load; nil: there is none
	symbols map[uint64]string // by Symbol*, decoded, of the present load
}

// New returns the table of a JVM. It fails if the JVM's own tables lack something.
func New(vm *vmstructs.VM) (*Table, error) {
	l, err := newLayout(vm)
	if err != nil {
		return nil, fmt.Errorf("learn the layout of classes: %w", err)
	}
	t := &Table{vm: vm, l: l}
	t.forget()
	t.learn()
	return t, nil
}

// forget drops everything that was read.
func (t *Table) forget() {
	t.classes, t.methods = make(map[uint64]*Class), make(map[uint64]*Method)
	t.tables, t.symbols = make(map[*Class]methodTables), make(map[uint64]string)
	t.last, t.held = nil, 0
}

// hold counts memory that the table keeps from now on.
func (t *Table) hold(bytes int) {
	if t.held += int64(bytes); t.held > maxHeld {
		t.forget()
	}
}

// Bytes returns about how much memory the table keeps.
func (t *Table) Bytes() int64 { return t.held }

// Class returns the class of a Klass.
func (t *Table) Class(addr uint64) (*Class, error) {
	if c := t.classes[addr]; c != nil {
		return c, nil
	}
	if !Plausible(addr) { // as of the superclass of a class that has none
		return nil, errAddress
	}
	t.forgetCopies() // what it leads to may be newer than they are
	raw, err := t.readClass(addr)
	if err != nil {
		return nil, err
	}
	return t.class(t.klass(addr, raw))
}

// Known returns the class of a Klass, nil if the table has not met it or has dropped it.
func (t *Table) Known(addr uint64) *Class { return t.classes[addr] }

// Has reports whether the table has a class: it has not dropped it since it returned it.
func (t *Table) Has(c *Class) bool { return t.classes[c.Address] == c }

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

// klass is what is needed of a Klass.
type klass struct {
	address, super, defaults uint64 // as in Class
	identity
}

// klass returns the Klass that was read.
func (t *Table) klass(addr uint64, raw []byte) klass {
	k := klass{address: addr, super: u64(raw, t.l.classSuper), identity: t.identity(raw)}
	if k.methods != 0 {
		k.defaults = u64(raw, t.l.classDefaults)
	}
	return k
}

// class returns the class of a Klass.
func (t *Table) class(k klass) (*Class, error) {
	if c := t.classes[k.address]; c != nil && c.sameAs == k.identity {
		return c, nil
	}
	internal, err := t.symbol(k.name)
	if err != nil || internal == "" || !Plausible(k.loader) {
		return nil, errNotAClass
	}
	c := &Class{
		Address: k.address, Name: javaName(internal), Loader: t.loader(k.loader), Super: k.super,
		internal: internal, defaults: k.defaults, sameAs: k.identity,
	}
	t.classes[k.address] = c
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
	if t.l.classSerial != 0 {
		id.serial = u64(raw, t.l.classSerial) >> serialShift
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
	if t.pieces != nil && !t.declares(class, pool, addr) {
		return nil, ErrNotAMethod
	}
	m := &Method{
		Address: addr, Class: class, Name: name, Descriptor: descriptor, Source: t.source(pool), pool: pool.address,
		Static:    u32(header, t.l.methodAccess)&accStatic != 0,
		Final:     u32(header, t.l.methodAccess)&accFinal != 0,
		CodeBegin: constant + t.l.constHeader, CodeSize: int(u16(raw, t.l.constCodeSize)),
	}
	m.Lines = t.lines(raw, m.CodeSize)
	return m, nil
}

// declares reports whether a method is one of the class that it leads to. Memory of a method that
// is gone may still lead to the address of its class, where there is another one.
func (t *Table) declares(c *Class, p *pool, method uint64) bool {
	if p.methods == nil {
		p.methods = make(map[uint64]bool)
		for _, addr := range t.pointers(c.sameAs.methods) {
			p.methods[addr] = true
		}
	}
	return p.methods[method]
}

// Flags of methods (JVMS 4.6).
const (
	accStatic = 0x8
	accFinal  = 0x10
)

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
	if t.pieces != nil { // else it may be another one the next time
		t.symbols[addr] = s
	}
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
	return text, t.memory().Read(addr+body, text)
}
