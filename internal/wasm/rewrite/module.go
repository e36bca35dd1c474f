package rewrite

import (
	"bytes"
	"slices"
)

// Section ids. sectionOrder has their order in the binary format.
const (
	sectionCustom    = 0
	sectionType      = 1
	sectionImport    = 2
	sectionFunction  = 3
	sectionTable     = 4
	sectionGlobal    = 6
	sectionExport    = 7
	sectionStart     = 8
	sectionElement   = 9
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
	sectionTag       = 13
	sections         = 14
)

// sectionOrder gives every section id but the custom ones its place.
var sectionOrder = [...]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11}

// An original is a parsed module: the positions of its parts, nothing copied.
type original struct {
	data     []byte
	sections [sections]extent // contents; zero: absent
	customs  []custom
	spaces   spaces

	types             []signature
	importedFunctions int
	importedGlobals   int
	definedGlobals    int
	functionTypes     []uint32 // by function index
	importNames       [][2]string
	exports           []export  // of functions
	sharesTables      bool      // it imports or exports a table
	start             reference // at 0: missing
	references        [sections][]reference
	bodies            []extent // of defined functions: locals and expression
}

// extent is a range of bytes in the module.
type extent struct{ start, end int }

func (e extent) absent() bool { return e.end == 0 }

// custom is a custom section and the section before it.
type custom struct {
	name   string
	after  byte // 0: before all others
	whole  extent
	inside extent // after the name
}

// signature is a function type. The module holds the vectors of value types.
type signature struct{ params, results []byte }

// reference is a function index at an extent of the module.
type reference struct {
	extent
	function uint32
}

type export struct {
	name string
	kind byte
	reference
}

const (
	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
)

var header = []byte("\x00asm\x01\x00\x00\x00")

// parse reads everything but the instructions.
func parse(data []byte) (*original, *RefusedError) {
	if !bytes.HasPrefix(data, header) {
		return nil, refuse(0, "not a WebAssembly 1 binary")
	}
	if uint64(len(data)) >= 1<<31 {
		return nil, refuse(0, "module larger than 2 GiB")
	}
	m := &original{data: data}
	r := reader{data: data, at: len(header)}
	place, last := 0, byte(0)
	for r.more() {
		at := r.at
		id := r.u8()
		part := r.part()
		if r.err != nil {
			break
		}
		if id == sectionCustom {
			m.parseCustom(&r, at, part, last)
			continue
		}
		if place = sectionPlace(id, place); place == 0 {
			return nil, refuse(at, "section %d unknown or out of order", id)
		}
		last = id
		m.sections[id] = extent{part.at, len(part.data)}
		m.parseSection(id, &part)
		if err := part.done(); err != nil {
			return nil, err
		}
	}
	if r.err == nil && len(m.bodies) != len(m.functionTypes)-m.importedFunctions {
		r.fail(len(data), "%d functions declared, %d defined", len(m.functionTypes)-m.importedFunctions, len(m.bodies))
	}
	return m, r.err
}

// sectionPlace gives a section's place, counted from 1, or 0 if it does not come after
// the last place.
func sectionPlace(id byte, last int) int {
	place := bytes.IndexByte(sectionOrder[:], id) + 1
	if place <= last {
		return 0
	}
	return place
}

// parseCustom keeps a custom section. As wazero does, it refuses a second name section,
// and an empty section at the module's end.
func (m *original) parseCustom(r *reader, at int, part reader, after byte) {
	name := part.bytes()
	if part.err != nil {
		r.fail(part.err.Offset, "%s", part.err.Reason)
		return
	}
	if string(name) == "name" && slices.ContainsFunc(m.customs, func(c custom) bool { return c.name == "name" }) {
		r.fail(at, "second name section")
		return
	}
	if string(name) != "name" && !part.more() && !r.more() {
		r.fail(at, "empty custom section at the end of the module, which wazero refuses")
		return
	}
	m.customs = append(m.customs, custom{
		name: string(name), after: after,
		whole:  extent{at, len(part.data)},
		inside: extent{part.at, len(part.data)},
	})
}

