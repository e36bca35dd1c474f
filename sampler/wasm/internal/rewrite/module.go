package rewrite

import (
	"bytes"
	"slices"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// sectionOrder gives every section id but the custom ones its place.
var sectionOrder = [...]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11}

// An original is a parsed module: the positions of its parts, nothing copied.
type original struct {
	data     []byte
	sections [format.Sections]extent // contents; zero: absent
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
	references        [format.Sections][]reference
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

// parse reads everything but the instructions.
func parse(data []byte) (*original, *format.Error) {
	if uint64(len(data)) >= 1<<31 {
		return nil, format.Errorf(0, "module larger than 2 GiB")
	}
	m := &original{data: data}
	r := format.Open(data)
	place, last := 0, byte(0)
	for r.More() {
		s := r.Section()
		if r.Err != nil {
			break
		}
		if s.ID == format.SectionCustom {
			m.parseCustom(&r, s, last)
			continue
		}
		if place = sectionPlace(s.ID, place); place == 0 {
			return nil, format.Errorf(s.Start, "section %d unknown or out of order", s.ID)
		}
		last = s.ID
		m.sections[s.ID] = extent{s.At, len(s.Data)}
		m.parseSection(s.ID, &s.Reader)
		if err := s.Done(); err != nil {
			return nil, err
		}
	}
	if r.Err == nil && len(m.bodies) != len(m.functionTypes)-m.importedFunctions {
		r.Fail(len(data), "%d functions declared, %d defined", len(m.functionTypes)-m.importedFunctions, len(m.bodies))
	}
	return m, r.Err
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
func (m *original) parseCustom(r *format.Reader, s format.Section, after byte) {
	name := s.Vector()
	if s.Err != nil {
		r.Fail(s.Err.Offset, "%s", s.Err.Reason)
		return
	}
	if string(name) == "name" && slices.ContainsFunc(m.customs, func(c custom) bool { return c.name == "name" }) {
		r.Fail(s.Start, "second name section")
		return
	}
	if string(name) != "name" && !s.More() && !r.More() {
		r.Fail(s.Start, "empty custom section at the end of the module, which wazero refuses")
		return
	}
	m.customs = append(m.customs, custom{
		name: string(name), after: after,
		whole:  extent{s.Start, len(s.Data)},
		inside: extent{s.At, len(s.Data)},
	})
}

// parseSection reads the parts that the rewriting needs, and skips the rest.
func (m *original) parseSection(id byte, r *format.Reader) {
	switch id {
	case format.SectionType:
		m.parseTypes(r)
	case format.SectionImport:
		m.parseImports(r)
	case format.SectionFunction:
		m.parseFunctions(r)
	case format.SectionTable:
		m.parseTables(r)
	case format.SectionGlobal:
		m.parseGlobals(r)
	case format.SectionExport:
		m.parseExports(r)
	case format.SectionStart:
		m.start = m.reference(r)
	case format.SectionElement:
		m.parseElements(r)
	case format.SectionCode:
		m.parseCode(r)
	case format.SectionData:
		m.parseData(r)
	default:
		r.At = len(r.Data)
	}
}

// reference reads a function index.
func (m *original) reference(r *format.Reader) reference {
	start := r.At
	f := r.Index(m.spaces.functions, "function")
	return reference{extent{start, r.At}, f}
}

func (m *original) refer(section byte, ref reference) {
	m.references[section] = append(m.references[section], ref)
}

func (m *original) parseTypes(r *format.Reader) {
	n := r.Count(3)
	m.types = make([]signature, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		params, results := r.FunctionType()
		m.types = append(m.types, signature{params, results})
	}
	m.spaces.types = len(m.types)
}

func (m *original) parseImports(r *format.Reader) {
	for n := r.Count(4); n > 0 && r.Err == nil; n-- {
		at := r.At
		i := r.Import(m.spaces.types)
		if i.Module == HostModule {
			r.Fail(at, "imports from %q: rewritten already", HostModule)
		}
		switch i.Kind {
		case format.KindFunction:
			m.functionTypes = append(m.functionTypes, i.Type)
			m.importNames = append(m.importNames, [2]string{i.Module, i.Name})
		case format.KindTable:
			m.sharesTables = true
		case format.KindGlobal:
			m.importedGlobals++
		}
	}
	m.importedFunctions = len(m.functionTypes)
	m.spaces.functions = len(m.functionTypes)
	m.spaces.globals = m.importedGlobals
}

// parseTables bounds the tables: wazero v1.12.0 trusts their number.
func (m *original) parseTables(r *format.Reader) {
	for n := r.Count(3); n > 0 && r.Err == nil; n-- {
		r.Table()
	}
}

func (m *original) parseFunctions(r *format.Reader) {
	for n := r.Count(1); n > 0 && r.Err == nil; n-- {
		m.functionTypes = append(m.functionTypes, r.Index(m.spaces.types, "type"))
	}
	m.spaces.functions = len(m.functionTypes)
}

func (m *original) parseGlobals(r *format.Reader) {
	m.definedGlobals = r.Count(4)
	m.spaces.globals = m.importedGlobals + m.definedGlobals
	for n := m.definedGlobals; n > 0 && r.Err == nil; n-- {
		r.GlobalType()
		m.parseConstant(format.SectionGlobal, r)
	}
}

// parseConstant reads a constant expression and keeps its references to functions.
func (m *original) parseConstant(section byte, r *format.Reader) {
	d := decoder{Reader: *r, spaces: &m.spaces}
	for d.next() {
		switch d.op {
		case opRefFunc:
			m.refer(section, reference{extent{d.start + 1, d.At}, d.index})
		case opCall, opReturnCall:
			d.Fail(d.start, "call in a constant expression")
		}
	}
	*r = d.Reader
}

func (m *original) parseExports(r *format.Reader) {
	for n := r.Count(3); n > 0 && r.Err == nil; n-- {
		at := r.At
		e := export{name: string(r.Vector()), kind: r.Byte()}
		switch {
		case e.kind == format.KindFunction:
			e.reference = m.reference(r)
			m.exports = append(m.exports, e)
		case e.kind == format.KindGlobal:
			r.Index(m.spaces.globals, "global")
		case e.kind > format.KindGlobal:
			r.Fail(at, "export of kind %d", e.kind)
		default:
			r.U32()
			m.sharesTables = m.sharesTables || e.kind == format.KindTable
		}
		if isHostGlobal(e.name) {
			r.Fail(at, "exports %q: rewritten already", e.name)
		}
	}
}

// Flags of an element segment. They give it eight forms.
const (
	elementNotActive   = 1 // passive or declarative
	elementExplicit    = 2 // active: has a table index; else: declarative
	elementExpressions = 4 // expressions, not function indices
)

func (m *original) parseElements(r *format.Reader) {
	n := r.Count(3)
	m.spaces.elements = n
	for ; n > 0 && r.Err == nil; n-- {
		m.parseElement(r)
	}
}

func (m *original) parseElement(r *format.Reader) {
	at := r.At
	flags := r.U32()
	if flags > 7 {
		r.Fail(at, "element segment of form %d", flags)
		return
	}
	if flags&elementNotActive == 0 {
		if flags&elementExplicit != 0 {
			r.U32()
		}
		m.parseConstant(format.SectionElement, r)
	}
	if flags&(elementNotActive|elementExplicit) != 0 {
		m.parseElementType(r, flags)
	}
	for n := r.Count(1); n > 0 && r.Err == nil; n-- {
		if flags&elementExpressions != 0 {
			m.parseConstant(format.SectionElement, r)
		} else {
			m.refer(format.SectionElement, m.reference(r))
		}
	}
}

// parseElementType reads the type of expressions, or the kind of indices.
func (m *original) parseElementType(r *format.Reader, flags uint32) {
	at := r.At
	if flags&elementExpressions != 0 {
		r.ValueType()
	} else if kind := r.Byte(); kind != 0 {
		r.Fail(at, "elements of kind %d", kind)
	}
}

func (m *original) parseCode(r *format.Reader) {
	n := r.Count(3)
	m.bodies = make([]extent, 0, n)
	for ; n > 0 && r.Err == nil; n-- {
		body := r.Part()
		m.bodies = append(m.bodies, extent{body.At, len(body.Data)})
	}
}

func (m *original) parseData(r *format.Reader) {
	for n := r.Count(2); n > 0 && r.Err == nil; n-- {
		at := r.At
		flags := r.U32()
		if flags == 2 {
			r.U32()
		}
		if flags > 2 {
			r.Fail(at, "data segment of form %d", flags)
		} else if flags != 1 {
			m.parseConstant(format.SectionData, r)
		}
		r.Vector()
	}
}
