package rewrite

import (
	"bytes"
	"slices"
)

// Section ids, in the order of the binary format by sectionOrder.
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

// An original is a parsed module: where its parts stand, nothing copied.
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
	sharesTables      bool      // it imports or exports one
	start             reference // at 0: none
	references        [sections][]reference
	bodies            []extent // of defined functions: locals and expression
}

// extent is a range of bytes in the module.
type extent struct{ start, end int }

func (e extent) absent() bool { return e.end == 0 }

// custom is a custom section and the section it stands behind.
type custom struct {
	name   string
	after  byte // 0: before all others
	whole  extent
	inside extent // behind the name
}

// signature is a function type; the vectors of value types stand in the module.
type signature struct{ params, results []byte }

// reference is a function index that stands at an extent of the module.
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
		return nil, refuse(0, "no WebAssembly 1 binary")
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

// sectionPlace gives a section's place, counted from 1, or 0 if it does not come
// behind the last place.
func sectionPlace(id byte, last int) int {
	place := bytes.IndexByte(sectionOrder[:], id) + 1
	if place <= last {
		return 0
	}
	return place
}

// parseCustom keeps a custom section. As wazero does, it refuses a second one of names.
func (m *original) parseCustom(r *reader, at int, part reader, after byte) {
	name := part.bytes()
	if part.err != nil {
		r.fail(part.err.Offset, "%s", part.err.Reason)
		return
	}
	if string(name) == "name" && slices.ContainsFunc(m.customs, func(c custom) bool { return c.name == "name" }) {
		r.fail(at, "second section of names")
		return
	}
	m.customs = append(m.customs, custom{
		name: string(name), after: after,
		whole:  extent{at, len(part.data)},
		inside: extent{part.at, len(part.data)},
	})
}

// parseSection reads what the rewriting needs; the rest of the section is
// skipped.
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