// parseSection reads the parts that the rewriting needs, and skips the rest.
func (m *original) parseSection(id byte, r *reader) {
	switch id {
	case sectionType:
		m.parseTypes(r)
	case sectionImport:
		m.parseImports(r)
	case sectionFunction:
		m.parseFunctions(r)
	case sectionTable:
		m.parseTables(r)
	case sectionGlobal:
		m.parseGlobals(r)
	case sectionExport:
		m.parseExports(r)
	case sectionStart:
		m.start = m.reference(r)
	case sectionElement:
		m.parseElements(r)
	case sectionCode:
		m.parseCode(r)
	case sectionData:
		m.parseData(r)
	default:
		r.at = len(r.data)
	}
}

// reference reads a function index.
func (m *original) reference(r *reader) reference {
	start := r.at
	f := r.index(m.spaces.functions, "function")
	return reference{extent{start, r.at}, f}
}

func (m *original) refer(section byte, ref reference) {
	m.references[section] = append(m.references[section], ref)
}

func (m *original) parseTypes(r *reader) {
	n := r.count(3)
	m.types = make([]signature, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		at := r.at
		if form := r.u8(); form != 0x60 {
			r.fail(at, "type form %#02x: only function types are known", form)
		}
		m.types = append(m.types, signature{params: r.valueTypes(), results: r.valueTypes()})
	}
	m.spaces.types = len(m.types)
}

// maxValues bounds a type's parameters and its results, because code that passes
// parameters on lists them all. It is the limit of the WebAssembly JavaScript Interface,
// section 7.
const maxValues = 1000

func (r *reader) valueTypes() []byte {
	n := r.count(1)
	start := r.at
	if n > maxValues {
		r.fail(start, "%d parameters or results, more than %d", n, maxValues)
	}
	for range n {
		r.valueType()
	}
	if r.err != nil {
		return nil
	}
	return r.data[start:r.at]
}

func (m *original) parseImports(r *reader) {
	for n := r.count(4); n > 0 && r.err == nil; n-- {
		at := r.at
		module, name := r.bytes(), r.bytes()
		if string(module) == HostModule {
			r.fail(at, "imports from %q: rewritten already", HostModule)
		}
		switch kind := r.u8(); kind {
		case kindFunction:
			m.functionTypes = append(m.functionTypes, r.index(m.spaces.types, "type"))
			m.importNames = append(m.importNames, [2]string{string(module), string(name)})
		case kindTable:
			r.table()
			m.sharesTables = true
		case kindMemory:
			r.limits()
		case kindGlobal:
			r.globalType()
			m.importedGlobals++
		default:
			r.fail(at, "import of kind %d", kind)
		}
	}
	m.importedFunctions = len(m.functionTypes)
	m.spaces.functions = len(m.functionTypes)
	m.spaces.globals = m.importedGlobals
}

// limits reads the limits of a table or memory and returns the lower one.
func (r *reader) limits() uint32 {
	at := r.at
	flags := r.u8()
	if flags > 3 {
		r.fail(at, "limits of kind %d", flags)
	}
	least := r.u32()
	if flags&1 != 0 {
		r.u32()
	}
	return least
}

// maxTable bounds the elements of a table: wazero allocates memory for them when the
// module is instantiated. It is the limit of the WebAssembly JavaScript Interface,
// section 7.
const maxTable = 10_000_000

func (r *reader) table() {
	at := r.at
	r.valueType()
	if n := r.limits(); n > maxTable {
		r.fail(at, "table of %d elements, more than %d", n, maxTable)
	}
}

// parseTables bounds the tables: wazero v1.12.0 trusts their number.
func (m *original) parseTables(r *reader) {
	for n := r.count(3); n > 0 && r.err == nil; n-- {
		r.table()
	}
}

