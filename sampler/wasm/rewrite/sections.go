package rewrite

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

// maxValues bounds a type's parameters and its results, as what hands a function's
// parameters on lists them all. It is the limit of the WebAssembly JavaScript
// Interface, section 7.
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

// limits reads the limits of a table or memory and gives the lower one.
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

// maxTable bounds the elements of a table, for which wazero allocates memory
// when the module is instantiated. It is the limit of the WebAssembly JavaScript
// Interface, section 7.
const maxTable = 10_000_000

func (r *reader) table() {
	at := r.at
	r.valueType()
	if n := r.limits(); n > maxTable {
		r.fail(at, "table of %d elements, more than %d", n, maxTable)
	}
}

// parseTables bounds the tables, whose number wazero v1.12.0 believes.
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

// parseConstant reads a constant expression and keeps the functions it refers
// to.
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

// Flags of an element segment, which make its eight forms.
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