func (r *reader) globalType() {
	r.valueType()
	r.skip(1)
}

func (m *original) parseFunctions(r *reader) {
	for n := r.count(1); n > 0 && r.err == nil; n-- {
		m.functionTypes = append(m.functionTypes, r.index(m.spaces.types, "type"))
	}
	m.spaces.functions = len(m.functionTypes)
}

func (m *original) parseGlobals(r *reader) {
	m.definedGlobals = r.count(4)
	m.spaces.globals = m.importedGlobals + m.definedGlobals
	for n := m.definedGlobals; n > 0 && r.err == nil; n-- {
		r.globalType()
		m.parseConstant(sectionGlobal, r)
	}
}

// parseConstant reads a constant expression and keeps its references to functions.
func (m *original) parseConstant(section byte, r *reader) {
	d := decoder{reader: *r, spaces: &m.spaces}
	for d.next() {
		switch d.op {
		case opRefFunc:
			m.refer(section, reference{extent{d.start + 1, d.at}, d.index})
		case opCall, opReturnCall:
			d.fail(d.start, "call in a constant expression")
		}
	}
	*r = d.reader
}

func (m *original) parseExports(r *reader) {
	for n := r.count(3); n > 0 && r.err == nil; n-- {
		at := r.at
		e := export{name: string(r.bytes()), kind: r.u8()}
		switch {
		case e.kind == kindFunction:
			e.reference = m.reference(r)
			m.exports = append(m.exports, e)
		case e.kind == kindGlobal:
			r.index(m.spaces.globals, "global")
		case e.kind > kindGlobal:
			r.fail(at, "export of kind %d", e.kind)
		default:
			r.u32()
			m.sharesTables = m.sharesTables || e.kind == kindTable
		}
		if isHostGlobal(e.name) {
			r.fail(at, "exports %q: rewritten already", e.name)
		}
	}
}

// Flags of an element segment. They give it eight forms.
const (
	elementNotActive   = 1 // passive or declarative
	elementExplicit    = 2 // active: has a table index; else: declarative
	elementExpressions = 4 // expressions, not function indices
)

func (m *original) parseElements(r *reader) {
	n := r.count(3)
	m.spaces.elements = n
	for ; n > 0 && r.err == nil; n-- {
		m.parseElement(r)
	}
}

func (m *original) parseElement(r *reader) {
	at := r.at
	flags := r.u32()
	if flags > 7 {
		r.fail(at, "element segment of form %d", flags)
		return
	}
	if flags&elementNotActive == 0 {
		if flags&elementExplicit != 0 {
			r.u32()
		}
		m.parseConstant(sectionElement, r)
	}
	if flags&(elementNotActive|elementExplicit) != 0 {
		m.parseElementType(r, flags)
	}
	for n := r.count(1); n > 0 && r.err == nil; n-- {
		if flags&elementExpressions != 0 {
			m.parseConstant(sectionElement, r)
		} else {
			m.refer(sectionElement, m.reference(r))
		}
	}
}

// parseElementType reads the type of expressions, or the kind of indices.
func (m *original) parseElementType(r *reader, flags uint32) {
	at := r.at
	if flags&elementExpressions != 0 {
		r.valueType()
	} else if kind := r.u8(); kind != 0 {
		r.fail(at, "elements of kind %d", kind)
	}
}

func (m *original) parseCode(r *reader) {
	n := r.count(3)
	m.bodies = make([]extent, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		body := r.part()
		m.bodies = append(m.bodies, extent{body.at, len(body.data)})
	}
}

func (m *original) parseData(r *reader) {
	for n := r.count(2); n > 0 && r.err == nil; n-- {
		at := r.at
		flags := r.u32()
		if flags == 2 {
			r.u32()
		}
		if flags > 2 {
			r.fail(at, "data segment of form %d", flags)
		} else if flags != 1 {
			m.parseConstant(sectionData, r)
		}
		r.bytes()
	}
}
